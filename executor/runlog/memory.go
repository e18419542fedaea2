package runlog

import (
	"context"
	"encoding/json"
	"iter"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/workflowd/workflowd/internal/ids"
	"github.com/workflowd/workflowd/workflow"
)

// Memory keeps runs for the life of the process. It is the specification that other stores are compared with. It is safe
// for concurrent use.
type Memory struct {
	mu          sync.RWMutex
	id          string
	epoch       int64
	closed      bool
	runs        map[RunID]*memoryRun
	order       []RunID // by creation
	byRequest   map[[2]string]RunID
	requests    map[string]RunID
	cache       map[cacheKey]Cached
	definitions []Definition
}

type cacheKey struct {
	key     string
	version int
	input   string
}

// memoryRun is all that is known about one run.
type memoryRun struct {
	run      Run
	nodes    []*Node
	at       map[NodeKey]*Node
	events   [][]Event // in blocks, so that a long log is not copied as it grows
	sources  map[string]NodeKey
	requests []Request
	effects  map[NodeKey][]Effect
	signals  []Signal
	usage    []UsageRecord
}

var _ Store = (*Memory)(nil)

// NewMemory returns an empty store.
func NewMemory() *Memory {
	return &Memory{
		id: ids.New("mem_"), runs: map[RunID]*memoryRun{}, byRequest: map[[2]string]RunID{}, requests: map[string]RunID{},
		cache: map[cacheKey]Cached{},
	}
}

// Acquire raises the epoch; the owner before it gets ErrStale from now on. It also reopens a closed Memory.
func (m *Memory) Acquire(context.Context) (State, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.epoch++
	m.closed = false
	return State{StoreID: m.id, Epoch: m.epoch}, nil
}

// Commit implements Store.
func (m *Memory) Commit(b *Batch) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return ErrClosed
	}
	if b.Epoch != m.epoch {
		return ErrStale
	}
	r := m.runs[b.Run]
	if b.Create != nil {
		if _, taken := m.byRequest[[2]string{b.Create.Workflow, b.Create.RequestID}]; taken || r != nil {
			return ErrExists
		}
		r = &memoryRun{run: *b.Create, at: map[NodeKey]*Node{}, sources: map[string]NodeKey{}, effects: map[NodeKey][]Effect{}}
	}
	if r == nil || b.Create != nil && b.Create.ForkedFrom != nil && m.runs[b.Create.ForkedFrom.Run] == nil {
		return ErrNotFound
	}
	// Nothing can fail from here on.
	if b.Create != nil {
		m.runs[b.Run] = r
		m.order = append(m.order, b.Run)
		m.byRequest[[2]string{b.Create.Workflow, b.Create.RequestID}] = b.Run
	}
	r.change(b)
	r.append(b)
	for _, n := range b.Nodes {
		r.write(n, b)
	}
	m.people(r, b)
	for _, e := range b.Effects {
		list := r.effects[e.Node]
		i := slices.IndexFunc(list, func(old Effect) bool { return old.Key == e.Key })
		switch {
		case e.Forget && i >= 0:
			r.effects[e.Node] = slices.Delete(list, i, i+1)
		case e.Forget:
		case i >= 0:
			list[i] = e
		default:
			r.effects[e.Node] = append(list, e)
		}
	}
	for _, u := range b.Usage {
		if i := slices.IndexFunc(r.usage, func(old UsageRecord) bool { return old.RecordID == u.RecordID }); i >= 0 {
			r.usage[i] = u
		} else {
			r.usage = append(r.usage, u)
		}
	}
	for _, c := range b.Cache {
		c.Run = b.Run
		m.cache[cacheKey{c.Key, c.Version, c.Input}] = c
	}
	return nil
}

// InTx returns ErrUnsupported: what effect writes elsewhere would not be undone with the record.
func (m *Memory) InTx(*Batch, func(workflow.Tx) (json.RawMessage, error)) (json.RawMessage, error) {
	return nil, ErrUnsupported
}

func (r *memoryRun) change(b *Batch) {
	c := b.Change
	if c == nil {
		return
	}
	r.run.Status, r.run.Reason, r.run.Failure, r.run.Result = c.Status, c.Reason, c.Failure, c.Result
	r.run.CancelRequested = c.CancelRequested
	r.run.WakeAt, r.run.StartedAt, r.run.FinishedAt = c.WakeAt, c.StartedAt, c.FinishedAt
	r.run.Version, r.run.Fingerprint = c.Version, c.Fingerprint
}

// append numbers the events and forgets the sources of retracted chunks.
func (r *memoryRun) append(b *Batch) {
	for i := range b.Events {
		e := &b.Events[i]
		e.Seq = 0
		key := NodeKey{e.Node, e.Visit}
		if e.Kind == NodeRetracted {
			maps.DeleteFunc(r.sources, func(_ string, holder NodeKey) bool { return holder == key })
		}
		if e.Source != "" {
			if _, known := r.sources[e.Source]; known {
				continue
			}
			r.sources[e.Source] = key
		}
		r.run.LastSeq++
		e.Seq = r.run.LastSeq
		if r.run.LastSeq%eventBlock == 1 {
			size := eventBlock
			if len(r.events) == 0 {
				size = firstBlock
			}
			r.events = append(r.events, make([]Event, 0, size))
		}
		last := &r.events[len(r.events)-1]
		*last = append(*last, *e)
	}
}

// How many events a block holds, and what the first one of a run begins with.
const (
	eventBlock = 256
	firstBlock = 16
)

// after yields the events behind a number.
func (r *memoryRun) after(seq Seq) iter.Seq[*Event] {
	return func(yield func(*Event) bool) {
		for at := max(0, seq); at < r.run.LastSeq; at++ {
			if !yield(&r.events[at/eventBlock][at%eventBlock]) {
				return
			}
		}
	}
}

func (r *memoryRun) write(n Node, b *Batch) {
	if n.FirstSeq == 0 {
		n.FirstSeq = b.FirstSeq(n.NodeKey)
	}
	n.LastSeq = r.run.LastSeq
	if old, known := r.at[n.NodeKey]; known {
		*old = n
		return
	}
	r.at[n.NodeKey] = &n
	r.nodes = append(r.nodes, &n)
}

func (m *Memory) people(r *memoryRun, b *Batch) {
	for _, q := range b.Open {
		if _, known := m.requests[q.ID]; !known {
			q.Run, q.Workflow, q.Conversation = b.Run, r.run.Workflow, r.run.Conversation
			m.requests[q.ID] = b.Run
			r.requests = append(r.requests, q)
		}
	}
	for _, to := range b.Resolve {
		for i := range r.requests {
			if q := &r.requests[i]; q.ID == to.RequestID && q.Status == RequestOpen {
				q.Status, q.Answer, q.AnsweredBy, q.ResolvedAt = to.Status, to.Answer, to.By, to.At
			}
		}
	}
	for _, s := range b.Signals {
		if !slices.ContainsFunc(r.signals, func(old Signal) bool { return old.ID == s.ID }) {
			r.signals = append(r.signals, s)
		}
	}
	for i := range r.signals {
		if slices.Contains(b.Consume, r.signals[i].ID) {
			r.signals[i].Consumed = true
		}
	}
}

// read runs fn on a run under the read lock.
func (m *Memory) read(id RunID, fn func(*memoryRun)) error {
	m.mu.RLock()
	defer m.mu.RUnlock()
	if m.closed {
		return ErrClosed
	}
	r := m.runs[id]
	if r == nil {
		return ErrNotFound
	}
	fn(r)
	return nil
}

func (r *memoryRun) view() Run {
	run := r.run
	if n, known := r.at[run.Result]; known {
		run.Output = n.Output
	} else if run.Status == Succeeded && run.Result == (NodeKey{}) {
		run.Output = run.Input // the result is the input
	}
	return run
}

// Run implements Store.
func (m *Memory) Run(id RunID) (run Run, err error) {
	err = m.read(id, func(r *memoryRun) { run = r.view() })
	return run, err
}

// RunByRequest implements Store.
func (m *Memory) RunByRequest(workflow, requestID string) (Run, error) {
	m.mu.RLock()
	id, known := m.byRequest[[2]string{workflow, requestID}]
	m.mu.RUnlock()
	if !known {
		return Run{}, ErrNotFound
	}
	return m.Run(id)
}

// Runs implements Store.
func (m *Memory) Runs(q RunQuery) ([]Run, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	if m.closed {
		return nil, ErrClosed
	}
	var list []Run
	for _, id := range m.order {
		r := m.runs[id].run
		if (len(q.Status) == 0 || slices.Contains(q.Status, r.Status)) && (q.Workflow == "" || q.Workflow == r.Workflow) &&
			(q.Version == 0 || q.Version == r.Version) && (q.Conversation == "" || q.Conversation == r.Conversation) &&
			(q.Project == "" || q.Project == r.Project) && (q.Before == "" || r.ID < q.Before) {
			list = append(list, m.runs[id].view())
		}
	}
	slices.SortFunc(list, func(a, b Run) int { return strings.Compare(string(b.ID), string(a.ID)) })
	return list[:limited(len(list), q.Limit)], nil
}

// limited is min(n, limit), where limit 0 means all.
func limited(n, limit int) int {
	if limit > 0 {
		return min(n, limit)
	}
	return n
}

// Nodes implements Store.
func (m *Memory) Nodes(id RunID) (list []Node, err error) {
	err = m.read(id, func(r *memoryRun) {
		for _, n := range r.nodes {
			list = append(list, *n)
		}
	})
	return list, err
}

// Events implements Store.
func (m *Memory) Events(id RunID, after Seq, limit int) (list []Event, err error) {
	err = m.read(id, func(r *memoryRun) {
		for e := range r.after(after) {
			if limit > 0 && len(list) == limit {
				return
			}
			list = append(list, *e)
		}
	})
	return list, err
}

// Chunks implements Store.
func (m *Memory) Chunks(id RunID, key NodeKey, after Seq, limit int) (list []Event, err error) {
	err = m.read(id, func(r *memoryRun) {
		for e := range r.after(after) {
			if limit > 0 && len(list) == limit {
				return
			}
			if e.Node == key.Path && e.Visit == key.Visit && e.Kind.Chunk() {
				list = append(list, *e)
			}
		}
	})
	return list, err
}

// Request implements Store.
func (m *Memory) Request(id string) (request Request, err error) {
	m.mu.RLock()
	run, known := m.requests[id]
	m.mu.RUnlock()
	if !known {
		return Request{}, ErrNotFound
	}
	err = m.read(run, func(r *memoryRun) {
		request = r.requests[slices.IndexFunc(r.requests, func(q Request) bool { return q.ID == id })]
	})
	return request, err
}

// Requests implements Store.
func (m *Memory) Requests(q RequestQuery) ([]Request, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	if m.closed {
		return nil, ErrClosed
	}
	var list []Request
	for _, id := range m.order {
		for _, r := range m.runs[id].requests {
			if (len(q.Status) == 0 || slices.Contains(q.Status, r.Status)) && (q.Run == "" || q.Run == r.Run) &&
				(q.Conversation == "" || q.Conversation == r.Conversation) {
				list = append(list, r)
			}
		}
	}
	slices.SortStableFunc(list, func(a, b Request) int {
		if c := a.OpenedAt.Compare(b.OpenedAt); c != 0 {
			return c
		}
		return strings.Compare(a.ID, b.ID)
	})
	return list[:limited(len(list), q.Limit)], nil
}

// Effects implements Store.
func (m *Memory) Effects(id RunID, key NodeKey) (list []Effect, err error) {
	err = m.read(id, func(r *memoryRun) { list = slices.Clone(r.effects[key]) })
	return list, err
}

// Signals implements Store.
func (m *Memory) Signals(id RunID) (list []Signal, err error) {
	err = m.read(id, func(r *memoryRun) {
		for _, s := range r.signals {
			if !s.Consumed {
				list = append(list, s)
			}
		}
	})
	return list, err
}

// HasSignal implements Store.
func (m *Memory) HasSignal(id RunID, signal string) (known bool, err error) {
	err = m.read(id, func(r *memoryRun) {
		known = slices.ContainsFunc(r.signals, func(s Signal) bool { return s.ID == signal })
	})
	return known, err
}

// Usage implements Store.
func (m *Memory) Usage(id RunID) (list []UsageRecord, err error) {
	err = m.read(id, func(r *memoryRun) { list = slices.Clone(r.usage) })
	return list, err
}

// Cached implements Store.
func (m *Memory) Cached(key string, version int, input string) (Cached, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	if m.closed {
		return Cached{}, ErrClosed
	}
	c, known := m.cache[cacheKey{key, version, input}]
	if !known {
		return Cached{}, ErrNotFound
	}
	return c, nil
}

// PutDefinition implements Store.
func (m *Memory) PutDefinition(d Definition, replace bool) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return ErrClosed
	}
	i := slices.IndexFunc(m.definitions, func(old Definition) bool { return old.Name == d.Name && old.Version == d.Version })
	switch {
	case i < 0:
		m.definitions = append(m.definitions, d)
	case m.definitions[i].Fingerprint == d.Fingerprint:
	case replace:
		m.definitions[i] = d
	default:
		return ErrDefinition
	}
	return nil
}

// Definitions implements Store.
func (m *Memory) Definitions() ([]Definition, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	if m.closed {
		return nil, ErrClosed
	}
	list := slices.Clone(m.definitions)
	slices.SortFunc(list, func(a, b Definition) int {
		if c := strings.Compare(a.Name, b.Name); c != 0 {
			return c
		}
		return a.Version - b.Version
	})
	return list, nil
}

// Close lets go; what is stored stays for the next Acquire.
func (m *Memory) Close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.closed = true
	return nil
}
