package schedule

import (
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
)

// Panic is a panic of user code as an error.
type Panic struct {
	Value any
	Stack []byte
}

// Error holds the stack: it is for logs, not for records.
func (p *Panic) Error() string { return fmt.Sprintf("panic: %v\n%s", p.Value, p.Stack) }

// Guarded runs user code and turns its panic into a *Panic. A panic with an *Error is that error.
func Guarded[T any](fn func() (T, error)) (out T, err error) {
	defer func() {
		switch p := recover().(type) {
		case nil:
		case *workflow.Error:
			err = p
		default:
			err = &Panic{p, debug.Stack()}
		}
	}()
	return fn()
}

// FailureOf describes the error of a visit. The stack of a panic stays out of it.
func FailureOf(err error, key runlog.NodeKey, attempt int) *workflow.Failure {
	f := &workflow.Failure{Node: key.Path, Visit: key.Visit, Attempt: attempt, Kind: NodeFailed, Message: err.Error()}
	if p, ok := errors.AsType[*Panic](err); ok {
		f.Kind, f.Message = NodePanicked, fmt.Sprintf("panic: %v", p.Value)
	} else if kind := fault.KindOf(err); kind != "" {
		f.Kind = kind
	}
	return f
}
