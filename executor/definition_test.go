package executor_test

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/workflowd/workflowd/agentcore/fault"
	"github.com/workflowd/workflowd/executor"
	"github.com/workflowd/workflowd/executor/runlog"
	"github.com/workflowd/workflowd/workflow"
)

// twoParts asks between its first node and the rest, which build adds.
func twoParts(version int, first workflow.Node[int, int], rest func(builder, workflow.Ref[bool]) workflow.Ref[string]) *workflow.Workflow[int, string] {
	return workflow.MustDefine("parts", version, func(b builder, in workflow.Ref[int]) workflow.Ref[string] {
		asked := workflow.Then(b, workflow.Then(b, in, first), fn("ask", func(c ctx, n int) (bool, error) {
			a, err := workflow.Ask[int, answer](c, "sure", n)
			return a.Yes, err
		}))
		return rest(b, asked)
	})
}

func say(name, text string) func(builder, workflow.Ref[bool]) workflow.Ref[string] {
	return func(b builder, in workflow.Ref[bool]) workflow.Ref[string] {
		return workflow.Then(b, in, fn(name, func(_ ctx, yes bool) (string, error) { return fmt.Sprint(text, yes), nil }))
	}
}

func TestARunGoesOnUnderANewVersionOnlyWhenItsFinishedPartFits(t *testing.T) {
	for _, test := range []struct {
		name   string
		next   *workflow.Workflow[int, string]
		want   string
		reason string
	}{
		{
			name: "what has not begun may change",
			next: twoParts(2, add("first", 1), say("other", "new ")), want: "new true",
		},
		{
			name: "a finished node that is gone", reason: `node "first", which has begun, is gone`,
			next: twoParts(2, add("renamed", 1), say("last", "")),
		},
		{
			name: "a finished node of another version", reason: `node "first", which has begun, changed from version 0 to 3`,
			next: twoParts(2, fn("first", func(_ ctx, n int) (int, error) { return n, nil }, func(i *workflow.NodeInfo) { i.Version = 3 }), say("last", "")),
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			onEachStore(t, func(t *testing.T, h host) {
				e := h(t)
				run := start(t, register(t, e, twoParts(1, add("first", 1), say("last", "old "))), 1)
				until(t, run, runlog.RunWaiting, 1)
				open, err := e.Requests(runlog.RequestQuery{Run: run.ID()})
				if err != nil {
					t.Fatal(err)
				}
				leave(t, e)

				e = h(t)
				register(t, e, test.next)
				if err := e.Recover(t.Context()); err != nil {
					t.Fatal(err)
				}
				run = attach[string](t, e, run.ID())
				if test.reason != "" {
					blocked := until(t, run, runlog.RunBlocked, 1)
					if !strings.Contains(string(blocked.Data), strings.ReplaceAll(test.reason, `"`, `\"`)) {
						t.Errorf("the reason is %s", blocked.Data)
					}
					if err := run.Cancel(t.Context(), "given up"); err != nil {
						t.Fatal(err)
					}
					if _, err := run.Result(t.Context()); !fault.Is(err, fault.ExecutionAborted) {
						t.Errorf("a blocked run is cancelled: %v", err)
					}
					return
				}
				if _, err := run.Answer(t.Context(), open[0].ID, answer{true}, "ann"); err != nil {
					t.Fatal(err)
				}
				if got := result(t, run); got != test.want {
					t.Errorf("got %q", got)
				}
				if r, err := e.Run(run.ID()); err != nil || r.Version != 2 {
					t.Errorf("version %d, %v", r.Version, err)
				}
			})
		})
	}
}

func TestAVersionKeepsItsGraph(t *testing.T) {
	onEachStore(t, func(t *testing.T, h host) {
		e := h(t)
		run := start(t, register(t, e, twoParts(1, add("first", 1), say("last", ""))), 1)
		until(t, run, runlog.RunWaiting, 1)
		changed := twoParts(1, add("first", 1), say("other", ""))
		if _, err := executor.Register(e, changed); !fault.Is(err, fault.Conflict) {
			t.Errorf("another graph: %v", err)
		}
		leave(t, e)
		e = h(t, executor.Development())
		if _, err := executor.Register(e, changed); !fault.Is(err, fault.Conflict) || !strings.Contains(err.Error(), string(run.ID())) {
			t.Errorf("another graph under a live run: %v", err)
		}
		if err := e.Cancel(t.Context(), run.ID(), ""); err != nil {
			t.Fatal(err)
		}
		if _, err := attach[string](t, e, run.ID()).Result(t.Context()); !fault.Is(err, fault.ExecutionAborted) {
			t.Fatal(err)
		}
		register(t, e, changed)
	})
}

type order struct {
	Item  string `json:"item" jsonschema:"minLength=1"`
	Count int    `json:"count,omitempty" jsonschema:"minimum=1"`
}

// Nothing that does not fit the type of the input starts a run.
func TestInputFromOutsideIsStrict(t *testing.T) {
	e := open(t, runlog.NewMemory())
	h := register(t, e, workflow.MustDefine("order", 1, func(b builder, in workflow.Ref[order]) workflow.Ref[string] {
		return workflow.Apply(b, in, func(o order) string { return o.Item })
	}))
	for _, test := range []struct{ name, input, pointer string }{
		{"an unknown member", `{"item":"x","colour":"red"}`, "/colour"},
		{"a missing member", `{}`, "/item"},
		{"a wrong type", `{"item":7}`, "/item"},
		{"a constraint", `{"item":"x","count":0}`, "/count"},
		{"a member twice", `{"item":"x","item":"y"}`, "item"},
		{"not JSON", `{"item":`, ""},
		{"two values", `{"item":"x"} {}`, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := e.Start(t.Context(), executor.Start{Workflow: "order", Input: json.RawMessage(test.input)})
			if !fault.Is(err, fault.InputValidation) || !strings.Contains(err.Error(), test.pointer) {
				t.Errorf("got %v", err)
			}
		})
	}
	if err := h.Validate(order{Item: "", Count: 1}); !fault.Is(err, fault.InputValidation) {
		t.Errorf("a Go value: %v", err)
	}
	run, err := e.Start(t.Context(), executor.Start{Workflow: "order", Input: json.RawMessage(` {"item":"x"} `)})
	if err != nil {
		t.Fatal(err)
	}
	if got := result(t, attach[string](t, e, run.ID)); got != "x" {
		t.Errorf("got %q", got)
	}
	if _, err := e.Start(t.Context(), executor.Start{Workflow: "nobody"}); !fault.Is(err, fault.NotFound) {
		t.Errorf("got %v", err)
	}
}

// Each reader gets the whole log, whenever it comes and wherever it begins.
func TestReadersFollowFromAnyNumber(t *testing.T) {
	onEachStore(t, func(t *testing.T, h host) {
		const chunks = 300
		e := h(t)
		run := start(t, register(t, e, workflow.MustDefine("long", 1, func(b builder, in workflow.Ref[int]) workflow.Ref[int] {
			return workflow.ThenStream(b, in, workflow.StreamFunc("count",
				func(_ ctx, n int) iter.Seq2[int, error] {
					return func(yield func(int, error) bool) {
						for i := range n {
							if !yield(i, nil) {
								return
							}
						}
					}
				},
				func(_ ctx, _ int, all iter.Seq[int]) (int, error) {
					n := 0
					for range all {
						n++
					}
					return n, nil
				})).From()
		})), chunks)
		var wg sync.WaitGroup
		for reader := range 20 {
			wg.Go(func() {
				after := executor.Seq(0)
				for dropped := 0; ; dropped++ { // each connection breaks after a while and goes on
					n := 0
					for event, err := range run.Events(t.Context(), after) {
						if err != nil || event.Seq != after+1 {
							t.Errorf("reader %d: event %d follows %d, %v", reader, event.Seq, after, err)
							return
						}
						after = event.Seq
						if event.Kind.Terminal() {
							return
						}
						if n++; n > 10+reader*5 {
							break
						}
					}
				}
			})
		}
		wg.Wait()
		if got := result(t, run); got != chunks {
			t.Errorf("got %d", got)
		}
		end := 0
		for range run.Events(t.Context(), 100_000) {
			end++
		}
		if end != 0 {
			t.Errorf("%d events behind the end", end)
		}
	})
}

func TestAReaderStopsWithItsContextAndWithTheEngine(t *testing.T) {
	e := open(t, runlog.NewMemory())
	run := start(t, register(t, e, asking()), 1)
	until(t, run, runlog.RunWaiting, 1)
	stop, cancel := context.WithCancel(t.Context())
	errs := make(chan error, 2)
	for _, c := range []context.Context{stop, t.Context()} {
		go func() {
			var last error
			for _, err := range run.Events(c, 0) {
				last = err
			}
			errs <- last
		}()
	}
	cancel()
	if err := <-errs; !fault.Is(err, fault.ExecutionAborted) {
		t.Errorf("got %v", err)
	}
	leave(t, e)
	if err := <-errs; !fault.Is(err, fault.Suspended) {
		t.Errorf("got %v", err)
	}
	if err := run.Cancel(t.Context(), ""); !fault.Is(err, fault.Suspended) {
		t.Errorf("a command after the end of the engine: %v", err)
	}
}

func TestOpenNamesWhatItTakes(t *testing.T) {
	if _, err := executor.Open(t.Context(), "mysql:x"); !fault.Is(err, fault.InputValidation) {
		t.Errorf("got %v", err)
	}
	dsn := "sqlite:" + filepath.Join(t.TempDir(), "deep", "runs.db")
	e, err := executor.Open(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer leave(t, e)
	if _, err := executor.Open(t.Context(), dsn); !fault.Is(err, fault.SessionBusy) {
		t.Errorf("a second owner: %v", err)
	}
	run := start(t, register(t, e, workflow.MustDefine("where", 1, func(b builder, in workflow.Ref[int]) workflow.Ref[workflow.RunInfo] {
		return workflow.Then(b, in, fn("where", func(c ctx, _ int) (workflow.RunInfo, error) {
			info := c.Run()
			info.Project = filepath.Base(c.Storage().AgentStoreDir)
			return info, nil
		}))
	})), 1, executor.Conversation("c"), executor.Labels(map[string]string{"k": "v"}))
	want := workflow.RunInfo{
		RunID: string(run.ID()), WorkflowName: "where", Version: 1, Conversation: "c", Project: "agents", Path: "where", Visit: 1,
		Attempt: 1, Epoch: 1, Labels: map[string]string{"k": "v"},
	}
	if diff := cmp.Diff(want, result(t, run)); diff != "" {
		t.Error(diff)
	}
}
