package session

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/workflowd/workflowd/internal/strictjson"
)

// Errors of a commit that would break the rules of tasks. Nothing is written.
var (
	// ErrTerminal reports a write to a task that is over, or was never created.
	ErrTerminal = errors.New("session: a task that is not live cannot change")
	// ErrOwnerDown reports a new task or conversation under an owner that is unknown, over, completing or being cancelled.
	ErrOwnerDown = errors.New("session: the owner takes no new work")
	// ErrElsewhere reports a new task in another conversation than its owner's.
	ErrElsewhere = errors.New("session: an owned task lives in its owner's conversation")
	// ErrOwnsWork reports a task that would be over ahead of live ordinary work that it owns. Hold its outcome: TaskCompleting.
	ErrOwnsWork = errors.New("session: a task is not over before the work it owns")
	// ErrTaskInput reports an input that is too large or no strict JSON.
	ErrTaskInput = errors.New("session: the task's input is refused")
	// ErrWaitCycle reports a task that would wait for itself, over other tasks or over its owners.
	ErrWaitCycle = errors.New("session: a task would wait for itself")
)

// TaskInput is the door for what a command gives a task. A json.RawMessage must be one strict JSON value of at most
// MaxTaskInput bytes and is copied as it is; any other value is encoded in canonical form. Refused are repeated members, half
// surrogate pairs, text that is not UTF-8, numbers beyond a float64, deep nesting, and Go values that are no plain JSON (NaN,
// time.Time, functions, maps whose keys are no strings). The error is ErrTaskInput with the JSON pointer. Call it ahead of
// the commit that records the request: what it refuses leaves no trace. Source: P-153, P-156.
func TaskInput(v any) (json.RawMessage, error) {
	raw, given := v.(json.RawMessage)
	var err error
	if !given {
		if err = strictjson.CheckValue(v); err == nil {
			raw, err = strictjson.Canonical(v)
		}
	}
	if err == nil {
		err = strictjson.Decode(raw, MaxTaskInput, &checked{})
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrTaskInput, err)
	}
	return bytes.Clone(raw), nil
}

// checked takes any JSON value and keeps nothing.
type checked struct{}

// UnmarshalJSON does nothing.
func (*checked) UnmarshalJSON([]byte) error { return nil }

// CreateTask adds a task and returns its id. Its owner must be live after the commit, neither completing nor marked, and in
// the same conversation. A task without one may be new in any conversation, whatever becomes of the conversation's keeper.
func (tx *Tx) CreateTask(t Task) TaskID {
	t.ID = TaskID(tx.mint())
	tx.batch.Tasks = append(tx.batch.Tasks, tx.draftTask(t))
	return t.ID
}

// PutTask replaces the whole record of a live task. An Epoch of 0 says that the checkpoint is this owner's; a record that
// keeps its checkpoint keeps its Epoch.
func (tx *Tx) PutTask(t Task) {
	tx.write()
	t = tx.draftTask(t)
	for i, other := range tx.batch.Tasks {
		if other.ID == t.ID {
			tx.batch.Tasks[i] = t
			return
		}
	}
	if _, live := tx.s.live[t.ID]; !live {
		_ = tx.misuse(fmt.Errorf("task %d: %w", t.ID, ErrTerminal)) // told at the commit
		return
	}
	tx.batch.Tasks = append(tx.batch.Tasks, t)
}

// draftTask returns t as it will be stored. It shares no memory with the caller's.
func (tx *Tx) draftTask(t Task) Task {
	tx.checkJSON("task", t.Kind, t.Checkpoint, t.Input, t.Memos)
	if t.Outcome != nil {
		tx.checkJSON("outcome of task", t.Kind, t.Outcome.Result)
	}
	if t.Epoch == 0 {
		t.Epoch = tx.s.state.Epoch
	}
	return t.clone()
}

// LiveTask returns a task that is not terminal, as committed. It may be called after writes. ok is false for a terminal
// or unknown task.
func (tx *Tx) LiveTask(id TaskID) (t Task, ok bool) {
	tx.use()
	t, ok = tx.s.live[id]
	return t, ok
}

// LiveTasks returns all tasks that are not terminal, as committed, in id order. It may be called after writes.
func (tx *Tx) LiveTasks() []Task {
	tx.use()
	list := make([]Task, 0, len(tx.s.live))
	for _, t := range tx.s.live {
		list = append(list, t)
	}
	slices.SortFunc(list, func(a, b Task) int { return cmp.Compare(a.ID, b.ID) })
	return list
}

// Task returns a task, terminal ones included.
func (tx *Tx) Task(id TaskID) (Task, error) {
	tx.use()
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

// load takes over what was live at open, in id order.
func (s *Session) load(tasks []Task) error {
	if len(tasks) == 0 {
		return nil
	}
	for _, t := range tasks {
		s.live[t.ID] = t
		s.unread[t.ID] = true
	}
	if err := s.loadKeepers(tasks[0].ID); err != nil {
		return fmt.Errorf("load owners: %w", err)
	}
	for _, t := range tasks {
		s.count(t, 1)
	}
	return nil
}

// adoptTasks takes committed records over, with the conversations that have another keeper now.
func (s *Session) adoptTasks(tasks []Task, moves map[ConversationID]TaskID) {
	for _, t := range tasks {
		if old, live := s.live[t.ID]; live {
			s.count(old, -1)
		}
		if t.Status == TaskTerminal {
			delete(s.live, t.ID)
		} else {
			s.live[t.ID] = t
		}
	}
	for c, keeper := range moves {
		s.setKeeper(c, keeper)
	}
	for _, t := range tasks {
		s.count(t, 1)
	}
}

func (s *Session) count(t Task, by int) {
	owner := WorksFor(t, s.keeperOf)
	if owner == 0 {
		return
	}
	if s.owned[owner] += by; s.owned[owner] == 0 {
		delete(s.owned, owner)
	}
}

// candidate returns a task as the commit would leave it.
func (tx *Tx) candidate(id TaskID) (Task, bool) {
	for _, t := range tx.batch.Tasks {
		if t.ID == id {
			return t, true
		}
	}
	t, ok := tx.s.live[id]
	return t, ok
}

// retireTaskDocuments ends the documents of every task that this draft makes terminal, and refuses a new document of a task
// that is not live. Source: durable kernel 1.5.
func (tx *Tx) retireTaskDocuments() error {
	for _, t := range tx.batch.Tasks {
		if t.Status != TaskTerminal {
			continue
		}
		left, err := tx.taskDocuments(t.ID)
		if err != nil {
			return err
		}
		if len(left) == 0 {
			continue
		}
		for _, a := range slices.SortedFunc(maps.Keys(left), func(a, b Address) int { return int(left[a] - left[b]) }) {
			tx.draft(DocumentWrite{ID: left[a], Address: a, Retire: true}, nil)
		}
	}
	for _, w := range tx.batch.Documents {
		if !w.Create || w.Address.Scope != ScopeTask {
			continue
		}
		if _, known := tx.candidate(TaskID(w.Address.Owner)); !known {
			return fmt.Errorf("document %s of task %d: %w", w.Address.Kind, w.Address.Owner, ErrTerminal)
		}
	}
	return nil
}

// taskDocuments returns the live documents of a live task as the draft leaves them.
func (tx *Tx) taskDocuments(id TaskID) (map[Address]DocumentID, error) {
	if !tx.s.unread[id] && len(tx.s.taskDocs[id]) == 0 && len(tx.batch.Documents) == 0 {
		return nil, nil // the usual task
	}
	left := map[Address]DocumentID{}
	if tx.s.unread[id] {
		stored, err := tx.s.storage.Documents(ScopeTask, int64(id), 0)
		if err != nil {
			return nil, fmt.Errorf("documents of task %d: %w", id, err)
		}
		for _, doc := range stored {
			left[doc.Address] = doc.ID
		}
	} else {
		maps.Copy(left, tx.s.taskDocs[id])
	}
	for _, w := range tx.batch.Documents {
		follow(left, w, id)
	}
	return left, nil
}

// follow brings the documents of a task up to a write.
func follow(left map[Address]DocumentID, w DocumentWrite, id TaskID) {
	switch {
	case w.Address.Scope != ScopeTask || w.Address.Owner != int64(id):
	case w.Create:
		left[w.Address] = w.ID
	case w.Retire:
		delete(left, w.Address)
	}
}

// adoptTaskDocuments takes the committed documents of live tasks over and forgets those of tasks that are over.
func (s *Session) adoptTaskDocuments(b *Batch) {
	for _, w := range b.Documents {
		if w.Address.Scope != ScopeTask || !w.Create && !w.Retire {
			continue
		}
		id := TaskID(w.Address.Owner)
		if s.taskDocs[id] == nil {
			s.taskDocs[id] = map[Address]DocumentID{}
		}
		follow(s.taskDocs[id], w, id)
	}
	for _, t := range b.Tasks {
		if t.Status == TaskTerminal {
			delete(s.taskDocs, t.ID)
			delete(s.unread, t.ID)
		}
	}
}
