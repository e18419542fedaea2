package scripted

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"
)

// openAI writes OpenAI Responses. Adjacent pieces of one kind make one output item.
type openAI struct {
	head  data
	seq   int
	items []any // complete
	open  string
	item  data // the open one
	text  strings.Builder
}

func newOpenAI(req Request) *openAI {
	return &openAI{head: data{"id": fmt.Sprintf("resp_%d", req.Number), "object": "response", "created_at": 1, "model": req.Model, "output": []any{}}}
}

func (o *openAI) send(w *wire, wait time.Duration, kind string, fields data) {
	fields["type"], fields["sequence_number"] = kind, o.seq
	o.seq++
	w.event(wait, "event: "+kind+"\ndata: "+encode(fields)+"\n\n")
}

// response returns the response object with a status and further fields.
func (o *openAI) response(status string, more data) data {
	r := data{"status": status}
	for k, v := range o.head {
		r[k] = v
	}
	for k, v := range more {
		r[k] = v
	}
	return r
}

func (o *openAI) start(w *wire) {
	o.send(w, 0, "response.created", data{"response": o.response("in_progress", nil)})
}

// begin opens an item, unless one of its kind is open and can go on. Its id begins with prefix.
func (o *openAI) begin(w *wire, wait time.Duration, kind, prefix string, item data) {
	if o.open == kind && kind != "function_call" {
		return
	}
	o.close(w)
	item["id"] = fmt.Sprintf("%s%d_%d", prefix, w.req.Number, len(o.items))
	o.open, o.item = kind, item
	o.text.Reset()
	o.send(w, wait, "response.output_item.added", data{"output_index": len(o.items), "item": item})
}

// piece writes a delta of the open item.
func (o *openAI) piece(w *wire, wait time.Duration, kind, part string) {
	o.text.WriteString(part)
	o.send(w, wait, kind, data{"output_index": len(o.items), "item_id": o.item["id"], "content_index": 0, "summary_index": 0, "delta": part})
}

// close ends the open item with what was said in it.
func (o *openAI) close(w *wire) {
	said := o.text.String()
	switch o.open {
	case "":
		return
	case "output_text":
		o.item["content"] = []any{data{"type": "output_text", "text": said, "annotations": []any{}}}
	case "refusal":
		o.item["content"] = []any{data{"type": "refusal", "refusal": said}}
	case "reasoning":
		o.item["summary"] = []any{data{"type": "summary_text", "text": said}}
		o.item["encrypted_content"] = fmt.Sprintf("encrypted-%d-%d", w.req.Number, len(o.items))
	case "function_call":
		o.item["arguments"] = said
	}
	o.item["status"] = "completed"
	o.send(w, 0, "response.output_item.done", data{"output_index": len(o.items), "item": o.item})
	o.items = append(o.items, o.item)
	o.open = ""
}

func (o *openAI) say(w *wire, wait time.Duration, v voice, _, part string) {
	message := data{"type": "message", "role": "assistant", "status": "in_progress", "content": []any{}}
	switch v {
	case inText:
		o.begin(w, 0, "output_text", "msg_", message)
		o.piece(w, wait, "response.output_text.delta", part)
	case inRefusal:
		o.begin(w, 0, "refusal", "msg_", message)
		o.piece(w, wait, "response.refusal.delta", part)
	case inThought:
		o.begin(w, 0, "reasoning", "rs_", data{"type": "reasoning", "summary": []any{}})
		o.piece(w, wait, "response.reasoning_summary_text.delta", part)
	}
}

func (o *openAI) call(w *wire, wait time.Duration, index int, c Call, part string) {
	o.begin(w, wait, "function_call", "fc_", data{"type": "function_call", "call_id": c.ID, "name": c.Name, "arguments": "", "status": "in_progress"})
	o.args(w, 0, index, part)
}

func (o *openAI) args(w *wire, wait time.Duration, _ int, part string) {
	o.piece(w, wait, "response.function_call_arguments.delta", part)
}

func (o *openAI) fault(w *wire, s ErrorFrame) {
	fields := data{"message": s.Message, "code": nil, "param": nil}
	if s.ErrorCode != "" {
		fields["code"] = s.ErrorCode
	}
	if s.Status != 0 {
		fields["status_code"] = s.Status
	}
	o.send(w, w.pace, "error", fields)
}

// end writes the terminal event. This wire has no word for a lost call: a call is announced whose name never comes.
func (o *openAI) end(w *wire) {
	o.close(w)
	kind, more := "completed", data{"output": o.items}
	switch {
	case w.finish == atLength:
		kind, more["incomplete_details"] = "incomplete", data{"reason": "max_output_tokens"}
	case w.finish == refused && w.words == "":
		kind, more["incomplete_details"] = "incomplete", data{"reason": "content_filter"}
	case w.finish == forTools && w.calls == 0:
		o.send(w, 0, "response.output_item.added", data{"output_index": len(o.items), "item": data{"type": "function_call", "call_id": "lost", "arguments": ""}})
	}
	if !w.noUsage {
		more["usage"] = data{
			"input_tokens": w.usage.Input, "input_tokens_details": data{"cached_tokens": w.usage.Cached},
			"output_tokens": w.usage.Output, "output_tokens_details": data{"reasoning_tokens": w.usage.Reasoning},
			"total_tokens": w.usage.Input + w.usage.Output,
		}
	}
	o.send(w, w.pace, "response."+kind, data{"response": o.response(kind, more)})
}

// parseResponses reads a Responses request body.
func parseResponses(body []byte) (Request, error) {
	type part struct {
		Type     string `json:"type"`
		Text     string `json:"text"`
		ImageURL string `json:"image_url"`
	}
	var in struct {
		Model        string `json:"model"`
		Stream       bool   `json:"stream"`
		Instructions string `json:"instructions"`
		MaxTokens    int    `json:"max_output_tokens"`
		CacheKey     string `json:"prompt_cache_key"`
		Reasoning    struct {
			Effort string `json:"effort"`
		} `json:"reasoning"`
		Tools []struct {
			Name string `json:"name"`
		} `json:"tools"`
		Input []struct {
			Type      string          `json:"type"`
			Role      string          `json:"role"`
			Content   []part          `json:"content"`
			Summary   []part          `json:"summary"`
			CallID    string          `json:"call_id"`
			Name      string          `json:"name"`
			Arguments string          `json:"arguments"`
			Output    json.RawMessage `json:"output"`
		} `json:"input"`
	}
	if err := json.Unmarshal(body, &in); err != nil {
		return Request{}, fmt.Errorf("request body: %w", err)
	}
	if !in.Stream {
		return Request{}, errNoStream
	}
	req := Request{Model: in.Model, Effort: in.Reasoning.Effort, MaxTokens: in.MaxTokens, CacheKey: in.CacheKey}
	for _, t := range in.Tools {
		if t.Name != "" {
			req.Tools = append(req.Tools, t.Name)
		}
	}
	if in.Instructions != "" {
		req.Messages = append(req.Messages, Message{Role: "system", Text: in.Instructions})
	}
	add := func(to *Message, parts []part) {
		for _, p := range parts {
			to.Text += p.Text
			if p.ImageURL != "" {
				to.Images = append(to.Images, p.ImageURL)
			}
		}
	}
	// said returns the assistant message that the next item belongs to.
	said := func() *Message {
		if n := len(req.Messages); n == 0 || req.Messages[n-1].Role != "assistant" {
			req.Messages = append(req.Messages, Message{Role: "assistant"})
		}
		return &req.Messages[len(req.Messages)-1]
	}
	for i, item := range in.Input {
		switch item.Type {
		case "message":
			if item.Role == "assistant" {
				add(said(), item.Content)
				continue
			}
			m := Message{Role: item.Role}
			add(&m, item.Content)
			req.Messages = append(req.Messages, m)
		case "reasoning":
			thoughts := Message{}
			add(&thoughts, item.Summary)
			said().Reasoning += thoughts.Text
		case "function_call":
			m := said()
			m.Calls = append(m.Calls, ToolCall{item.CallID, item.Name, item.Arguments})
		case "function_call_output":
			m := Message{Role: "tool", CallID: item.CallID}
			var parts []part
			if json.Unmarshal(item.Output, &parts) == nil {
				add(&m, parts)
			} else if err := json.Unmarshal(item.Output, &m.Text); err != nil {
				return Request{}, fmt.Errorf("request body: item %d: %w", i, err)
			}
			req.Messages = append(req.Messages, m)
		}
	}
	return req, nil
}
