package protocol

import (
	"bytes"
	"encoding/json"
	"errors"
)

// Member is one field of a JSON object.
type Member struct {
	Name  string
	Value json.RawMessage

	from, to int // of the value in the object's text
}

var errNoObject = errors.New("no JSON object")

// Fields returns the fields of a JSON object in their order. Values share memory with raw.
func Fields(raw json.RawMessage) ([]Member, error) {
	var out []Member
	err := walk(raw, func(m Member) bool {
		out = append(out, m)
		return true
	})
	return out, err
}

// walk calls visit for each field of a JSON object until it returns false.
func walk(raw json.RawMessage, visit func(Member) bool) error {
	dec := json.NewDecoder(bytes.NewReader(raw))
	if t, err := dec.Token(); err != nil || t != json.Delim('{') {
		return errNoObject
	}
	for dec.More() {
		name, err := dec.Token()
		if err != nil {
			return err
		}
		var value json.RawMessage
		if err := dec.Decode(&value); err != nil {
			return err
		}
		to := int(dec.InputOffset())
		from := to - len(value)
		key, ok := name.(string)
		if !ok {
			return errNoObject
		}
		if !visit(Member{Name: key, Value: raw[from:to:to], from: from, to: to}) {
			return nil
		}
	}
	return nil
}

// Field returns the value of a field of a JSON object; nil when there is none, or no object. It reads no further than the
// field.
func Field(raw json.RawMessage, name string) (value json.RawMessage) {
	err := walk(raw, func(m Member) bool {
		if m.Name == name {
			value = m.Value
		}
		return value == nil
	})
	if err != nil {
		return nil
	}
	return value
}

// SetField returns the JSON object raw with one field set; every other byte stays. What is no object is returned as it is.
func SetField(raw json.RawMessage, name string, value json.RawMessage) json.RawMessage {
	fields, err := Fields(raw)
	if err != nil {
		return raw
	}
	out := make(json.RawMessage, 0, len(raw)+len(name)+len(value)+4)
	for _, f := range fields {
		if f.Name == name {
			return append(append(append(out, raw[:f.from]...), value...), raw[f.to:]...)
		}
	}
	end := bytes.LastIndexByte(raw, '}')
	if end < 0 {
		return raw
	}
	out = append(out, raw[:end]...)
	if len(fields) > 0 {
		out = append(out, ',')
	}
	out = append(append(AppendString(out, name), ':'), value...)
	return append(out, raw[end:]...)
}
