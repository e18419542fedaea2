package executor_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/workflowd/workflowd/agentcore/fault"
	"github.com/workflowd/workflowd/executor"
	"github.com/workflowd/workflowd/executor/runlog"
	"github.com/workflowd/workflowd/workflow"
)

func TestCancelStopsNodesRunsCleanupAndAborts(t *testing.T) {
	e := open(t, runlog.NewMemory())
	entered := make(chan struct{})
	cleaned := make(chan workflow.Failure, 1)
	h := register(t, e, workflow.MustDefine("long", 1, func(b builder, in workflow.Ref[int]) workflow.Ref[int] {
		long := workflow.Then(b, in, fn("long", func(c ctx, n int) (int, error) {
			close(entered)
			<-c.Abort().Done()
			if c.Abort().Cause() != fault.ExecutionAborted {
				return 0, fmt.Errorf("cause %q", c.Abort().Cause())
			}
			return 0, c.Err()
		}))
		caught := workflow.Catch(b, long, fn("sorry", func(ctx, workflow.Failure) (int, error) { return 0, nil }))
		return workflow.Finally(b, caught, fn("tidy", func(_ ctx, f workflow.Failure) (int, error) { cleaned <- f; return 0, nil }))
	}))
	run := start(t, h, 1)
	<-entered
	if err := run.Cancel(t.Context(), "enough"); err != nil {
		t.Fatal(err)
	}
	if _, err := run.Result(t.Context()); !fault.Is(err, fault.ExecutionAborted) || !strings.Contains(err.Error(), "enough") {
		t.Errorf("got %v", err)
	}
	if f := <-cleaned; f.Kind != fault.ExecutionAborted || f.Node != "long" {
		t.Errorf("cleanup got %+v", f)
	}
	want := `run.queued
run.running
node.started long#1.1
run.cancelling
node.aborted long#1.1
node.started tidy#1.1
node.succeeded tidy#1.1
run.aborted`
	if diff := cmp.Diff(want, wholeStory(t, run)); diff != "" {
		t.Error(diff)
	}
	if err := run.Cancel(t.Context(), "again"); err != nil {
		t.Errorf("a second cancel: %v", err)
	}
}

func TestARunThatMissesItsDeadlineExpires(t *testing.T) {
	e := open(t, runlog.NewMemory())
	h := register(t, e, workflow.MustDefine("late", 1, func(b builder, in workflow.Ref[int]) workflow.Ref[int] {
		return workflow.Then(b, in, fn("late", func(c ctx, n int) (int, error) {
			<-c.Done()
			if c.Abort().Cause() != workflow.DeadlineExceeded {
				return 0, fmt.Errorf("cause %q", c.Abort().Cause())
			}
			return 0, context.Cause(c)
		}))
	}))
	run := start(t, h, 1, executor.Deadline(time.Now().Add(20*time.Millisecond)))
	if _, err := run.Result(t.Context()); !fault.Is(err, workflow.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
	if r, err := e.Run(run.ID()); err != nil || r.Status != runlog.Expired {
		t.Errorf("%v %v", r.Status, err)
	}
	parked := start(t, register(t, e, asking()), 1, executor.Deadline(time.Now().Add(20*time.Millisecond)))
	if _, err := parked.Result(t.Context()); !fault.Is(err, workflow.DeadlineExceeded) {
		t.Errorf("a run that waits: %v", err)
	}
	requests, err := e.Requests(runlog.RequestQuery{Run: parked.ID()})
	if err != nil || requests[0].Status != runlog.RequestIsMoot {
		t.Errorf("its request: %+v %v", requests, err)
	}
}
