package scripted

import (
	"encoding/json"
	"fmt"
	"time"
)

// anthropic writes Anthropic Messages. Adjacent pieces of one kind make one content block.
type anthropic struct {
	blocks int    // begun so far; the last may be open
	open   string // type of the open block, "" = none
}

// data is an object of the wire.
type data map[string]any

func (a *anthropic) send(w *wire, wait time.Duration, kind string, fields data) {
	fields["type"] = kind
	w.event(wait, "event: "+kind+"\ndata: "+encode(fields)+"\n\n")
}

func (a *anthropic) start(w *wire) {
	a.send(w, 0, "message_start", data{"message": data{
		"id": fmt.Sprintf("msg_%d", w.req.Number), "type": "message", "role": "assistant", "model": w.req.Model, "content": []any{},
		"stop_reason": nil, "stop_sequence": nil,
	}})
}

// begin opens a content block, unless one of its kind is open and can go on.
func (a *anthropic) begin(w *wire, wait time.Duration, kind string, block data) {
	if a.open == kind && kind != "tool_use" {
		return
	}
	a.close(w)
	a.open = kind
	block["type"] = kind
	a.blocks++
	a.send(w, wait, "content_block_start", data{"index": a.blocks - 1, "content_block": block})
}

func (a *anthropic) delta(w *wire, wait time.Duration, kind string, delta data) {
	delta["type"] = kind
	a.send(w, wait, "content_block_delta", data{"index": a.blocks - 1, "delta": delta})
}

// close ends the open block; thoughts are signed.
func (a *anthropic) close(w *wire) {
	if a.open == "" {
		return
	}
	if a.open == "thinking" {
		a.delta(w, 0, "signature_delta", data{"signature": fmt.Sprintf("signature-%d-%d", w.req.Number, a.blocks)})
	}
	a.send(w, 0, "content_block_stop", data{"index": a.blocks - 1})
	a.open = ""
}

// say writes text and thoughts. A refusal has no words on this wire but those beside its stop reason.
func (a *anthropic) say(w *wire, wait time.Duration, v voice, _, part string) {
	switch v {
	case inText:
		a.begin(w, 0, "text", data{"text": ""})
		a.delta(w, wait, "text_delta", data{"text": part})
	case inThought:
		a.begin(w, 0, "thinking", data{"thinking": "", "signature": ""})
		a.delta(w, wait, "thinking_delta", data{"thinking": part})
	case inRefusal:
	}
}

func (a *anthropic) call(w *wire, wait time.Duration, index int, c Call, part string) {
	a.begin(w, wait, "tool_use", data{"id": c.ID, "name": c.Name, "input": data{}})
	a.args(w, 0, index, part)
}

func (a *anthropic) args(w *wire, wait time.Duration, _ int, part string) {
	a.delta(w, wait, "input_json_delta", data{"partial_json": part})
}

func (a *anthropic) fault(w *wire, s ErrorFrame) {
	of := data{"type": "api_error", "message": s.Message}
	if s.ErrorCode != "" {
		of["type"] = s.ErrorCode
	}
	if s.Status != 0 {
		of["status_code"] = s.Status
	}
	a.send(w, w.pace, "error", data{"error": of})
}

func (a *anthropic) end(w *wire) {
	a.close(w)
	reason, details := "end_turn", any(nil)
	switch {
	case w.finish == atLength:
		reason = "max_tokens"
	case w.finish == refused:
		reason, details = "refusal", data{"type": "refusal", "explanation": w.words}
	case w.finish == forTools || w.calls > 0:
		reason = "tool_use"
	}
	fields := data{"delta": data{"stop_reason": reason, "stop_sequence": nil, "stop_details": details}}
	if !w.noUsage {
		fields["usage"] = data{
			"input_tokens": w.usage.Input - w.usage.Cached, "cache_read_input_tokens": w.usage.Cached, "cache_creation_input_tokens": 0,
			"output_tokens": w.usage.Output, "output_tokens_details": data{"thinking_tokens": w.usage.Reasoning},
		}
	}
	a.send(w, w.pace, "message_delta", fields)
	a.send(w, 0, "message_stop", data{})
}

// parseMessages reads a Messages request body.
func parseMessages(body []byte) (Request, error) {
	type source struct {
		MediaType string `json:"media_type"`
		Data      string `json:"data"`
	}
	type block struct {
		Type      string          `json:"type"`
		Text      string          `json:"text"`
		Thinking  string          `json:"thinking"`
		ID        string          `json:"id"`
		Name      string          `json:"name"`
		Input     json.RawMessage `json:"input"`
		ToolUseID string          `json:"tool_use_id"`
		Content   json.RawMessage `json:"content"`
		Source    source          `json:"source"`
	}
	var in struct {
		Model     string  `json:"model"`
		Stream    bool    `json:"stream"`
		MaxTokens int     `json:"max_tokens"`
		System    []block `json:"system"`
		Tools     []struct {
			Name string `json:"name"`
		} `json:"tools"`
		Output struct {
			Effort string `json:"effort"`
		} `json:"output_config"`
		Messages []struct {
			Role    string  `json:"role"`
			Content []block `json:"content"`
		} `json:"messages"`
	}
	if err := json.Unmarshal(body, &in); err != nil {
		return Request{}, fmt.Errorf("request body: %w", err)
	}
	if !in.Stream {
		return Request{}, errNoStream
	}
	req := Request{Model: in.Model, Effort: in.Output.Effort, MaxTokens: in.MaxTokens}
	for _, t := range in.Tools {
		req.Tools = append(req.Tools, t.Name)
	}
	for _, s := range in.System {
		req.Messages = append(req.Messages, Message{Role: "system", Text: s.Text})
	}
	add := func(to *Message, b block) {
		switch b.Type {
		case "text":
			to.Text += b.Text
		case "image":
			to.Images = append(to.Images, "data:"+b.Source.MediaType+";base64,"+b.Source.Data)
		case "thinking":
			to.Reasoning += b.Thinking
		case "tool_use":
			to.Calls = append(to.Calls, ToolCall{b.ID, b.Name, string(b.Input)})
		}
	}
	for i, m := range in.Messages {
		out := Message{Role: m.Role}
		for _, b := range m.Content {
			if b.Type != "tool_result" {
				add(&out, b)
				continue
			}
			result := Message{Role: "tool", CallID: b.ToolUseID}
			if len(b.Content) > 0 && b.Content[0] == '[' {
				var parts []block
				if err := json.Unmarshal(b.Content, &parts); err != nil {
					return Request{}, fmt.Errorf("request body: message %d: %w", i, err)
				}
				for _, p := range parts {
					add(&result, p)
				}
			} else if err := json.Unmarshal(b.Content, &result.Text); err != nil {
				return Request{}, fmt.Errorf("request body: message %d: %w", i, err)
			}
			req.Messages = append(req.Messages, result)
		}
		if out.Text != "" || len(out.Images)+len(out.Calls) > 0 {
			req.Messages = append(req.Messages, out)
		}
	}
	return req, nil
}
