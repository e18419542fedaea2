package outputitems

import (
	"fmt"
	"strconv"

	"github.com/workflowd/workflowd/internal/strictjson"
)

// EncodeItem returns the wire form of a valid item; an *Error says why it is none.
func EncodeItem(it Item) ([]byte, error) {
	if err := it.Validate(); err != nil {
		return nil, err
	}
	b := appendMember(nil, '{', "id", it.ID)
	b = appendMember(b, ',', "status", string(it.Status))
	b = appendMember(b, ',', "contentType", string(it.ContentType))
	b = appendJSON(append(b, `,"content":`...), it.Content)
	b = appendDisplay(b, it.Display)
	b = strconv.AppendBool(append(b, `,"expanded":`...), it.Expanded)
	b = it.Metadata.appendJSON(append(b, `,"metadata":`...))
	return append(b, '}'), nil
}

// DecodeItem reads the wire form of one item. expanded, display and metadata may be absent. Errors are *Error.
func DecodeItem(data []byte) (Item, error) {
	var w struct {
		ID          string      `json:"id"`
		Status      Status      `json:"status"`
		ContentType ContentType `json:"contentType"`
		Content     opt[JSON]   `json:"content"`
		Display     Display     `json:"display"`
		Expanded    bool        `json:"expanded"`
		Metadata    Metadata    `json:"metadata"`
	}
	if err := strictjson.Decode(data, MaxWireBytes, &w); err != nil {
		return Item{}, err
	}
	it := Item{ID: w.ID, Status: w.Status, ContentType: w.ContentType, Display: w.Display, Expanded: w.Expanded, Metadata: w.Metadata}
	if !w.Content.given {
		return Item{}, strictjson.Under("content", &Error{Detail: "the content is missing"})
	}
	it.Content = w.Content.value
	if it.ContentType.Textual() {
		var text string
		if err := w.Content.value.Decode(&text); err != nil {
			return Item{}, strictjson.Under("content", err)
		}
		it.Content = Text(text)
	}
	if err := it.Validate(); err != nil {
		return Item{}, err
	}
	return it, nil
}

// MarshalJSON is EncodeItem.
func (it Item) MarshalJSON() ([]byte, error) { return EncodeItem(it) }

// UnmarshalJSON is DecodeItem.
func (it *Item) UnmarshalJSON(data []byte) error {
	decoded, err := DecodeItem(data)
	if err != nil {
		return err
	}
	*it = decoded
	return nil
}

// EncodeChunk returns the wire form of a valid chunk; an *Error says why it is none.
func EncodeChunk(c Chunk) ([]byte, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	const frame = 64 // of an append, which is the frequent chunk
	room := frame + len(c.ItemID)
	if a, ok := c.Change.(AppendChange); ok {
		room += len(a.Text)
	}
	b := appendMember(make([]byte, 0, room), '{', "itemId", c.ItemID)
	b = appendMember(b, ',', "op", string(c.Op()))
	switch ch := c.Change.(type) {
	case OpenChange:
		ch = ch.filled()
		b = appendMember(b, ',', "status", string(ch.Status))
		b = appendMember(b, ',', "contentType", string(ch.ContentType))
		b = appendContent(b, ch.Content)
		b = appendDisplay(b, ch.Display)
		b = strconv.AppendBool(append(b, `,"expanded":`...), ch.Expanded)
		b = ch.Metadata.appendJSON(append(b, `,"metadata":`...))
	case AppendChange:
		b = strconv.AppendInt(append(b, `,"offset":`...), int64(ch.Offset), 10)
		b = appendMember(b, ',', "text", ch.Text)
	case SetChange:
		if ch.Status != "" {
			b = appendMember(b, ',', "status", string(ch.Status))
		}
		b = appendContent(b, ch.Content)
		if len(ch.Metadata) > 0 {
			b = Metadata{Extra: ch.Metadata}.appendJSON(append(b, `,"metadata":`...))
		}
	case DoneChange:
		b = appendMember(b, ',', "status", string(ch.Status))
	}
	return append(b, '}'), nil
}

// chunkWire is the union of all chunks on the wire; nil is absent.
type chunkWire struct {
	ItemID      opt[string]      `json:"itemId"`
	Op          opt[Op]          `json:"op"`
	Offset      opt[int]         `json:"offset"`
	Text        opt[string]      `json:"text"`
	Content     opt[JSON]        `json:"content"`
	Metadata    opt[JSON]        `json:"metadata"`
	Status      opt[Status]      `json:"status"`
	ContentType opt[ContentType] `json:"contentType"`
	Display     opt[Display]     `json:"display"`
	Expanded    opt[bool]        `json:"expanded"`
}

// opt is a member that may be absent; null counts as given.
type opt[T any] struct {
	value T
	given bool
}

// UnmarshalJSON decodes the value strictly.
func (o *opt[T]) UnmarshalJSON(raw []byte) error {
	o.given = true
	return strictjson.Decode(raw, len(raw), &o.value)
}

// DecodeChunk reads the wire form of one chunk. Each operation takes its own members only. Errors are *Error.
func DecodeChunk(data []byte) (Chunk, error) {
	if c, ok := decodeAppend(data); ok {
		return c, nil
	}
	return decodeAny(data)
}

// decodeAny is DecodeChunk for every spelling.
func decodeAny(data []byte) (Chunk, error) {
	var w chunkWire
	if err := strictjson.Decode(data, MaxWireBytes, &w); err != nil {
		return Chunk{}, err
	}
	switch {
	case !w.ItemID.given:
		return Chunk{}, missing("itemId")
	case !w.Op.given:
		return Chunk{}, missing("op")
	}
	change, err := w.change()
	if err != nil {
		return Chunk{}, err
	}
	c := Chunk{ItemID: w.ItemID.value, Change: change}
	if err := c.Validate(); err != nil {
		return Chunk{}, err
	}
	return c, nil
}

func (w *chunkWire) change() (Change, error) {
	if err := w.checkOp(); err != nil {
		return nil, err
	}
	var content Content
	switch {
	case w.Text.given:
		content = Text(w.Text.value)
	case w.Content.given:
		content = w.Content.value
	}
	switch w.Op.value {
	case OpOpen:
		o := OpenChange{
			Status: w.Status.value, ContentType: w.ContentType.value, Content: content, Display: w.Display.value, Expanded: w.Expanded.value,
		}
		if w.Metadata.given {
			if err := w.Metadata.value.Decode(&o.Metadata); err != nil {
				return nil, strictjson.Under("metadata", err)
			}
		}
		return o.filled(), nil
	case OpAppend:
		return AppendChange{Offset: w.Offset.value, Text: w.Text.value}, nil
	case OpSet:
		s := SetChange{Content: content, Status: w.Status.value}
		if w.Metadata.given {
			if w.Metadata.value.IsNull() {
				return nil, strictjson.Under("metadata", &Error{Detail: "want an object, got null"})
			}
			if err := w.Metadata.value.Decode(&s.Metadata); err != nil {
				return nil, strictjson.Under("metadata", err)
			}
		}
		return s, nil
	default:
		return DoneChange{Status: w.Status.value}, nil
	}
}

// rule says whether an operation takes a member; the zero value is that it does not.
type rule int

const (
	takes rule = iota + 1
	needs
)

// opRules is the form of each operation.
var opRules = map[Op]map[string]rule{
	OpOpen: {
		"contentType": needs, "text": takes, "content": takes, "metadata": takes, "status": takes, "display": takes, "expanded": takes,
	},
	OpAppend: {"offset": needs, "text": needs},
	OpSet:    {"text": takes, "content": takes, "metadata": takes, "status": takes},
	OpDone:   {"status": needs},
}

// checkOp refuses members that the operation does not take and misses those that it needs.
func (w *chunkWire) checkOp() error {
	rules := opRules[w.Op.value]
	for _, m := range []struct {
		name  string
		given bool
	}{
		{"offset", w.Offset.given}, {"text", w.Text.given}, {"content", w.Content.given}, {"metadata", w.Metadata.given},
		{"status", w.Status.given}, {"contentType", w.ContentType.given}, {"display", w.Display.given}, {"expanded", w.Expanded.given},
	} {
		switch r := rules[m.name]; {
		case m.given && r == 0:
			return strictjson.Under(m.name, &Error{Detail: fmt.Sprintf("op %s takes no such member", w.Op.value)})
		case !m.given && r == needs:
			return missing(m.name)
		}
	}
	if w.Text.given && w.Content.given {
		return strictjson.Under("content", &Error{Detail: "text and content exclude each other"})
	}
	return nil
}

// MarshalJSON is EncodeChunk.
func (c Chunk) MarshalJSON() ([]byte, error) { return EncodeChunk(c) }

// UnmarshalJSON is DecodeChunk.
func (c *Chunk) UnmarshalJSON(data []byte) error {
	decoded, err := DecodeChunk(data)
	if err != nil {
		return err
	}
	*c = decoded
	return nil
}

// appendMember appends sep and a member with a string value; name needs no escape.
func appendMember(b []byte, sep byte, name, value string) []byte {
	b = append(append(append(b, sep, '"'), name...), '"', ':')
	return strictjson.AppendString(b, value)
}

// appendContent appends the text or content member of a chunk.
func appendContent(b []byte, c Content) []byte {
	switch c := c.(type) {
	case Text:
		return appendMember(b, ',', "text", string(c))
	case JSON:
		return appendJSON(append(b, `,"content":`...), c)
	}
	return b
}

func appendDisplay(b []byte, d Display) []byte {
	if d == (Display{}) {
		return b
	}
	b = appendMember(append(b, `,"display":`...), '{', "type", string(d.Type))
	return append(appendMember(b, ',', "placement", string(d.Placement)), '}')
}

func missing(name string) error {
	return strictjson.Under(name, &Error{Detail: "the member is missing"})
}
