package outputitems

import (
	"encoding/json"
	"fmt"
	"unicode/utf8"

	"github.com/workflowd/workflowd/internal/strictjson"
)

// Content is what an item holds: Text when its content type is textual, else JSON. Both are immutable.
type Content interface {
	isContent()
	// check returns an *Error when the content cannot be put on the wire, or nil.
	check() error
}

// Text is plain or Markdown text, valid UTF-8.
type Text string

func (Text) isContent() {}

func (t Text) check() error {
	if len(t) > MaxContentBytes {
		return tooLong(len(t), MaxContentBytes)
	}
	if !utf8.ValidString(string(t)) {
		return &Error{Detail: "the text is not UTF-8"}
	}
	return nil
}

// JSON is one JSON value in canonical form: members sorted, no white space, numbers as written. Two of them are equal, also
// by ==, exactly when their texts are. The zero value is null. Made by NewJSON and ParseJSON.
type JSON struct{ text string }

const null = "null"

func (JSON) isContent() {}

func (j JSON) check() error {
	if len(j.text) > MaxContentBytes {
		return tooLong(len(j.text), MaxContentBytes)
	}
	return nil
}

// NewJSON returns v as JSON. An *Error says why v is no plain JSON (NaN, a function, time.Time, a map without string keys).
func NewJSON(v any) (JSON, error) {
	if err := strictjson.CheckValue(v); err != nil {
		return JSON{}, err
	}
	text, err := strictjson.Canonical(v)
	if err != nil {
		return JSON{}, err
	}
	return fromCanonical(text), nil
}

// ParseJSON returns the JSON value with the text raw. An *Error says why raw is not strict JSON.
func ParseJSON(raw []byte) (JSON, error) {
	if len(raw) == 0 {
		return JSON{}, &Error{Detail: "not JSON: no text"}
	}
	text, err := strictjson.Canonical(json.RawMessage(raw))
	if err != nil {
		return JSON{}, err
	}
	return fromCanonical(text), nil
}

// fromCanonical keeps == meaningful: null has one representation.
func fromCanonical(text []byte) JSON {
	if string(text) == null {
		return JSON{}
	}
	return JSON{string(text)}
}

// String returns the JSON text.
func (j JSON) String() string {
	if j.text == "" {
		return null
	}
	return j.text
}

// IsNull reports whether j is null.
func (j JSON) IsNull() bool { return j.text == "" }

// Equal reports whether j and other have the same canonical text.
func (j JSON) Equal(other JSON) bool { return j == other }

// Decode stores j strictly in the variable that into points to; errors are *Error.
func (j JSON) Decode(into any) error {
	return strictjson.Decode([]byte(j.String()), max(len(j.text), len(null)), into)
}

// MarshalJSON returns the JSON text.
func (j JSON) MarshalJSON() ([]byte, error) { return []byte(j.String()), nil }

// UnmarshalJSON is ParseJSON.
func (j *JSON) UnmarshalJSON(raw []byte) error {
	parsed, err := ParseJSON(raw)
	if err != nil {
		return err
	}
	*j = parsed
	return nil
}

func tooLong(n, limit int) error {
	return &Error{Detail: fmt.Sprintf("%d bytes are over the limit of %d", n, limit)}
}

// appendJSON appends the wire form of c, which is checked.
func appendJSON(dst []byte, c Content) []byte {
	switch c := c.(type) {
	case Text:
		return strictjson.AppendString(dst, string(c))
	case JSON:
		return append(dst, c.String()...)
	}
	return append(dst, null...)
}

// textOf returns the text of c and whether it has one.
func textOf(c Content) (string, bool) {
	t, ok := c.(Text)
	return string(t), ok
}
