// Package fault names the ways an agent or a workflow run can end badly.
//
// An Error carries a Kind (a stable wire name), what was being done, and the cause. Callers branch on the kind with
// errors.AsType or Is, never on text. The package is a leaf so that the agent library and the workflow side share one
// vocabulary.
package fault

import (
	"errors"
	"fmt"
)

// Kind is the wire name of a failure. It appears as `code` in problem documents and in run records.
type Kind string

// The kinds that callers may rely on. Source: spec create-agent "Errors".
const (
	InputValidation   Kind = "input_validation"    // the caller's input is wrong; names the field
	UserInputRequired Kind = "user_input_required" // the run is paused until a person decides
	ExecutionAborted  Kind = "execution_aborted"   // somebody stopped the run
	AgentNotReady     Kind = "AGENT_NOT_READY"     // a command outside a run
	ModelError        Kind = "model_error"         // the provider failed for good
	EmptyAnswer       Kind = "empty_answer"        // the model ended twice without text, call or refusal
	Suspended         Kind = "suspended"           // the host left; the work goes on at the next open
	SessionBusy       Kind = "session_busy"        // another process owns the session
	OwnerLost         Kind = "owner_lost"          // another owner took over; this one wrote nothing
	Storage           Kind = "storage"             // the store failed
	Unsupported       Kind = "unsupported"         // a capability that this build or target does not have
	NotFound          Kind = "not_found"           // the named thing does not exist
	Conflict          Kind = "conflict"            // the request contradicts a recorded fact
	Internal          Kind = "internal"            // a defect of ours
	Interrupted       Kind = "interrupted"         // an effect was cut off; its outcome is unknown
)

// Error is a failure with a kind. The zero value is not useful. Message says what and where in one line and may be shown
// to people; it holds no secret. Cause may be nil.
type Error struct {
	Kind    Kind
	Message string
	Cause   error
}

// New returns an Error of kind with a formatted message. A %w verb sets the cause.
func New(kind Kind, format string, args ...any) *Error {
	err := fmt.Errorf(format, args...)
	return &Error{Kind: kind, Message: err.Error(), Cause: errors.Unwrap(err)}
}

// Error returns the message.
func (e *Error) Error() string { return e.Message }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Cause }

// Is reports whether err, or one it wraps, has the kind.
func Is(err error, kind Kind) bool { return KindOf(err) == kind }

// KindOf returns the kind of the outermost Error in err's chain, or "" when there is none.
func KindOf(err error) Kind {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Kind
	}
	return ""
}
