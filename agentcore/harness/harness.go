package harness

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/workflowd/workflowd/agentcore/compaction"
	"github.com/workflowd/workflowd/agentcore/control"
	"github.com/workflowd/workflowd/agentcore/llm"
	"github.com/workflowd/workflowd/agentcore/registry"
	"github.com/workflowd/workflowd/agentcore/session"
	"github.com/workflowd/workflowd/agentcore/task"
	"github.com/workflowd/workflowd/agentcore/tool"
)

// Offered is a tool of a turn. Own tools belong to the host and pass its approval hook; built-in ones never ask.
type Offered struct {
	tool.Tool
	Own bool
}

// Setup is what a turn runs with, resolved from its stored settings. It holds live objects and is never stored.
type Setup struct {
	Provider  llm.Provider
	Model     string
	System    string
	Tools     []Offered // stable order: it is part of the provider's prompt cache
	Effort    llm.Effort
	MaxTokens int
	Window    int64 // tokens the model can hold; 0 = unknown: no context updates, no compaction by itself

	Compaction compaction.Settings
}

// Options configure a Harness.
type Options struct {
	// Resolve turns the settings of a submission into a Setup. It may be called again at any time and after a restart;
	// equal settings must give the same system prompt and tools. It must not call the harness.
	Resolve func(ctx context.Context, settings json.RawMessage) (Setup, error)
	// Registry holds what a project adds: its tools, sections and hooks are taken anew for every step of a turn. Nil adds
	// nothing.
	Registry registry.Reader
	// HookFailed is told about hooks that failed and were skipped. It must not call the harness. Nil: nobody is told.
	HookFailed func(registry.HookError)
	// Idle is called when nobody has used the session for a while and no step of a turn runs: what Resolve opened may be
	// given back, and a later Resolve opens it again. It must be quick and must not call the harness. Nil does nothing.
	Idle func()
	// Now is the clock; nil is time.Now.
	Now func() time.Time
}

// Approval is one call that a host may have to decide.
type Approval struct {
	ToolCallID string // identity with the store: conversation, task and call
	Task       session.TaskID
	Name       string
	Args       json.RawMessage
}

// Host decides calls of own tools. Approve returning nil allows the call; an error of kind user_input_required pauses the
// turn; any other error denies the call and its text is the call's result.
type Host interface {
	Approve(ctx context.Context, a Approval) error
}

// Harness runs the turns of one session's conversations. It is safe for concurrent use.
//
// The line of the session guards threads; mu guards all below it.
type Harness struct {
	sess  *session.Session
	sched *task.Scheduler
	opts  Options

	threads map[session.ConversationID]*thread // those that were needed so far

	mu     sync.Mutex
	steps  int // of turns, that run
	setups map[session.ConversationID]resolution
	host   Host
	subs   map[session.SubmissionID][]*feed
	failed error // the scheduler could not commit
	live   map[session.TaskID]struct{}
	rest   []chan struct{} // closed when no task is live
}

// Open takes ownership of storage. Nothing runs until Run, Control or Resume, and a transcript is read when a request
// needs it. The harness closes storage.
func Open(ctx context.Context, storage session.Storage, opts Options, mode session.SyncMode) (*Harness, error) {
	var others task.Source = task.Fixed{}
	if opts.Registry != nil {
		others = opts.Registry
	}
	return open(ctx, storage, opts, mode, others)
}

// open is Open with definitions beside the harness's own.
func open(ctx context.Context, storage session.Storage, opts Options, mode session.SyncMode, others task.Source) (*Harness, error) {
	if opts.Now == nil {
		opts.Now = time.Now
	}
	sess, err := session.Open(ctx, storage)
	if err != nil {
		return nil, err
	}
	sess.SetSyncMode(mode)
	h := &Harness{sess: sess, opts: opts, threads: map[session.ConversationID]*thread{}, setups: map[session.ConversationID]resolution{},
		subs: map[session.SubmissionID][]*feed{}, live: map[session.TaskID]struct{}{}}
	if err := h.load(ctx); err != nil {
		return nil, errors.Join(err, sess.Close())
	}
	sess.Watch(h.committed)
	sess.OnIdle(h.idle)
	h.sched = task.NewSchedulerFrom(sess, h.fail, task.Join(task.NewFixed(h.generation(), h.toolTask(), h.compaction()), others))
	h.sched.OnReach(h.reached)
	return h, nil
}

// errSettled ends the feed of Settle.
var errSettled = errors.New("harness: nothing is left to do")

// Settle ends all unfinished work of a session that nobody runs: every live task is cancelled and every queued input
// ends unanswered, in one synced commit; then the tasks' own abort code runs, of our kinds and of those in others. A kind
// that nobody defines is orphaned, without cleanup. It returns how many tasks were live once none is any more, and closes
// storage. When ctx ends before, the marks stay and the next owner goes on. No model is asked and no tool runs.
func Settle(ctx context.Context, storage session.Storage, reason string, others task.Source) (n int, err error) {
	refuse := func(context.Context, json.RawMessage) (Setup, error) {
		return Setup{}, errors.New("nothing starts while a session is settled")
	}
	h, err := open(ctx, storage, Options{Resolve: refuse}, session.Auto, others)
	if err != nil {
		return 0, AsFault(err)
	}
	defer func() { err = errors.Join(err, h.Close()) }()
	f := newFeed()
	h.subscribe(0, f) // hears of a failing store
	live := map[session.TaskID]bool{}
	h.sess.Watch(func(c session.Commit) {
		for _, t := range c.Batch.Tasks {
			if live[t.ID] = true; t.Status == session.TaskTerminal {
				delete(live, t.ID)
			}
		}
		if len(live) == 0 {
			f.end(errSettled)
		}
	})
	if n, err = h.markAll(ctx, reason, live); err != nil || n == 0 {
		return n, AsFault(err)
	}
	if err := h.resume(ctx); err != nil {
		return n, err
	}
	if _, err := f.take(ctx); !errors.Is(err, errSettled) {
		return n, AsFault(err)
	}
	return n, nil
}

// markAll cancels every live task, which it notes in live, and what waits in the queues.
func (h *Harness) markAll(ctx context.Context, reason string, live map[session.TaskID]bool) (int, error) {
	n := 0
	_, err := h.sess.Commit(ctx, func(tx *session.Tx) error {
		all, err := tx.Conversations()
		if err != nil {
			return err
		}
		var queues [][]queued
		for _, c := range all {
			queue, err := h.queue(tx, c.ID)
			if err != nil {
				return err
			}
			queues = append(queues, queue)
		}
		for _, t := range tx.LiveTasks() {
			n++
			live[t.ID] = true
			markTask(tx, t, reason)
		}
		for _, queue := range queues {
			h.dropQueue(tx, queue, reason)
		}
		return nil
	})
	return n, err
}

// Submit records an input, synced, and returns without waiting for its answer; the work goes on by itself. Errors are
// those of Control.
func (h *Harness) Submit(ctx context.Context, s Submit) (control.Receipt, error) {
	if _, err := h.admit(ctx, s, nil); err != nil {
		return control.Receipt{}, err
	}
	return control.Receipt{RequestID: s.RequestID, Status: control.Accepted}, h.resume(ctx)
}

// Resume lets unfinished work go on, and host decide its calls from now on; nil asks nobody. Calls that wait for a person
// are put to the host again.
func (h *Harness) Resume(ctx context.Context, host Host) error {
	h.mu.Lock()
	h.host = host
	h.mu.Unlock()
	h.sched.Unpark()
	return h.resume(ctx)
}

func (h *Harness) resume(ctx context.Context) error { return AsFault(h.sched.Resume(ctx)) }

// Resting returns a channel that is closed as soon as no task of the session is live: no turn, no call, none of the
// project's, in the foreground or behind.
func (h *Harness) Resting() <-chan struct{} {
	h.mu.Lock()
	defer h.mu.Unlock()
	rest := make(chan struct{})
	if h.rest = append(h.rest, rest); len(h.live) == 0 {
		h.tellResting()
	}
	return rest
}

// tellResting wakes those who wait for the session to be at rest. The caller holds mu.
func (h *Harness) tellResting() {
	for _, rest := range h.rest {
		close(rest)
	}
	h.rest = nil
}

// StoreID is the identity of the session's store.
func (h *Harness) StoreID() string { return h.sess.StoreID() }

// Close suspends: running work is told to stop and joined, nothing is cancelled, ownership is released.
func (h *Harness) Close() error {
	h.sched.Close()
	return h.sess.Close()
}

// idle forgets what can be read or resolved again, unless a step runs. It runs on the line.
func (h *Harness) idle() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.steps > 0 {
		return
	}
	for c, th := range h.threads {
		if th.transcript = (transcript{}); c != session.Root {
			delete(h.threads, c)
		}
	}
	h.setups = map[session.ConversationID]resolution{} // a map never shrinks
	if len(h.subs) == 0 {
		h.subs = map[session.SubmissionID][]*feed{}
	}
	if h.opts.Idle != nil {
		h.opts.Idle() // under mu: a step that begins waits for its end
	}
}

// step is code during which the harness is not idle.
func (h *Harness) step(code task.Phase) task.Phase {
	count := func(by int) {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.steps += by
	}
	return func(ctx context.Context, inv *task.Invocation) error {
		count(1)
		defer count(-1)
		return code(ctx, inv)
	}
}

// show hands an event to the feeds of a submission without a commit of its own: it tells of this process, not of the
// record (a pause, an estimate).
func (h *Harness) show(sub session.SubmissionID, e Event) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, f := range h.subs[sub] {
		f.put(e)
	}
}

// fail ends every feed: the store refused what only this process could have told.
func (h *Harness) fail(err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.failed == nil {
		h.failed = err
	}
	for _, feeds := range h.subs {
		for _, f := range feeds {
			f.end(err)
		}
	}
}

func (h *Harness) currentHost() Host {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.host
}

func (h *Harness) subscribe(sub session.SubmissionID, f *feed) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.subs[sub] = append(h.subs[sub], f)
	if h.failed != nil {
		f.end(h.failed)
	}
}

func (h *Harness) unsubscribe(f *feed) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for sub, feeds := range h.subs {
		h.subs[sub] = slices.DeleteFunc(feeds, func(o *feed) bool { return o == f })
		if len(h.subs[sub]) == 0 {
			delete(h.subs, sub)
		}
	}
}
