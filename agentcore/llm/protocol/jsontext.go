package protocol

import (
	"bytes"
	"encoding/json"
	"unicode/utf8"

	"github.com/workflowd/workflowd/internal/strictjson"
)

const hexDigits = "0123456789abcdef"

// AppendString appends s as a JSON string. Bytes that are not UTF-8, encoded surrogates among them, become U+FFFD, so that
// the result is always valid. It escapes only what JSON demands: equal text gives equal bytes.
func AppendString(dst []byte, s string) []byte {
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

// AppendRaw appends raw JSON of the kind that starts with open ('{' or '['), repaired and on one line, or instead.
func AppendRaw(dst []byte, raw json.RawMessage, open byte, instead string) []byte {
	text := bytes.TrimSpace(raw)
	if len(text) == 0 || text[0] != open || !json.Valid(text) {
		return append(dst, instead...)
	}
	return append(dst, strictjson.Repair(text)...)
}
