package protocol

import (
	"encoding/json"
	"errors"
	"strconv"
	"unicode/utf8"
)

// The types below take any JSON value without failing, so that one odd field never costs a stream.

// Int is a whole number that was there or not. Anything but a number, or a string holding one, counts as absent, and so do
// negative numbers and fractions that are too large for whole numbers of JSON.
type Int struct {
	N  int64
	OK bool
}

// UnmarshalJSON takes any value.
func (v *Int) UnmarshalJSON(raw []byte) error {
	if len(raw) > 1 && raw[0] == '"' {
		raw = raw[1 : len(raw)-1]
	}
	*v = Int{}
	if n, err := strconv.ParseInt(string(raw), 10, 64); err == nil {
		if n >= 0 {
			*v = Int{n, true}
		}
		return nil
	}
	const most = 1 << 53 // whole numbers of JSON
	if f, err := strconv.ParseFloat(string(raw), 64); err == nil && f >= 0 && f < most {
		*v = Int{int64(f), true}
	}
	return nil
}

// Text is a string; other JSON values count as absent.
type Text string

// UnmarshalJSON takes any value.
func (v *Text) UnmarshalJSON(raw []byte) error {
	*v = Text(Unquote(raw))
	return nil
}

// Unquote returns the value of a JSON string, "" for any other JSON value.
func Unquote(raw []byte) string {
	if len(raw) < 2 || raw[0] != '"' {
		return ""
	}
	body := raw[1 : len(raw)-1]
	for _, c := range body {
		if c == '\\' || c >= utf8.RuneSelf {
			var s string
			if json.Unmarshal(raw, &s) != nil {
				return ""
			}
			return s
		}
	}
	return string(body)
}

// Decode reads data into v, passing over values of unexpected types. It fails only when data is not JSON.
func Decode(data []byte, v any) error {
	err := json.Unmarshal(data, v)
	if _, odd := errors.AsType[*json.UnmarshalTypeError](err); odd {
		return nil
	}
	return err
}

// TrimSpace is bytes.TrimSpace for the spaces of JSON.
func TrimSpace(b []byte) []byte {
	for len(b) > 0 && b[0] <= ' ' {
		b = b[1:]
	}
	for len(b) > 0 && b[len(b)-1] <= ' ' {
		b = b[:len(b)-1]
	}
	return b
}
