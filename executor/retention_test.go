package executor_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/workflowd/workflowd/agentcore/fault"
	"github.com/workflowd/workflowd/executor"
	"github.com/workflowd/workflowd/executor/runlog"
	"github.com/workflowd/workflowd/workflow"
)

// calendar is a clock that a test sets, in milliseconds.
type calendar struct{ at atomic.Int64 }

func (c *calendar) now() time.Time { return time.UnixMilli(c.at.Load()).UTC() }

func named(name string) *workflow.Workflow[int, int] {
	return workflow.MustDefine(name, 1, func(b builder, in workflow.Ref[int]) workflow.Ref[int] {
		return workflow.Then(b, in, add("one", 1))
	})
}

// left names the runs that there are, by their request ids.
func left(t *testing.T, e *executor.Engine) (names []string) {
	t.Helper()
	runs, err := e.Runs(runlog.RunQuery{})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range runs {
		names = append(names, r.RequestID)
	}
	slices.Sort(names)
	return names
}

func prune(t *testing.T, e *executor.Engine, r executor.Retention, want int) {
	t.Helper()
	if n, err := e.Prune(t.Context(), r, nil); err != nil || n != want {
		t.Errorf("%+v removed %d runs, want %d: %v", r, n, want, err)
	}
}

// Invariant: INV-36
func TestRunsThatEndedGoByAgeAndByNumber(t *testing.T) {
	onEachStore(t, func(t *testing.T, h host) {
		days := &calendar{}
		days.at.Store(1_780_000_000_000)
		e := h(t, executor.WithClock(days.now))
		a, b, waits := register(t, e, named("a")), register(t, e, named("b")), register(t, e, asking())
		live := start(t, waits, 1, executor.RequestID("live"))
		until(t, live, runlog.RunWaiting, 1)
		for day := range 5 { // each a day older than the next
			result(t, start(t, a, day, executor.RequestID(fmt.Sprint("a", day))))
			result(t, start(t, b, day, executor.RequestID(fmt.Sprint("b", day))))
			days.at.Add((24 * time.Hour).Milliseconds())
		}
		prune(t, e, executor.Retention{Older: 100 * 24 * time.Hour}, 0)
		prune(t, e, executor.Retention{Older: 100 * time.Hour}, 2) // the first of each
		prune(t, e, executor.Retention{Keep: 3, Workflow: "a"}, 1)
		if diff := cmp.Diff([]string{"a2", "a3", "a4", "b1", "b2", "b3", "b4", "live"}, left(t, e)); diff != "" {
			t.Error(diff)
		}
		prune(t, e, executor.Retention{Keep: 1, Older: 60 * time.Hour}, 3) // what both say
		if diff := cmp.Diff([]string{"a3", "a4", "b3", "b4", "live"}, left(t, e)); diff != "" {
			t.Error(diff)
		}
		prune(t, e, executor.Retention{}, 4)
		if _, err := e.Prune(t.Context(), executor.Retention{Keep: -1}, nil); !fault.Is(err, fault.InputValidation) {
			t.Errorf("a negative number: %v", err)
		}
		if err := live.Cancel(t.Context(), ""); err != nil { // it waited all the time, and goes on
			t.Fatal(err)
		}
		if _, err := live.Result(t.Context()); !fault.Is(err, fault.ExecutionAborted) {
			t.Error(err)
		}
		result(t, start(t, a, 1, executor.RequestID("a0"))) // the id is free again
	})
}

// The source of a fork stays while the fork is live; afterwards the fork has all it kept.
//
// Invariant: INV-36
func TestTheSourceOfALiveForkStays(t *testing.T) {
	onEachStore(t, func(t *testing.T, h host) {
		var d diary
		effects := 0
		e := h(t)
		source := start(t, register(t, e, parking(&d, &effects)), 1)
		until(t, source, runlog.RunWaiting, 1)
		if err := source.Cancel(t.Context(), "enough"); err != nil {
			t.Fatal(err)
		}
		if _, err := source.Result(t.Context()); err == nil {
			t.Fatal("it was cancelled")
		}
		forked := fork(t, source, "")
		until(t, forked, runlog.RunWaiting, 1)
		prune(t, e, executor.Retention{}, 0)
		leave(t, e)
		e = h(t)
		register(t, e, parking(&d, &effects))
		forked = attach[int](t, e, forked.ID())
		asked, err := e.Requests(runlog.RequestQuery{Run: forked.ID(), Status: []runlog.RequestStatus{runlog.RequestOpen}})
		if err != nil || len(asked) != 1 {
			t.Fatalf("%v %v", asked, err)
		}
		if _, err := forked.Answer(t.Context(), asked[0].ID, answer{true}, "ann"); err != nil {
			t.Fatal(err)
		}
		if err := forked.Signal(t.Context(), "news", "n", "x"); err != nil {
			t.Fatal(err)
		}
		want := result(t, forked)
		prune(t, e, executor.Retention{Keep: 1}, 1)
		d.take()
		if got := result(t, fork(t, forked, "side", executor.Edit(2))); got != want+100 || d.take() != "side#1(2)" {
			t.Errorf("got %d, want %d more than %d", got, 100, want)
		}
		if r, err := e.Run(forked.ID()); err != nil || r.ForkedFrom.Run != source.ID() {
			t.Errorf("the lineage is gone with the source: %+v %v", r.ForkedFrom, err)
		}
	})
}

// What a run has elsewhere goes first; a run for which that fails stays, and holds up no other.
func TestARunWhoseOtherThingsCannotGoStays(t *testing.T) {
	e := open(t, runlog.NewMemory())
	flow := register(t, e, named("a"))
	for n := range 200 {
		result(t, start(t, flow, n, executor.RequestID(fmt.Sprintf("%03d", n))))
	}
	locked := errors.New("in use")
	asked := 0
	removed, err := e.Prune(t.Context(), executor.Retention{}, func(r runlog.Run) error {
		if asked++; r.RequestID[2] == '7' || r.RequestID < "080" {
			return locked
		}
		return nil
	})
	if removed != 108 || asked != 200 || !errors.Is(err, locked) {
		t.Errorf("removed %d after %d questions: %v", removed, asked, err)
	}
	if n := len(left(t, e)); n != 92 {
		t.Errorf("%d are left", n)
	}
	stop, cancel := context.WithCancel(t.Context())
	removed, err = e.Prune(stop, executor.Retention{}, func(runlog.Run) error { cancel(); return nil })
	if removed != 64 || !errors.Is(err, context.Canceled) { // a step is not cut short
		t.Errorf("removed %d: %v", removed, err)
	}
}
