package session

import (
	"errors"
	"fmt"
	"slices"
)

// Errors of a removal. Nothing is written.
var (
	// ErrMain reports that the main conversation was to be removed: it goes with its store.
	ErrMain = errors.New("session: the main conversation stays as long as its store")
	// ErrInUse reports a conversation with work or forks that need it.
	ErrInUse = errors.New("session: the conversation is in use")
)

// Remove takes a conversation out of the store, with its entries, documents, submissions and tasks; what the same draft
// writes there goes too. Its space is used again. It may be called after writes; a conversation that is not committed is
// ErrNotFound. The commit fails with ErrInUse when it would leave a live task of the conversation, a task elsewhere that
// waits for one of its tasks, a fork of it, also one at an inherited entry, or a conversation that one of its tasks owns and
// whose keeper is live: remove those first, or in the same commit. What a removed task owned elsewhere stays otherwise.
// Feeds end with ErrRemoved. Source: durable kernel 13(2), P-137.
func (tx *Tx) Remove(c ConversationID) error {
	tx.use()
	if c == Root {
		return tx.misuse(ErrMain)
	}
	if slices.Contains(tx.batch.Removals, c) {
		return nil
	}
	if _, err := tx.s.storage.Conversation(c); err != nil {
		return fmt.Errorf("remove conversation %d: %w", c, err)
	}
	tx.write()
	tx.batch.Removals = append(tx.batch.Removals, c)
	return nil
}

// checkRemovals proves that nothing the commit would leave needs what it removes.
func (tx *Tx) checkRemovals() error {
	gone := tx.batch.Removals
	if len(gone) == 0 {
		return nil
	}
	if err := tx.checkRemovedTasks(gone); err != nil {
		return err
	}
	stored, err := tx.s.storage.Conversations()
	if err != nil {
		return fmt.Errorf("remove conversations: %w", err)
	}
	if err := forkOf(gone, stored, tx.batch.Conversations); err != nil {
		return err
	}
	return tx.checkChains(gone, stored)
}

// checkChains proves that no conversation that stays loses its keeper: it would escape the keeper's end.
func (tx *Tx) checkChains(gone []ConversationID, stored []Conversation) error {
	for _, c := range stored {
		keeper := tx.keeper(c.ID)
		if keeper == 0 || keeper == c.Owner || slices.Contains(gone, c.ID) {
			continue
		}
		owner, err := tx.taskAfter(c.Owner)
		if err != nil {
			return fmt.Errorf("remove conversations: %w", err)
		}
		if slices.Contains(gone, owner.Conversation) {
			return fmt.Errorf("remove conversation %d: %w: over it %d belongs to task %d", owner.Conversation, ErrInUse, c.ID, keeper)
		}
	}
	return nil
}

// taskAfter returns a task as the commit would leave it, terminal ones included.
func (tx *Tx) taskAfter(id TaskID) (Task, error) {
	if t, known := tx.candidate(id); known {
		return t, nil
	}
	return tx.s.storage.Task(id)
}

// forkOf reports a conversation that stays and refers to one that goes.
func forkOf(gone []ConversationID, lists ...[]Conversation) error {
	for _, list := range lists {
		for _, c := range list {
			if c.Parent != nil && slices.Contains(gone, c.Parent.Conversation) && !slices.Contains(gone, c.ID) {
				return fmt.Errorf("remove conversation %d: %w: %d is its fork", c.Parent.Conversation, ErrInUse, c.ID)
			}
		}
	}
	return nil
}

func (tx *Tx) checkRemovedTasks(gone []ConversationID) error {
	after := slices.Clone(tx.batch.Tasks)
	for id, t := range tx.s.live {
		if !slices.ContainsFunc(tx.batch.Tasks, func(drafted Task) bool { return drafted.ID == id }) {
			after = append(after, t)
		}
	}
	for _, t := range after {
		if t.Status == TaskTerminal {
			continue
		}
		if slices.Contains(gone, t.Conversation) {
			return fmt.Errorf("remove conversation %d: %w: task %d is live", t.Conversation, ErrInUse, t.ID)
		}
		for _, id := range t.On {
			awaited, err := tx.taskAfter(id)
			if errors.Is(err, ErrNotFound) {
				continue
			}
			if err != nil {
				return fmt.Errorf("remove conversations: %w", err)
			}
			if slices.Contains(gone, awaited.Conversation) {
				return fmt.Errorf("remove conversation %d: %w: task %d waits for its task %d", awaited.Conversation, ErrInUse, t.ID, id)
			}
		}
	}
	return nil
}

// checkRemovals refuses what no store may take. It belongs to Check.
func (b *Batch) checkRemovals() error {
	for i, c := range b.Removals {
		switch {
		case c == Root:
			return ErrMain
		case slices.Contains(b.Removals[:i], c):
			return fmt.Errorf("conversation %d: two removals", c)
		case slices.ContainsFunc(b.Conversations, func(born Conversation) bool { return born.ID == c }):
			return fmt.Errorf("conversation %d: created and removed", c)
		}
	}
	return nil
}

// admitRemovals checks the state that the batch would leave.
func (d *memoryData) admitRemovals(b *Batch) error {
	for _, c := range b.Removals {
		if _, stored := d.conversations[c]; !stored {
			return fmt.Errorf("conversation %d does not exist", c)
		}
	}
	if len(b.Removals) == 0 {
		return nil
	}
	after := map[TaskID]Task{}
	for id, t := range d.tasks {
		after[id] = t
	}
	for _, t := range b.Tasks {
		after[t.ID] = t
	}
	for _, t := range after {
		if t.Status != TaskTerminal && slices.Contains(b.Removals, t.Conversation) {
			return fmt.Errorf("conversation %d: %w: task %d is live", t.Conversation, ErrInUse, t.ID)
		}
	}
	var stored []Conversation
	for _, c := range d.conversations {
		stored = append(stored, c)
	}
	return forkOf(b.Removals, stored, b.Conversations)
}

// remove takes a conversation and everything in it out.
func (d *memoryData) remove(c ConversationID) {
	delete(d.conversations, c)
	for _, id := range d.transcript[c] {
		delete(d.entries, id)
	}
	delete(d.transcript, c)
	for id, s := range d.submissions {
		if s.Conversation == c {
			delete(d.submissions, id)
			delete(d.requests, requestOf(s))
		}
	}
	for id, in := range d.documents {
		a := in.record.Address
		if a.Scope == ScopeConversation && a.Owner == int64(c) || a.Scope == ScopeTask && d.tasks[TaskID(a.Owner)].Conversation == c {
			delete(d.documents, id)
			delete(d.addresses, a)
		}
	}
	for id, t := range d.tasks {
		if t.Conversation == c {
			delete(d.tasks, id)
		}
	}
}
