package executor_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/workflowd/workflowd/agentcore/fault"
	"github.com/workflowd/workflowd/executor"
	"github.com/workflowd/workflowd/executor/runlog"
	"github.com/workflowd/workflowd/workflow"
)

// leakTestMain runs the tests and fails when a goroutine is left.
func leakTestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type (
	ctx     = workflow.NodeContext
	builder = *workflow.Builder
)

func open(t *testing.T, store runlog.Store, options ...executor.Option) *executor.Engine {
	t.Helper()
	e, err := executor.New(t.Context(), store, options...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.Close(); err != nil && !fault.Is(err, fault.OwnerLost) {
			t.Errorf("close: %v", err)
		}
	})
	return e
}

func register[In, Out any](t *testing.T, e *executor.Engine, w *workflow.Workflow[In, Out]) *executor.Handle[In, Out] {
	t.Helper()
	h, err := executor.Register(e, w)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func start[In, Out any](t *testing.T, h *executor.Handle[In, Out], in In, options ...executor.StartOption) *executor.Run[Out] {
	t.Helper()
	run, err := h.Start(t.Context(), in, options...)
	if err != nil {
		t.Fatal(err)
	}
	return run
}

func result[Out any](t *testing.T, run *executor.Run[Out]) Out {
	t.Helper()
	out, err := run.Result(t.Context())
	if err != nil {
		t.Fatalf("%v\n%s", err, story(t, run))
	}
	return out
}

// story is a run's log so far, one line per event.
func story[Out any](t *testing.T, run *executor.Run[Out]) string {
	t.Helper()
	stop, cancel := context.WithCancel(t.Context())
	defer cancel()
	var lines []string
	last := runlog.Seq(0)
	for e, err := range run.Events(stop, 0) {
		if err != nil {
			break
		}
		if e.Seq != last+1 {
			t.Errorf("event %d follows event %d", e.Seq, last)
		}
		last = e.Seq
		line := string(e.Kind)
		if e.Node != "" {
			line += fmt.Sprintf(" %s#%d.%d", e.Node, e.Visit, e.Attempt)
		}
		if e.Kind.Chunk() {
			line += " " + string(e.Data)
		}
		if e.Retract > 0 {
			line += fmt.Sprintf(" from %d", e.Retract)
		}
		lines = append(lines, line)
		if e.Kind == runlog.RunWaiting || e.Kind == runlog.RunBlocked || e.Kind == runlog.RunPaused || e.Kind == runlog.RunSuspended {
			cancel() // a following reader would wait from here on
		}
	}
	return strings.Join(lines, "\n")
}

// until waits for an event of the kind and returns it.
func until[Out any](t *testing.T, run *executor.Run[Out], kind runlog.EventKind, nth int) executor.Event {
	t.Helper()
	for e, err := range run.Events(t.Context(), 0) {
		if err != nil {
			t.Fatal(err)
		}
		if e.Kind == kind {
			if nth--; nth == 0 {
				return e
			}
		}
	}
	t.Fatalf("the run ended without %s", kind)
	return executor.Event{}
}

func fn[In, Out any](name string, f func(ctx, In) (Out, error), options ...workflow.NodeOption) workflow.Node[In, Out] {
	return workflow.Func(name, f, options...)
}

func add(name string, n int) workflow.Node[int, int] {
	return fn(name, func(_ ctx, in int) (int, error) { return in + n, nil })
}

func failing(name, message string) workflow.Node[int, int] {
	return fn(name, func(ctx, int) (int, error) { return 0, errors.New(message) })
}

func collect[T any](_ ctx, _ int, chunks iter.Seq[T]) ([]T, error) {
	var all []T
	for c := range chunks {
		all = append(all, c)
	}
	return all, nil
}

func TestAChainRunsNodeByNodeAndItsLogIsItsStory(t *testing.T) {
	e := open(t, runlog.NewMemory())
	h := register(t, e, workflow.MustDefine("chain", 1, func(b builder, in workflow.Ref[int]) workflow.Ref[string] {
		two := workflow.Then(b, workflow.Then(b, in, add("one", 1)), add("two", 2))
		return workflow.Apply(b, two, func(n int) string { return fmt.Sprint("sum ", n) })
	}))
	run := start(t, h, 4)
	if got := result(t, run); got != "sum 7" {
		t.Errorf("got %q", got)
	}
	want := `run.queued
run.running
node.started one#1.1
node.succeeded one#1.1
node.started two#1.1
node.succeeded two#1.1
run.succeeded`
	if diff := cmp.Diff(want, story(t, run)); diff != "" {
		t.Error(diff)
	}
}

func TestVerbsDecideWhatRuns(t *testing.T) {
	double := workflow.MustDefine("double", 1, func(b builder, in workflow.Ref[int]) workflow.Ref[int] {
		return workflow.Then(b, in, fn("twice", func(_ ctx, n int) (int, error) { return 2 * n, nil }))
	})
	sorry := fn("sorry", func(_ ctx, f workflow.Failure) (int, error) { return -len(f.Node), nil })
	tests := []struct {
		name  string
		build func(builder, workflow.Ref[int]) workflow.Ref[int]
		in    int
		want  int
		fails fault.Kind
		runs  string // node.started, in order
	}{
		{
			name: "the input itself can be the result", in: 3, want: 3,
			build: func(_ builder, in workflow.Ref[int]) workflow.Ref[int] { return in },
		},
		{
			name: "a join waits for all its inputs", in: 1, want: 32, runs: "left right",
			build: func(b builder, in workflow.Ref[int]) workflow.Ref[int] {
				return workflow.Join3(b, workflow.Then(b, in, add("left", 1)), workflow.Then(b, in, add("right", 2)), in, func(a, b, c int) int { return a + b*10*c })
			},
		},
		{
			name: "a map keeps the order of its list", in: 4, want: 6, runs: "each[0] each[1] each[2] each[3]",
			build: func(b builder, in workflow.Ref[int]) workflow.Ref[int] {
				list := workflow.Apply(b, in, func(n int) []int { return []int{0, 1, 2, 3}[:n] })
				each := workflow.Map(b, list, fn("each", func(c ctx, n int) (int, error) { return n * (c.Run().Element - n), nil }))
				return workflow.Apply(b, each, func(all []int) int { return all[0] + all[1] + all[2] + all[3] })
			},
		},
		{
			name: "a map over nothing is an empty list", in: 0, want: 0,
			build: func(b builder, in workflow.Ref[int]) workflow.Ref[int] {
				list := workflow.Apply(b, in, func(n int) []int { return make([]int, n) })
				return workflow.Apply(b, workflow.Map(b, list, add("each", 1)), func(all []int) int { return len(all) })
			},
		},
		{
			name: "a switch runs one case", in: 5, want: 6, runs: "odd",
			build: parity,
		},
		{
			name: "and the other one", in: 4, want: 4, runs: "even",
			build: parity,
		},
		{
			name: "a switch without such a case fails", in: -1, fails: fault.InputValidation,
			build: parity,
		},
		{
			name: "a loop repeats its body until it is done", in: 3, want: 24, runs: "double/twice double/twice double/twice",
			build: func(b builder, in workflow.Ref[int]) workflow.Ref[int] {
				return workflow.Loop(b, in, double, func(n int) bool { return n > 20 }, 5)
			},
		},
		{
			name: "a loop that is never done fails", in: 0, fails: executor.LoopExhausted, runs: "double/twice double/twice",
			build: func(b builder, in workflow.Ref[int]) workflow.Ref[int] {
				return workflow.Loop(b, in, double, func(n int) bool { return n > 20 }, 2)
			},
		},
		{
			name: "a loop in a loop counts its visits on", in: 1, want: 256, runs: strings.TrimSpace(strings.Repeat("outer/double/twice ", 8)),
			build: func(b builder, in workflow.Ref[int]) workflow.Ref[int] {
				outer := workflow.MustDefine("outer", 1, func(b builder, in workflow.Ref[int]) workflow.Ref[int] {
					turns := 0
					return workflow.Loop(b, in, double, func(int) bool { turns++; return turns%2 == 0 }, 9)
				})
				return workflow.Loop(b, in, outer, func(n int) bool { return n > 200 }, 9)
			},
		},
		{
			name: "a called workflow runs under its name", in: 3, want: 7, runs: "double/twice more",
			build: func(b builder, in workflow.Ref[int]) workflow.Ref[int] {
				return workflow.Then(b, workflow.Call(b, in, double), add("more", 1))
			},
		},
		{
			name: "catch passes what went well", in: 3, want: 4, runs: "fine",
			build: func(b builder, in workflow.Ref[int]) workflow.Ref[int] {
				return workflow.Catch(b, workflow.Then(b, in, add("fine", 1)), sorry)
			},
		},
		{
			name: "catch gets the failure of what is before", in: 3, want: -3, runs: "bad sorry",
			build: func(b builder, in workflow.Ref[int]) workflow.Ref[int] {
				return workflow.Catch(b, workflow.Then(b, workflow.Then(b, in, failing("bad", "no")), add("never", 1)), sorry)
			},
		},
		{
			name: "a failure that nothing catches fails the run", in: 3, fails: executor.NodeFailed, runs: "bad",
			build: func(b builder, in workflow.Ref[int]) workflow.Ref[int] {
				workflow.Then(b, in, failing("bad", "no"))
				return in
			},
		},
		{
			name: "finally runs after a failure, which stays", in: 3, fails: executor.NodeFailed, runs: "bad tidy",
			build: func(b builder, in workflow.Ref[int]) workflow.Ref[int] {
				return workflow.Finally(b, workflow.Then(b, in, failing("bad", "no")), tidy())
			},
		},
		{
			name: "finally passes what went well", in: 3, want: 4, runs: "fine tidy",
			build: func(b builder, in workflow.Ref[int]) workflow.Ref[int] {
				return workflow.Finally(b, workflow.Then(b, in, add("fine", 1)), tidy())
			},
		},
		{
			name: "a panic is a failure of its node", in: 3, fails: executor.NodePanicked, runs: "bang",
			build: func(b builder, in workflow.Ref[int]) workflow.Ref[int] {
				return workflow.Then(b, in, fn("bang", func(ctx, int) (int, error) { panic("boom") }))
			},
		},
		{
			name: "a panic in a mapping is a failure, too", in: 3, fails: executor.NodePanicked,
			build: func(b builder, in workflow.Ref[int]) workflow.Ref[int] {
				return workflow.Apply(b, in, func(int) int { panic("boom") })
			},
		},
		{
			name: "a failure keeps its kind", in: 3, fails: fault.Unsupported, runs: "kind",
			build: func(b builder, in workflow.Ref[int]) workflow.Ref[int] {
				return workflow.Then(b, in, fn("kind", func(ctx, int) (int, error) { return 0, fmt.Errorf("x: %w", fault.New(fault.Unsupported, "not here")) }))
			},
		},
	}
	for i, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			e := open(t, runlog.NewMemory())
			h := register(t, e, workflow.MustDefine(fmt.Sprint("flow", i), 1, test.build))
			run := start(t, h, test.in)
			got, err := run.Result(t.Context())
			if fault.KindOf(err) != test.fails || got != test.want {
				t.Errorf("got %v, %v, want %v, %s", got, err, test.want, test.fails)
			}
			var runs []string
			for e, err := range run.Events(t.Context(), 0) {
				if err != nil {
					t.Fatal(err)
				}
				if e.Kind == runlog.NodeStarted {
					runs = append(runs, e.Node)
				}
			}
			if diff := cmp.Diff(test.runs, strings.Join(runs, " ")); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func parity(b builder, in workflow.Ref[int]) workflow.Ref[int] {
	return workflow.Switch(b, in, func(n int) string {
		if n < 0 {
			return "negative"
		}
		return []string{"even", "odd"}[n%2]
	}, map[string]func(builder, workflow.Ref[int]) workflow.Ref[int]{
		"odd":  func(b builder, in workflow.Ref[int]) workflow.Ref[int] { return workflow.Then(b, in, add("odd", 1)) },
		"even": func(b builder, in workflow.Ref[int]) workflow.Ref[int] { return workflow.Then(b, in, add("even", 0)) },
	})
}

func tidy() workflow.Node[workflow.Failure, bool] {
	return fn("tidy", func(_ ctx, f workflow.Failure) (bool, error) { return f.Kind != "", nil })
}

func TestAStreamNodeFoldsItsCommittedChunks(t *testing.T) {
	e := open(t, runlog.NewMemory())
	h := register(t, e, workflow.MustDefine("stream", 1, func(b builder, in workflow.Ref[int]) workflow.Ref[[]string] {
		return workflow.ThenStream(b, in, workflow.StreamFunc("words", func(ctx, int) iter.Seq2[string, error] {
			return func(yield func(string, error) bool) {
				for _, w := range []string{"a", "b", "c"} {
					if !yield(w, nil) {
						return
					}
				}
			}
		}, collect[string])).From()
	}))
	run := start(t, h, 0)
	if diff := cmp.Diff([]string{"a", "b", "c"}, result(t, run)); diff != "" {
		t.Error(diff)
	}
	want := `run.queued
run.running
node.started words#1.1
node.chunk words#1.1 "a"
node.chunk words#1.1 "b"
node.chunk words#1.1 "c"
node.succeeded words#1.1
run.succeeded`
	if diff := cmp.Diff(want, story(t, run)); diff != "" {
		t.Error(diff)
	}
}

func TestTheSameRequestIDIsTheSameRun(t *testing.T) {
	e := open(t, runlog.NewMemory())
	h := register(t, e, workflow.MustDefine("once", 1, func(b builder, in workflow.Ref[int]) workflow.Ref[int] {
		return workflow.Then(b, in, add("one", 1))
	}))
	first := start(t, h, 1, executor.RequestID("r"), executor.Labels(map[string]string{"a": "b"}))
	again := start(t, h, 1, executor.RequestID("r"), executor.Labels(map[string]string{"a": "b"}))
	if first.ID() != again.ID() {
		t.Errorf("%s and %s", first.ID(), again.ID())
	}
	if _, err := h.Start(t.Context(), 2, executor.RequestID("r")); !fault.Is(err, fault.Conflict) {
		t.Errorf("another payload: %v", err)
	}
	result(t, first)
	if ended := start(t, h, 1, executor.RequestID("r"), executor.Labels(map[string]string{"a": "b"})); ended.ID() != first.ID() {
		t.Errorf("after the end: %s and %s", first.ID(), ended.ID())
	}
}

type answer struct {
	Yes bool `json:"yes"`
}

func asking() *workflow.Workflow[int, string] {
	return workflow.MustDefine("asking", 1, func(b builder, in workflow.Ref[int]) workflow.Ref[string] {
		return workflow.Then(b, in, fn("ask", func(c ctx, n int) (string, error) {
			a, err := workflow.Ask[int, answer](c, "sure", n)
			if err != nil {
				return "", fmt.Errorf("asking: %w", err)
			}
			return fmt.Sprint("answered ", a.Yes), nil
		}))
	})
}

func TestANodeThatAsksParksTheRunUntilTheAnswer(t *testing.T) {
	e := open(t, runlog.NewMemory())
	run := start(t, register(t, e, asking()), 1)
	until(t, run, runlog.RunWaiting, 1)
	requests, err := e.Requests(runlog.RequestQuery{Run: run.ID()})
	if err != nil || len(requests) != 1 {
		t.Fatalf("%v %v", requests, err)
	}
	id := requests[0].ID
	if _, err := run.Answer(t.Context(), id, map[string]int{"no": 1}, "eve"); !fault.Is(err, fault.InputValidation) {
		t.Errorf("an answer that does not fit: %v", err)
	}
	first, err := run.Answer(t.Context(), id, answer{true}, "ann")
	if err != nil || first.By != "ann" || first.Repeated {
		t.Fatalf("%+v %v", first, err)
	}
	if got := result(t, run); got != "answered true" {
		t.Errorf("got %q", got)
	}
	again, err := run.Answer(t.Context(), id, answer{true}, "bob")
	if err != nil || again.By != "ann" || !again.Repeated {
		t.Errorf("the same answer again: %+v %v", again, err)
	}
	if other, err := run.Answer(t.Context(), id, answer{false}, "bob"); !fault.Is(err, fault.Conflict) || other.By != "ann" {
		t.Errorf("another answer: %+v %v", other, err)
	}
	want := `run.queued
run.running
node.started ask#1.1
request.opened ask#1.1
node.waiting ask#1.1
run.waiting
request.answered ask#1.0
run.running
node.started ask#1.2
node.succeeded ask#1.2
run.succeeded`
	if diff := cmp.Diff(want, wholeStory(t, run)); diff != "" {
		t.Error(diff)
	}
}

// wholeStory is story for a run that has ended, waits included.
func wholeStory[Out any](t *testing.T, run *executor.Run[Out]) string {
	t.Helper()
	var lines []string
	for e, err := range run.Events(t.Context(), 0) {
		if err != nil {
			t.Fatal(err)
		}
		line := string(e.Kind)
		if e.Node != "" {
			line += fmt.Sprintf(" %s#%d.%d", e.Node, e.Visit, e.Attempt)
		}
		if e.Kind.Chunk() {
			line += " " + string(e.Data)
		}
		if e.Retract > 0 {
			line += fmt.Sprintf(" from %d", e.Retract)
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, "\n")
}
