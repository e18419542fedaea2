package scripted

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"
)

// chat writes Chat Completions.
type chat struct {
	head string // start of each chunk up to the delta of choice 0
	role bool   // the first delta is out
}

func newChat(req Request) *chat {
	return &chat{head: fmt.Sprintf(`data: {"id":"chatcmpl-%d","object":"chat.completion.chunk","created":1,"model":%s,"choices":[{"index":0,"delta":{`,
		req.Number, quote(req.Model))}
}

func (*chat) start(*wire) {}

func (c *chat) say(w *wire, wait time.Duration, v voice, field, part string) {
	switch {
	case v == inText:
		field = "content"
	case v == inRefusal:
		field = "refusal"
	case field == "":
		field = "reasoning_content"
	}
	c.delta(w, wait, quote(field)+":"+quote(part))
}

type functionJSON struct {
	Name      string `json:"name,omitempty"`
	Arguments string `json:"arguments"`
}

type callJSON struct {
	Index    int          `json:"index"`
	ID       string       `json:"id,omitempty"`
	Type     string       `json:"type,omitempty"`
	Function functionJSON `json:"function"`
}

func (c *chat) call(w *wire, wait time.Duration, index int, s Call, part string) {
	c.delta(w, wait, `"tool_calls":`+encode([]callJSON{{Index: index, ID: s.ID, Type: "function", Function: functionJSON{s.Name, part}}}))
}

func (c *chat) args(w *wire, wait time.Duration, index int, part string) {
	c.delta(w, wait, `"tool_calls":`+encode([]callJSON{{Index: index, Function: functionJSON{Arguments: part}}}))
}

// delta sends a chunk with the delta fields of choice 0; the first one also names the role.
func (c *chat) delta(w *wire, wait time.Duration, fields string) { c.choice(w, wait, fields, "null") }

func (c *chat) choice(w *wire, wait time.Duration, fields, finish string) {
	if !c.role {
		c.role = true
		if fields != "" {
			fields = "," + fields
		}
		fields = `"role":"assistant"` + fields
	}
	const middle, tail = `},"finish_reason":`, "}]}\n\n"
	data := make([]byte, 0, len(c.head)+len(fields)+len(middle)+len(finish)+len(tail))
	data = append(append(append(append(append(data, c.head...), fields...), middle...), finish...), tail...)
	w.frames = append(w.frames, frame{wait: wait, data: data})
}

func (*chat) fault(w *wire, s ErrorFrame) {
	type errorJSON struct {
		Message    string `json:"message"`
		Type       string `json:"type,omitempty"`
		Code       string `json:"code,omitempty"`
		StatusCode int    `json:"status_code,omitempty"`
	}
	text := encode(struct {
		Error errorJSON `json:"error"`
	}{errorJSON{Message: s.Message, Code: s.ErrorCode, StatusCode: s.Status}})
	w.event(w.pace, "data: "+text+"\n\n")
}

type usageJSON struct {
	PromptTokens     int64 `json:"prompt_tokens"`
	CompletionTokens int64 `json:"completion_tokens"`
	TotalTokens      int64 `json:"total_tokens"`
	PromptDetails    struct {
		CachedTokens int64 `json:"cached_tokens"`
	} `json:"prompt_tokens_details"`
	CompletionDetails struct {
		ReasoningTokens int64 `json:"reasoning_tokens"`
	} `json:"completion_tokens_details"`
}

// end sends the finish reason, the usage and the end marker.
func (c *chat) end(w *wire) {
	reason := "stop"
	switch {
	case w.finish == atLength:
		reason = "length"
	case w.finish == refused:
		reason = "content_filter"
	case w.finish == forTools || w.calls > 0:
		reason = "tool_calls"
	}
	c.choice(w, w.pace, "", quote(reason))
	if w.req.withUsage && !w.noUsage {
		u := usageJSON{PromptTokens: w.usage.Input, CompletionTokens: w.usage.Output, TotalTokens: w.usage.Input + w.usage.Output}
		u.PromptDetails.CachedTokens = w.usage.Cached
		u.CompletionDetails.ReasoningTokens = w.usage.Reasoning
		const choices = `"choices":[`
		head := c.head[:strings.LastIndex(c.head, choices)] // the model's name is quoted, so the last one is ours
		w.event(0, head+choices+`],"usage":`+encode(u)+"}\n\n")
	}
	w.event(0, "data: [DONE]\n\n")
}

type wireMessage struct {
	Role       string          `json:"role"`
	Content    json.RawMessage `json:"content"`
	ToolCallID string          `json:"tool_call_id"`
	ToolCalls  []struct {
		ID       string `json:"id"`
		Function struct {
			Name      string `json:"name"`
			Arguments string `json:"arguments"`
		} `json:"function"`
	} `json:"tool_calls"`
	ReasoningContent string `json:"reasoning_content"`
	Reasoning        string `json:"reasoning"`
	ReasoningText    string `json:"reasoning_text"`
}

// parseChat reads a Chat Completions request body.
func parseChat(body []byte) (Request, error) {
	var in struct {
		Model    string        `json:"model"`
		Stream   bool          `json:"stream"`
		Messages []wireMessage `json:"messages"`
		Tools    []struct {
			Function struct {
				Name string `json:"name"`
			} `json:"function"`
		} `json:"tools"`
		Effort              string `json:"reasoning_effort"`
		MaxTokens           int    `json:"max_tokens"`
		MaxCompletionTokens int    `json:"max_completion_tokens"`
		CacheKey            string `json:"prompt_cache_key"`
		StreamOptions       struct {
			IncludeUsage bool `json:"include_usage"`
		} `json:"stream_options"`
	}
	if err := json.Unmarshal(body, &in); err != nil {
		return Request{}, fmt.Errorf("request body: %w", err)
	}
	if !in.Stream {
		return Request{}, errNoStream
	}
	req := Request{
		Model: in.Model, Effort: in.Effort, MaxTokens: max(in.MaxTokens, in.MaxCompletionTokens),
		CacheKey: in.CacheKey, Body: body, withUsage: in.StreamOptions.IncludeUsage,
	}
	for _, t := range in.Tools {
		req.Tools = append(req.Tools, t.Function.Name)
	}
	for i, m := range in.Messages {
		out := Message{Role: m.Role, CallID: m.ToolCallID, Reasoning: m.ReasoningContent + m.Reasoning + m.ReasoningText}
		if err := out.content(m.Content); err != nil {
			return Request{}, fmt.Errorf("request body: message %d: %w", i, err)
		}
		for _, c := range m.ToolCalls {
			out.Calls = append(out.Calls, ToolCall{c.ID, c.Function.Name, c.Function.Arguments})
		}
		req.Messages = append(req.Messages, out)
	}
	return req, nil
}

// content reads a content that is null, a string or a list of parts.
func (m *Message) content(raw json.RawMessage) error {
	if len(raw) == 0 || string(raw) == "null" {
		return nil
	}
	if raw[0] == '"' {
		return json.Unmarshal(raw, &m.Text)
	}
	var parts []struct {
		Type     string `json:"type"`
		Text     string `json:"text"`
		ImageURL struct {
			URL string `json:"url"`
		} `json:"image_url"`
	}
	if err := json.Unmarshal(raw, &parts); err != nil {
		return err
	}
	for _, p := range parts {
		switch p.Type {
		case "text":
			m.Text += p.Text
		case "image_url":
			m.Images = append(m.Images, p.ImageURL.URL)
		default:
			return fmt.Errorf("content part of type %q", p.Type)
		}
	}
	return nil
}
