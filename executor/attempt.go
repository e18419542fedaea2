package executor

import (
	"context"
	"encoding/json"
	"iter"
	"sync"
	"sync/atomic"
	"time"

	"github.com/workflowd/workflowd/agentcore/fault"
	"github.com/workflowd/workflowd/executor/internal/schedule"
	"github.com/workflowd/workflowd/executor/internal/stopwatch"
	"github.com/workflowd/workflowd/executor/runlog"
	"github.com/workflowd/workflowd/outputitems"
	"github.com/workflowd/workflowd/workflow"
	"github.com/workflowd/workflowd/workflow/graph"
)

// attempt is one entry into a node's code, and the context that the code gets.
type attempt struct {
	context.Context
	o      *owner
	v      *visit
	cancel context.CancelCauseFunc
	info   workflow.RunInfo
	first  runlog.Seq // where the chunks of the visit begin, 0 = with this attempt
	watch  *stopwatch.Watch
	inTx   atomic.Bool // an effect runs inside the store

	mu     sync.Mutex
	source string // of the next chunk
	waits  []string
	wakeAt time.Time
	known  map[string]runlog.Effect // the journal, read once
	used   map[string]bool          // keys of this attempt
}

var _ workflow.NodeContext = (*attempt)(nil)

func newAttempt(o *owner, v *visit) *attempt {
	ctx, cancel := context.WithCancelCause(context.Background())
	return &attempt{
		Context: ctx, o: o, v: v, cancel: cancel, first: v.record.FirstSeq,
		info: workflow.RunInfo{
			RunID: string(o.id), WorkflowName: o.run.Workflow, Version: o.run.Version, Conversation: o.run.Conversation,
			Project: o.run.Project, Path: v.Key.Path, Element: v.Element, Visit: v.Key.Visit, Attempt: v.record.Attempt,
			Epoch: o.e.epoch, Labels: o.run.Labels,
		},
	}
}

// work runs the attempt, and then those that follow from its end, on a goroutine of the crew.
func (a *attempt) work() {
	for next := a; next != nil; {
		next = next.run()
	}
}

func (a *attempt) run() (next *attempt) {
	returned, n := false, a.v.Node()
	a.watch = stopwatch.Start(time.Duration(n.TimeoutMS)*time.Millisecond, time.Duration(n.IdleMS)*time.Millisecond, a.cancel)
	defer func() {
		if !returned { // runtime.Goexit in the node
			a.watch.Stop()
			a.finish(nil, &schedule.Panic{Value: "the node ended its goroutine"}, false)
		}
	}()
	out, err := schedule.Guarded(a.enter)
	a.watch.Stop()
	returned = true
	return a.finish(out, err, true)
}

// finish tells the owner how the attempt ended.
func (a *attempt) finish(out json.RawMessage, err error, inline bool) *attempt {
	if cause := context.Cause(a); stopwatch.Overran(cause) {
		out, err = nil, cause
	} else if err != nil && a.Err() != nil && fault.KindOf(err) == "" {
		err = fault.New(fault.KindOf(contextError(a)), "%w", err)
	}
	a.mu.Lock()
	waits, wakeAt := a.waits, a.wakeAt
	a.mu.Unlock()
	return a.o.submit(message{do: func(o *owner) { o.ended(a.v, waits, wakeAt, out, err) }}, inline)
}

func (a *attempt) enter() (json.RawMessage, error) {
	def, i, in := a.o.plan.Definition(), a.v.Index(), a.v.Input
	if a.v.Node().Kind != graph.Stream {
		return def.Run(a, i, in)
	}
	a.watch.Begin()
	err := def.Stream(a, i, in, func(chunk any) error { return a.deliver(chunk, false) })
	a.watch.Quiet()
	if err != nil {
		return nil, err
	}
	if a.Err() != nil {
		return nil, contextError(a)
	}
	if err := a.call(func(*owner) {}); err != nil { // all chunks are committed now
		return nil, err
	}
	return def.Finalize(a, i, in, a.counted())
}

// counted yields the stream's own chunks of the visit that count.
func (a *attempt) counted() iter.Seq2[json.RawMessage, error] {
	return func(yield func(json.RawMessage, error) bool) {
		for e, err := range a.events() {
			if err == nil && e.Aux {
				continue
			}
			if !yield(e.Data, err) || err != nil {
				return
			}
		}
	}
}

// events yields the visit's chunk events that count, auxiliary ones included.
func (a *attempt) events() iter.Seq2[runlog.Event, error] {
	return func(yield func(runlog.Event, error) bool) {
		first, err := a.firstSeq()
		if err != nil {
			yield(runlog.Event{}, err)
			return
		}
		for after := first - 1; ; {
			page, err := a.o.e.store.Chunks(a.o.id, a.v.Key, after, eventPage)
			if err != nil {
				yield(runlog.Event{}, storeError(err, "chunks of node %q", a.v.Key.Path))
				return
			}
			for _, e := range page {
				if !yield(e, nil) {
					return
				}
				after = e.Seq
			}
			if len(page) < eventPage {
				return
			}
		}
	}
}

// firstSeq is the number of the visit's first event that counts. The owner knows it once the start is committed.
func (a *attempt) firstSeq() (first runlog.Seq, err error) {
	if a.first > 0 {
		return a.first, nil
	}
	return first, a.call(func(*owner) { first = a.v.record.FirstSeq })
}

// call runs fn on the owner and returns once what it wrote is committed.
func (a *attempt) call(fn func(*owner)) error {
	if a.inTx.Load() {
		return a.busy()
	}
	result := make(chan error, 1)
	tell := func(err error) { result <- err }
	a.o.submit(message{refuse: tell, do: func(o *owner) {
		if a.v.cancel == nil || a.v.record.Attempt != a.info.Attempt {
			tell(errReturned)
			return
		}
		fn(o)
		if o.fatal != nil {
			tell(o.fatal)
			return
		}
		o.committed(tell)
	}}, false)
	return <-result
}

// busy is what the node's context answers while an effect holds the store: it would wait for that for ever.
func (a *attempt) busy() error {
	return fault.New(fault.Conflict, "node %q uses its context inside InTx; do that before or behind it", a.v.Key.Path)
}

// deliver hands a chunk to the log. It blocks while the log is behind.
func (a *attempt) deliver(chunk any, aux bool) error {
	if a.inTx.Load() {
		return a.busy()
	}
	kind := runlog.NodeChunk
	if item, ok := chunk.(outputitems.Chunk); ok {
		if err := item.Validate(); err != nil {
			return fault.New(fault.InputValidation, "output item %q: %w", item.ItemID, err)
		}
		kind = runlog.EventKind("item." + string(item.Op()))
	}
	raw, err := json.Marshal(chunk)
	if err != nil {
		return fault.New(fault.InputValidation, "encode chunk: %w", err)
	}
	a.mu.Lock()
	source := a.source
	a.source = ""
	a.mu.Unlock()
	a.watch.Pause() // the log may be behind
	defer a.watch.Begin()
	return a.o.deliver(a, runlog.Event{
		Node: a.v.Key.Path, Visit: a.v.Key.Visit, Attempt: a.info.Attempt, Kind: kind, Data: raw, Source: source, Aux: aux,
	})
}

// deliver puts a chunk into the owner's buffer; it runs on the goroutines of attempts.
func (o *owner) deliver(ctx context.Context, e runlog.Event) error {
	for {
		if ctx.Err() != nil {
			return contextError(ctx)
		}
		o.mu.Lock()
		if len(o.chunks) < maxBufferedChunks && o.bytes < maxBufferedBytes {
			o.chunks = append(o.chunks, e)
			before := o.bytes
			o.bytes += len(e.Data)
			due := len(o.chunks) == 1 || len(o.chunks) == FlushChunks || before < FlushBytes && o.bytes >= FlushBytes
			o.mu.Unlock()
			if due {
				o.ring()
			}
			return nil
		}
		room := o.room
		o.mu.Unlock()
		o.ring()
		select {
		case <-room:
		case <-ctx.Done():
		}
	}
}

// Run implements workflow.NodeContext.
func (a *attempt) Run() workflow.RunInfo { return a.info }

// UserInput implements workflow.NodeContext.
func (a *attempt) UserInput() workflow.UserInput { return people{a} }

// ToolPermissions implements workflow.NodeContext.
func (a *attempt) ToolPermissions() workflow.ToolPermissions {
	return workflow.ToolPermissions{Input: people{a}}
}

// TokenUsage implements workflow.NodeContext.
func (a *attempt) TokenUsage() workflow.TokenUsage { return meter{a} }

// Storage implements workflow.NodeContext.
func (a *attempt) Storage() workflow.Storage { return a.o.e.storage }

// Output implements workflow.NodeContext.
func (a *attempt) Output() workflow.OutputSink { return sink{a} }

// Abort implements workflow.NodeContext.
func (a *attempt) Abort() workflow.AbortSignal { return abort{a} }

// Clock implements workflow.NodeContext.
func (a *attempt) Clock() workflow.Clock { return clock(a.o.e.now) }

// Journal implements workflow.NodeContext.
func (a *attempt) Journal() workflow.Journal { return journal{a} }

type clock func() time.Time

func (c clock) Now() time.Time { return c() }

type sink struct{ a *attempt }

func (s sink) Emit(chunk outputitems.Chunk) error { return s.a.deliver(chunk, true) }

type abort struct{ a *attempt }

func (s abort) Done() <-chan struct{} { return s.a.Done() }

func (s abort) Cause() fault.Kind {
	if s.a.Err() == nil {
		return ""
	}
	return fault.KindOf(contextError(s.a))
}

type meter struct{ a *attempt }

// Report implements workflow.TokenUsage.
func (m meter) Report(recordID string, usage workflow.Usage) error {
	if recordID == "" {
		return fault.New(fault.InputValidation, "usage without a record id")
	}
	return m.a.call(func(o *owner) {
		record := runlog.UsageRecord{RecordID: recordID, Node: m.a.v.Key, Usage: usage}
		o.next.Usage = append(o.next.Usage, record)
		o.event(runlog.UsageRecorded, m.a.v, record)
	})
}
