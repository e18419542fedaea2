package harness

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"sync"
	"time"

	"github.com/workflowd/workflowd/agentcore/harness/turn"
	"github.com/workflowd/workflowd/agentcore/llm"
	"github.com/workflowd/workflowd/agentcore/session"
	"github.com/workflowd/workflowd/agentcore/task"
	"github.com/workflowd/workflowd/agentcore/tokens"
	"github.com/workflowd/workflowd/internal/faultpoint"
)

var (
	pointPartialBefore = faultpoint.New("harness.partial.before")
	pointPartial       = faultpoint.New("harness.partial.committed")
)

// stream takes one model response in and commits its text while it comes.
//
// mu guards blocks, texts, pending, behind, calls, stored, written and sealed; the reader and the flusher share them.
type stream struct {
	h      *Harness
	inv    *task.Invocation
	g      genState
	origin llm.Origin
	window int64
	used   int64 // tokens of the request
	whole  bool  // nothing is shown before the response is complete

	mu      sync.Mutex
	blocks  []liveBlock        // all that came; calls have an empty text here
	texts   []*strings.Builder // what the texts of blocks are the present state of
	pending []Event            // deltas not shown yet, in order
	behind  []Event            // deltas behind a call: shown with it, in the provider's order, once the call is complete
	calls   int                // index of the first call block, or -1
	stored  int                // blocks in the live document; 0 = it does not exist
	written []int              // bytes of each block in the live document
	sealed  []int              // blocks whose thinking is complete, not yet said in the live document
	told    time.Time          // last context update

	bill   *llm.Usage
	failed error // the flusher's
}

func (h *Harness) newStream(inv *task.Invocation, g genState, setup Setup, used int64) *stream {
	return &stream{h: h, inv: inv, g: g, origin: setup.Provider.Origin(setup.Model), window: setup.Window, used: used, calls: -1}
}

// run reads the response to its end and returns the message as far as it came, and what the next step depends on.
func (st *stream) run(ctx context.Context, events iter.Seq2[llm.StreamEvent, error]) (llm.Message, turn.Response) {
	f := newFlusher(st.flush)
	f.start(ctx)
	m, r := st.read(events, f)
	f.stop()
	st.failed = f.err
	return m, r
}

func (st *stream) read(events iter.Seq2[llm.StreamEvent, error], f *flusher) (llm.Message, turn.Response) {
	for e, err := range events {
		if err != nil {
			return st.broken(err)
		}
		switch e := e.(type) {
		case llm.BlockStart:
			st.begin(e)
		case llm.Delta:
			if st.delta(e) {
				f.kick()
			}
		case llm.BlockStop:
			st.stop(e)
		case llm.Done:
			return st.done(e)
		}
	}
	return st.broken(&llm.Error{Class: llm.Connection, Message: "the provider's stream ended without a terminal event", Dispatched: true})
}

func (st *stream) begin(e llm.BlockStart) {
	st.mu.Lock()
	defer st.mu.Unlock()
	for len(st.blocks) <= e.Index {
		st.blocks = append(st.blocks, liveBlock{Type: e.Type})
		st.texts = append(st.texts, &strings.Builder{})
		st.written = append(st.written, 0)
	}
	st.blocks[e.Index].Type, st.blocks[e.Index].Field = e.Type, e.Field
	if e.Type == llm.ToolCall && st.calls < 0 {
		st.calls = e.Index
	}
}

// stop keeps what sends complete thinking back the way it came.
func (st *stream) stop(e llm.BlockStop) {
	st.mu.Lock()
	defer st.mu.Unlock()
	if e.Index < len(st.blocks) && st.blocks[e.Index].Type == llm.Thinking {
		st.blocks[e.Index].Field, st.blocks[e.Index].Raw = e.Block.Field, e.Block.Raw
		st.sealed = append(st.sealed, e.Index)
	}
}

// delta takes text in. It reports whether there is something to commit.
func (st *stream) delta(e llm.Delta) bool {
	st.mu.Lock()
	defer st.mu.Unlock()
	if e.Index >= len(st.blocks) || e.Text == "" {
		return false
	}
	b := &st.blocks[e.Index]
	p := Place{Entry: st.g.Entry, Block: e.Index, Offset: len(b.Text)}
	queue := &st.pending
	if st.calls >= 0 && e.Index > st.calls {
		queue = &st.behind
	}
	switch b.Type {
	case llm.Text, llm.Refusal:
		*queue = append(*queue, TextDelta{Place: p, Text: e.Text})
	case llm.Thinking:
		*queue = append(*queue, ThinkingDelta{Place: p, Text: e.Text})
	case llm.ToolCall, llm.Image, llm.Native:
		return false
	}
	st.texts[e.Index].WriteString(e.Text)
	b.Text = st.texts[e.Index].String()
	return queue == &st.pending && !st.whole
}

// replaced takes the message that hooks have put in the place of a response nobody was shown yet.
func (st *stream) replaced(m llm.Message, lost int) turn.Response {
	st.mu.Lock()
	st.pending, st.behind = nil, nil
	for i, b := range m.Blocks {
		switch p := (Place{Entry: st.g.Entry, Block: i}); b.Type {
		case llm.Text, llm.Refusal:
			st.pending = append(st.pending, TextDelta{Place: p, Text: b.Text})
		case llm.Thinking:
			st.pending = append(st.pending, ThinkingDelta{Place: p, Text: b.Text})
		case llm.ToolCall, llm.Image, llm.Native:
		}
	}
	st.mu.Unlock()
	return judged(m, lost)
}

func (st *stream) done(e llm.Done) (llm.Message, turn.Response) {
	st.bill = e.Message.Usage
	return e.Message, judged(e.Message, e.LostCalls)
}

// judged is what the next step depends on behind a complete response.
func judged(m llm.Message, lost int) turn.Response {
	r := turn.Response{Stop: m.Stop, StopWhy: m.StopWhy, Lost: lost}
	for _, b := range m.Blocks {
		switch b.Type {
		case llm.ToolCall:
			r.Calls++
		case llm.Text, llm.Refusal:
			r.Spoke = r.Spoke || strings.TrimSpace(b.Text) != ""
		case llm.Thinking, llm.Image, llm.Native:
		}
	}
	r.Produced = len(m.Blocks) > 0
	return r
}

func (st *stream) broken(err error) (llm.Message, turn.Response) {
	e, ok := errors.AsType[*llm.Error](err)
	if !ok {
		e = &llm.Error{Class: llm.Invalid, Message: err.Error(), Cause: err}
	}
	st.bill = e.Usage
	st.mu.Lock()
	defer st.mu.Unlock()
	st.behind = nil
	o := st.origin
	m := llm.Message{Role: llm.RoleAssistant, Stop: llm.StopInterrupted, Origin: &o, Usage: e.Usage}
	for _, b := range st.blocks {
		if b.Type == llm.ToolCall { // an incomplete call is never shown nor run, nor what was said behind it
			break
		}
		m.Blocks = append(m.Blocks, b.block())
	}
	shown := false
	for _, b := range m.Blocks {
		shown = shown || b.Text != ""
	}
	if !shown {
		m.Blocks = nil
	}
	return m, turn.Response{Err: e, Produced: shown || st.calls >= 0} // the beginning of a call is output too: it is never sent for twice
}

// flush commits what came since the last one, then shows it.
func (st *stream) flush(ctx context.Context) error {
	pointPartialBefore.Hit()
	var shown []Event
	_, err := st.inv.Write(context.WithoutCancel(ctx), func(tx *session.Tx) error {
		st.mu.Lock()
		defer st.mu.Unlock()
		if len(st.pending) == 0 {
			return nil
		}
		if err := st.store(tx); err != nil {
			return err
		}
		for _, e := range st.pending {
			tx.Publish(published{st.g.Submission, e})
		}
		shown, st.pending = st.pending, nil
		if now := time.Now(); st.window > 0 && now.Sub(st.told) >= UsageInterval {
			st.told = now
			tx.Publish(published{st.g.Submission, ContextUsage{Used: st.used + st.came(), Total: st.window}})
		}
		return nil
	})
	if errors.Is(err, task.ErrStaleInvocation) {
		return nil // stopped or suspended in mid-answer: the reader ends next
	}
	if err == nil {
		pointPartial.Hit()
		return nil
	}
	st.mu.Lock()
	defer st.mu.Unlock()
	st.pending = append(shown, st.pending...) // nobody saw it: it is shown with the commit that ends the response
	return err
}

// store drafts the live document's growth. The caller holds mu, on the line.
func (st *stream) store(tx *session.Tx) error {
	blocks := st.blocks
	if st.calls >= 0 {
		blocks = blocks[:st.calls]
	}
	first := st.stored == 0
	old := st.stored
	st.stored = len(blocks)
	if first {
		for i, b := range blocks {
			st.written[i] = len(b.Text)
		}
		st.sealed = nil
		return live.Put(tx, liveAt(st.g.Conversation), liveDoc{Entry: st.g.Entry, Origin: &st.origin, Blocks: blocks})
	}
	var ops []session.Op
	for _, i := range st.sealed {
		if i < old {
			b := blocks[i]
			ops = append(ops, session.Op{Op: session.OpSet, Path: fmt.Sprintf("/blocks/%d/field", i), Value: mustJSON(b.Field)})
			if b.Raw != nil {
				ops = append(ops, session.Op{Op: session.OpSet, Path: fmt.Sprintf("/blocks/%d/raw", i), Value: b.Raw})
			}
		}
	}
	st.sealed = nil
	for i, b := range blocks {
		switch {
		case i >= old:
			ops = append(ops, session.Op{Op: session.OpSplice, Path: "/blocks/-", Value: mustJSON([]liveBlock{b})})
		case st.written[i] < len(b.Text):
			ops = append(ops, session.Op{Op: session.OpAppend, Path: fmt.Sprintf("/blocks/%d/text", i), Value: mustJSON(b.Text[st.written[i]:])})
		}
		st.written[i] = len(b.Text)
	}
	return live.Patch(tx, liveAt(st.g.Conversation), ops...)
}

func (st *stream) came() int64 {
	var n int64
	for _, b := range st.blocks {
		n += tokens.Text(b.Text)
	}
	return n
}

// rest returns the deltas that were not shown yet.
func (st *stream) rest() []Event {
	st.mu.Lock()
	defer st.mu.Unlock()
	rest := append(st.pending, st.behind...)
	st.pending, st.behind = nil, nil
	return rest
}

// usage is the bill of this response, when the provider named one.
func (st *stream) usage(g genState) []usageRecord {
	if st.bill == nil || *st.bill == (llm.Usage{}) {
		return nil
	}
	return []usageRecord{{RecordID: st.h.recordID(g), Origin: st.origin, Usage: *st.bill}}
}
