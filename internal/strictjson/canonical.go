package strictjson

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"
)

// Canonical returns the one spelling of v: members sorted by the bytes of their names, no white space, strings with no escape
// that JSON does not demand, numbers as written. v is anything encoding/json can encode; a json.RawMessage is taken as text.
// An *Error says why there is none (NaN, a repeated member, a broken RawMessage). In other Go strings invalid UTF-8 becomes
// U+FFFD, as in encoding/json; CheckValue refuses it.
func Canonical(v any) ([]byte, error) {
	raw, isRaw := v.(json.RawMessage)
	if !isRaw || raw == nil {
		var buf bytes.Buffer
		enc := json.NewEncoder(&buf)
		enc.SetEscapeHTML(false)
		if err := enc.Encode(v); err != nil {
			return nil, &Error{Detail: err.Error()}
		}
		raw = buf.Bytes()
	}
	if err := check(raw); err != nil {
		return nil, err
	}
	c := canon{walker: walker{data: raw}, out: make([]byte, 0, len(raw))}
	if err := c.write(); err != nil {
		return nil, err
	}
	return c.out, nil
}

// Digest returns the SHA-256 of v's canonical form as 64 hex digits. Errors are those of Canonical.
func Digest(v any) (string, error) {
	text, err := Canonical(v)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:]), nil
}

// canon rewrites a checked JSON text.
type canon struct {
	walker
	out []byte
}

// member is one written member of an object: its name and where its text is in out.
type member struct {
	key      string
	from, to int
}

func (c *canon) write() error {
	c.space()
	switch c.data[c.pos] {
	case '{':
		return c.object()
	case '[':
		c.out = append(c.out, '[')
		for n := 0; c.next(']'); n++ {
			if n > 0 {
				c.out = append(c.out, ',')
			}
			if err := c.write(); err != nil {
				return err
			}
		}
		c.out = append(c.out, ']')
		return nil
	}
	raw, err := c.token()
	if err != nil {
		return err
	}
	if raw[0] != '"' {
		c.out = append(c.out, raw...)
		return nil
	}
	return c.text(raw)
}

func (c *canon) object() error {
	c.out = append(c.out, '{')
	base := len(c.out)
	var members []member
	for c.next('}') {
		key, err := c.key()
		if err != nil {
			return err
		}
		if len(members) > 0 {
			c.out = append(c.out, ',')
		}
		from := len(c.out)
		c.out = append(AppendString(c.out, key), ':')
		if err := c.write(); err != nil {
			return err
		}
		members = append(members, member{key, from - base, len(c.out) - base})
	}
	byKey := func(a, b member) int { return cmp.Compare(a.key, b.key) }
	if !slices.IsSortedFunc(members, byKey) {
		written := slices.Clone(c.out[base:])
		slices.SortFunc(members, byKey)
		c.out = c.out[:base]
		for i, m := range members {
			if i > 0 {
				c.out = append(c.out, ',')
			}
			c.out = append(c.out, written[m.from:m.to]...)
		}
	}
	c.out = append(c.out, '}')
	return nil
}

func (c *canon) text(raw []byte) error {
	if bytes.IndexByte(raw, '\\') < 0 {
		c.out = append(c.out, raw...)
		return nil
	}
	s, err := unquote(raw)
	if err != nil {
		return err
	}
	c.out = AppendString(c.out, s)
	return nil
}

// AppendString appends s to dst as a canonical JSON string. s must be valid UTF-8.
func AppendString(dst []byte, s string) []byte {
	const hexDigits = "0123456789abcdef"
	dst = append(dst, '"')
	start := 0
	for i := range len(s) {
		c := s[i]
		if c >= ' ' && c != '"' && c != '\\' {
			continue
		}
		dst = append(dst, s[start:i]...)
		start = i + 1
		switch c {
		case '"', '\\':
			dst = append(dst, '\\', c)
		case '\n':
			dst = append(dst, '\\', 'n')
		case '\r':
			dst = append(dst, '\\', 'r')
		case '\t':
			dst = append(dst, '\\', 't')
		default:
			dst = append(dst, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&0xf])
		}
	}
	return append(append(dst, s[start:]...), '"')
}
