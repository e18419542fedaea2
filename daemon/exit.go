package daemon

import (
	"context"
	"errors"
	"strings"

	"github.com/workflowd/workflowd/agentcore/fault"
)

// The exit codes. Source: docs/operations.md.
const (
	ExitOK          = 0
	ExitFailed      = 1
	ExitUsage       = 2
	ExitNotFound    = 3
	ExitRefused     = 4
	ExitWaiting     = 5
	ExitUnreachable = 6
	ExitConflict    = 7
	ExitInterrupted = 130
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
		return "see 'workflowd help' and 'workflowd run --help'"
	}
	switch fault.KindOf(err) {
	case fault.SessionBusy:
		return "wait for that process, stop it, or choose another --data-dir"
	case fault.UserInputRequired:
		return "answer on a terminal, or pass --yes to approve"
	case fault.OwnerLost:
		return "look at the process that took over; nothing was written here after it did"
	case fault.Storage:
		return "check that the data directory is writable and has room: workflowd doctor"
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
	case "":
		if strings.HasPrefix(err.Error(), "unknown command") || strings.HasPrefix(err.Error(), "accepts ") || strings.HasPrefix(err.Error(), "requires ") {
			return ExitUsage // cobra's own errors have no type
		}
	}
	return ExitFailed
}

// oneLine is an error's text without line breaks.
func oneLine(err error) string { return strings.Join(strings.Fields(err.Error()), " ") }
