package executor

import (
	"context"
	"errors"
	"fmt"

	"github.com/workflowd/workflowd/agentcore/fault"
	"github.com/workflowd/workflowd/executor/internal/schedule"
	"github.com/workflowd/workflowd/executor/runlog"
	"github.com/workflowd/workflowd/workflow"
)

// Kinds of failures beside those of package fault.
const (
	NodeFailed               = schedule.NodeFailed    // a node returned an error without a kind
	NodePanicked             = schedule.NodePanicked  // a node panicked
	LoopExhausted            = schedule.LoopExhausted // a loop was not done after its turns
	Unregistered  fault.Kind = "unregistered"         // a workflow of this name and version is not registered
)

// asError turns a stored failure into the error that callers branch on.
func asError(f *workflow.Failure) error {
	if f == nil {
		return fault.New(fault.Internal, "the run failed without a recorded failure")
	}
	if f.Node == "" {
		return fault.New(f.Kind, "%s", f.Message)
	}
	return fault.New(f.Kind, "node %q: %s", f.Node, f.Message)
}

// storeError gives an error of the store its kind.
func storeError(err error, format string, args ...any) error {
	kind := fault.Storage
	switch {
	case err == nil:
		return nil
	case errors.Is(err, runlog.ErrStale):
		kind = fault.OwnerLost
	case errors.Is(err, runlog.ErrNotFound):
		kind = fault.NotFound
	case errors.Is(err, runlog.ErrClosed):
		kind = fault.Suspended
	}
	return fault.New(kind, "%s: %w", fmt.Sprintf(format, args...), err)
}

// causes of an attempt's end that come from outside.
var (
	errSuspended = fault.New(fault.Suspended, "the host leaves; the run goes on at the next open")
	errOwnerLost = fault.New(fault.OwnerLost, "another process owns the runs")
	errReturned  = fault.New(fault.Conflict, "the node has returned; its context is over")
	errDeadline  = fault.New(workflow.DeadlineExceeded, "the run did not end in time")
)

// contextError returns the context's cause as an error with a kind.
func contextError(ctx context.Context) error {
	cause := context.Cause(ctx)
	if fault.KindOf(cause) != "" {
		return cause
	}
	return fault.New(fault.ExecutionAborted, "%w", cause)
}
