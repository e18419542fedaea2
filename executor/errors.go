package executor

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"

	"github.com/workflowd/workflowd/agentcore/fault"
	"github.com/workflowd/workflowd/executor/runlog"
	"github.com/workflowd/workflowd/workflow"
)

// Kinds of failures beside those of package fault.
const (
	NodeFailed    fault.Kind = "node_failed"    // a node returned an error without a kind
	NodePanicked  fault.Kind = "node_panicked"  // a node panicked
	LoopExhausted fault.Kind = "loop_exhausted" // a loop was not done after its turns
	Unregistered  fault.Kind = "unregistered"   // a workflow of this name and version is not registered
)

// panicked is a panic of user code.
type panicked struct {
	value any
	stack []byte
}

func (p *panicked) Error() string { return fmt.Sprintf("panic: %v\n%s", p.value, p.stack) }

// guarded turns a panic of fn into its error. A panic with an *Error is that error.
func guarded[T any](fn func() (T, error)) (out T, err error) {
	defer func() {
		switch p := recover().(type) {
		case nil:
		case *workflow.Error:
			err = p
		default:
			err = &panicked{p, debug.Stack()}
		}
	}()
	return fn()
}

// failureOf describes the error of a visit. The stack of a panic stays out of it.
func failureOf(err error, key runlog.NodeKey, attempt int) *workflow.Failure {
	f := &workflow.Failure{Node: key.Path, Visit: key.Visit, Attempt: attempt, Kind: NodeFailed, Message: err.Error()}
	if p, ok := errors.AsType[*panicked](err); ok {
		f.Kind, f.Message = NodePanicked, fmt.Sprintf("panic: %v", p.value)
	} else if kind := fault.KindOf(err); kind != "" {
		f.Kind = kind
	}
	return f
}

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
