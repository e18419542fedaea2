package openaicompletions

import (
	"encoding/json"
	"strings"

	"github.com/workflowd/workflowd/agentcore/llm/protocol"
)

// The wire fields of thinking, in the order in which they are asked when a chunk has several.
const (
	fieldReasoningContent = "reasoning_content"
	fieldReasoning        = "reasoning"
	fieldReasoningText    = "reasoning_text"
)

var thinkingFields = [...]string{fieldReasoningContent, fieldReasoning, fieldReasoningText}

// thinkingOf returns the thinking of a chunk and its field. The field used so far goes first, so that an endpoint which
// sends the same text in two fields shows it once.
func (d *delta) thinkingOf(used string) (thinking, field string) {
	if used != "" {
		if t := d.thinkingIn(used); t != "" {
			return t, used
		}
	}
	for _, f := range thinkingFields {
		if t := d.thinkingIn(f); t != "" {
			return t, f
		}
	}
	return d.Content.thinking, ""
}

func (d *delta) thinkingIn(field string) string {
	switch field {
	case fieldReasoningContent:
		return string(d.ReasoningContent)
	case fieldReasoning:
		return string(d.Reasoning)
	case fieldReasoningText:
		return string(d.ReasoningText)
	}
	return ""
}

// details collects reasoning_details for replay. The pieces of one text or summary are joined again; everything else
// stays as it came, in order.
type details struct{ list []*detail }

type detail struct {
	raw    json.RawMessage // as received, when it came in one piece
	kind   string
	index  protocol.Int
	key    string // the field that grows: text or summary
	grown  strings.Builder
	pieces int
	fields map[string]json.RawMessage
}

// add takes one entry, which it keeps, and returns the readable text in it.
func (d *details) add(raw json.RawMessage) string {
	var head struct {
		Type    string        `json:"type"`
		Index   protocol.Int  `json:"index"`
		Text    protocol.Text `json:"text"`
		Summary protocol.Text `json:"summary"`
	}
	if protocol.Decode(raw, &head) != nil || raw[0] != '{' {
		return ""
	}
	key, readable := "", ""
	switch head.Type {
	case "reasoning.text":
		key, readable = "text", string(head.Text)
	case "reasoning.summary":
		key, readable = "summary", string(head.Summary)
	}
	if n := len(d.list); n > 0 && key != "" {
		if last := d.list[n-1]; last.kind == head.Type && last.index == head.Index {
			last.join(raw, readable)
			return readable
		}
	}
	entry := &detail{raw: raw, kind: head.Type, index: head.Index, key: key, pieces: 1}
	entry.grown.WriteString(readable)
	d.list = append(d.list, entry)
	return readable
}

// join adds a further piece of the same entry: its text grows, fields that came later (a signature) are set.
func (e *detail) join(raw json.RawMessage, readable string) {
	if e.fields == nil {
		e.fields = fieldsOf(e.raw)
	}
	for name, value := range fieldsOf(raw) {
		if name != e.key && string(value) != "null" {
			e.fields[name] = value
		}
	}
	e.grown.WriteString(readable)
	e.pieces++
}

// fieldsOf returns the fields of a JSON object that is known to be one.
func fieldsOf(raw json.RawMessage) map[string]json.RawMessage {
	fields := map[string]json.RawMessage{}
	if json.Unmarshal(raw, &fields) != nil {
		return map[string]json.RawMessage{}
	}
	return fields
}

// take returns the collected entries as a JSON array and forgets them; nil when there are none.
func (d *details) take() json.RawMessage {
	if len(d.list) == 0 {
		return nil
	}
	out := []byte{'['}
	for i, e := range d.list {
		if i > 0 {
			out = append(out, ',')
		}
		raw := e.raw
		if e.pieces > 1 {
			e.fields[e.key] = protocol.AppendString(nil, e.grown.String())
			if joined, err := json.Marshal(e.fields); err == nil {
				raw = joined
			}
		}
		out = append(out, raw...)
	}
	d.list = nil
	return append(out, ']')
}
