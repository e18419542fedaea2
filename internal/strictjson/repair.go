package strictjson

import (
	"bytes"
	"unicode/utf16"
	"unicode/utf8"
)

// unitLen is the length of a \u escape in bytes.
const unitLen = 6

// Repair returns valid JSON as text that every strict reader takes: each byte that is not UTF-8 becomes U+FFFD, and so does
// every escape of half a surrogate pair. All else keeps its bytes. Text that is clean is returned as it is, otherwise the
// result is a copy. It is for text that others wrote, such as a model's arguments; what must be refused goes through Decode.
// Source: bugs 32.
func Repair(text []byte) []byte {
	if !utf8.Valid(text) {
		text = []byte(string([]rune(string(text)))) // bytes.ToValidUTF8 would make one U+FFFD of many bytes
	}
	var fixed []byte
	for i := bytes.IndexByte(text, '\\'); i >= 0 && i < len(text); i++ {
		if text[i] != '\\' {
			continue
		}
		_, n := EscapedRune(text[i:])
		if halfPair(text[i:], n) {
			if fixed == nil {
				fixed = bytes.Clone(text)
			}
			copy(fixed[i+2:], "fffd")
		}
		i += max(n, 2) - 1
	}
	if fixed != nil {
		return fixed
	}
	return text
}

// EscapedRune reads the \u escape, or the surrogate pair of two, at the start of b and returns its length in bytes: 0 if
// there is none. Half a pair is U+FFFD and one escape long, as in encoding/json.
func EscapedRune(b []byte) (rune, int) {
	r, ok := escapedUnit(b)
	if !ok {
		return 0, 0
	}
	if !utf16.IsSurrogate(r) {
		return r, unitLen
	}
	low, _ := escapedUnit(b[unitLen:])
	if pair := utf16.DecodeRune(r, low); pair != utf8.RuneError {
		return pair, 2 * unitLen
	}
	return utf8.RuneError, unitLen
}

// halfPair tells whether the escape at the start of b, n bytes long, is a surrogate without its partner.
func halfPair(b []byte, n int) bool {
	unit, _ := escapedUnit(b)
	return n == unitLen && utf16.IsSurrogate(unit)
}

func escapedUnit(b []byte) (rune, bool) {
	if len(b) < unitLen || b[0] != '\\' || b[1] != 'u' {
		return 0, false
	}
	var unit rune
	for _, c := range b[2:unitLen] {
		switch {
		case c >= '0' && c <= '9':
			c -= '0'
		case c >= 'a' && c <= 'f':
			c -= 'a' - 10
		case c >= 'A' && c <= 'F':
			c -= 'A' - 10
		default:
			return 0, false
		}
		unit = unit<<4 | rune(c)
	}
	return unit, true
}
