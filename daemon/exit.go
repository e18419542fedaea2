package daemon

import (
	"context"
	"errors"
	"strings"

	"github.com/workflowd/workflowd/agentcore/fault"
)

// The exit codes. Source: docs/operations.md "Exit codes".
const (
	ExitOK          = 0   // done
	ExitFailed      = 1   // the run failed
	ExitUsage       = 2   // the command line or the input is wrong
	ExitNotFound    = 3   // what was named does not exist
	ExitRefused     = 4   // refused or denied
	ExitWaiting     = 5   // the run waits for a person
	ExitUnreachable = 6   // no daemon answers
	ExitConflict    = 7   // another process or another request has it
	ExitInterrupted = 130 // stopped by a signal
)

// usageError is a command line that cannot be followed.
type usageError struct{ error }

func (u usageError) Unwrap() error { return u.error }

func usage(format string, args ...any) error {
	return usageError{fault.New(fault.InputValidation, format, args...)}
}

// quiet is an error whose story has been told already.
type quiet struct{ error }

func (q quiet) Unwrap() error { return q.error }

func isQuiet(err error) bool {
	_, ok := errors.AsType[quiet](err)
	return ok
}

// hinted is an error with what to do about it.
type hinted struct {
	error
	hint string
}

func (h hinted) Unwrap() error { return h.error }

func withHint(err error, hint string) error {
	if err == nil {
		return nil
	}
	return hinted{err, hint}
}

func hintOf(err error) string {
	if h, ok := errors.AsType[hinted](err); ok {
		return h.hint
	}
	if _, ok := errors.AsType[usageError](err); ok {
		return "see 'workflowd run --help'"
	}
	switch fault.KindOf(err) {
	case fault.SessionBusy:
		return "wait for that process, stop it, or choose another --data-dir"
	case fault.OwnerLost:
		return "look at the process that took over; nothing was written here after it did"
	case fault.Storage:
		return "check that the data directory is writable and has room: workflowd doctor"
	case fault.Conflict:
		return "use another --request-id"
	}
	return ""
}

// Exit is the exit code of a command that ended in err.
func Exit(err error) int {
	if err == nil {
		return ExitOK
	}
	if errors.Is(err, context.Canceled) {
		return ExitInterrupted
	}
	switch fault.KindOf(err) {
	case fault.InputValidation, fault.Unsupported:
		return ExitUsage
	case fault.NotFound:
		return ExitNotFound
	case fault.UserInputRequired:
		return ExitWaiting
	case fault.Conflict, fault.SessionBusy, fault.OwnerLost:
		return ExitConflict
	case fault.ExecutionAborted, fault.Suspended:
		return ExitInterrupted
	}
	return ExitFailed
}

// told is an error as one line: what happened, where, and what to do.
func told(err error) string {
	text := oneLine(err)
	if hint := hintOf(err); hint != "" {
		text += "; " + hint
	}
	return text
}

// oneLine is an error's text without line breaks and control characters.
func oneLine(err error) string {
	lines := strings.FieldsFunc(err.Error(), func(r rune) bool { return r == '\n' })
	return strings.Join(strings.Fields(clean(strings.Join(lines, "; "))), " ")
}
