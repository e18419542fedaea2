package outputitems

import (
	"errors"
	"unicode/utf8"

	"github.com/workflowd/workflowd/internal/strictjson"
)

// Chunk is one step in the life of one item.
type Chunk struct {
	ItemID string
	Change Change
}

// Change is what a chunk does: an OpenChange, AppendChange, SetChange or DoneChange.
type Change interface {
	Op() Op
	check() error
}

// OpenChange begins an item. An empty Status is running; nil Content is the empty text, or null. A final Status opens an item
// that is done already.
type OpenChange struct {
	Status      Status
	ContentType ContentType
	Content     Content
	Display     Display
	Expanded    bool
	Metadata    Metadata
}

// AppendChange adds text at Offset, the length in bytes of the text before it. Empty text adds nothing, at any offset.
type AppendChange struct {
	Offset int
	Text   string
}

// SetChange replaces what is not zero: the content, the further members of metadata named in the patch, the status, which stays
// an open one. At least one of them is given.
type SetChange struct {
	Content  Content
	Metadata Patch
	Status   Status
}

// DoneChange closes an item with a final status.
type DoneChange struct{ Status Status }

// Op returns OpOpen.
func (OpenChange) Op() Op { return OpOpen }

// Op returns OpAppend.
func (AppendChange) Op() Op { return OpAppend }

// Op returns OpSet.
func (SetChange) Op() Op { return OpSet }

// Op returns OpDone.
func (DoneChange) Op() Op { return OpDone }

// Op returns the operation, "" for a chunk without a change.
func (c Chunk) Op() Op {
	if c.Change == nil {
		return ""
	}
	return c.Change.Op()
}

// Validate returns an *Error when the chunk by itself is not one that the wire may carry, else nil.
func (c Chunk) Validate() error {
	if err := checkID(c.ItemID); err != nil {
		return strictjson.Under("itemId", err)
	}
	if c.Change == nil {
		return strictjson.Under("op", &Error{Detail: "the chunk has no change"})
	}
	return c.Change.check()
}

// item returns the item that the change opens.
func (o OpenChange) item(id string) Item {
	o = o.filled()
	return Item{
		ID: id, Status: o.Status, ContentType: o.ContentType, Content: o.Content, Display: o.Display, Expanded: o.Expanded,
		Metadata: o.Metadata.clone(),
	}
}

// filled returns o with its defaults spelt out.
func (o OpenChange) filled() OpenChange {
	if o.Status == "" {
		o.Status = StatusRunning
	}
	switch {
	case o.Content != nil:
	case o.ContentType.Textual():
		o.Content = Text("")
	default:
		o.Content = JSON{}
	}
	return o
}

func (o OpenChange) check() error {
	const anyID = "id"
	err := o.item(anyID).Validate()
	if e, ok := errors.AsType[*Error](err); ok && e.Pointer == "/content" {
		return &Error{Pointer: "/" + contentMember(o.Content), Detail: e.Detail}
	}
	return err
}

// contentMember is the name of a chunk's member that carries c.
func contentMember(c Content) string {
	if _, ok := c.(Text); ok {
		return "text"
	}
	return "content"
}

func (a AppendChange) check() error {
	switch {
	case a.Offset < 0:
		return strictjson.Under("offset", &Error{Detail: "the offset is negative"})
	case len(a.Text) > MaxContentBytes:
		return strictjson.Under("text", tooLong(len(a.Text), MaxContentBytes))
	case !utf8.ValidString(a.Text):
		return strictjson.Under("text", &Error{Detail: "the text is not UTF-8"})
	}
	return nil
}

func (s SetChange) check() error {
	if s.Content == nil && len(s.Metadata) == 0 && s.Status == "" {
		return &Error{Detail: "op set changes nothing: no text, content, metadata or status"}
	}
	if s.Content != nil {
		if err := s.Content.check(); err != nil {
			return strictjson.Under(contentMember(s.Content), err)
		}
	}
	if err := checkMembers(s.Metadata, true); err != nil {
		return strictjson.Under("metadata", err)
	}
	if s.Status == "" {
		return nil
	}
	if err := oneOf(s.Status, Statuses()); err != nil {
		return strictjson.Under("status", err)
	}
	if s.Status.Final() {
		return strictjson.Under("status", &Error{Detail: "a final status needs op done"})
	}
	return nil
}

func (d DoneChange) check() error {
	if err := oneOf(d.Status, Statuses()); err != nil {
		return strictjson.Under("status", err)
	}
	if !d.Status.Final() {
		return strictjson.Under("status", &Error{Detail: "op done needs a final status"})
	}
	return nil
}
