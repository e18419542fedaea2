package registry_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/workflowd/workflowd/agentcore/llm"
	"github.com/workflowd/workflowd/agentcore/registry"
	"github.com/workflowd/workflowd/agentcore/session"
	"github.com/workflowd/workflowd/agentcore/tool"
)

var errHook = errors.New("told by the test")

// reports gathers what a chain tells about failed hooks.
type reports []string

func (r *reports) add(e registry.HookError) {
	*r = append(*r, e.Extension+" "+e.Hook+": "+e.Err.Error())
}

func (r *reports) want(t *testing.T, want ...string) {
	t.Helper()
	if diff := cmp.Diff(want, []string(*r)); diff != "" {
		t.Errorf("reports (-want +got):\n%s", diff)
	}
}

func TestBeforeToolComposes(t *testing.T) {
	type hook = func(context.Context, registry.ToolCall) (registry.ToolDecision, error)
	adds := func(n string) hook {
		return func(_ context.Context, c registry.ToolCall) (registry.ToolDecision, error) {
			return registry.Proceed{Args: json.RawMessage(strings.Replace(string(c.Args), "]", ","+n+"]", 1))}, nil
		}
	}
	says := func(d registry.ToolDecision) hook {
		return func(context.Context, registry.ToolCall) (registry.ToolDecision, error) { return d, nil }
	}
	never := func(context.Context, registry.ToolCall) (registry.ToolDecision, error) {
		t.Error("a hook behind a block was asked")
		return nil, nil
	}
	cases := []struct {
		name   string
		hooks  []hook
		want   registry.ToolDecision
		report []string
	}{
		{"no hook lets the call go on as it is", nil, registry.Proceed{Args: json.RawMessage(`[0]`)}, nil},
		{"nil and an empty Proceed change nothing", []hook{says(nil), nil, says(registry.Proceed{})}, registry.Proceed{Args: json.RawMessage(`[0]`)}, nil},
		{"arguments go from hook to hook in order", []hook{adds("1"), adds("2")}, registry.Proceed{Args: json.RawMessage(`[0,1,2]`)}, nil},
		{"the first block wins", []hook{adds("1"), says(registry.Block{Reason: "no"}), never}, registry.Block{Reason: "no"}, nil},
		{"an error blocks", []hook{func(context.Context, registry.ToolCall) (registry.ToolDecision, error) { return nil, errHook }, never},
			registry.Block{Reason: `hook BeforeTool of extension "0": told by the test`}, []string{"0 BeforeTool: told by the test"}},
		{"a panic blocks", []hook{adds("1"), func(context.Context, registry.ToolCall) (registry.ToolDecision, error) { panic("x") }, never},
			registry.Block{Reason: `hook BeforeTool of extension "1": panic: x`}, []string{"1 BeforeTool: panic: x"}},
		{"arguments that are not JSON block", []hook{says(registry.Proceed{Args: json.RawMessage("{")}), never},
			registry.Block{Reason: `hook BeforeTool of extension "0": its arguments are not JSON`}, []string{"0 BeforeTool: its arguments are not JSON"}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			var told reports
			var hooks []registry.Hooks
			for _, h := range c.hooks {
				hooks = append(hooks, registry.Hooks{BeforeTool: h})
			}
			got, err := registry.NewChain(told.add, hooks...).BeforeTool(t.Context(), registry.ToolCall{Args: json.RawMessage(`[0]`)})
			if diff := cmp.Diff(c.want, got); err != nil || diff != "" {
				t.Errorf("%v (-want +got):\n%s", err, diff)
			}
			told.want(t, c.report...)
		})
	}
}

// Chained hooks: each sees what the one before made; one that fails is told and skipped.
func TestValuesGoFromHookToHookAndFailedOnesAreSkipped(t *testing.T) {
	// each returns a Hooks in which the point of the row appends s to its value, or fails.
	rows := []struct {
		point string
		hook  func(f func(string) (string, error)) registry.Hooks
		run   func(context.Context, registry.Chain) (string, error)
	}{
		{"AfterTool", func(f func(string) (string, error)) registry.Hooks {
			return registry.Hooks{AfterTool: func(_ context.Context, _ registry.ToolCall, r tool.Result) (tool.Result, error) {
				s, err := f(r.Text())
				return tool.Text(s), err
			}}
		}, func(ctx context.Context, c registry.Chain) (string, error) {
			r, err := c.AfterTool(ctx, registry.ToolCall{}, tool.Text("0"))
			return r.Text(), err
		}},
		{"BeforeRequest", func(f func(string) (string, error)) registry.Hooks {
			return registry.Hooks{BeforeRequest: func(_ context.Context, r llm.Request) (llm.Request, error) {
				r.Tools[0].Name = "spoilt in place"
				s, err := f(r.System)
				r.System = s
				r.Tools[0].Name = "look"
				return r, err
			}}
		}, func(ctx context.Context, c registry.Chain) (string, error) {
			tools := []llm.ToolSpec{{Name: "look"}}
			r, err := c.BeforeRequest(ctx, llm.Request{System: "0", Tools: tools})
			if tools[0].Name != "look" {
				return "", errors.New("the caller's tools were changed in place")
			}
			return r.System, err
		}},
		{"AfterResponse", func(f func(string) (string, error)) registry.Hooks {
			return registry.Hooks{AfterResponse: func(_ context.Context, m llm.Message) (llm.Message, error) {
				s, err := f(m.Text())
				m.Blocks[0].Text = s
				return m, err
			}}
		}, func(ctx context.Context, c registry.Chain) (string, error) {
			m := llm.Message{Blocks: []llm.Block{{Type: llm.Text, Text: "0"}}}
			got, err := c.AfterResponse(ctx, m)
			if m.Text() != "0" {
				return "", errors.New("the caller's message was changed in place")
			}
			return got.Text(), err
		}},
		{"AfterTools", func(f func(string) (string, error)) registry.Hooks {
			return registry.Hooks{AfterTools: func(_ context.Context, round []registry.ToolOutcome) error {
				_, err := f(fmt.Sprint(len(round)))
				return err
			}}
		}, nil},
	}
	for _, row := range rows {
		t.Run(row.point, func(t *testing.T) {
			var told reports
			var seen []string
			adds := func(s string) registry.Hooks {
				return row.hook(func(v string) (string, error) { seen = append(seen, v); return v + s, nil })
			}
			fails := row.hook(func(v string) (string, error) { seen = append(seen, v); return "lost", errHook })
			panics := row.hook(func(string) (string, error) { panic("x") })
			c := registry.NewChain(told.add, adds("1"), registry.Hooks{}, fails, panics, adds("2"))
			if row.run == nil {
				if err := c.AfterTools(t.Context(), make([]registry.ToolOutcome, 3)); err != nil || !slices.Equal(seen, []string{"3", "3", "3"}) {
					t.Errorf("AfterTools = %v, hooks saw %q", err, seen)
				}
			} else {
				got, err := row.run(t.Context(), c)
				if err != nil || got != "012" || !slices.Equal(seen, []string{"0", "01", "01"}) {
					t.Errorf("got %q, %v, hooks saw %q", got, err, seen)
				}
			}
			told.want(t, "2 "+row.point+": told by the test", "3 "+row.point+": panic: x")
			none := registry.NewChain(nil)
			if row.run != nil {
				if got, err := row.run(t.Context(), none); err != nil || got != "0" {
					t.Errorf("without hooks: %q, %v", got, err)
				}
			}
		})
	}
}

func TestOnYieldTakesTheFirstThatGoesOn(t *testing.T) {
	type hook = func(context.Context, llm.Message) (registry.YieldDecision, error)
	says := func(d registry.YieldDecision, err error) hook {
		return func(context.Context, llm.Message) (registry.YieldDecision, error) { return d, err }
	}
	cases := []struct {
		name  string
		hooks []hook
		want  registry.YieldDecision
		told  int
	}{
		{"no hook accepts", nil, registry.Accept{}, 0},
		{"nil and Accept accept", []hook{says(nil, nil), nil, says(registry.Accept{}, nil)}, registry.Accept{}, 0},
		{"the first GoOn wins", []hook{says(registry.Accept{}, nil), says(registry.GoOn{Prompt: "a"}, nil), says(registry.GoOn{Prompt: "b"}, nil)}, registry.GoOn{Prompt: "a"}, 0},
		{"one that fails decides nothing", []hook{says(registry.GoOn{Prompt: "a"}, errHook), says(registry.GoOn{Prompt: "b"}, nil)}, registry.GoOn{Prompt: "b"}, 1},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			var told reports
			var hooks []registry.Hooks
			for _, h := range c.hooks {
				hooks = append(hooks, registry.Hooks{OnYield: h})
			}
			got, err := registry.NewChain(told.add, hooks...).OnYield(t.Context(), llm.Message{})
			if got != c.want || err != nil || len(told) != c.told {
				t.Errorf("OnYield = %#v, %v, told %v", got, err, told)
			}
		})
	}
}

func TestTheEndOfTheContextIsPassedOn(t *testing.T) {
	why := errors.New("stopped")
	for name, run := range map[string]func(context.Context, registry.Chain) error{
		"BeforeTool": func(ctx context.Context, c registry.Chain) error {
			_, err := c.BeforeTool(ctx, registry.ToolCall{})
			return err
		},
		"AfterTool": func(ctx context.Context, c registry.Chain) error {
			_, err := c.AfterTool(ctx, registry.ToolCall{}, tool.Result{})
			return err
		},
		"BeforeRequest": func(ctx context.Context, c registry.Chain) error {
			_, err := c.BeforeRequest(ctx, llm.Request{})
			return err
		},
		"AfterResponse": func(ctx context.Context, c registry.Chain) error {
			_, err := c.AfterResponse(ctx, llm.Message{})
			return err
		},
		"OnYield":    func(ctx context.Context, c registry.Chain) error { _, err := c.OnYield(ctx, llm.Message{}); return err },
		"AfterTools": func(ctx context.Context, c registry.Chain) error { return c.AfterTools(ctx, nil) },
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancelCause(t.Context())
			var told reports
			c := registry.NewChain(told.add, registry.Hooks{
				BeforeTool: func(context.Context, registry.ToolCall) (registry.ToolDecision, error) {
					cancel(why)
					return nil, errHook
				},
				AfterTool: func(context.Context, registry.ToolCall, tool.Result) (tool.Result, error) {
					cancel(why)
					return tool.Result{}, errHook
				},
				BeforeRequest: func(context.Context, llm.Request) (llm.Request, error) { cancel(why); return llm.Request{}, errHook },
				AfterResponse: func(context.Context, llm.Message) (llm.Message, error) { cancel(why); return llm.Message{}, errHook },
				OnYield:       func(context.Context, llm.Message) (registry.YieldDecision, error) { cancel(why); return nil, errHook },
				AfterTools:    func(context.Context, []registry.ToolOutcome) error { cancel(why); return errHook },
			})
			if err := run(ctx, c); !errors.Is(err, why) {
				t.Errorf("%v, want why ctx ended", err)
			}
			told.want(t)
		})
	}
}

// A hook of a new conversation drafts into the commit that creates it; its error leaves neither.
func TestAConversationIsCreatedWithItsHooksOrNotAtAll(t *testing.T) {
	drafts := registry.Hooks{ConversationCreated: func(tx *session.Tx, c session.ConversationID) error {
		tx.Append(session.Entry{Conversation: c, Kind: "app.welcome"})
		return nil
	}}
	fails := registry.Hooks{ConversationCreated: func(*session.Tx, session.ConversationID) error { return errHook }}
	panics := registry.Hooks{ConversationCreated: func(*session.Tx, session.ConversationID) error { panic("x") }}
	for _, c := range []struct {
		name  string
		hooks []registry.Hooks
		ok    bool
	}{{"all draft", []registry.Hooks{drafts, {}, drafts}, true}, {"one fails", []registry.Hooks{drafts, fails}, false}, {"one panics", []registry.Hooks{drafts, panics}, false}} {
		t.Run(c.name, func(t *testing.T) {
			memory := session.NewMemory()
			sess, err := session.Open(t.Context(), memory)
			if err != nil {
				t.Fatal(err)
			}
			_, err = sess.Commit(t.Context(), func(tx *session.Tx) error {
				if err := tx.EnsureRoot(); err != nil {
					return err
				}
				return registry.NewChain(nil, c.hooks...).ConversationCreated(tx, session.Root)
			})
			var hook registry.HookError
			if c.ok != (err == nil) || !c.ok && (!errors.As(err, &hook) || hook.Hook != "ConversationCreated" || hook.Extension != "1") {
				t.Errorf("commit: %v", err)
			}
			entries, err := memory.Entries(session.EntryQuery{Conversation: session.Root})
			if want := 2; c.ok && (err != nil || len(entries) != want) {
				t.Errorf("%d entries, %v, want %d", len(entries), err, want)
			}
			if !c.ok && !errors.Is(err, session.ErrNotFound) && len(entries) > 0 {
				t.Errorf("%d entries of a conversation that was refused", len(entries))
			}
			if err := sess.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

// Promise: P-216
func TestHooksInFlightStayWhatTheyWere(t *testing.T) {
	marks := func(s string) registry.Hooks {
		return registry.Hooks{BeforeRequest: func(_ context.Context, r llm.Request) (llm.Request, error) { r.System += s; return r, nil }}
	}
	reg := registry.New()
	if err := errors.Join(reg.Install(registry.Extension{Name: "a", Hooks: marks("a")}), reg.Install(registry.Extension{Name: "b", Hooks: marks("b")})); err != nil {
		t.Fatal(err)
	}
	before := reg.Current().Hooks(nil)
	if err := errors.Join(reg.Replace(registry.Extension{Name: "a", Hooks: marks("A")}), reg.Install(registry.Extension{Name: "c", Hooks: marks("c")})); err != nil {
		t.Fatal(err)
	}
	for want, c := range map[string]registry.Chain{"ab": before, "Abc": reg.Current().Hooks(nil)} {
		if got, err := c.BeforeRequest(t.Context(), llm.Request{}); err != nil || got.System != want {
			t.Errorf("got %q, %v, want %q", got.System, err, want)
		}
	}
}
