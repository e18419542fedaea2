package session

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
)

// Check reports what is wrong with the batch by itself, whatever the store holds: counters and ids out of range, or
// document writes that contradict each other. Every Storage calls it before it writes. Source: durable kernel 1.7.
func (b *Batch) Check() error {
	if b.Seq < 1 || b.NextID < firstID {
		return fmt.Errorf("counters out of range: seq %d, next id %d", b.Seq, b.NextID)
	}
	for _, c := range b.Conversations {
		if err := b.checkID("conversation", int64(c.ID)); err != nil {
			return err
		}
	}
	for _, e := range b.Entries {
		if err := b.checkID("entry", int64(e.ID)); err != nil {
			return err
		}
	}
	for _, t := range b.Tasks {
		if err := b.checkID("task", int64(t.ID)); err != nil {
			return err
		}
		if t.Owner >= t.ID {
			return fmt.Errorf("task %d: its owner %d was not there before it", t.ID, t.Owner)
		}
	}
	for _, s := range b.Submissions {
		if err := b.checkID("submission", int64(s.ID)); err != nil {
			return err
		}
	}
	if err := b.checkRemovals(); err != nil {
		return err
	}
	return b.checkDocuments()
}

func (b *Batch) checkID(what string, id int64) error {
	if id < 1 || id >= b.NextID {
		return fmt.Errorf("%s %d: the id was not minted, next is %d", what, id, b.NextID)
	}
	return nil
}

// checkDocuments allows per incarnation: a base or none, then deltas, then at most one retirement.
func (b *Batch) checkDocuments() error {
	for i := range b.Documents {
		w := &b.Documents[i]
		if err := b.checkID("document", int64(w.ID)); err != nil {
			return err
		}
		given := 0
		for _, set := range []bool{len(w.Base) > 0, len(w.Delta) > 0, w.Retire} {
			if set {
				given++
			}
		}
		if given != 1 {
			return fmt.Errorf("document %d: %d of base, delta and retirement in one write", w.ID, given)
		}
		if w.Create && len(w.Base) == 0 {
			return fmt.Errorf("document %d: creation without a base", w.ID)
		}
		if a := w.Address; w.Create && a.Scope != ScopeSession && a.Scope != ScopeConversation && a.Scope != ScopeTask {
			return fmt.Errorf("document %d: unknown scope %q", w.ID, a.Scope)
		}
		for j := range b.Documents[:i] {
			if earlier := &b.Documents[j]; earlier.ID == w.ID && (earlier.Retire || len(w.Base) > 0) {
				return fmt.Errorf("document %d: a base that is not the first write, or a write after the retirement", w.ID)
			}
		}
	}
	return nil
}

// The clones below share no memory with their original. Absent and empty become the same: nil.

func cloneRaw(raw json.RawMessage) json.RawMessage {
	if len(raw) == 0 {
		return nil
	}
	return bytes.Clone(raw)
}

func (c Conversation) clone() Conversation {
	if c.Parent != nil {
		parent := *c.Parent
		c.Parent = &parent
	}
	return c
}

func (e Entry) clone() Entry {
	e.Model, e.Data = cloneRaw(e.Model), cloneRaw(e.Data)
	if len(e.Edits) == 0 {
		e.Edits = nil
		return e
	}
	e.Edits = slices.Clone(e.Edits)
	for i := range e.Edits {
		e.Edits[i].Model = cloneRaw(e.Edits[i].Model)
	}
	return e
}

func (t Task) clone() Task {
	t.Checkpoint, t.Input, t.Memos = cloneRaw(t.Checkpoint), cloneRaw(t.Input), cloneRaw(t.Memos)
	if len(t.On) == 0 {
		t.On = nil
	} else {
		t.On = slices.Clone(t.On)
	}
	if t.Outcome != nil {
		outcome := *t.Outcome
		outcome.Result = cloneRaw(outcome.Result)
		t.Outcome = &outcome
	}
	return t
}

func (s Submission) clone() Submission {
	s.Payload = cloneRaw(s.Payload)
	return s
}
