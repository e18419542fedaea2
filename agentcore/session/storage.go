package session

import (
	"context"
	"errors"
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
