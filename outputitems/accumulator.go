package outputitems

import (
	"hash/maphash"
	"maps"
	"slices"
	"strings"

	"github.com/workflowd/workflowd/internal/strictjson"
)

// Accumulator folds chunks into items. The zero value is empty and ready. Applying a stream costs time linear in its bytes. An
// Accumulator is owned by one goroutine at a time; it keeps nothing of a chunk that its sender could change.
//
// Any part of a stream may come again, also after later parts: what is known changes nothing in the end. While old set chunks
// are repeated, the item passes once more through its older states; with the last repeat it is as it was.
type Accumulator struct {
	entries []*entry // in the order of opening
	byID    map[string]*entry
}

// NewAccumulator returns an accumulator that already holds items, in that order, as after a restart. It remembers nothing of the
// chunks that made them: an item that is open again with the same fixed properties counts as a repeat, and a closed one refuses
// a set that it does not already hold. An *Error says which item is not valid, or comes twice.
func NewAccumulator(items ...Item) (*Accumulator, error) {
	a := &Accumulator{}
	for _, it := range items {
		if err := it.Validate(); err != nil {
			return nil, err
		}
		if a.byID[it.ID] != nil {
			return nil, &Error{Pointer: "/id", Detail: "two items have the id " + it.ID}
		}
		a.add(it, nil)
	}
	return a, nil
}

// entry is one item in the making.
type entry struct {
	item    Item            // Content is nil while text holds it
	text    strings.Builder // the text of a textual item
	opening *Item           // as opened; nil when the item was handed to NewAccumulator
	joined  bool            // an append has been folded into text since it was opened or set
	// superseded are texts that appends were folded into and that were then replaced. A repeated append is looked up there, so their
	// bytes are at most those of the chunks.
	superseded []string
	// sets are the digests of the set chunks seen while the item was open, sorted once it is closed. Then one that is
	// among them is a repeat.
	sets []uint64
}

// hashKey makes digests differ between processes, so that nobody can prepare two sets of equal digest.
var hashKey = maphash.MakeSeed()

// Apply folds one chunk and reports whether Items differs from before. An *ApplyError refuses the chunk and leaves the
// accumulator as it was.
func (a *Accumulator) Apply(c Chunk) (changed bool, err error) {
	if err := c.Validate(); err != nil {
		return false, &ApplyError{ItemID: c.ItemID, Op: c.Op(), Reason: Invalid, Cause: err}
	}
	e := a.byID[c.ItemID]
	if open, ok := c.Change.(OpenChange); ok {
		it := open.item(c.ItemID)
		if e == nil {
			a.add(it, &it)
			return true, nil
		}
		if e.opening == nil && !e.item.sameThing(it) || e.opening != nil && !e.opening.equal(it) {
			return false, e.refusal(OpOpen, Reopened)
		}
		return false, nil
	}
	if e == nil {
		return false, &ApplyError{ItemID: c.ItemID, Op: c.Op(), Reason: NotOpen}
	}
	switch ch := c.Change.(type) {
	case AppendChange:
		return e.append(ch)
	case SetChange:
		return e.set(ch)
	case DoneChange:
		return e.done(ch)
	}
	return false, e.refusal(c.Op(), Invalid)
}

func (a *Accumulator) add(it Item, opening *Item) {
	e := &entry{item: it, opening: opening}
	e.item.Metadata = it.Metadata.clone()
	if text, ok := textOf(it.Content); ok {
		e.text.WriteString(text)
		e.item.Content = nil
	}
	if a.byID == nil {
		a.byID = map[string]*entry{}
	}
	a.byID[it.ID] = e
	a.entries = append(a.entries, e)
}

func (e *entry) append(ch AppendChange) (bool, error) {
	if !e.item.ContentType.Textual() {
		return false, e.invalid(OpAppend, &Error{Pointer: "/op", Detail: "a JSON item has no text to append to"})
	}
	if ch.Text == "" {
		return false, nil
	}
	known := e.text.String()
	why, at := Gap, ch.Offset
	if ch.Offset <= len(known) {
		rest, diff := beyond(known[ch.Offset:], ch.Text)
		switch {
		case diff >= 0:
			why, at = Contradiction, ch.Offset+diff
		case rest == "":
			e.joined = true
			return false, nil
		case e.item.Status.Final():
			why = Closed
		case len(known)+len(rest) > MaxContentBytes:
			return false, e.invalid(OpAppend, strictjson.Under("text", tooLong(len(known)+len(rest), MaxContentBytes)))
		default:
			e.text.WriteString(rest)
			e.joined = true
			return true, nil
		}
	}
	for _, old := range e.superseded {
		if ch.Offset <= len(old) && strings.HasPrefix(old[ch.Offset:], ch.Text) {
			return false, nil
		}
	}
	refusal := e.refusal(OpAppend, why)
	refusal.Offset, refusal.Length = at, len(known)
	return false, refusal
}

// beyond returns what text adds to known when both begin at the same offset, or the index of the first byte that differs;
// diff is -1 when none does.
func beyond(known, text string) (rest string, diff int) {
	n := min(len(known), len(text))
	if known[:n] == text[:n] {
		return text[n:], -1
	}
	for i := range n {
		if known[i] != text[i] {
			return "", i
		}
	}
	return text[n:], -1
}

func (e *entry) set(ch SetChange) (bool, error) {
	next := e.item
	next.Content = e.content()
	if ch.Content != nil {
		if err := suits(next.ContentType, ch.Content); err != nil {
			return false, e.invalid(OpSet, err)
		}
		next.Content = ch.Content
	}
	var merged bool
	next.Metadata, merged = next.Metadata.merged(ch.Metadata)
	replaced := next.Content != e.content()
	if !e.item.Status.Final() && ch.Status != "" {
		next.Status = ch.Status
	}
	changed := merged || replaced || ch.Status != "" && ch.Status != e.item.Status
	if e.item.Status.Final() {
		if _, repeat := slices.BinarySearch(e.sets, ch.digest()); changed && !repeat {
			return false, e.refusal(OpSet, Closed)
		}
		return false, nil
	}
	if changed {
		if err := next.Validate(); err != nil {
			return false, e.invalid(OpSet, err)
		}
	}
	if d := ch.digest(); len(e.sets) == 0 || e.sets[len(e.sets)-1] != d {
		e.sets = append(e.sets, d)
	}
	if replaced {
		e.replace(next.Content)
	}
	e.item.Status, e.item.Metadata = next.Status, next.Metadata
	return changed, nil
}

// replace puts content in the place of the present one.
func (e *entry) replace(content Content) {
	text, ok := textOf(content)
	if !ok {
		e.item.Content = content
		return
	}
	if old := e.text.String(); e.joined && !slices.ContainsFunc(e.superseded, func(s string) bool { return strings.HasPrefix(s, old) }) {
		e.superseded = slices.DeleteFunc(e.superseded, func(s string) bool { return strings.HasPrefix(old, s) })
		e.superseded = append(e.superseded, old)
	}
	e.text = strings.Builder{}
	e.text.WriteString(text)
	e.joined = false
}

func (e *entry) done(ch DoneChange) (bool, error) {
	switch {
	case e.item.Status == ch.Status:
		return false, nil
	case e.item.Status.Final():
		return false, e.refusal(OpDone, Closed)
	}
	e.item.Status = ch.Status
	slices.Sort(e.sets)
	e.sets = slices.Clip(slices.Compact(e.sets))
	return true, nil
}

// digest identifies a set chunk of one item among those of this process.
func (s SetChange) digest() uint64 {
	var h maphash.Hash
	h.SetSeed(hashKey)
	write := func(part string) {
		maphash.WriteComparable(&h, len(part))
		h.WriteString(part)
	}
	write(string(s.Status))
	switch c := s.Content.(type) {
	case Text:
		h.WriteByte(1)
		write(string(c))
	case JSON:
		h.WriteByte(2)
		write(c.String())
	default:
		h.WriteByte(0)
	}
	for _, name := range slices.Sorted(maps.Keys(s.Metadata)) {
		write(name)
		write(s.Metadata[name].String())
	}
	return h.Sum64()
}

func (e *entry) content() Content {
	if e.item.ContentType.Textual() {
		return Text(e.text.String())
	}
	return e.item.Content
}

func (e *entry) refusal(op Op, why Reason) *ApplyError {
	return &ApplyError{ItemID: e.item.ID, Op: op, Reason: why}
}

func (e *entry) invalid(op Op, cause error) *ApplyError {
	r := e.refusal(op, Invalid)
	r.Cause = cause
	return r
}

// snapshot returns the item as it is now; it shares no map with the entry, and text without copying.
func (e *entry) snapshot() Item {
	it := e.item
	it.Content = e.content()
	it.Metadata = it.Metadata.clone()
	return it
}

// Items returns all items in the order in which they were opened. The slice and what it holds belong to the caller.
func (a *Accumulator) Items() []Item {
	items := make([]Item, len(a.entries))
	for i, e := range a.entries {
		items[i] = e.snapshot()
	}
	return items
}

// Item returns the item with this id and whether there is one.
func (a *Accumulator) Item(id string) (Item, bool) {
	e := a.byID[id]
	if e == nil {
		return Item{}, false
	}
	return e.snapshot(), true
}

// Text returns the text of the item with this id, without copying it: "" when there is none. Its length is the offset of
// the next append.
func (a *Accumulator) Text(id string) string {
	if e := a.byID[id]; e != nil {
		return e.text.String()
	}
	return ""
}

// Len returns the number of items.
func (a *Accumulator) Len() int { return len(a.entries) }
