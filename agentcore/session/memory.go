package session

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/workflowd/workflowd/internal/ids"
)

// Memory is a Storage that lives as long as the process. It is the specification: every other Storage must answer as it
// does. Use NewMemory; the zero value is not usable. It is safe for concurrent use.
type Memory struct {
	data   *memoryData
	closed bool // guarded by data.mu
}

// memoryData outlives its handles, as a file outlives its connections.
type memoryData struct {
	mu            sync.Mutex
	state         State
	conversations map[ConversationID]Conversation
	entries       map[EntryID]Entry
	transcript    map[ConversationID][]EntryID // ascending
	tasks         map[TaskID]Task
	submissions   map[SubmissionID]Submission
	requests      map[requestKey]SubmissionID
	documents     map[DocumentID]*incarnation
	addresses     map[Address][]DocumentID // every incarnation that can still be read
}

type requestKey struct {
	conversation ConversationID
	requestID    string
}

var _ Storage = (*Memory)(nil)

// NewMemory returns an empty store with an identity of its own.
func NewMemory() *Memory {
	return &Memory{data: &memoryData{
		state:         State{StoreID: ids.New(ids.Session), NextID: firstID},
		conversations: map[ConversationID]Conversation{},
		entries:       map[EntryID]Entry{},
		transcript:    map[ConversationID][]EntryID{},
		tasks:         map[TaskID]Task{},
		submissions:   map[SubmissionID]Submission{},
		requests:      map[requestKey]SubmissionID{},
		documents:     map[DocumentID]*incarnation{},
		addresses:     map[Address][]DocumentID{},
	}}
}

// Reopen returns another handle to the same data, as opening a file a second time does. The old handle stays usable until
// it is closed, but its owner is stale once the new handle is acquired.
func (m *Memory) Reopen() *Memory { return &Memory{data: m.data} }

// Close ends this handle. The data stays for Reopen. A second Close does nothing.
func (m *Memory) Close() error {
	m.data.mu.Lock()
	defer m.data.mu.Unlock()
	m.closed = true
	return nil
}

// open locks the data for one call. On success the caller unlocks.
func (m *Memory) open() (*memoryData, error) {
	m.data.mu.Lock()
	if m.closed {
		m.data.mu.Unlock()
		return nil, ErrClosed
	}
	return m.data, nil
}

// Acquire raises the epoch and returns the state.
func (m *Memory) Acquire(ctx context.Context) (State, error) {
	if err := ctx.Err(); err != nil {
		return State{}, fmt.Errorf("acquire memory store: %w", err)
	}
	d, err := m.open()
	if err != nil {
		return State{}, err
	}
	defer d.mu.Unlock()
	d.state.Epoch++
	return d.state, nil
}

// Commit writes the batch whole or not at all. Every error but ErrStale wraps ErrNoEffect.
func (m *Memory) Commit(b *Batch) error {
	d, err := m.open()
	if err != nil {
		return fmt.Errorf("%w: %w", ErrNoEffect, err)
	}
	defer d.mu.Unlock()
	if b.Epoch != d.state.Epoch {
		return fmt.Errorf("commit %d at epoch %d, in force is %d: %w", b.Seq, b.Epoch, d.state.Epoch, ErrStale)
	}
	if err := d.admit(b); err != nil {
		return fmt.Errorf("commit %d: %w: %w", b.Seq, ErrNoEffect, err)
	}
	d.adopt(b)
	return nil
}

// admit checks everything that can be wrong with b, so that adopt cannot fail.
func (d *memoryData) admit(b *Batch) error {
	if err := b.Check(); err != nil {
		return err
	}
	if b.Seq <= d.state.Seq || b.NextID < d.state.NextID {
		return fmt.Errorf("counters go back: seq %d to %d, next id %d to %d", d.state.Seq, b.Seq, d.state.NextID, b.NextID)
	}
	known := map[ConversationID]bool{}
	exists := func(id ConversationID) bool {
		_, stored := d.conversations[id]
		return stored || known[id]
	}
	for _, c := range b.Conversations {
		if exists(c.ID) {
			return fmt.Errorf("conversation %d exists", c.ID)
		}
		if c.Parent != nil && !exists(c.Parent.Conversation) {
			return fmt.Errorf("conversation %d: parent %d does not exist", c.ID, c.Parent.Conversation)
		}
		known[c.ID] = true
	}
	written := map[EntryID]bool{}
	for _, e := range b.Entries {
		if _, stored := d.entries[e.ID]; stored || written[e.ID] {
			return fmt.Errorf("entry %d exists", e.ID)
		}
		if !exists(e.Conversation) {
			return fmt.Errorf("entry %d: conversation %d does not exist", e.ID, e.Conversation)
		}
		written[e.ID] = true
	}
	if err := d.admitSubmissions(b.Submissions); err != nil {
		return err
	}
	if err := d.admitDocuments(b.Documents); err != nil {
		return err
	}
	return d.admitRemovals(b)
}

func (d *memoryData) admitSubmissions(list []Submission) error {
	asked := map[requestKey]SubmissionID{}
	for _, s := range list {
		if old, stored := d.submissions[s.ID]; stored && requestOf(old) != requestOf(s) {
			return fmt.Errorf("submission %d: its conversation and request id are fixed", s.ID)
		}
		if s.RequestID == "" {
			continue
		}
		for _, owners := range []map[requestKey]SubmissionID{d.requests, asked} {
			if id, taken := owners[requestOf(s)]; taken && id != s.ID {
				return fmt.Errorf("submission %d: request %q of conversation %d is submission %d", s.ID, s.RequestID, s.Conversation, id)
			}
		}
		asked[requestOf(s)] = s.ID
	}
	return nil
}

func requestOf(s Submission) requestKey { return requestKey{s.Conversation, s.RequestID} }

func (d *memoryData) adopt(b *Batch) {
	d.state.Seq, d.state.NextID = b.Seq, b.NextID
	for _, c := range b.Conversations {
		d.conversations[c.ID] = c.clone()
	}
	for _, e := range b.Entries {
		e = e.clone()
		e.Seq = b.Seq
		d.entries[e.ID] = e
		list := d.transcript[e.Conversation]
		at, _ := slices.BinarySearch(list, e.ID)
		d.transcript[e.Conversation] = slices.Insert(list, at, e.ID)
	}
	for _, t := range b.Tasks {
		d.tasks[t.ID] = t.clone()
	}
	for _, s := range b.Submissions {
		d.submissions[s.ID] = s.clone()
		if s.RequestID != "" {
			d.requests[requestOf(s)] = s.ID
		}
	}
	for _, w := range b.Documents {
		d.write(w, b.Seq)
	}
	for _, c := range b.Removals {
		d.remove(c)
	}
}

// Conversation returns one conversation or ErrNotFound.
func (m *Memory) Conversation(id ConversationID) (Conversation, error) {
	d, err := m.open()
	if err != nil {
		return Conversation{}, err
	}
	defer d.mu.Unlock()
	c, ok := d.conversations[id]
	if !ok {
		return c, fmt.Errorf("conversation %d: %w", id, ErrNotFound)
	}
	return c.clone(), nil
}

// Conversations returns all conversations in id order.
func (m *Memory) Conversations() ([]Conversation, error) {
	d, err := m.open()
	if err != nil {
		return nil, err
	}
	defer d.mu.Unlock()
	var list []Conversation
	for _, c := range d.conversations {
		list = append(list, c.clone())
	}
	slices.SortFunc(list, func(a, b Conversation) int { return cmp.Compare(a.ID, b.ID) })
	return list, nil
}

// Entry returns one entry or ErrNotFound.
func (m *Memory) Entry(id EntryID) (Entry, error) {
	d, err := m.open()
	if err != nil {
		return Entry{}, err
	}
	defer d.mu.Unlock()
	e, ok := d.entries[id]
	if !ok {
		return e, fmt.Errorf("entry %d: %w", id, ErrNotFound)
	}
	return e.clone(), nil
}

// Entries returns the selected visible entries, newest first.
func (m *Memory) Entries(q EntryQuery) ([]Entry, error) {
	d, err := m.open()
	if err != nil {
		return nil, err
	}
	defer d.mu.Unlock()
	var list []Entry
	d.visible(q.Conversation, q.To, func(e Entry) bool {
		if e.ID < q.From {
			return false
		}
		list = append(list, e.clone())
		return q.Limit <= 0 || len(list) < q.Limit
	})
	return list, nil
}

// visible yields the entries visible in c with ids up to most (0 = all), newest first, until yield says false.
func (d *memoryData) visible(c ConversationID, most EntryID, yield func(Entry) bool) {
	for {
		list := d.transcript[c]
		for _, id := range slices.Backward(list) {
			if (most == 0 || id <= most) && !yield(d.entries[id]) {
				return
			}
		}
		parent := d.conversations[c].Parent
		if parent == nil || parent.At == 0 {
			return
		}
		if c = parent.Conversation; most == 0 || parent.At < most {
			most = parent.At
		}
	}
}

// NewestHead returns the newest visible entry with a head at or before at, or ErrNotFound.
func (m *Memory) NewestHead(c ConversationID, at EntryID) (Entry, error) {
	d, err := m.open()
	if err != nil {
		return Entry{}, err
	}
	defer d.mu.Unlock()
	var head *Entry
	d.visible(c, at, func(e Entry) bool {
		if e.Head != 0 {
			e = e.clone()
			head = &e
		}
		return head == nil
	})
	if head == nil {
		return Entry{}, fmt.Errorf("head of conversation %d: %w", c, ErrNotFound)
	}
	return *head, nil
}

// Task returns one task or ErrNotFound.
func (m *Memory) Task(id TaskID) (Task, error) {
	d, err := m.open()
	if err != nil {
		return Task{}, err
	}
	defer d.mu.Unlock()
	t, ok := d.tasks[id]
	if !ok {
		return t, fmt.Errorf("task %d: %w", id, ErrNotFound)
	}
	return t.clone(), nil
}

// Tasks returns the selected tasks in id order.
func (m *Memory) Tasks(q TaskQuery) ([]Task, error) {
	d, err := m.open()
	if err != nil {
		return nil, err
	}
	defer d.mu.Unlock()
	var list []Task
	for _, t := range d.tasks {
		if (q.Conversation == 0 || t.Conversation == q.Conversation) && (q.Owner == 0 || t.Owner == q.Owner) &&
			(!q.Live || t.Status != TaskTerminal) {
			list = append(list, t.clone())
		}
	}
	slices.SortFunc(list, func(a, b Task) int { return cmp.Compare(a.ID, b.ID) })
	if q.Limit > 0 && len(list) > q.Limit {
		list = list[len(list)-q.Limit:]
	}
	return list, nil
}

// Submission returns one submission or ErrNotFound.
func (m *Memory) Submission(id SubmissionID) (Submission, error) {
	d, err := m.open()
	if err != nil {
		return Submission{}, err
	}
	defer d.mu.Unlock()
	s, ok := d.submissions[id]
	if !ok {
		return s, fmt.Errorf("submission %d: %w", id, ErrNotFound)
	}
	return s.clone(), nil
}

// SubmissionByRequest returns the submission with that request id in the conversation, or ErrNotFound.
func (m *Memory) SubmissionByRequest(c ConversationID, requestID string) (Submission, error) {
	d, err := m.open()
	if err != nil {
		return Submission{}, err
	}
	defer d.mu.Unlock()
	id, ok := d.requests[requestKey{c, requestID}]
	if !ok {
		return Submission{}, fmt.Errorf("request %q of conversation %d: %w", requestID, c, ErrNotFound)
	}
	return d.submissions[id].clone(), nil
}

// Submissions returns those of a conversation in id order, with one of the states (none = all).
func (m *Memory) Submissions(c ConversationID, status ...SubmissionStatus) ([]Submission, error) {
	d, err := m.open()
	if err != nil {
		return nil, err
	}
	defer d.mu.Unlock()
	var list []Submission
	for _, s := range d.submissions {
		if s.Conversation == c && (len(status) == 0 || slices.Contains(status, s.Status)) {
			list = append(list, s.clone())
		}
	}
	slices.SortFunc(list, func(a, b Submission) int { return cmp.Compare(a.ID, b.ID) })
	return list, nil
}
