package outputitems

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/workflowd/workflowd/internal/strictjson"
)

// Item is one thing a user sees. The zero value means no item yet; see Diff. An Item is a value: what it holds is immutable
// except the map in Metadata.Extra, which belongs to whoever got the item.
type Item struct {
	ID          string
	Status      Status
	ContentType ContentType
	Content     Content
	Display     Display
	Expanded    bool // shown unfolded
	Metadata    Metadata
}

// Text returns the item's text, "" when its content is JSON.
func (it Item) Text() string {
	text, _ := textOf(it.Content)
	return text
}

// Validate returns an *Error when the item is not one that the wire may carry, else nil.
func (it Item) Validate() error {
	if err := checkID(it.ID); err != nil {
		return strictjson.Under("id", err)
	}
	if err := oneOf(it.Status, Statuses()); err != nil {
		return strictjson.Under("status", err)
	}
	if err := oneOf(it.ContentType, ContentTypes()); err != nil {
		return strictjson.Under("contentType", err)
	}
	if err := it.checkContent(); err != nil {
		return strictjson.Under("content", err)
	}
	if err := it.Display.check(); err != nil {
		return strictjson.Under("display", err)
	}
	if err := it.Metadata.check(); err != nil {
		return strictjson.Under("metadata", err)
	}
	return it.checkRole()
}

func (it Item) checkContent() error {
	if err := suits(it.ContentType, it.Content); err != nil {
		return err
	}
	if err := it.Content.check(); err != nil {
		return err
	}
	switch {
	case it.Display.Type == DisplayRing:
		return it.checkRing()
	case it.Metadata.PartType == PartRetry:
		return it.checkRetry()
	}
	return nil
}

// suits refuses content of the wrong sort for an item of type t.
func suits(t ContentType, c Content) error {
	_, isText := c.(Text)
	_, isJSON := c.(JSON)
	switch {
	case t.Textual() && !isText:
		return &Error{Detail: fmt.Sprintf("an item of type %s holds text", t)}
	case !t.Textual() && !isJSON:
		return &Error{Detail: fmt.Sprintf("an item of type %s holds JSON", t)}
	}
	return nil
}

func (it Item) checkRing() error {
	content, ok := it.Content.(JSON)
	if !ok {
		return &Error{Detail: "a ring is drawn from JSON"}
	}
	var r Ring
	if err := content.Decode(&r); err != nil {
		return err
	}
	return r.check()
}

func (it Item) checkRetry() error {
	content, ok := it.Content.(JSON)
	if !ok {
		return &Error{Detail: "a retry row holds JSON"}
	}
	var members map[string]JSON
	if err := content.Decode(&members); err != nil {
		return err
	}
	var kind RetryKind
	if err := members[memberKind].Decode(&kind); err != nil {
		return strictjson.Under(memberKind, err)
	}
	return nil
}

// checkRole applies what the specification says about the presentation of single kinds.
func (it Item) checkRole() error {
	m := it.Metadata
	switch {
	case m.Kind == KindAnswer && (it.ContentType != TypeMarkdown || !it.Expanded || it.Display != Display{}):
		return &Error{Pointer: "/metadata/kind", Detail: "an agent-answer is expanded markdown, flat in the body"}
	case m.Kind == KindSession && it.ContentType != TypeJSON:
		return &Error{Pointer: "/contentType", Detail: "an agent-session holds JSON"}
	case (m.PartType == PartText || m.Plan) && it.ContentType != TypeMarkdown:
		return &Error{Pointer: "/contentType", Detail: "a text row or plan is markdown"}
	}
	return nil
}

func checkID(id string) error {
	switch {
	case id == "":
		return &Error{Detail: "the id is missing"}
	case len(id) > MaxIDBytes:
		return tooLong(len(id), MaxIDBytes)
	case !utf8.ValidString(id):
		return &Error{Detail: "the id is not UTF-8"}
	}
	return nil
}

// sameThing reports whether it and other agree in all that is fixed when an item is opened.
func (it Item) sameThing(other Item) bool {
	return it.ID == other.ID && it.ContentType == other.ContentType && it.Display == other.Display &&
		it.Expanded == other.Expanded && it.Metadata.sameThing(other.Metadata)
}

func (it Item) equal(other Item) bool {
	return it.sameThing(other) && it.Status == other.Status && it.Content == other.Content && it.Metadata.equal(other.Metadata)
}

// Body returns the body of a message: the text rows of a conversation run, or the answer of a host-driven one, joined in the
// order of items with nothing between them. Everything else stays out: reasoning, tools, notices, plans, snapshots.
// Source: P-660, P-666, P-728.
func Body(items []Item) string {
	var b strings.Builder
	for _, it := range items {
		if it.IsBody() {
			b.WriteString(it.Text())
		}
	}
	return b.String()
}

// IsBody reports whether the item's text is part of the body. It depends on what the item is alone: no other metadata pushes an
// answer out of it. Source: P-667.
func (it Item) IsBody() bool {
	return it.Metadata.Kind == KindAnswer || it.Metadata.Kind == KindPart && it.Metadata.PartType == PartText
}
