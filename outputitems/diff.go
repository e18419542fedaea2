package outputitems

import "strings"

// Diff returns the chunks that take an item from one state to another, in order; none when it is there already. The zero Item as
// from means that the item is not open yet. Text that extends what is there is appended, other text is set. So a producer that
// knows what was delivered sends only what is missing.
//
// An *Error says why to cannot be reached: it is not valid, it is another item, it differs in what is fixed when an item is
// opened, or from is closed. Source: P-650.
func Diff(from, to Item) ([]Chunk, error) {
	if err := to.Validate(); err != nil {
		return nil, err
	}
	if from.ID == "" {
		return []Chunk{Open(to)}, nil
	}
	switch {
	case from.equal(to):
		return nil, nil
	case !from.sameThing(to):
		return nil, &Error{Pointer: "/id", Detail: "the items differ in what is fixed when an item is opened"}
	case from.Status.Final():
		return nil, &Error{Pointer: "/status", Detail: "the item is done and cannot change"}
	}
	var chunks []Chunk
	set := SetChange{Metadata: from.Metadata.patchTo(to.Metadata)}
	if from.Content != to.Content {
		if rest, ok := continuation(from.Content, to.Content); ok {
			chunks = append(chunks, AppendText(to.ID, len(from.Text()), rest))
		} else {
			set.Content = to.Content
		}
	}
	if from.Status != to.Status && !to.Status.Final() {
		set.Status = to.Status
	}
	if set.Content != nil || set.Metadata != nil || set.Status != "" {
		chunks = append(chunks, Chunk{to.ID, set})
	}
	if to.Status.Final() {
		chunks = append(chunks, Done(to.ID, to.Status))
	}
	return chunks, nil
}

// continuation returns what the text to adds to the text from.
func continuation(from, to Content) (string, bool) {
	before, ok := textOf(from)
	after, ok2 := textOf(to)
	if !ok || !ok2 {
		return "", false
	}
	return strings.CutPrefix(after, before)
}
