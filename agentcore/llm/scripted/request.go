package scripted

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
)

// Request is what the model was asked, parsed and raw. It is read-only.
type Request struct {
	Number    int // 1 for the first request of the Model
	Model     string
	Messages  []Message
	Tools     []string // names in the order of the request
	Effort    string   // reasoning_effort
	MaxTokens int      // max_completion_tokens or max_tokens
	CacheKey  string   // prompt_cache_key
	Header    http.Header
	Body      []byte

	withUsage bool // stream_options.include_usage
}

// Message is one message of a request. Text joins the text parts of a content list.
type Message struct {
	Role      string // system, user, assistant, tool
	Text      string
	Images    []string // data URLs
	Calls     []ToolCall
	CallID    string // of a tool message
	Reasoning string // replayed thinking, whatever its field
}

// ToolCall is a call in an assistant message of a request.
type ToolCall struct {
	ID, Name, Args string
}

// System returns the text of the system messages.
func (r Request) System() string {
	var parts []string
	for _, m := range r.Messages {
		if m.Role == "system" || m.Role == "developer" {
			parts = append(parts, m.Text)
		}
	}
	return strings.Join(parts, "\n")
}

// LastUser returns the text of the newest user message, "" when there is none.
func (r Request) LastUser() string {
	for i := len(r.Messages) - 1; i >= 0; i-- {
		if r.Messages[i].Role == "user" {
			return r.Messages[i].Text
		}
	}
	return ""
}

// Results returns the tool messages that answer the newest assistant message, in order; nil when a later assistant or no
// tool spoke.
func (r Request) Results() []Message {
	for i := len(r.Messages) - 1; i >= 0; i-- {
		if r.Messages[i].Role != "assistant" {
			continue
		}
		var out []Message
		for _, m := range r.Messages[i+1:] {
			if m.Role == "tool" {
				out = append(out, m)
			}
		}
		return out
	}
	return nil
}

// HasTool reports whether the request offers the tool name.
func (r Request) HasTool(name string) bool {
	for _, t := range r.Tools {
		if t == name {
			return true
		}
	}
	return false
}

func (r Request) lastWords() string {
	if len(r.Messages) == 0 {
		return "none"
	}
	m := r.Messages[len(r.Messages)-1]
	text := []rune(m.Text)
	if len(text) > lastWordsRunes {
		text = append(text[:lastWordsRunes:lastWordsRunes], '…')
	}
	return fmt.Sprintf("%s %q", m.Role, string(text))
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

// parseRequest reads a Chat Completions request body.
func parseRequest(body []byte) (Request, error) {
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
		return Request{}, fmt.Errorf("request body: stream is not true, the scripted model only streams")
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
