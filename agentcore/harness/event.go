package harness

import (
	"context"
	"encoding/json"
	"sync"
	"time"

	"github.com/workflowd/workflowd/agentcore/harness/turn"
	"github.com/workflowd/workflowd/agentcore/llm"
	"github.com/workflowd/workflowd/agentcore/session"
)

// Event is one thing that happened in a turn. The sum is closed. Every event left after the commit named by its Cursor.
// Type is its name on the wire.
type Event interface {
	Type() string
	At() Cursor
	isEvent()
}

// Cursor says where in the session an event comes from: the store, its commit, and the place among that commit's events.
// An event told again from the record carries the commit that was newest then and a negative Index: it is not what that
// commit showed, and a reader knows it by its Place or id.
type Cursor struct {
	Store string
	Seq   session.Seq
	Index int
}

// At returns the cursor.
func (c Cursor) At() Cursor { return c }

// Place is where streamed text belongs: block Block of entry Entry, from byte Offset on. It is the same live, after a
// restart and in history, so a reader that knows what it has can drop what it knows.
type Place struct {
	Entry  session.EntryID
	Block  int
	Offset int
}

// TextDelta is answer text. Wire name text_delta.
type TextDelta struct {
	Cursor
	Place
	Text string
}

// ThinkingDelta is reasoning. Wire name thinking_delta.
type ThinkingDelta struct {
	Cursor
	Place
	Text string
}

// Phase is the part of a thing's life an event tells.
type Phase string

// The phases.
const (
	Start  Phase = "start"
	Update Phase = "update"
	End    Phase = "end"
)

// Tool is a tool call's start, live output or end. Wire name tool.
type Tool struct {
	Cursor
	Phase      Phase
	Entry      session.EntryID // the assistant entry that holds the call
	Index      int             // place among the entry's blocks
	ToolCallID string          // opaque, stable, unique in the session
	Name       string
	Args       json.RawMessage // as the model submitted them
	Offset     int             // Update: bytes of output before Output
	Output     string          // Update: live output
	Result     []llm.Block     // End
	IsError    bool            // End
	Code       string          // End: why there is no real result: interrupted, aborted, tool_unavailable, …
	Details    json.RawMessage // End
	Duration   time.Duration   // End: zero when the call did not execute here
}

// RetryKind says why a turn had to be carried on.
type RetryKind = turn.RetryKind

// The kinds.
const (
	Dropped  = turn.Dropped
	Recovery = turn.Recovery
	Length   = turn.Length
	LostCall = turn.LostCall
)

// Retry is an attempt at carrying a turn on. Wire name retry.
type Retry struct {
	Cursor
	Kind        RetryKind
	Attempt     int
	MaxAttempts int
	Reason      string
	Entry       session.EntryID // the continuation prompt; 0 for a plain resend
}

// ContextUsage is how full the model's context is. Wire name context_usage.
type ContextUsage struct {
	Cursor
	Used, Total int64
}

// UsageReport is what one model response cost. RecordID is stable: a repeat is the same bill.
type UsageReport struct {
	Cursor
	RecordID string
	Origin   llm.Origin
	Usage    llm.Usage
}

// Paused says that a call waits for a person. Err is the host's error of kind user_input_required.
type Paused struct {
	Cursor
	Err error
}

// Compaction is the start or the end of a compaction. There is no end of one that failed. Wire name compaction.
type Compaction struct {
	Cursor
	Phase   Phase
	Task    session.TaskID  // what makes it; 0 when there was nothing to do
	Auto    bool            // nobody asked for it
	Entry   session.EntryID // End: where the summary stands; 0 when there was nothing to summarise
	Summary string          // End
}

// TurnEnd is the last event of a turn.
type TurnEnd struct {
	Cursor
	Status session.SubmissionStatus
	Answer session.EntryID
	Reason string
	Detail string
}

// Plan is the start or the end of a plan: what a turn in plan mode wrote behind its last tool call. Wire name plan.
type Plan struct {
	Cursor
	Phase    Phase
	Revision int    // from 1
	Text     string // End
}

// PlanApproval is the outcome of a plan's approval. Wire name approval.
type PlanApproval struct {
	Cursor
	RequestID    string
	Revision     int
	Approved     bool
	Instructions string // what a refusal came with
}

func (TextDelta) isEvent()     {}
func (ThinkingDelta) isEvent() {}
func (Tool) isEvent()          {}
func (Retry) isEvent()         {}
func (ContextUsage) isEvent()  {}
func (Plan) isEvent()          {}
func (PlanApproval) isEvent()  {}
func (UsageReport) isEvent()   {}
func (Paused) isEvent()        {}
func (TurnEnd) isEvent()       {}
func (Compaction) isEvent()    {}

// Type returns "text_delta".
func (TextDelta) Type() string { return "text_delta" }

// Type returns "thinking_delta".
func (ThinkingDelta) Type() string { return "thinking_delta" }

// Type returns "tool".
func (Tool) Type() string { return "tool" }

// Type returns "retry".
func (Retry) Type() string { return "retry" }

// Type returns "context_usage".
func (ContextUsage) Type() string { return "context_usage" }

// Type returns "plan".
func (Plan) Type() string { return "plan" }

// Type returns "approval".
func (PlanApproval) Type() string { return "approval" }

// Type returns "usage".
func (UsageReport) Type() string { return "usage" }

// Type returns "paused".
func (Paused) Type() string { return "paused" }

// Type returns "compaction".
func (Compaction) Type() string { return "compaction" }

// Type returns "turn_end".
func (TurnEnd) Type() string { return "turn_end" }

// published is an event on its way from a commit to the subscribers of a submission.
type published struct {
	sub   session.SubmissionID
	event Event
}

// joined says that a submission became part of another one's turn.
type joined struct{ sub, turn session.SubmissionID }

// at returns e with its cursor set.
func at(e Event, c Cursor) Event {
	switch e := e.(type) {
	case TextDelta:
		e.Cursor = c
		return e
	case ThinkingDelta:
		e.Cursor = c
		return e
	case Tool:
		e.Cursor = c
		return e
	case Retry:
		e.Cursor = c
		return e
	case ContextUsage:
		e.Cursor = c
		return e
	case UsageReport:
		e.Cursor = c
		return e
	case Plan:
		e.Cursor = c
		return e
	case PlanApproval:
		e.Cursor = c
		return e
	case Paused:
		e.Cursor = c
		return e
	case Compaction:
		e.Cursor = c
		return e
	case TurnEnd:
		e.Cursor = c
		return e
	}
	return e
}

// feed is one reader's queue of events. A slow reader never slows a turn: the queue takes everything, and neighbouring
// deltas of one block merge once it is long.
type feed struct {
	mu    sync.Mutex
	queue []Event
	err   error
	wake  chan struct{} // capacity 1
}

// mergeAt is how many events may wait before neighbouring deltas merge.
const mergeAt = 1024

func newFeed() *feed { return &feed{wake: make(chan struct{}, 1)} }

func (f *feed) put(e Event) {
	f.mu.Lock()
	if n := len(f.queue); n < mergeAt || !merge(&f.queue[n-1], e) {
		f.queue = append(f.queue, e)
	}
	f.mu.Unlock()
	f.signal()
}

func (f *feed) end(err error) {
	f.mu.Lock()
	if f.err == nil {
		f.err = err
	}
	f.mu.Unlock()
	f.signal()
}

func (f *feed) signal() {
	select {
	case f.wake <- struct{}{}:
	default:
	}
}

// take waits for events. It returns what is queued, or the feed's error once the queue is empty, or ctx's cause.
func (f *feed) take(ctx context.Context) ([]Event, error) {
	for {
		f.mu.Lock()
		queue, err := f.queue, f.err
		f.queue = nil
		f.mu.Unlock()
		if len(queue) > 0 {
			return queue, nil
		}
		if err != nil {
			return nil, err
		}
		select {
		case <-f.wake:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// merge appends e to last when both are deltas of the same block and touch.
func merge(last *Event, e Event) bool {
	switch l := (*last).(type) {
	case TextDelta:
		if e, ok := e.(TextDelta); ok && touches(l.Place, len(l.Text), e.Place) {
			l.Text += e.Text
			*last = l
			return true
		}
	case ThinkingDelta:
		if e, ok := e.(ThinkingDelta); ok && touches(l.Place, len(l.Text), e.Place) {
			l.Text += e.Text
			*last = l
			return true
		}
	case Tool, Retry, ContextUsage, Plan, PlanApproval, UsageReport, Compaction, Paused, TurnEnd:
	}
	return false
}

func touches(a Place, n int, b Place) bool {
	return a.Entry == b.Entry && a.Block == b.Block && a.Offset+n == b.Offset
}
