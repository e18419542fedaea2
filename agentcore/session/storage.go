package session

import (
	"context"
	"errors"
	"fmt"
)

// Durability is what a commit promises when it returns.
type Durability int

// Fast survives a killed process; Synced survives a power loss too. Source: design "Ten rules" 4.
const (
	Fast Durability = iota
	Synced
)

// Errors of a Storage. Any other error of Commit means that the effect is unknown: the session is poisoned.
var (
	// ErrNoEffect marks a commit that certainly left nothing behind.
	ErrNoEffect = errors.New("session: commit had no effect")
	// ErrStale reports that another owner's epoch is in force. Nothing was written.
	ErrStale = errors.New("session: another owner took over")
	// ErrPoisoned reports a session whose store is in an unknown state. Reopen it.
	ErrPoisoned = errors.New("session: the store's state is unknown, reopen the session")
	// ErrClosed reports use after Close.
	ErrClosed = errors.New("session: closed")
	// ErrNotFound reports a record that does not exist.
	ErrNotFound = errors.New("session: not found")
	// ErrCorrupt reports stored data that contradicts itself.
	ErrCorrupt = errors.New("session: corrupt store")
)

// Batch is one atomic commit. Seq and NextID are the values in force after it.
type Batch struct {
	Epoch         int64
	Seq           Seq
	NextID        int64
	Durability    Durability
	Conversations []Conversation
	Entries       []Entry
	Tasks         []Task
	Submissions   []Submission
	Documents     []DocumentWrite
	// Removals are stored conversations that go, with everything in them, behind all other writes of the batch. A live task
	// or a fork that would stay refuses the batch.
	Removals []ConversationID
}

// DocumentWrite is one change of one document incarnation; exactly one of Base, Delta and Retire is set. Create comes
// with Base. A base makes older revisions unreachable unless the document is rewindable.
type DocumentWrite struct {
	ID         DocumentID
	Address    Address
	Version    int
	Rewindable bool
	Create     bool
	Base       []byte // full JSON value
	Delta      []byte // JSON list of Op
	Retire     bool
}

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
		if c.Owner != 0 && int64(c.Owner) >= int64(c.ID) {
			return fmt.Errorf("conversation %d: its owner %d was not there before it", c.ID, c.Owner)
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

// State is what a Storage knows at open.
type State struct {
	StoreID string // identity of the store, minted when it was created
	Epoch   int64  // this owner's epoch: one more than any before
	Seq     Seq
	NextID  int64
}

// Storage keeps the records of one session. One Session uses it, one call at a time; every returned value is detached.
// Implementations: NewMemory (the specification) and store/sessionstore. Proved by sessiontest.
type Storage interface {
	// Acquire starts ownership: it raises the epoch and returns the state. It is called once, before anything else.
	Acquire(ctx context.Context) (State, error)
	// Commit writes the batch whole or not at all. It is not cancelled half-way. ErrStale: the epoch is no longer ours.
	Commit(b *Batch) error
	Conversation(id ConversationID) (Conversation, error)
	// Conversations returns all of them in id order.
	Conversations() ([]Conversation, error)
	Entry(id EntryID) (Entry, error)
	// Entries returns entries visible in a conversation (its own, then its ancestors' up to the fork), newest first, with
	// ids in [From, To] (0 = open), at most Limit (0 = all).
	Entries(q EntryQuery) ([]Entry, error)
	// NewestHead returns the newest visible entry with a Head, at or before id (0 = newest). ErrNotFound when there is none.
	NewestHead(c ConversationID, at EntryID) (Entry, error)
	Task(id TaskID) (Task, error)
	// Tasks returns tasks in id order.
	Tasks(q TaskQuery) ([]Task, error)
	Submission(id SubmissionID) (Submission, error)
	SubmissionByRequest(c ConversationID, requestID string) (Submission, error)
	// Submissions returns those of a conversation in id order, with one of the given states (none = all).
	Submissions(c ConversationID, status ...SubmissionStatus) ([]Submission, error)
	// Document returns the live incarnation at an address as of commit at (0 = now). ErrNotFound when there is none.
	Document(a Address, at Seq) (Document, error)
	// Documents returns the live incarnations of one owner (a conversation, a task; 0 in the session scope) as of commit at
	// (0 = now), in id order.
	Documents(scope Scope, owner int64, at Seq) ([]Document, error)
	Close() error
}

// Idler is a Storage that notices when nobody uses it. It then calls f, on a goroutine that belongs to nobody and with no
// lock held; f is quick. OnIdle is called once, before the storage is used.
type Idler interface{ OnIdle(f func()) }

// EntryQuery selects entries for Storage.Entries.
type EntryQuery struct {
	Conversation ConversationID
	From, To     EntryID
	Limit        int
}

// TaskQuery selects tasks. Zero fields do not filter.
type TaskQuery struct {
	Conversation ConversationID
	Owner        TaskID
	Live         bool // not terminal
	Limit        int  // newest Limit tasks
}
