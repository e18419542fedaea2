package executor

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/workflowd/workflowd/agentcore/fault"
	"github.com/workflowd/workflowd/executor/internal/alarm"
	"github.com/workflowd/workflowd/executor/internal/crew"
	"github.com/workflowd/workflowd/executor/internal/schedule"
	"github.com/workflowd/workflowd/executor/runlog"
	"github.com/workflowd/workflowd/store/runstore"
	"github.com/workflowd/workflowd/workflow"
)

// Records and ids, by their names in package runlog.
type (
	RunID  = runlog.RunID
	Seq    = runlog.Seq
	Event  = runlog.Event
	Status = runlog.RunStatus
)

// Engine runs workflows on one store. It is safe for concurrent use.
type Engine struct {
	store      runlog.Store
	storeID    string
	epoch      int64
	now        func() time.Time
	storage    workflow.Storage
	strict     bool // every commit is synced
	replace    bool // development: a version may get another graph
	foreground bool // unfinished runs rest until they are named
	hub        hub
	clock      *alarm.Alarm
	crew       crew.Crew

	mu      sync.Mutex
	plans   map[string]map[int]*schedule.Plan // name -> version
	active  map[runlog.RunID]*owner
	backlog []*owner // accepted, waiting for room
	failing map[runlog.RunID]int
	leaving bool
	idle    chan struct{} // closed and replaced when an owner ends
	once    sync.Once
	closed  error
}

// Option changes an engine at Open.
type Option func(*Engine)

// Strict syncs every commit to disk, chunks included.
func Strict() Option { return func(e *Engine) { e.strict = true } }

// Development lets Register replace the graph of a version while no live run is pinned to it.
func Development() Option { return func(e *Engine) { e.replace = true } }

// Foreground leaves the unfinished runs of earlier processes alone: only a run that Start or Attach names goes on. It is
// for a command that came for one run and must not act, with its own settings, for others.
func Foreground() Option { return func(e *Engine) { e.foreground = true } }

// WithStorage sets the places that nodes get from NodeContext.Storage.
func WithStorage(s workflow.Storage) Option { return func(e *Engine) { e.storage = s } }

// WithClock replaces the system's clock. Timers still run on the system's.
func WithClock(now func() time.Time) Option { return func(e *Engine) { e.now = now } }

// Open opens an engine. The data source name is "memory:" or "sqlite:" and a path; the file is created when there is none
// and belongs to this process until Close. Runs of earlier processes go on as their workflows are registered. Errors:
// fault.InputValidation for the name, fault.SessionBusy when another process has the file, else fault.Storage.
func Open(ctx context.Context, dsn string, options ...Option) (*Engine, error) {
	scheme, path, _ := strings.Cut(dsn, ":")
	switch {
	case scheme == "memory" && path == "":
		return New(ctx, runlog.NewMemory(), options...)
	case scheme == "sqlite" && path != "":
		store, err := runstore.Open(path)
		if err != nil {
			return nil, fmt.Errorf("open %q: %w", dsn, err)
		}
		beside := workflow.Storage{AgentStoreDir: filepath.Join(filepath.Dir(path), "agents"), FilesDir: filepath.Join(filepath.Dir(path), "files")}
		e, err := New(ctx, store, append([]Option{WithStorage(beside)}, options...)...)
		if err != nil {
			return nil, errors.Join(err, store.Close())
		}
		return e, nil
	default:
		return nil, fault.New(fault.InputValidation, `data source %q: want "memory:" or "sqlite:" and a path`, dsn)
	}
}

// New opens an engine on a store, which it owns from now on and closes.
func New(ctx context.Context, store runlog.Store, options ...Option) (*Engine, error) {
	state, err := store.Acquire(ctx)
	if err != nil {
		return nil, storeError(err, "acquire the store")
	}
	e := &Engine{
		store: store, storeID: state.StoreID, epoch: state.Epoch, now: time.Now, plans: map[string]map[int]*schedule.Plan{},
		active: map[runlog.RunID]*owner{}, failing: map[runlog.RunID]int{}, idle: make(chan struct{}),
	}
	for _, option := range options {
		option(e)
	}
	e.hub.init()
	e.clock = alarm.Start(e.now, e.wakeUp)
	if e.foreground {
		return e, nil
	}
	parked, err := store.Runs(runlog.RunQuery{Status: []runlog.RunStatus{runlog.Sleeping, runlog.Waiting}})
	if err != nil {
		e.clock.Stop()
		return nil, storeError(err, "runs that wait")
	}
	for _, r := range parked {
		e.clock.Set(string(r.ID), r.WakeAt)
	}
	return e, nil
}

// Epoch is the number of this owner of the store.
func (e *Engine) Epoch() int64 { return e.epoch }

// dispatch hands a message to the run's owner, starting one when there is none. run is its record when the caller has it.
func (e *Engine) dispatch(id runlog.RunID, run *runlog.Run, m message) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.leaving {
		if m.refuse != nil {
			go m.refuse(errSuspended) // the caller may hold what refuse needs
		}
		return
	}
	o := e.active[id]
	if o == nil {
		o = &owner{
			e: e, id: id, wake: make(chan struct{}, 1), room: make(chan struct{}),
			visits: map[runlog.NodeKey]*visit{},
		}
		if run != nil {
			o.run = *run
		}
		e.active[id] = o
		if len(e.active)-len(e.backlog) > MaxActive {
			e.backlog = append(e.backlog, o)
		} else {
			go o.work()
		}
	}
	if m.do != nil {
		o.post(m)
	}
}

// leave lets an owner end, unless a message has come meanwhile.
func (e *Engine) leave(o *owner) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	o.mu.Lock()
	busy := len(o.inbox) > 0
	o.gone = !busy
	o.mu.Unlock()
	if busy {
		return false
	}
	delete(e.active, o.id)
	if len(e.backlog) > 0 && !e.leaving {
		next := e.backlog[0]
		e.backlog = e.backlog[1:]
		go next.work()
	}
	switch {
	case e.leaving:
	case o.fatal != nil && fault.Is(o.fatal, fault.Storage):
		wait := min(storageRetryMost, storageRetryFirst<<min(e.failing[o.id], 8))
		e.failing[o.id]++
		e.clock.Set(string(o.id), e.now().Add(wait))
	case o.fatal == nil:
		delete(e.failing, o.id)
		if o.run.Status == runlog.Sleeping || o.run.Status == runlog.Waiting {
			e.clock.Set(string(o.id), o.run.WakeAt)
		}
	}
	close(e.idle)
	e.idle = make(chan struct{})
	return true
}

// wakeUp is called when a run's time has come.
func (e *Engine) wakeUp(id string) { e.dispatch(runlog.RunID(id), nil, message{}) }

// Suspend stops advancing runs and keeps their work: nodes are told that the host leaves, and Suspend returns when they
// have returned. Afterwards only reading works. When ctx ends first, its error names the runs that are still busy.
func (e *Engine) Suspend(ctx context.Context) error {
	e.mu.Lock()
	e.leaving = true
	for _, o := range e.backlog {
		delete(e.active, o.id) // it never began here
		for _, m := range o.inbox {
			if m.refuse != nil {
				m.refuse(errSuspended)
			}
		}
	}
	e.backlog = nil
	for _, o := range e.active {
		o.post(message{do: func(o *owner) { o.hostLeaves() }})
	}
	e.mu.Unlock()
	e.clock.Stop()
	e.crew.Dismiss()
	for {
		e.mu.Lock()
		var busy []string
		for id := range e.active {
			busy = append(busy, string(id))
		}
		idle := e.idle
		e.mu.Unlock()
		if len(busy) == 0 {
			e.crew.Wait()
			return nil
		}
		select {
		case <-idle:
		case <-ctx.Done():
			return fault.New(fault.Suspended, "nodes of %d runs did not return, of %s first: %w", len(busy), busy[0], context.Cause(ctx))
		}
	}
}

// Close suspends the engine within DrainLimit and closes the store. It never cancels a run. A second Close returns the
// first one's result.
func (e *Engine) Close() error {
	e.once.Do(func() {
		ctx, cancel := context.WithTimeout(context.Background(), DrainLimit)
		defer cancel()
		err := e.Suspend(ctx)
		e.hub.close()
		e.closed = errors.Join(err, storeError(e.store.Close(), "close the store"))
	})
	return e.closed
}

// hostLeaves tells the attempts in work to stop and keep their work.
func (o *owner) hostLeaves() {
	o.leaving = true
	for _, v := range o.visits {
		if v.cancel != nil {
			v.cancel(errSuspended)
		}
	}
}
