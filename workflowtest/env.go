package workflowtest

import (
	"errors"
	"fmt"
	"path/filepath"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/workflowd/workflowd/executor"
	"github.com/workflowd/workflowd/executor/runlog"
	"github.com/workflowd/workflowd/store/runstore"
	"github.com/workflowd/workflowd/workflow"
)

// Env is a workflow on an engine of its own, inside a bubble of testing/synctest. Its methods belong to the goroutine of
// the test, except Crash. They end the test when they cannot do what they say.
type Env[In, Out any] struct {
	b      *bench
	flow   *workflow.Workflow[In, Out] // as it was given
	setup  setup
	handle *executor.Handle[In, Out]
}

// bench is the part of an Env that knows no types.
type bench struct {
	t      testing.TB
	reopen func() (runlog.Store, error)
	dir    string
	engine *executor.Engine
	store  atomic.Pointer[mortal] // Crash looks at it from nodes
	starts int                    // given so far
	sent   int                    // signals
	replay func(file string)      // against the workflow under test
}

// Option adds to an Env at New.
type Option func(*setup)

// setup is what options say.
type setup struct {
	sqlite  bool
	changes []change
	models  []*model
}

// SQLite keeps the runs in a SQLite file below t.TempDir instead of memory. The test then takes the store that a program
// has, disk included; it is slower, and finds nothing that the memory store would not find but faults of ours.
func SQLite() Option { return func(s *setup) { s.sqlite = true } }

// New returns w on an engine that holds nothing yet. It must be called inside the bubble of synctest.Test, whose clock
// then is the run's. When the test ends the engine is closed; goroutines that are still blocked fail the test, and so does
// a CrashAfter that never came true or a Model that was asked too much or too little.
func New[In, Out any](t testing.TB, w *workflow.Workflow[In, Out], options ...Option) *Env[In, Out] {
	t.Helper()
	needBubble(t)
	e := &Env[In, Out]{b: &bench{t: t, dir: t.TempDir()}}
	for _, option := range options {
		option(&e.setup)
	}
	memory := runlog.NewMemory()
	e.b.reopen = func() (runlog.Store, error) { return memory, nil }
	if e.setup.sqlite {
		e.b.reopen = func() (runlog.Store, error) { return runstore.Open(filepath.Join(e.b.dir, "runs.db")) }
	}
	t.Cleanup(e.close)
	e.register(w)
	return e
}

// needBubble ends the test when nothing would let time pass by itself.
func needBubble(t testing.TB) {
	t.Helper()
	defer func() {
		if p := recover(); p != nil {
			t.Fatalf("workflowtest.New: %v; call it inside synctest.Test(t, func(t *testing.T) { … }), so that waiting takes no time", p)
		}
	}()
	synctest.Wait()
}

// register opens an engine on the store with w as its workflow.
func (e *Env[In, Out]) register(w *workflow.Workflow[In, Out]) {
	e.b.t.Helper()
	flow, err := replaced(w, e.setup.changes)
	if err != nil {
		e.b.t.Fatalf("workflowtest: %v", err)
	}
	store, err := e.b.reopen()
	if err != nil {
		e.b.t.Fatalf("workflowtest: open the store: %v", err)
	}
	m := newMortal(store)
	places := workflow.Storage{AgentStoreDir: filepath.Join(e.b.dir, "agents"), FilesDir: filepath.Join(e.b.dir, "files")}
	engine, err := executor.New(e.b.t.Context(), m, executor.WithStorage(places))
	if err != nil {
		e.b.t.Fatalf("workflowtest: open the engine: %v", errors.Join(err, m.Close()))
	}
	e.b.store.Store(m)
	e.b.engine, e.flow = engine, w
	e.b.replay = func(file string) {
		e.b.t.Helper()
		replay(e.b.t, w, file)
	}
	if e.handle, err = executor.Register(engine, flow); err == nil {
		err = engine.Recover(e.b.t.Context())
	}
	if err != nil {
		e.b.t.Fatalf("workflowtest: %v", err)
	}
}

// Start begins a run. A run that is to end in time takes executor.Deadline(time.Now().Add(…)).
func (e *Env[In, Out]) Start(in In, options ...executor.StartOption) *Run[Out] {
	e.b.t.Helper()
	e.b.alive("start")
	e.b.starts++
	options = append([]executor.StartOption{executor.RequestID(fmt.Sprint("start-", e.b.starts))}, options...)
	run, err := e.handle.Start(e.b.t.Context(), in, options...)
	if err == nil {
		return &Run[Out]{e.b, run.ID()}
	}
	if e.b.ended() == "" {
		e.b.t.Fatalf("start: %v", err)
	}
	var s executor.Start
	for _, option := range options {
		option(&s)
	}
	accepted, err := e.b.store.Load().RunByRequest(e.flow.Definition().Graph().Name, s.RequestID)
	if err != nil {
		e.b.t.Fatalf("start: the process has ended %s, and the run was not accepted: %v", e.b.ended(), err)
	}
	return &Run[Out]{e.b, accepted.ID} // the process ended behind it
}

// Engine returns the engine, for what the kit has no word for. Restart replaces it.
func (e *Env[In, Out]) Engine() *executor.Engine { return e.b.engine }

// Crash ends the process here, as a kill does: nothing is written from now on, and Restart goes on behind the last commit.
// A node, or a function of Stub, may call it in its middle: what it does after that cannot be undone, but none of its
// durable verbs succeeds. It is safe for concurrent use.
func (e *Env[In, Out]) Crash() { e.b.store.Load().end("where Crash was called") }

// CrashAfter ends the process right behind the next commit that says kind of the node at path ("" = of the run): the
// commit is in the store, and nobody was told. Behind runlog.NodeStarted the node was not entered; behind
// runlog.NodeSucceeded its result is kept. Restart lets time pass until it has come true. A second call replaces the first.
func (e *Env[In, Out]) CrashAfter(kind runlog.EventKind, path string) {
	e.b.store.Load().arm(moment{kind, path})
}

// Restart ends the process, unless Crash or CrashAfter does, and opens the store again with a new engine, which goes on
// with all unfinished runs. Without a crash the process first does what it can without time passing, and then leaves in
// good order: nodes are told, and their work is suspended. With another workflow it is the deployment of a change:
// unfinished runs go on under it when what has begun fits, else they are blocked, as in production.
func (e *Env[In, Out]) Restart(changed ...*workflow.Workflow[In, Out]) {
	e.b.t.Helper()
	synctest.Wait()
	e.b.awaitMoment()
	if err := e.b.engine.Close(); err != nil {
		e.b.t.Fatalf("restart: the engine before: %v", err)
	}
	next := e.flow
	if len(changed) > 0 {
		next = changed[len(changed)-1]
	}
	e.register(next)
}

// awaitMoment waits until CrashAfter has come true.
func (b *bench) awaitMoment() {
	b.t.Helper()
	m := b.store.Load()
	how, at := m.state()
	if how != "" || at == (moment{}) {
		return
	}
	wait := time.NewTimer(patience)
	defer wait.Stop()
	select {
	case <-m.died:
	case <-wait.C:
		b.t.Fatalf("restart: the process was to end behind %q, which did not come\n%s", at, b.logs())
	}
}

// ended returns how the process ended, "" while it lives.
func (b *bench) ended() string {
	how, _ := b.store.Load().state()
	return how
}

// alive ends the test when the process has ended.
func (b *bench) alive(what string) {
	b.t.Helper()
	if how := b.ended(); how != "" {
		b.t.Fatalf("%s: the process has ended %s; call Restart and go on", what, how)
	}
}

// close is the end of the test.
func (e *Env[In, Out]) close() {
	if e.b.engine == nil {
		return // New ended the test
	}
	how, at := e.b.store.Load().state()
	if how == "" && at != (moment{}) {
		e.b.t.Errorf("the process was to end behind %q, which did not come\n%s", at, e.b.logs())
	}
	if err := e.b.engine.Close(); err != nil {
		e.b.t.Errorf("close the engine: %v", err)
	}
	synctest.Wait() // sessions of agents are closed behind their nodes
	for _, m := range e.setup.models {
		m.check(e.b.t)
	}
}
