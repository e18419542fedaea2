package harness

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/workflowd/workflowd/agentcore/llm"
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
	Window    int64 // tokens the model can hold; 0 = unknown, no context updates
}

// Options configure a Harness.
type Options struct {
	// Resolve turns the settings of a submission into a Setup. It may be called again at any time and after a restart;
	// equal settings must give the same system prompt and tools. It must not call the harness.
	Resolve func(ctx context.Context, settings json.RawMessage) (Setup, error)
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

// Harness runs the turns of one session's main conversation. It is safe for concurrent use.
//
// The line of the session guards items, shown, broken and waiting; mu guards all below it.
type Harness struct {
	sess  *session.Session
	sched *task.Scheduler
	opts  Options

	items   []item                            // the whole transcript, decoded, in id order
	shown   string                            // text of the newest system entry
	broken  error                             // an entry that cannot be read
	waiting map[session.SubmissionID]struct{} // queued submissions: most rounds have none and need no look

	mu     sync.Mutex
	last   session.SubmissionID // the submission setup belongs to
	setup  Setup
	host   Host
	subs   map[session.SubmissionID][]*feed
	failed error // the scheduler could not commit
}

// Open takes ownership of storage and loads the conversation. Nothing runs until Run. The harness closes storage.
func Open(ctx context.Context, storage session.Storage, opts Options, mode session.SyncMode) (*Harness, error) {
	return open(ctx, storage, opts, mode, task.Fixed{})
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
	h := &Harness{sess: sess, opts: opts, waiting: map[session.SubmissionID]struct{}{}, subs: map[session.SubmissionID][]*feed{}}
	if err := h.load(ctx); err != nil {
		return nil, errors.Join(err, sess.Close())
	}
	sess.Watch(h.committed)
	h.sched = task.NewSchedulerFrom(sess, h.fail, task.Join(task.NewFixed(h.generation(), h.toolTask()), others))
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
		return 0, asFault(err)
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
		return n, asFault(err)
	}
	if err := h.resume(ctx); err != nil {
		return n, err
	}
	if _, err := f.take(ctx); !errors.Is(err, errSettled) {
		return n, asFault(err)
	}
	return n, nil
}

// markAll cancels every live task, which it notes in live, and what waits in the queue.
func (h *Harness) markAll(ctx context.Context, reason string, live map[session.TaskID]bool) (int, error) {
	n := 0
	_, err := h.sess.Commit(ctx, func(tx *session.Tx) error {
		queue, err := h.queue(tx)
		if err != nil {
			return err
		}
		for _, t := range tx.LiveTasks() {
			n++
			live[t.ID] = true
			if !t.Abort {
				t.Abort, t.AbortReason = true, reason
				tx.PutTask(t)
				tx.Sync()
			}
		}
		for _, q := range queue {
			if q.input.Reset == nil {
				h.settle(tx, q.sub, session.SubmissionUnanswered, 0, reasonAborted, reason)
				tx.Sync()
			}
		}
		return nil
	})
	return n, err
}

// StoreID is the identity of the session's store.
func (h *Harness) StoreID() string { return h.sess.StoreID() }

// Close suspends: running work is told to stop and joined, nothing is cancelled, ownership is released.
func (h *Harness) Close() error {
	h.sched.Close()
	return h.sess.Close()
}

func (h *Harness) load(ctx context.Context) error {
	return h.sess.View(ctx, func(tx *session.Tx) error {
		entries, err := tx.Entries(session.EntryQuery{Conversation: session.Root})
		if errors.Is(err, session.ErrNotFound) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("load conversation: %w", err)
		}
		for _, e := range slices.Backward(entries) {
			if err := h.add(e); err != nil {
				return err
			}
		}
		queued, err := tx.Submissions(session.Root, session.SubmissionQueued)
		h.note(queued)
		return err
	})
}

// note keeps which submissions wait.
func (h *Harness) note(subs []session.Submission) {
	for _, sub := range subs {
		if sub.Status == session.SubmissionQueued && sub.Conversation == session.Root {
			h.waiting[sub.ID] = struct{}{}
		} else {
			delete(h.waiting, sub.ID)
		}
	}
}

func (h *Harness) add(e session.Entry) error {
	it, err := decodeItem(e)
	if err == nil {
		h.mirror(it)
	}
	return err
}

// mirror takes a committed item in, in id order as a restart would find it. It runs on the line.
func (h *Harness) mirror(it item) {
	at := len(h.items)
	for at > 0 && h.items[at-1].id > it.id { // an answer's id is reserved before it is said
		at--
	}
	h.items = slices.Insert(h.items, at, it)
	switch {
	case it.kind == kindSystem:
		h.shown = it.system
	case it.head != 0:
		h.shown = "" // a new context shows the whole prompt again
	}
}

// committed keeps the mirror and hands events to their feeds. It runs on the line. Every entry of the loop is drafted with
// its item; those of the layers above are read from the batch.
func (h *Harness) committed(c session.Commit) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.note(c.Batch.Submissions)
	for _, e := range c.Batch.Entries {
		if e.Conversation != session.Root || slices.ContainsFunc(c.Published, func(p any) bool { it, ok := p.(item); return ok && it.id == e.ID }) {
			continue
		}
		it, err := decodeItem(e)
		if err != nil { // the record holds it; no request without it can be right
			h.broken = fmt.Errorf("conversation: %w", err)
			continue
		}
		h.mirror(it)
	}
	for i, p := range c.Published {
		switch p := p.(type) {
		case item:
			h.mirror(p)
		case joined: // its readers follow the turn from here on
			h.subs[p.turn] = append(h.subs[p.turn], h.subs[p.sub]...)
			delete(h.subs, p.sub)
		case published:
			e := at(p.event, Cursor{Store: h.sess.StoreID(), Seq: c.Seq, Index: i})
			for _, f := range h.subs[p.sub] {
				f.put(e)
			}
		}
	}
}

// say drafts an entry with a message for the model. The mirror takes the message as it is, without decoding it again.
func (h *Harness) say(tx *session.Tx, e session.Entry, m llm.Message, data entryData) session.EntryID {
	e.Conversation, e.Model, e.Data = session.Root, mustJSON(m), mustJSON(data)
	id := tx.Append(e)
	tx.Publish(item{id: id, kind: e.Kind, head: e.Head, message: m, model: true})
	return id
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
