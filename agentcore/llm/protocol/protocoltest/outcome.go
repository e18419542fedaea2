package protocoltest

import (
	"errors"
	"io"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/workflowd/workflowd/agentcore/llm"
	"github.com/workflowd/workflowd/agentcore/llm/protocol"
	"github.com/workflowd/workflowd/internal/sse"
)

// Outcome is what a stream came to.
type Outcome struct {
	Blocks []llm.Block // as their events built them
	Stop   llm.StopReason
	Why    string // of the stop
	Usage  *llm.Usage
	ID     string
	Lost   int
	Err    *llm.Error
	// Differs lists blocks whose final text is not that of their deltas: the endpoint's own final value was another one.
	Differs []int
}

// Joined returns the texts of the blocks of one kind, joined.
func (o Outcome) Joined(t llm.BlockType) string {
	var b strings.Builder
	for i := range o.Blocks {
		if o.Blocks[i].Type == t {
			b.WriteString(o.Blocks[i].Text)
		}
	}
	return b.String()
}

// Calls returns the calls.
func (o Outcome) Calls() []llm.Block { return llm.Message{Blocks: o.Blocks}.Calls() }

// Run decodes a body and checks the rules that hold for every stream.
func Run(t testing.TB, d protocol.Decoder, src io.Reader) Outcome {
	t.Helper()
	r := sse.NewReader(src)
	var events []llm.StreamEvent
	var failure error
	for failure == nil && !d.Made().Finished {
		ev, err := r.Next()
		switch {
		case err != nil:
			failure = d.End(err)
		case d.Idle(ev):
		default:
			failure = d.Event(ev)
		}
		events = append(events, d.Made().Take()...)
		if err != nil && failure == nil && !d.Made().Finished {
			t.Fatalf("the body ended (%v), and there is neither Done nor an error", err)
		}
	}
	return Fold(t, events, failure)
}

// Fold builds what the events say and checks that starts, deltas, stops and Done agree.
func Fold(t testing.TB, events []llm.StreamEvent, failure error) Outcome {
	t.Helper()
	var out Outcome
	var stopped []bool
	var asm llm.Assembler
	for i, ev := range events {
		asm.Add(ev)
		switch ev := ev.(type) {
		case llm.BlockStart:
			if ev.Index != len(out.Blocks) {
				t.Fatalf("block %d starts when %d have started", ev.Index, len(out.Blocks))
			}
			if ev.Type == llm.ToolCall && (ev.Name == "" || ev.CallID == "") {
				t.Fatalf("a call starts without name or id: %+v", ev)
			}
			out.Blocks = append(out.Blocks, llm.Block{Type: ev.Type, CallID: ev.CallID, Name: ev.Name})
			stopped = append(stopped, false)
		case llm.Delta:
			if ev.Text == "" || stopped[ev.Index] {
				t.Fatalf("delta %+v, stopped %v", ev, stopped)
			}
			out.Blocks[ev.Index].Text += ev.Text
		case llm.BlockStop:
			if stopped[ev.Index] {
				t.Fatalf("block %d stops twice", ev.Index)
			}
			stopped[ev.Index] = true
			if grown := out.Blocks[ev.Index]; grown.Type != ev.Block.Type || grown.CallID != ev.Block.CallID || grown.Name != ev.Block.Name {
				t.Fatalf("block %d started as %+v and stopped as %+v", ev.Index, grown, ev.Block)
			} else if grown.Type != llm.ToolCall && grown.Text != ev.Block.Text {
				out.Differs = append(out.Differs, ev.Index)
			}
			out.Blocks[ev.Index] = ev.Block
		case llm.Done:
			if i != len(events)-1 || failure != nil {
				t.Fatalf("behind Done come %d events and the error %v", len(events)-1-i, failure)
			}
			if len(ev.Message.Blocks)+len(out.Blocks) > 0 && !reflect.DeepEqual(ev.Message.Blocks, out.Blocks) {
				t.Fatalf("Done and stops differ (-done +stops):\n%s", cmp.Diff(ev.Message.Blocks, out.Blocks))
			}
			if ev.Message.Origin == nil || ev.Message.Role != llm.RoleAssistant || ev.Message.Stop == "" {
				t.Fatalf("Done has %+v", ev.Message)
			}
			for i, s := range stopped {
				if !s {
					t.Fatalf("block %d is open at Done", i)
				}
			}
			out.Why, out.Stop, out.Usage, out.ID, out.Lost = ev.Message.StopWhy, ev.Message.Stop, ev.Message.Usage, ev.Message.ID, ev.LostCalls
		}
	}
	if failure != nil {
		e, ok := errors.AsType[*llm.Error](failure)
		if !ok {
			t.Fatalf("error without a type: %v", failure)
		}
		if e.Produced == asm.Empty() {
			t.Fatalf("Produced is %v, the partial is empty: %v", e.Produced, asm.Empty())
		}
		out.Err, out.Usage = e, e.Usage
	}
	return out
}

// Diff returns how two outcomes differ, "" when they do not but for minted ids and causes.
func Diff(got, want Outcome) string {
	got, want = got.plain(), want.plain()
	if reflect.DeepEqual(got, want) { // much faster than a diff, and the rule
		return ""
	}
	return cmp.Diff(got, want)
}

// minted has the length of ids made by ids.New.
const minted = protocol.MintedCall + "01JAB2C3D4E5F6G7H8J9KAMBNC"

// plain returns o without what two runs may differ in.
func (o Outcome) plain() Outcome {
	o.Blocks = slices.Clone(o.Blocks)
	for i := range o.Blocks {
		if id := o.Blocks[i].CallID; strings.HasPrefix(id, protocol.MintedCall) && len(id) == len(minted) {
			o.Blocks[i].CallID = protocol.MintedCall
		}
	}
	if o.Err != nil {
		e := *o.Err
		e.Cause = nil
		o.Err = &e
	}
	return o
}
