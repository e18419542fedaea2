package openaicompletions

import (
	"bytes"
	"encoding/json"
	"unicode/utf8"
)

const hexDigits = "0123456789abcdef"

// appendString appends s as a JSON string. Bytes that are not UTF-8, encoded surrogates among them, become U+FFFD, so that
// the result is always valid. It escapes only what JSON demands: equal text gives equal bytes.
func appendString(dst []byte, s string) []byte {
	dst = append(dst, '"')
	from := 0
	for i := 0; i < len(s); {
		c := s[i]
		if c >= ' ' && c != '"' && c != '\\' && c < utf8.RuneSelf {
			i++
			continue
		}
		if c >= utf8.RuneSelf {
			r, size := utf8.DecodeRuneInString(s[i:])
			if r == utf8.RuneError && size == 1 {
				dst = append(append(dst, s[from:i]...), "\uFFFD"...)
				from = i + 1
			}
			i += size
			continue
		}
		dst = append(dst, s[from:i]...)
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
			dst = append(dst, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15])
		}
		i++
		from = i
	}
	return append(append(dst, s[from:]...), '"')
}

// scrub returns JSON text without lone surrogate escapes and without bytes that are not UTF-8; both become U+FFFD. raw
// must be valid JSON and is returned as it is when it is clean.
func scrub(raw []byte) []byte {
	if !utf8.Valid(raw) {
		raw = bytes.ToValidUTF8(raw, []byte("\uFFFD"))
	}
	if !bytes.Contains(raw, []byte(`\ud`)) && !bytes.Contains(raw, []byte(`\uD`)) {
		return raw
	}
	out := make([]byte, 0, len(raw))
	for i := 0; i < len(raw); {
		if raw[i] != '\\' {
			out = append(out, raw[i])
			i++
			continue
		}
		n := 2
		if unit, ok := escapedUnit(raw[i:]); ok {
			n = 6
			if isSurrogate(unit) {
				low, paired := escapedUnit(raw[i+6:])
				if !isHigh(unit) || !paired || !isLow(low) {
					out = append(out, "\uFFFD"...)
					i += 6
					continue
				}
				n = 12
			}
		}
		n = min(n, len(raw)-i)
		out = append(out, raw[i:i+n]...)
		i += n
	}
	return out
}

// escapedUnit reads the \uXXXX at the start of raw.
func escapedUnit(raw []byte) (uint16, bool) {
	if len(raw) < 6 || raw[0] != '\\' || raw[1] != 'u' {
		return 0, false
	}
	var unit uint16
	for _, c := range raw[2:6] {
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
		unit = unit<<4 | uint16(c)
	}
	return unit, true
}

func isSurrogate(u uint16) bool { return u&0xf800 == 0xd800 }
func isHigh(u uint16) bool      { return u&0xfc00 == 0xd800 }
func isLow(u uint16) bool       { return u&0xfc00 == 0xdc00 }

// appendRaw appends raw JSON of the kind that starts with open ('{' or '['), scrubbed and on one line, or instead.
func appendRaw(dst []byte, raw json.RawMessage, open byte, instead string) []byte {
	text := bytes.TrimSpace(raw)
	if len(text) == 0 || text[0] != open || !json.Valid(text) {
		return append(dst, instead...)
	}
	return append(dst, scrub(text)...)
}
