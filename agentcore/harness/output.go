package harness

import (
	"context"
	"errors"
	"sync"

	"github.com/workflowd/workflowd/agentcore/session"
	"github.com/workflowd/workflowd/agentcore/task"
)

// outputDoc is the committed part of a call's live output.
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
