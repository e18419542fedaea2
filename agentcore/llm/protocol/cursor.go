package protocol

import (
	"unicode/utf8"

	"github.com/workflowd/workflowd/internal/strictjson"
)

// Cursor walks JSON text without reflection and almost without allocations, for the plain events that make up nearly all of
// a stream. Its methods take one token, report whether it was what they wanted, and pass over spaces first. Behind a false
// the text belongs to encoding/json: nothing else has been lost.
type Cursor struct {
	b []byte
	i int
}

// NewCursor returns a Cursor at the start of text.
func NewCursor(text []byte) Cursor { return Cursor{b: text} }

func (c *Cursor) space() {
	for c.i < len(c.b) && c.b[c.i] == ' ' {
		c.i++
	}
}

// AtEnd reports whether nothing follows.
func (c *Cursor) AtEnd() bool {
	c.space()
	return c.i == len(c.b)
}

// Byte takes one byte of punctuation.
func (c *Cursor) Byte(want byte) bool {
	c.space()
	if c.i < len(c.b) && c.b[c.i] == want {
		c.i++
		return true
	}
	return false
}

// Null takes null.
func (c *Cursor) Null() bool {
	c.space()
	if len(c.b)-c.i >= 4 && string(c.b[c.i:c.i+4]) == "null" {
		c.i += 4
		return true
	}
	return false
}

// Digits takes a whole number without sign.
func (c *Cursor) Digits() bool {
	c.space()
	at := c.i
	for c.i < len(c.b) && c.b[c.i] >= '0' && c.b[c.i] <= '9' {
		c.i++
	}
	return c.i > at && (c.b[at] != '0' || c.i == at+1)
}

// Index takes a whole number of few digits into dst.
func (c *Cursor) Index(dst *Int) bool {
	c.space()
	at := c.i
	if !c.Digits() || c.i-at > maxIndexDigits {
		return false
	}
	dst.OK = true
	for _, d := range c.b[at:c.i] {
		dst.N = dst.N*10 + int64(d-'0')
	}
	return true
}

// Object takes an object and calls field behind each key, which takes the value.
func (c *Cursor) Object(field func(key []byte) bool) bool {
	if !c.Byte('{') {
		return false
	}
	if c.Byte('}') {
		return true
	}
	for {
		key, ok := c.ASCII()
		if !ok || !c.Byte(':') || !field(key) {
			return false
		}
		if c.Byte('}') {
			return true
		}
		if !c.Byte(',') {
			return false
		}
	}
}

// raw takes a string without escapes and returns what stands between the quotes; ascii says that all of it is ASCII.
func (c *Cursor) raw() (text []byte, ascii, ok bool) {
	if !c.Byte('"') {
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

// ASCII takes a string of ASCII without escapes.
func (c *Cursor) ASCII() ([]byte, bool) {
	text, ascii, ok := c.raw()
	return text, ok && ascii
}

// Idle takes a value that does not matter: null or a string without escapes.
func (c *Cursor) Idle() bool {
	if c.Null() {
		return true
	}
	_, _, ok := c.raw()
	return ok
}

// Text takes null, or a string into dst.
func (c *Cursor) Text(dst *string) bool {
	if c.Null() {
		return true
	}
	at := c.i
	text, ascii, ok := c.raw()
	if ok {
		*dst = string(text)
		return ascii || utf8.Valid(text)
	}
	if c.i == at || c.i >= len(c.b) || c.b[c.i] != '\\' { // no string at all, or one that ends badly
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
