package session

import (
	"encoding/json"
	"errors"
	"fmt"
)

// ErrReadAfterWrite reports a table read behind a write of the same draft: such a read could not see the write.
var ErrReadAfterWrite = errors.New("session: records are read before the first write of a commit")

// ErrReadOnly reports a write inside View.
var ErrReadOnly = errors.New("session: a view cannot write")

// Tx is one draft on the line. It is valid inside the callback only, and belongs to that goroutine. Records are read
// before the first write; documents may be read at any time and show the draft's own changes.
type Tx struct {
	s         *Session
	batch     Batch
	next      int64
	wrote     bool
	readOnly  bool
	closed    bool
	err       error // first misuse; fails the commit
	published []any
	drafts    map[Address][]DocumentWrite
}

// Sync makes this commit survive a power loss, with everything committed before it.
func (tx *Tx) Sync() { tx.batch.Durability = Synced }

// Publish hands v to the listeners after the commit, in order. It never leaves before the commit, nor without it.
func (tx *Tx) Publish(v any) { tx.published = append(tx.published, v) }

// Seq is the number this commit will have.
func (tx *Tx) Seq() Seq { return tx.s.state.Seq + 1 }

// Epoch is the owner's epoch.
func (tx *Tx) Epoch() int64 { return tx.s.state.Epoch }

// StoreID is the identity of the store.
func (tx *Tx) StoreID() string { return tx.s.state.StoreID }

// ReserveEntry mints an entry id to be used by a later Append in this or another commit. An unused id leaves a gap.
func (tx *Tx) ReserveEntry() EntryID { return EntryID(tx.mint()) }

// CreateConversation adds a conversation.
func (tx *Tx) CreateConversation(parent *Fork, owner TaskID) ConversationID {
	c := Conversation{ID: ConversationID(tx.mint()), Parent: parent, Owner: owner}
	tx.batch.Conversations = append(tx.batch.Conversations, c)
	return c.ID
}

// EnsureRoot creates the main conversation on its first use.
func (tx *Tx) EnsureRoot() error {
	_, err := tx.s.storage.Conversation(Root)
	if errors.Is(err, ErrNotFound) {
		tx.write()
		tx.batch.Conversations = append(tx.batch.Conversations, Conversation{ID: Root})
		return nil
	}
	return err
}

// Append adds an entry and returns its id. A zero ID is minted; another one must come from ReserveEntry.
func (tx *Tx) Append(e Entry) EntryID {
	if e.ID == 0 {
		e.ID = EntryID(tx.mint())
	}
	tx.write()
	tx.checkJSON("entry "+e.Kind, e.Model, e.Data)
	e.Seq = tx.Seq()
	tx.batch.Entries = append(tx.batch.Entries, e)
	return e.ID
}

// CreateTask adds a task and returns its id.
func (tx *Tx) CreateTask(t Task) TaskID {
	t.ID = TaskID(tx.mint())
	tx.PutTask(t)
	return t.ID
}

// PutTask replaces the whole record of a task.
func (tx *Tx) PutTask(t Task) {
	tx.write()
	tx.checkJSON("task "+t.Kind, t.Checkpoint, t.Input, t.Memos)
	t.Epoch = tx.s.state.Epoch
	for i, other := range tx.batch.Tasks {
		if other.ID == t.ID {
			tx.batch.Tasks[i] = t
			return
		}
	}
	tx.batch.Tasks = append(tx.batch.Tasks, t)
}

// CreateSubmission adds a submission and returns its id.
func (tx *Tx) CreateSubmission(sub Submission) SubmissionID {
	sub.ID = SubmissionID(tx.mint())
	tx.PutSubmission(sub)
	return sub.ID
}

// PutSubmission replaces the whole record of a submission.
func (tx *Tx) PutSubmission(sub Submission) {
	tx.write()
	tx.checkJSON("submission "+sub.RequestID, sub.Payload)
	for i, other := range tx.batch.Submissions {
		if other.ID == sub.ID {
			tx.batch.Submissions[i] = sub
			return
		}
	}
	tx.batch.Submissions = append(tx.batch.Submissions, sub)
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

// LiveTask returns a task that is not terminal, as committed. It may be called after writes. ok is false for a terminal
// or unknown task.
func (tx *Tx) LiveTask(id TaskID) (t Task, ok bool) {
	t, ok = tx.s.live[id]
	return t, ok
}

// LiveTasks returns all tasks that are not terminal, as committed, in id order. It may be called after writes.
func (tx *Tx) LiveTasks() []Task { return tx.s.liveTasks() }

// Task returns a task, terminal ones included.
func (tx *Tx) Task(id TaskID) (Task, error) {
	if t, ok := tx.s.live[id]; ok {
		return t, nil
	}
	if err := tx.read(); err != nil {
		return Task{}, err
	}
	return tx.s.storage.Task(id)
}

// Tasks returns tasks in id order.
func (tx *Tx) Tasks(q TaskQuery) ([]Task, error) {
	if err := tx.read(); err != nil {
		return nil, err
	}
	return tx.s.storage.Tasks(q)
}

// Submission returns a submission.
func (tx *Tx) Submission(id SubmissionID) (Submission, error) {
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

func (tx *Tx) mint() int64 {
	tx.write()
	id := tx.next
	tx.next++
	return id
}

func (tx *Tx) write() {
	switch {
	case tx.closed:
		panic("session: a draft was used after its callback returned")
	case tx.readOnly && tx.err == nil:
		tx.err = ErrReadOnly
	}
	tx.wrote = true
}

func (tx *Tx) read() error {
	if tx.closed {
		panic("session: a draft was used after its callback returned")
	}
	if tx.wrote {
		return ErrReadAfterWrite
	}
	return nil
}

func (tx *Tx) checkJSON(what string, values ...json.RawMessage) {
	for _, v := range values {
		if v != nil && !json.Valid(v) && tx.err == nil {
			tx.err = fmt.Errorf("session: %s holds invalid JSON", what)
		}
	}
}
