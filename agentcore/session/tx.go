package session

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/workflowd/workflowd/internal/strictjson"
)

// ErrReadAfterWrite reports a table read behind a write of the same draft: such a read could not see the write.
var ErrReadAfterWrite = errors.New("session: records are read before the first write of a commit")

// ErrReadOnly reports a write inside View.
var ErrReadOnly = errors.New("session: a view cannot write")

// Tx is one draft on the line. It is valid inside the callback only, and belongs to that goroutine; a later use panics.
// Records are read before the first write, and what is read is not changed by the caller; documents may be read at any
// time and show the draft's own changes. Misuse (a read behind a write, invalid JSON, a write in a view, a delta that does
// not fit) fails the commit even when the callback drops the error.
type Tx struct {
	s         *Session
	batch     Batch
	next      int64
	wrote     bool
	readOnly  bool
	closed    bool
	err       error // first misuse; fails the commit
	published []any
	frozen    []Address // documents, without keys, that forks copied as they are; they must not change in this commit
}

// Sync makes this commit survive a power loss, with everything committed before it. It is no write by itself.
func (tx *Tx) Sync() {
	tx.use()
	tx.batch.Durability = Synced
}

// Publish hands v to the listeners after the commit, in order. It never leaves before the commit, nor without it. It is no
// write by itself.
func (tx *Tx) Publish(v any) {
	tx.use()
	tx.published = append(tx.published, v)
}

// Seq is the number this commit will have.
func (tx *Tx) Seq() Seq {
	tx.use()
	return tx.s.state.Seq + 1
}

// Epoch is the owner's epoch.
func (tx *Tx) Epoch() int64 { return tx.s.state.Epoch }

// StoreID is the identity of the store.
func (tx *Tx) StoreID() string { return tx.s.state.StoreID }

// ReserveEntry mints an entry id to be used by a later Append in this or another commit. An unused id leaves a gap.
func (tx *Tx) ReserveEntry() EntryID { return EntryID(tx.mint()) }

// CreateConversation adds a conversation. An owner must take new work after the commit (ErrOwnerDown); the work in the
// conversation is then its own, also while it completes. Fork is the way to branch off at an entry: a parent given here is
// not checked.
func (tx *Tx) CreateConversation(parent *Fork, owner TaskID) ConversationID {
	c := Conversation{ID: ConversationID(tx.mint()), Parent: parent, Owner: owner}
	tx.batch.Conversations = append(tx.batch.Conversations, c)
	return c.ID
}

// EnsureRoot creates the main conversation on its first use. It may be called after writes.
func (tx *Tx) EnsureRoot() error {
	tx.use()
	if slices.ContainsFunc(tx.batch.Conversations, func(c Conversation) bool { return c.ID == Root }) {
		return nil
	}
	_, err := tx.s.storage.Conversation(Root)
	if errors.Is(err, ErrNotFound) {
		tx.write()
		tx.batch.Conversations = append(tx.batch.Conversations, Conversation{ID: Root})
		return nil
	}
	return err
}

// Conversation returns a conversation. ErrNotFound when there is none of that number.
func (tx *Tx) Conversation(id ConversationID) (Conversation, error) {
	if err := tx.read(); err != nil {
		return Conversation{}, err
	}
	return tx.s.storage.Conversation(id)
}

// Conversations returns all conversations in id order.
func (tx *Tx) Conversations() ([]Conversation, error) {
	if err := tx.read(); err != nil {
		return nil, err
	}
	return tx.s.storage.Conversations()
}

// Append adds an entry and returns its id. A zero ID is minted; another one must come from ReserveEntry.
func (tx *Tx) Append(e Entry) EntryID {
	if e.ID == 0 {
		e.ID = EntryID(tx.mint())
	}
	tx.write()
	tx.checkJSON("entry", e.Kind, e.Model, e.Data)
	for _, edit := range e.Edits {
		tx.checkJSON("edit of entry", e.Kind, edit.Model)
	}
	e.Seq = tx.Seq()
	tx.batch.Entries = append(tx.batch.Entries, e.clone())
	return e.ID
}

// CreateSubmission adds a submission and returns its id.
func (tx *Tx) CreateSubmission(sub Submission) SubmissionID {
	sub.ID = SubmissionID(tx.mint())
	tx.PutSubmission(sub)
	return sub.ID
}

// PutSubmission replaces the whole record of a submission. The commit fails with ErrSettled when its status would go back,
// or when it was settled before.
func (tx *Tx) PutSubmission(sub Submission) {
	tx.write()
	tx.checkJSON("submission", sub.RequestID, sub.Payload)
	sub = sub.clone()
	for i, other := range tx.batch.Submissions {
		if other.ID == sub.ID {
			tx.batch.Submissions[i] = sub
			return
		}
	}
	tx.batch.Submissions = append(tx.batch.Submissions, sub)
}

// ErrSettled reports a submission that would go back, or change after it was settled.
var ErrSettled = errors.New("session: a submission only moves forward")

// checkSubmissions compares every changed submission with what is stored.
func (tx *Tx) checkSubmissions() error {
	for _, sub := range tx.batch.Submissions {
		if int64(sub.ID) >= tx.s.state.NextID {
			continue // created in this draft
		}
		old, err := tx.s.storage.Submission(sub.ID)
		if err != nil {
			return fmt.Errorf("submission %d: %w", sub.ID, err)
		}
		if !old.Status.leadsTo(sub.Status) {
			return fmt.Errorf("submission %d: %s to %s: %w", sub.ID, old.Status, sub.Status, ErrSettled)
		}
	}
	return nil
}

// Entry returns a committed entry.
func (tx *Tx) Entry(id EntryID) (Entry, error) {
	if err := tx.read(); err != nil {
		return Entry{}, err
	}
	return tx.s.storage.Entry(id)
}

// Entries returns visible entries, newest first.
func (tx *Tx) Entries(q EntryQuery) ([]Entry, error) {
	if err := tx.read(); err != nil {
		return nil, err
	}
	return tx.s.storage.Entries(q)
}

// NewestHead returns the newest head marker at or before an entry.
func (tx *Tx) NewestHead(c ConversationID, at EntryID) (Entry, error) {
	if err := tx.read(); err != nil {
		return Entry{}, err
	}
	return tx.s.storage.NewestHead(c, at)
}

// Submission returns a submission, as this draft left it.
func (tx *Tx) Submission(id SubmissionID) (Submission, error) {
	tx.use()
	for _, sub := range tx.batch.Submissions {
		if sub.ID == id {
			return sub, nil
		}
	}
	if err := tx.read(); err != nil {
		return Submission{}, err
	}
	return tx.s.storage.Submission(id)
}

// SubmissionByRequest finds the submission a request id made.
func (tx *Tx) SubmissionByRequest(c ConversationID, requestID string) (Submission, error) {
	if err := tx.read(); err != nil {
		return Submission{}, err
	}
	return tx.s.storage.SubmissionByRequest(c, requestID)
}

// Submissions returns a conversation's submissions in id order.
func (tx *Tx) Submissions(c ConversationID, status ...SubmissionStatus) ([]Submission, error) {
	if err := tx.read(); err != nil {
		return nil, err
	}
	return tx.s.storage.Submissions(c, status...)
}

// run calls fn and ends the draft's life, also when fn panics. Nothing of a failed draft stays in memory.
func (tx *Tx) run(fn func(*Tx) error) (err error) {
	whole := false
	defer func() {
		tx.closed = true
		if !whole {
			tx.forget()
		}
	}()
	if err = fn(tx); err == nil {
		err = tx.err
	}
	if err == nil {
		err = tx.retireTaskDocuments()
	}
	if err == nil {
		err = errors.Join(tx.checkOwners(), tx.checkWaits(), tx.checkSubmissions(), tx.checkForks(), tx.checkRemovals())
	}
	whole = err == nil
	return err
}

func (tx *Tx) mint() int64 {
	tx.write()
	id := tx.next
	tx.next++
	return id
}

func (tx *Tx) use() {
	if tx.closed {
		panic("session: a draft was used after its callback returned")
	}
}

func (tx *Tx) write() {
	tx.use()
	if tx.readOnly {
		_ = tx.misuse(ErrReadOnly) // the writers that cannot return it fail the view
	}
	tx.wrote = true
}

func (tx *Tx) read() error {
	tx.use()
	if tx.wrote {
		return tx.misuse(ErrReadAfterWrite)
	}
	return nil
}

// misuse keeps the first error, which fails the draft, and returns err.
func (tx *Tx) misuse(err error) error {
	if tx.err == nil {
		tx.err = err
	}
	return err
}

func (tx *Tx) checkJSON(what, name string, values ...json.RawMessage) {
	for _, v := range values {
		if v == nil {
			continue
		}
		if err := checkValue(v); err != nil {
			_ = tx.misuse(fmt.Errorf("session: %s %s: %w", what, name, err)) // told at the commit
		}
	}
}

// ErrInvalidJSON reports text that is not one strict JSON value.
var ErrInvalidJSON = errors.New("session: invalid JSON")

// checkValue refuses text that is not one JSON value.
func checkValue(raw json.RawMessage) error {
	if !strictjson.Valid(raw) {
		return ErrInvalidJSON
	}
	return nil
}
