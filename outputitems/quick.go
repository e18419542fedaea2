package outputitems

import (
	"bytes"
	"strconv"
	"unicode/utf8"

	"github.com/workflowd/workflowd/internal/strictjson"
)

// decodeAppend decodes an append chunk in exactly the spelling of EncodeChunk, which nearly all chunks of a run log have, at a
// fraction of the cost of the general door. It returns false for everything else, wrong or not: decodeAny judges that.
func decodeAppend(data []byte) (Chunk, bool) {
	id, rest, ok := cutString(data, `{"itemId":`)
	if !ok {
		return Chunk{}, false
	}
	rest, ok = bytes.CutPrefix(rest, []byte(`,"op":"append","offset":`))
	if !ok {
		return Chunk{}, false
	}
	digits := bytes.IndexByte(rest, ',')
	if digits < 1 || rest[0] == '+' || rest[0] == '-' || rest[0] == '0' && digits > 1 {
		return Chunk{}, false
	}
	offset, err := strconv.Atoi(string(rest[:digits]))
	if err != nil {
		return Chunk{}, false
	}
	text, rest, ok := cutString(rest[digits:], `,"text":`)
	if !ok || string(rest) != "}" {
		return Chunk{}, false
	}
	c := AppendText(id, offset, text)
	return c, c.Validate() == nil
}

// cutString returns the JSON string behind prefix, and what follows it.
func cutString(data []byte, prefix string) (s string, rest []byte, ok bool) {
	data, ok = bytes.CutPrefix(data, []byte(prefix))
	if !ok || len(data) == 0 || data[0] != '"' {
		return "", nil, false
	}
	plain := true
	for i := 1; i < len(data); i++ {
		switch c := data[i]; {
		case c == '"' && plain:
			return string(data[1:i]), data[i+1:], utf8.Valid(data[1:i])
		case c == '"':
			err := strictjson.Decode(data[:i+1], i+1, &s)
			return s, data[i+1:], err == nil
		case c == '\\':
			plain = false
			i++
		case c < ' ':
			return "", nil, false
		}
	}
	return "", nil, false
}
