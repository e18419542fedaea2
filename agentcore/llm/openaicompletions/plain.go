package openaicompletions

import "github.com/workflowd/workflowd/agentcore/llm/protocol"

// The fast path. Nearly all chunks of a stream carry one piece of text or of arguments in choice 0 and a handful of fields
// that say nothing new. parsePlain reads exactly those, without reflection and almost without allocations, and leaves
// every other chunk to encoding/json. Where it accepts a chunk it yields what decodeChunk yields; a fuzz test holds the two
// against each other.

// plain is the memory of one chunk, used again for the next.
type plain struct {
	chunk   chunk
	choices [1]choice
	delta   delta
	calls   [1]callDelta
}

// parsePlain reads data into p, reporting false for what it does not know; p is then undefined. The id is read only
// when withID is set.
func (p *plain) parse(data []byte, withID bool) bool {
	p.chunk, p.choices[0], p.delta, p.calls[0] = chunk{}, choice{}, delta{}, callDelta{}
	c := protocol.NewCursor(data)
	var id, choices, object bool
	ok := c.Object(func(key []byte) bool {
		switch string(key) {
		case "id":
			v, ok := c.ASCII()
			if !ok || id {
				return false
			}
			if id = true; withID {
				p.chunk.ID = string(v)
			}
			return true
		case "object":
			v, ok := c.ASCII()
			if !ok || object || string(v) != objectChunk {
				return false
			}
			object, p.chunk.Object = true, objectChunk
			return true
		case "choices":
			if choices {
				return false
			}
			choices = true
			p.chunk.Choices = p.choices[:]
			return c.Byte('[') && c.Object(func(key []byte) bool { return p.choice(&c, key) }) && c.Byte(']')
		case "created":
			return c.Digits()
		case "usage":
			return c.Null()
		case "model", "system_fingerprint", "service_tier", "provider", "obfuscation", "p":
			return c.Idle()
		}
		return false
	})
	return ok && choices && c.AtEnd()
}

const objectChunk = "chat.completion.chunk"

func (p *plain) choice(c *protocol.Cursor, key []byte) bool {
	ch := &p.choices[0]
	switch string(key) {
	case "index":
		if ch.Index.OK || !c.Byte('0') {
			return false
		}
		ch.Index.OK = true
		return true
	case "delta":
		if ch.Delta != nil {
			return false
		}
		ch.Delta = &p.delta
		return c.Object(func(key []byte) bool { return p.field(c, key) })
	case "finish_reason", "logprobs", "native_finish_reason", "stop_reason", "matched_stop", "token_ids", "content_filter_results":
		return c.Null()
	}
	return false
}

func (p *plain) field(c *protocol.Cursor, key []byte) bool {
	switch string(key) {
	case "content":
		return p.delta.Content.text == "" && c.Text(&p.delta.Content.text)
	case fieldReasoningContent:
		return p.delta.ReasoningContent == "" && c.Text((*string)(&p.delta.ReasoningContent))
	case fieldReasoning:
		return p.delta.Reasoning == "" && c.Text((*string)(&p.delta.Reasoning))
	case "role", "channel":
		return c.Idle()
	case "refusal", "function_call":
		return c.Null()
	case "tool_calls":
		if p.delta.ToolCalls != nil {
			return false
		}
		if c.Null() {
			return true
		}
		p.delta.ToolCalls = p.calls[:]
		return c.Byte('[') && c.Object(func(key []byte) bool { return p.call(c, key) }) && c.Byte(']')
	}
	return false
}

func (p *plain) call(c *protocol.Cursor, key []byte) bool {
	part := &p.calls[0]
	switch string(key) {
	case "index":
		if part.Index.OK {
			return false
		}
		return c.Index(&part.Index)
	case "id":
		return part.ID == "" && c.Text((*string)(&part.ID))
	case "type":
		return c.Idle()
	case "function":
		if part.Function != (functionDelta{}) {
			return false
		}
		return c.Object(func(key []byte) bool {
			switch string(key) {
			case "name":
				return part.Function.Name == "" && c.Text((*string)(&part.Function.Name))
			case "arguments":
				return part.Function.Arguments == "" && c.Text((*string)(&part.Function.Arguments))
			}
			return false
		})
	}
	return false
}
