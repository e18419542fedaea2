package openaicompletions

import (
	"unicode/utf8"

	"github.com/workflowd/workflowd/internal/strictjson"
)

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
	c := cursor{b: data}
	var id, choices, object bool
	ok := c.object(func(key []byte) bool {
		switch string(key) {
		case "id":
			v, ok := c.ascii()
			if !ok || id {
				return false
			}
			if id = true; withID {
				p.chunk.ID = string(v)
			}
			return true
		case "object":
			v, ok := c.ascii()
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
			return c.byte('[') && c.object(func(key []byte) bool { return p.choice(&c, key) }) && c.byte(']')
		case "created":
			return c.digits()
		case "usage":
			return c.null()
		case "model", "system_fingerprint", "service_tier", "provider", "obfuscation", "p":
			return c.idle()
		}
		return false
	})
	return ok && choices && c.atEnd()
}

const objectChunk = "chat.completion.chunk"

func (p *plain) choice(c *cursor, key []byte) bool {
	ch := &p.choices[0]
	switch string(key) {
	case "index":
		if ch.Index.ok || !c.byte('0') {
			return false
		}
		ch.Index.ok = true
		return true
	case "delta":
		if ch.Delta != nil {
			return false
		}
		ch.Delta = &p.delta
		return c.object(func(key []byte) bool { return p.field(c, key) })
	case "finish_reason", "logprobs", "native_finish_reason", "stop_reason", "matched_stop", "token_ids", "content_filter_results":
		return c.null()
	}
	return false
}

func (p *plain) field(c *cursor, key []byte) bool {
	switch string(key) {
	case "content":
		return p.delta.Content.text == "" && c.stringOrNull(&p.delta.Content.text)
	case fieldReasoningContent:
		return p.delta.ReasoningContent == "" && c.stringOrNull((*string)(&p.delta.ReasoningContent))
	case fieldReasoning:
		return p.delta.Reasoning == "" && c.stringOrNull((*string)(&p.delta.Reasoning))
	case "role", "channel":
		return c.idle()
	case "refusal", "function_call":
		return c.null()
	case "tool_calls":
		if p.delta.ToolCalls != nil {
			return false
		}
		if c.null() {
			return true
		}
		p.delta.ToolCalls = p.calls[:]
		return c.byte('[') && c.object(func(key []byte) bool { return p.call(c, key) }) && c.byte(']')
	}
	return false
}

func (p *plain) call(c *cursor, key []byte) bool {
	part := &p.calls[0]
	switch string(key) {
	case "index":
		c.space()
		at := c.i
		if part.Index.ok || !c.digits() || c.i-at > 6 {
			return false
		}
		for _, d := range c.b[at:c.i] {
			part.Index.n = part.Index.n*10 + int(d-'0')
		}
		part.Index.ok = true
		return true
	case "id":
		return part.ID == "" && c.stringOrNull((*string)(&part.ID))
	case "type":
		return c.idle()
	case "function":
		if part.Function != (functionDelta{}) {
			return false
		}
		return c.object(func(key []byte) bool {
			switch string(key) {
			case "name":
				return part.Function.Name == "" && c.stringOrNull((*string)(&part.Function.Name))
			case "arguments":
				return part.Function.Arguments == "" && c.stringOrNull((*string)(&part.Function.Arguments))
			}
			return false
		})
	}
	return false
}

// cursor walks JSON text. Its methods take one token, report whether it was what they wanted, and pass over spaces first.
type cursor struct {
	b []byte
	i int
}

func (c *cursor) space() {
	for c.i < len(c.b) && c.b[c.i] == ' ' {
		c.i++
	}
}

func (c *cursor) atEnd() bool {
	c.space()
	return c.i == len(c.b)
}

func (c *cursor) byte(want byte) bool {
	c.space()
	if c.i < len(c.b) && c.b[c.i] == want {
		c.i++
		return true
	}
	return false
}

func (c *cursor) null() bool {
	c.space()
	if len(c.b)-c.i >= 4 && string(c.b[c.i:c.i+4]) == "null" {
		c.i += 4
		return true
	}
	return false
}

// digits takes a whole number without sign.
func (c *cursor) digits() bool {
	c.space()
	at := c.i
	for c.i < len(c.b) && c.b[c.i] >= '0' && c.b[c.i] <= '9' {
		c.i++
	}
	return c.i > at && (c.b[at] != '0' || c.i == at+1)
}

// object takes an object and calls field behind each key, which takes the value.
func (c *cursor) object(field func(key []byte) bool) bool {
	if !c.byte('{') {
		return false
	}
	if c.byte('}') {
		return true
	}
	for {
		key, ok := c.ascii()
		if !ok || !c.byte(':') || !field(key) {
			return false
		}
		if c.byte('}') {
			return true
		}
		if !c.byte(',') {
			return false
		}
	}
}

// raw takes a string without escapes and returns what stands between the quotes; ascii says that all of it is ASCII.
func (c *cursor) raw() (text []byte, ascii, ok bool) {
	if !c.byte('"') {
		return nil, false, false
	}
	at := c.i
	ascii = true
	for ; c.i < len(c.b); c.i++ {
		switch b := c.b[c.i]; {
		case b == '"':
			c.i++
			return c.b[at : c.i-1], ascii, true
		case b == '\\' || b < ' ':
			return c.b[at:c.i], ascii, false
		case b >= utf8.RuneSelf:
			ascii = false
		}
	}
	return nil, false, false
}

// ascii takes a string of ASCII without escapes.
func (c *cursor) ascii() ([]byte, bool) {
	text, ascii, ok := c.raw()
	return text, ok && ascii
}

// idle takes a value that does not matter: null or a string without escapes.
func (c *cursor) idle() bool {
	if c.null() {
		return true
	}
	_, _, ok := c.raw()
	return ok
}

// stringOrNull takes null, or a string into dst.
func (c *cursor) stringOrNull(dst *string) bool {
	if c.null() {
		return true
	}
	text, ascii, ok := c.raw()
	if ok {
		*dst = string(text)
		return ascii || utf8.Valid(text)
	}
	if c.i >= len(c.b) || c.b[c.i] != '\\' {
		return false
	}
	out := make([]byte, len(text), len(text)+64)
	copy(out, text)
	for c.i < len(c.b) {
		b := c.b[c.i]
		switch {
		case b == '"':
			c.i++
			*dst = string(out)
			return utf8.Valid(out)
		case b < ' ':
			return false
		case b != '\\':
			out = append(out, b)
			c.i++
		default:
			r, n := escape(c.b[c.i:])
			if n == 0 {
				return false
			}
			out = utf8.AppendRune(out, r)
			c.i += n
		}
	}
	return false
}

// escape reads the escape at the start of b and its length; 0 for a broken one, half a surrogate pair and
// U+FFFD, which the slow path reads.
func escape(b []byte) (rune, int) {
	if len(b) < 2 {
		return 0, 0
	}
	switch b[1] {
	case '"', '\\', '/':
		return rune(b[1]), 2
	case 'n':
		return '\n', 2
	case 't':
		return '\t', 2
	case 'r':
		return '\r', 2
	case 'b':
		return '\b', 2
	case 'f':
		return '\f', 2
	}
	r, n := strictjson.EscapedRune(b)
	if r == utf8.RuneError {
		return 0, 0
	}
	return r, n
}
