package strictjson

import (
	"bytes"
	"encoding/json"
	"strconv"
	"unicode/utf8"
)

// walker goes once through data, which is known to be one valid JSON value; pos is the next byte.
type walker struct {
	data []byte
	pos  int
}

func (w *walker) space() {
	for w.pos < len(w.data) {
		switch w.data[w.pos] {
		case ' ', '\t', '\r', '\n':
			w.pos++
		default:
			return
		}
	}
}

// next moves from an opening bracket or the end of an element to the next element; at the closing bracket it moves behind
// it and returns false.
func (w *walker) next(closing byte) bool {
	w.space()
	if c := w.data[w.pos]; c == ',' || c == '{' && closing == '}' || c == '[' && closing == ']' {
		w.pos++
		w.space()
	}
	if w.data[w.pos] == closing {
		w.pos++
		return false
	}
	return true
}

// key reads a member's name and the colon behind it.
func (w *walker) key() (string, error) {
	raw, err := w.token()
	if err != nil {
		return "", err
	}
	w.space()
	w.pos++
	return unquote(raw)
}

// token reads a string, number or word and checks it.
func (w *walker) token() ([]byte, error) {
	start := w.pos
	if w.data[start] == '"' {
		for w.pos++; w.data[w.pos] != '"'; w.pos++ {
			if w.data[w.pos] == '\\' {
				w.pos++
			}
		}
		w.pos++
		raw := w.data[start:w.pos]
		return raw, checkText(raw)
	}
	for w.pos < len(w.data) && bytes.IndexByte([]byte(" \t\r\n,]}"), w.data[w.pos]) < 0 {
		w.pos++
	}
	raw := w.data[start:w.pos]
	if c := raw[0]; c == '-' || '0' <= c && c <= '9' {
		if _, err := strconv.ParseFloat(string(raw), 64); err != nil {
			return raw, &Error{Detail: "the number " + shown(string(raw)) + " is beyond a 64-bit float"}
		}
	}
	return raw, nil
}

// checkText refuses a quoted string that is not UTF-8 or escapes half a surrogate pair.
func checkText(raw []byte) error {
	if !utf8.Valid(raw) {
		return &Error{Detail: "a string is not UTF-8"}
	}
	for i := bytes.IndexByte(raw, '\\'); i >= 0 && i < len(raw); i++ {
		if raw[i] != '\\' {
			continue
		}
		_, n := EscapedRune(raw[i:])
		if halfPair(raw[i:], n) {
			return &Error{Detail: "a string holds half a surrogate pair"}
		}
		i += max(n, 2) - 1
	}
	return nil
}

func unquote(raw []byte) (string, error) {
	if bytes.IndexByte(raw, '\\') < 0 {
		return string(raw[1 : len(raw)-1]), nil
	}
	var s string
	if err := json.Unmarshal(raw, &s); err != nil {
		return "", &Error{Detail: err.Error()}
	}
	return s, nil
}
