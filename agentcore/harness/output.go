package harness

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/workflowd/workflowd/agentcore/session"
	"github.com/workflowd/workflowd/agentcore/task"
)

// outputDoc is the committed part of a call's live output. The kernel retires it with its task.
type outputDoc struct {
	Text string `json:"text"`
}

var outputs = session.Doc[outputDoc]{Kind: "workflow.output", Version: 1, Scope: session.ScopeTask, BaseEvery: deltasPerBase}

// MaxLiveOutput bounds what is kept and shown of a call's live output, in bytes; the result says the rest.
const MaxLiveOutput = 64 << 10

// output commits a call's live output while it runs and shows it after.
//
// mu guards pending and total.
type output struct {
	h   *Harness
	inv *task.Invocation
	in  toolInput
	f   *flusher

	mu      sync.Mutex
	pending []byte
	total   int
	stored  bool
	shown   int
}

func (h *Harness) newOutput(inv *task.Invocation, in toolInput) *output {
	o := &output{h: h, inv: inv, in: in}
	o.f = newFlusher(o.flush)
	return o
}

func (o *output) start(ctx context.Context) { o.f.start(ctx) }
func (o *output) stop()                     { o.f.stop() }

func (o *output) emit(text string) {
	o.mu.Lock()
	room := MaxLiveOutput - o.total
	if len(text) > room {
		text = text[:max(room, 0)]
	}
	o.total += len(text)
	o.pending = append(o.pending, text...)
	o.mu.Unlock()
	if text != "" {
		o.f.kick()
	}
}

func (o *output) flush(ctx context.Context) error {
	_, err := o.inv.Write(context.WithoutCancel(ctx), func(tx *session.Tx) error {
		o.mu.Lock()
		text := string(o.pending)
		o.pending = nil
		o.mu.Unlock()
		if text == "" {
			return nil
		}
		at := outputs.At(int64(o.inv.Task().ID), "")
		var err error
		if o.stored {
			err = outputs.Patch(tx, at, session.Op{Op: session.OpAppend, Path: "/text", Value: mustJSON(text)})
		} else {
			err = outputs.Put(tx, at, outputDoc{text})
		}
		if err != nil {
			return err
		}
		o.stored = true
		tx.Publish(published{o.in.Submission, Tool{Phase: Update, Entry: o.in.Entry, Index: o.in.Index, ToolCallID: toolCallID(o.in.Entry, o.in.Index),
			Name: o.in.Name, Offset: o.shown, Output: text}})
		o.shown += len(text)
		return nil
	})
	if errors.Is(err, task.ErrStaleInvocation) {
		return nil
	}
	return err
}

// flusher commits growing output at the cadence of the design: the first piece at once, then as soon as the last commit
// returned but not within PartialInterval of it; slow commits stretch the interval up to PartialStretch. At most one
// commit is in flight, on the flusher's own goroutine, which exists from the first piece on.
type flusher struct {
	flush func(ctx context.Context) error
	ctx   context.Context // ends only the waits between commits
	wake  chan struct{}   // capacity 1
	quit  chan struct{}
	wg    sync.WaitGroup
	err   error // first failed commit; read after stop

	mu   sync.Mutex // guards idle
	idle bool       // begun, with nothing to commit so far
}

func newFlusher(flush func(context.Context) error) *flusher {
	return &flusher{flush: flush, wake: make(chan struct{}, 1), quit: make(chan struct{})}
}

// start begins flushing. ctx ends only the waits between commits.
func (f *flusher) start(ctx context.Context) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.ctx, f.idle = ctx, true
}

// kick says that there is something to commit.
func (f *flusher) kick() {
	f.mu.Lock()
	if f.idle {
		f.idle = false
		f.wg.Go(func() { f.loop(f.ctx) })
	}
	f.mu.Unlock()
	select {
	case f.wake <- struct{}{}:
	default:
	}
}

// stop ends flushing and waits for the commit in flight. What is pending stays pending.
func (f *flusher) stop() {
	f.mu.Lock()
	f.idle = false
	f.mu.Unlock()
	close(f.quit)
	f.wg.Wait()
}

func (f *flusher) loop(ctx context.Context) {
	for {
		select {
		case <-f.wake:
		case <-f.quit:
			return
		case <-ctx.Done():
			return
		}
		begun := time.Now()
		if f.err = f.flush(ctx); f.err != nil {
			return
		}
		pause := time.NewTimer(interval(time.Since(begun)))
		select {
		case <-pause.C:
		case <-f.quit:
			pause.Stop()
			return
		}
	}
}

// stretch is how many times its own duration a commit is followed by rest: one commit in so many may be ours.
const stretch = 4

// interval is the rest after a commit that took d.
func interval(d time.Duration) time.Duration {
	return min(max(PartialInterval, stretch*d), PartialStretch)
}
