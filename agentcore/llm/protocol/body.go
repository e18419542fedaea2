package protocol

import (
	"encoding/base64"
	"encoding/json"
	"strconv"

	"github.com/workflowd/workflowd/agentcore/llm"
)

// Body is a request body in the making: JSON by appending. Its methods return it. Punctuation is the caller's.
type Body struct{ Bytes []byte }

// NewBody returns an empty Body with room for req, so that most requests are built without growing.
func NewBody(req llm.Request) Body {
	const perMessage, perBody = 128, 512
	n := perBody + len(req.System)
	for i := range req.Messages {
		n += perMessage
		for j := range req.Messages[i].Blocks {
			b := &req.Messages[i].Blocks[j]
			n += len(b.Text) + len(b.Args) + len(b.Raw) + base64.StdEncoding.EncodedLen(len(b.Data)) + perMessage/2
		}
	}
	for _, t := range req.Tools {
		n += len(t.Schema) + len(t.Description) + perMessage
	}
	return Body{make([]byte, 0, n+n/8)}
}

// Raw appends s as it is.
func (b *Body) Raw(s string) *Body {
	b.Bytes = append(b.Bytes, s...)
	return b
}

// Next begins the next element of the open array.
func (b *Body) Next() *Body {
	if n := len(b.Bytes); n > 0 && b.Bytes[n-1] != '[' {
		b.Bytes = append(b.Bytes, ',')
	}
	return b
}

// Str appends s as a JSON string.
func (b *Body) Str(s string) *Body {
	b.Bytes = AppendString(b.Bytes, s)
	return b
}

// Int appends n.
func (b *Body) Int(n int) *Body {
	b.Bytes = strconv.AppendInt(b.Bytes, int64(n), 10)
	return b
}

// JSON appends raw, which starts with open, or instead; see AppendRaw.
func (b *Body) JSON(raw json.RawMessage, open byte, instead string) *Body {
	b.Bytes = AppendRaw(b.Bytes, raw, open, instead)
	return b
}

// Base64 appends data in base64, without quotes.
func (b *Body) Base64(data []byte) *Body {
	b.Bytes = base64.StdEncoding.AppendEncode(b.Bytes, data)
	return b
}

// DataURL appends an image as a JSON string holding a data URL.
func (b *Body) DataURL(image llm.Block) *Body {
	head := AppendString(nil, "data:"+MimeType(image)+";base64,")
	b.Bytes = append(b.Bytes, head[:len(head)-1]...)
	return b.Base64(image.Data).Raw(`"`)
}

// MimeType returns the type of an image, PNG where the block names none.
func MimeType(image llm.Block) string {
	if image.MimeType == "" {
		return "image/png"
	}
	return image.MimeType
}

// noSchema is the schema of a tool that declares none.
const noSchema = `{"type":"object","properties":{}}`

// Schema appends the schema of a tool.
func (b *Body) Schema(t llm.ToolSpec) *Body { return b.JSON(t.Schema, '{', noSchema) }
