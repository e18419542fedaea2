package executor_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/workflowd/workflowd/agentcore/fault"
	"github.com/workflowd/workflowd/executor"
	"github.com/workflowd/workflowd/executor/runlog"
	"github.com/workflowd/workflowd/workflow"
)

// costly counts how often it computes.
func costly(calls *atomic.Int32, name string, options ...workflow.NodeOption) workflow.Node[order, string] {
	return fn(name, func(_ ctx, o order) (string, error) {
		return fmt.Sprint(o.Item, " for call ", calls.Add(1)), nil
	}, options...)
}

func costlyFlow(name string, node workflow.Node[order, string]) *workflow.Workflow[order, string] {
	return workflow.MustDefine(name, 1, func(b builder, in workflow.Ref[order]) workflow.Ref[string] { return workflow.Then(b, in, node) })
}

func TestAResultIsTakenFromAnEarlierRun(t *testing.T) {
	onEachStoreInTime(t, func(t *testing.T, h host) {
		var calls atomic.Int32
		flow := costlyFlow("costly", costly(&calls, "compute", workflow.Cache("prices", time.Hour)))
		other := costlyFlow("other", costly(&calls, "again", workflow.Cache("prices", time.Hour)))
		e := h(t)
		first := start(t, register(t, e, flow), order{Item: "tea"})
		if got := result(t, first); got != "tea for call 1" {
			t.Fatalf("got %q", got)
		}
		leave(t, e)
		<-time.After(59 * time.Minute)
		e = h(t)
		second := start(t, register(t, e, other), order{Item: "tea"})
		if got := result(t, second); got != "tea for call 1" {
			t.Errorf("a later process got %q", got)
		}
		want := `run.queued
run.running
node.succeeded again#1.0
run.succeeded`
		if diff := cmp.Diff(want, wholeStory(t, second)); diff != "" {
			t.Error(diff)
		}
		says := string(until(t, second, runlog.NodeSucceeded, 1).Data)
		if !strings.Contains(says, fmt.Sprintf(`"path":"compute","runId":%q,"visit":1`, first.ID())) {
			t.Errorf("the event does not say whose result it is: %s", says)
		}
		if got := result(t, start(t, register(t, e, other), order{Item: "soup"})); got != "soup for call 2" {
			t.Errorf("another input got %q", got)
		}
		<-time.After(time.Minute)
		if got := result(t, start(t, register(t, e, other), order{Item: "tea"})); got != "tea for call 3" {
			t.Errorf("after its time got %q", got)
		}
		if got := result(t, start(t, register(t, e, other), order{Item: "tea"})); got != "tea for call 3" {
			t.Errorf("the newer result is not taken: %q", got)
		}
	})
}

// Invariant: INV-39
func TestOnlyTheSameThingIsTaken(t *testing.T) {
	version := func(n int) workflow.NodeOption { return func(i *workflow.NodeInfo) { i.Version = n } }
	var calls atomic.Int32
	e := open(t, runlog.NewMemory())
	run := func(name string, node workflow.Node[order, string]) string {
		return result(t, start(t, register(t, e, costlyFlow(name, node)), order{Item: "tea"}))
	}
	for _, step := range []struct{ name, got, want string }{
		{"the first", run("a", costly(&calls, "n", workflow.Cache("k", 0))), "tea for call 1"},
		{"the same", run("b", costly(&calls, "other", workflow.Cache("k", 0))), "tea for call 1"},
		{"another version", run("c", costly(&calls, "n", workflow.Cache("k", 0), version(2))), "tea for call 2"},
		{"another key", run("d", costly(&calls, "n", workflow.Cache("l", 0))), "tea for call 3"},
		{"no key", run("e", costly(&calls, "n")), "tea for call 4"},
		{"the same again", run("f", costly(&calls, "n", workflow.Cache("k", 0))), "tea for call 1"},
	} {
		if step.got != step.want {
			t.Errorf("%s: got %q, want %q", step.name, step.got, step.want)
		}
	}
	sized := workflow.MustDefine("sized", 1, func(b builder, in workflow.Ref[order]) workflow.Ref[int] {
		return workflow.Then(b, in, fn("size", func(_ ctx, o order) (int, error) { return len(o.Item), nil }), workflow.Cache("k", 0))
	})
	if got := result(t, start(t, register(t, e, sized), order{Item: "tea"})); got != 3 {
		t.Errorf("a result of another type was taken: %d", got)
	}
}

// Two texts of one JSON value are one input.
func TestInputsAreComparedAsValues(t *testing.T) {
	var calls atomic.Int32
	e := open(t, runlog.NewMemory())
	register(t, e, costlyFlow("costly", costly(&calls, "n", workflow.Cache("k", 0))))
	for _, input := range []string{`{"item":"tea","count":2}`, `{ "count": 2, "item": "\u0074ea" }`} {
		run, err := e.Start(t.Context(), executor.Start{Workflow: "costly", Input: json.RawMessage(input)})
		if err != nil {
			t.Fatal(err)
		}
		if got := result(t, attach[string](t, e, run.ID)); got != "tea for call 1" {
			t.Errorf("%s: got %q", input, got)
		}
	}
}

func TestAFailureIsNeverKept(t *testing.T) {
	onEachStore(t, func(t *testing.T, h host) {
		var calls atomic.Int32
		e := h(t)
		handle := register(t, e, workflow.MustDefine("flaky", 1, func(b builder, in workflow.Ref[int]) workflow.Ref[int32] {
			return workflow.Then(b, in, fn("flaky", func(ctx, int) (int32, error) {
				if n := calls.Add(1); n > 1 {
					return n, nil
				}
				return 0, errors.New("no")
			}, workflow.Cache("k", 0)))
		}))
		if _, err := start(t, handle, 1).Result(t.Context()); !fault.Is(err, executor.NodeFailed) {
			t.Errorf("got %v", err)
		}
		for range 2 {
			if got := result(t, start(t, handle, 1)); got != 2 {
				t.Errorf("got %d", got)
			}
		}
	})
}

func TestTheValueOfAStreamIsTakenWithoutItsChunks(t *testing.T) {
	onEachStore(t, func(t *testing.T, h host) {
		e := h(t)
		handle := register(t, e, workflow.MustDefine("stream", 1, func(b builder, in workflow.Ref[int]) workflow.Ref[[]int] {
			return workflow.ThenStream(b, in, workflow.StreamFunc("count", func(_ ctx, n int) iter.Seq2[int, error] {
				return func(yield func(int, error) bool) {
					for i := range n {
						if !yield(i, nil) {
							return
						}
					}
				}
			}, collect[int]), workflow.Cache("k", 0)).From()
		}))
		result(t, start(t, handle, 3))
		run := start(t, handle, 3)
		if diff := cmp.Diff([]int{0, 1, 2}, result(t, run)); diff != "" {
			t.Error(diff)
		}
		if s := wholeStory(t, run); strings.Contains(s, "node.chunk") || strings.Contains(s, "node.started") {
			t.Error(s)
		}
	})
}

func TestElementsOfAMapAreTakenOneByOne(t *testing.T) {
	var calls atomic.Int32
	e := open(t, runlog.NewMemory())
	handle := register(t, e, workflow.MustDefine("each", 1, func(b builder, in workflow.Ref[[]int]) workflow.Ref[[]int] {
		return workflow.Map(b, in, fn("each", func(_ ctx, n int) (int, error) { calls.Add(1); return 2 * n, nil }), workflow.Cache("double", 0))
	}))
	result(t, start(t, handle, []int{1, 2}))
	if diff := cmp.Diff([]int{4, 6, 2}, result(t, start(t, handle, []int{2, 3, 1}))); diff != "" || calls.Load() != 3 {
		t.Errorf("%d calls\n%s", calls.Load(), diff)
	}
}
