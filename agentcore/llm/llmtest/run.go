package llmtest

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/workflowd/workflowd/agentcore/llm"
	"github.com/workflowd/workflowd/agentcore/llm/scripted"
)

// New returns a provider whose model follows script. Cleanup belongs to t.
type New func(t *testing.T, script scripted.Script) llm.Provider

// patience bounds what must happen at once. It is only reached when the provider is broken.
const patience = 20 * time.Second

// Run checks the contract with providers from newProvider.
func Run(t *testing.T, newProvider New) {
	t.Run("a response is blocks in order and one Done", func(t *testing.T) { everyResponse(t, newProvider) })
	t.Run("a failure is one typed error and comes last", func(t *testing.T) { everyFailure(t, newProvider) })
	t.Run("an interrupted response says whether it produced anything", func(t *testing.T) { produced(t, newProvider) })
	t.Run("ending the context ends a waiting stream at once", func(t *testing.T) { canceled(t, newProvider, false) })
	t.Run("ending the context ends a flowing stream at once", func(t *testing.T) { canceled(t, newProvider, true) })
	t.Run("an ended context sends no request", func(t *testing.T) { neverSent(t, newProvider) })
	t.Run("breaking out of the loop ends the stream", func(t *testing.T) { broken(t, newProvider) })
	t.Run("a provider serves many streams at once", func(t *testing.T) { concurrent(t, newProvider) })
	t.Run("the origin names the endpoint and the model", func(t *testing.T) { origin(t, newProvider) })
}

func always(r scripted.Response) scripted.Script {
	return scripted.Func(func(scripted.Request) (scripted.Response, error) { return r, nil })
}

func ask() llm.Request {
	return llm.Request{Model: "model-1", System: "be brief", Messages: []llm.Message{llm.TextMessage(llm.RoleUser, "go")}}
}

// Story is what a stream came to. Exactly one of Done and Err is set.
type Story struct {
	Blocks []llm.Block // as their events built them
	Done   *llm.Done
	Err    *llm.Error
}

// Follow runs one request and fails t where the events break the contract.
func Follow(ctx context.Context, t *testing.T, p llm.Provider, req llm.Request) Story {
	t.Helper()
	var s Story
	var open []bool
	for ev, err := range p.Stream(ctx, req) {
		if s.Done != nil || s.Err != nil {
			t.Fatalf("after the end came %T, %v", ev, err)
		}
		if err != nil {
			e, ok := errors.AsType[*llm.Error](err)
			if !ok || ev != nil {
				t.Fatalf("got event %v with error %v (%T)", ev, err, err)
			}
			s.Err = e
			continue
		}
		switch ev := ev.(type) {
		case llm.BlockStart:
			if ev.Index != len(s.Blocks) {
				t.Fatalf("block %d starts after %d blocks", ev.Index, len(s.Blocks))
			}
			if ev.Type == llm.ToolCall && (ev.CallID == "" || ev.Name == "") {
				t.Fatalf("a call without id or name starts: %+v", ev)
			}
			s.Blocks = append(s.Blocks, llm.Block{Type: ev.Type, CallID: ev.CallID, Name: ev.Name})
			open = append(open, true)
		case llm.Delta:
			if ev.Index >= len(open) || !open[ev.Index] || ev.Text == "" {
				t.Fatalf("delta %+v, open blocks %v", ev, open)
			}
			s.Blocks[ev.Index].Text += ev.Text
		case llm.BlockStop:
			if ev.Index >= len(open) || !open[ev.Index] {
				t.Fatalf("block %d stops, open blocks %v", ev.Index, open)
			}
			open[ev.Index] = false
			addsUp(t, s.Blocks[ev.Index], ev.Block)
			s.Blocks[ev.Index] = ev.Block
		case llm.Done:
			s.Done = &ev
			matches(t, s.Blocks, open, ev.Message)
		default:
			t.Fatalf("unknown event %T", ev)
		}
	}
	if s.Done == nil && s.Err == nil {
		t.Fatal("the stream ended with neither Done nor an error")
	}
	return s
}

// addsUp checks that the deltas of a block are its final value.
func addsUp(t *testing.T, deltas, final llm.Block) {
	t.Helper()
	if deltas.Type != final.Type || deltas.CallID != final.CallID || deltas.Name != final.Name {
		t.Fatalf("block started as %+v and stopped as %+v", deltas, final)
	}
	want := final.Text
	if final.Type == llm.ToolCall {
		if (final.Args == nil) != (final.BadArgs != "") {
			t.Fatalf("a call needs arguments or bad arguments: %+v", final)
		}
		if want = final.BadArgs; final.Args != nil {
			var a, b any
			if text := strings.TrimSpace(deltas.Text); text != "" && text != "null" {
				if err := errors.Join(json.Unmarshal([]byte(text), &a), json.Unmarshal(final.Args, &b)); err != nil {
					t.Fatalf("arguments %q: %v", text, err)
				}
			}
			if _, isObject := b.(map[string]any); b != nil && !isObject {
				t.Fatalf("arguments %s are no object", final.Args)
			}
			return
		}
	}
	if deltas.Text != want {
		t.Fatalf("deltas say %q, the block %q", deltas.Text, want)
	}
}

func matches(t *testing.T, blocks []llm.Block, open []bool, m llm.Message) {
	t.Helper()
	for i, still := range open {
		if still {
			t.Fatalf("block %d is open at Done", i)
		}
	}
	got, err := json.Marshal(m.Blocks)
	if err != nil {
		t.Fatal(err)
	}
	want, err := json.Marshal(blocks)
	if err != nil {
		t.Fatal(err)
	}
	if len(blocks)+len(m.Blocks) > 0 && string(got) != string(want) {
		t.Fatalf("Done has blocks %s, the events made %s", got, want)
	}
	if m.Role != llm.RoleAssistant || m.Origin == nil || m.Stop == "" {
		t.Fatalf("Done has role %q, origin %v, stop %q", m.Role, m.Origin, m.Stop)
	}
}
