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

// CreateTask adds a task and returns its id. Its owner must be live after the commit, neither completing nor marked.
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
	tx.checkJSON("task "+t.Kind, t.Checkpoint, t.Input, t.Memos)
	if t.Outcome != nil {
		tx.checkJSON("outcome of task "+t.Kind, t.Outcome.Result)
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

// OwnsLive reports whether owner has live ordinary work: tasks of its own that are not in the background. This draft's
// changes count. It may be called after writes.
func (tx *Tx) OwnsLive(owner TaskID) bool {
	tx.use()
	n := tx.s.owned[owner]
	for _, t := range tx.batch.Tasks {
		if old, live := tx.s.live[t.ID]; live && worksFor(old) == owner {
			n--
		}
		if worksFor(t) == owner {
			n++
		}
	}
	return n > 0
}

// worksFor returns the owner that t holds up while it is live, or 0.
func worksFor(t Task) TaskID {
	if t.Background || t.Status == TaskTerminal {
		return 0
	}
	return t.Owner
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

// adoptTasks takes committed records over.
func (s *Session) adoptTasks(tasks []Task) {
	for _, t := range tasks {
		if old, live := s.live[t.ID]; live {
			s.count(old, -1)
		}
		if t.Status == TaskTerminal {
			delete(s.live, t.ID)
			continue
		}
		s.live[t.ID] = t
		s.count(t, 1)
	}
}

func (s *Session) count(t Task, by int) {
	owner := worksFor(t)
	if owner == 0 {
		return
	}
	if s.owned[owner] += by; s.owned[owner] == 0 {
		delete(s.owned, owner)
	}
}

// checkTasks proves the rules about owners and waits on the state that the commit would leave.
// Source: durable kernel 1.2, 2.3.
func (tx *Tx) checkTasks() error {
	for _, c := range tx.batch.Conversations {
		if c.Owner != 0 && !tx.takesWork(c.Owner) {
			return fmt.Errorf("conversation %d of owner %d: %w", c.ID, c.Owner, ErrOwnerDown)
		}
	}
	var fine TaskID // the owner checked last
	var after *taskGraph
	for i := range tx.batch.Tasks {
		t := &tx.batch.Tasks[i]
		_, known := tx.s.live[t.ID]
		if !known && t.Owner != 0 && t.Owner != fine {
			if !tx.takesWork(t.Owner) {
				return fmt.Errorf("task %d of owner %d: %w", t.ID, t.Owner, ErrOwnerDown)
			}
			fine = t.Owner
		}
		if len(t.On) == 0 {
			continue
		}
		if after == nil {
			after = newTaskGraph(tx)
		}
		if after.leads(t.On, t.ID) {
			return fmt.Errorf("task %d on %v: %w", t.ID, t.On, ErrWaitCycle)
		}
	}
	return nil
}

// takesWork reports whether a task may own something new after the commit.
func (tx *Tx) takesWork(owner TaskID) bool {
	o, ok := tx.candidate(owner)
	return ok && !o.Abort && o.Status != TaskCompleting && o.Status != TaskTerminal
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

// taskGraph is what the live tasks wait for after a draft: those named by On, and the ordinary tasks they own.
type taskGraph struct {
	s       *Session
	drafted map[TaskID]*Task
	owned   map[TaskID][]TaskID // of drafted tasks
	all     map[TaskID][]TaskID // of committed tasks; built when first needed
}

func newTaskGraph(tx *Tx) *taskGraph {
	g := &taskGraph{s: tx.s, drafted: map[TaskID]*Task{}, owned: map[TaskID][]TaskID{}}
	for i := range tx.batch.Tasks {
		t := &tx.batch.Tasks[i]
		g.drafted[t.ID] = t
		if owner := worksFor(*t); owner != 0 {
			g.owned[owner] = append(g.owned[owner], t.ID)
		}
	}
	return g
}

// leads reports whether a way goes from one of the tasks to the task named to.
func (g *taskGraph) leads(from []TaskID, to TaskID) bool {
	seen := map[TaskID]bool{}
	todo := slices.Clone(from)
	for len(todo) > 0 {
		id := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		if id == to {
			return true
		}
		if !seen[id] {
			seen[id] = true
			todo = g.next(id, todo)
		}
	}
	return false
}

// next appends what a task waits for to list.
func (g *taskGraph) next(id TaskID, list []TaskID) []TaskID {
	if t := g.drafted[id]; t != nil {
		list = append(list, t.On...)
	} else {
		list = append(list, g.s.live[id].On...)
	}
	list = append(list, g.owned[id]...)
	if g.s.owned[id] == 0 {
		return list
	}
	if g.all == nil {
		g.all = map[TaskID][]TaskID{}
		for _, t := range g.s.live {
			if owner := worksFor(t); owner != 0 && g.drafted[t.ID] == nil {
				g.all[owner] = append(g.all[owner], t.ID)
			}
		}
	}
	return append(list, g.all[id]...)
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
