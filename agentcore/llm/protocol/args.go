package protocol

import (
	"bytes"
	"encoding/json"
	"unicode/utf8"
)

// CallArgs turns received argument text into a JSON object, or returns it as bad. Nothing, null and a string holding one
// of them are the empty object; a string holding an object is unwrapped once. Nothing is ever repaired. Source: design
// "Open cases".
func CallArgs(received string) (args json.RawMessage, bad string) {
	text := bytes.TrimSpace([]byte(received))
	if args := object(text); args != nil {
		return args, ""
	}
	if len(text) > 0 && text[0] == '"' {
		var inner string
		if json.Unmarshal(text, &inner) == nil {
			if args := object(bytes.TrimSpace([]byte(inner))); args != nil {
				return args, ""
			}
		}
	}
	return nil, received
}

// object returns text when it is a JSON object, {} for nothing and null, else nil. Bytes that are no UTF-8 become U+FFFD.
func object(text []byte) json.RawMessage {
	switch {
	case len(text) == 0 || string(text) == "null":
		return json.RawMessage("{}")
	case text[0] != '{' || !json.Valid(text):
		return nil
	case !utf8.Valid(text):
		return bytes.ToValidUTF8(text, []byte("\uFFFD"))
	}
	return text
}
