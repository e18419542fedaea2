package executor_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/workflowd/workflowd/executor"
	"github.com/workflowd/workflowd/executor/runlog"
	"github.com/workflowd/workflowd/workflow"
)

// A command that came for one run acts for no other: with its settings, another run would be a different run.
func TestAForegroundEngineGoesOnWithTheRunItIsAskedForAndNoOther(t *testing.T) {
	onEachStore(t, func(t *testing.T, host host) {
		flow := counting(2, workflow.ResumeAfterCrash())
		e := host(t)
		counts, err := executor.Register(e, flow)
		if err != nil {
			t.Fatal(err)
		}
		var runs []*executor.Run[[]int]
		for _, id := range []string{"mine", "another's"} {
			run, err := counts.Start(t.Context(), 4, executor.RequestID(id))
			if err != nil {
				t.Fatal(err)
			}
			runs = append(runs, run)
			for event, err := range run.Events(t.Context(), 0) {
				if err != nil {
					t.Fatal(err)
				}
				if event.Kind == runlog.NodeChunk && string(event.Data) == "2" {
					break
				}
			}
		}
		leave(t, e)
		e = host(t, executor.Foreground())
		counts, err = executor.Register(e, flow)
		if err != nil {
			t.Fatal(err)
		}
		mine, err := counts.Start(t.Context(), 4, executor.RequestID("mine"))
		if err != nil {
			t.Fatal(err)
		}
		got, err := mine.Result(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff([]int{1, 2, 3, 4}, got); d != "" || mine.ID() != runs[0].ID() {
			t.Errorf("run %s: %s", mine.ID(), d)
		}
		other, err := e.Run(runs[1].ID())
		if err != nil || other.Status != runlog.Suspended {
			t.Errorf("the other run is %s, %v; want suspended, as it was left", other.Status, err)
		}
		if got, err := attach[[]int](t, e, runs[1].ID()).Result(t.Context()); err != nil || len(got) != 4 {
			t.Errorf("attached, it ended with %v, %v", got, err)
		}
	})
}
