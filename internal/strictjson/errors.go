package strictjson

import (
	"reflect"
	"strings"
)

// Error says what is wrong with a JSON text and where. Pointer is an RFC 6901 pointer, "" for the whole value. Detail is one
// line for people; it repeats names and numbers but never string values, which may be secrets.
type Error struct {
	Pointer string
	Detail  string
}

// Error returns the pointer, when there is one, and the detail.
func (e *Error) Error() string {
	if e.Pointer == "" {
		return e.Detail
	}
	return e.Pointer + ": " + e.Detail
}

var pointerEscapes = strings.NewReplacer("~", "~0", "/", "~1")

// Under returns err as seen from one level up, where its value is the member or element called token. An err that is not an
// *Error becomes one; nil stays nil.
func Under(token string, err error) error {
	if err == nil {
		return nil
	}
	e, ok := err.(*Error)
	if !ok {
		e = &Error{Detail: err.Error()}
	}
	return &Error{Pointer: "/" + pointerEscapes.Replace(token) + e.Pointer, Detail: e.Detail}
}

// wrongType is the refusal of raw, a valid JSON value, where t is wanted.
func wrongType(t reflect.Type, raw []byte) error {
	return &Error{Detail: "want " + wanted(t) + ", got " + found(raw)}
}

func wanted(t reflect.Type) string {
	if textual(t) {
		return "a string"
	}
	switch t.Kind() {
	case reflect.Bool:
		return "true or false"
	case reflect.String:
		if t == numberType {
			return "a number"
		}
		return "a string"
	case reflect.Float32, reflect.Float64:
		return "a number (" + t.Kind().String() + ")"
	case reflect.Slice, reflect.Array:
		if t.Elem().Kind() == reflect.Uint8 {
			return "a base64 string"
		}
		return "an array"
	case reflect.Map, reflect.Struct:
		return "an object"
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
		reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Uintptr:
		return "a whole number (" + t.Kind().String() + ")"
	default:
		return "a value of Go type " + t.String()
	}
}

func found(raw []byte) string {
	switch raw[0] {
	case '{':
		return "an object"
	case '[':
		return "an array"
	case '"':
		return "a string"
	case 't', 'f':
		return "a boolean"
	case 'n':
		return "null"
	default:
		return "the number " + shown(string(raw))
	}
}

// shown cuts s for an error text.
func shown(s string) string {
	if len(s) <= maxShown {
		return s
	}
	return strings.ToValidUTF8(s[:maxShown], "") + "…"
}
