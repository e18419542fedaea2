package env

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
)

// Code sorts the failures of an environment by what a caller can do about them.
type Code string

// The codes of files and commands. Source: notes/durable-kernel 9.4.
const (
	Aborted          Code = "aborted"           // ctx ended; nothing was begun, or it was stopped
	NotFound         Code = "not_found"         // the path does not exist
	Exists           Code = "exists"            // the path exists and must not
	PermissionDenied Code = "permission_denied" // the system, or the scope, refuses
	NotDirectory     Code = "not_directory"
	IsDirectory      Code = "is_directory"
	NotRegular       Code = "not_regular"       // a FIFO, socket, device or link where a file is wanted
	Invalid          Code = "invalid"           // the request itself is wrong
	Timeout          Code = "timeout"           // the command ran longer than it may and was killed
	ShellUnavailable Code = "shell_unavailable" // there is no shell
	SpawnFailed      Code = "spawn_error"       // the command could not be started
	CallbackFailed   Code = "callback_error"    // the caller's Output returned an error; the command was killed
	Unknown          Code = "unknown"
)

// Error is the one error type of an Environment. Op is the verb, Path what it was about as the caller wrote it.
type Error struct {
	Op    string
	Path  string
	Code  Code
	Cause error
}

// Error says verb, path and cause in one line.
func (e *Error) Error() string {
	text := e.Op
	if e.Path != "" {
		text += fmt.Sprintf(" %q", e.Path)
	}
	if e.Cause == nil {
		return text + ": " + string(e.Code)
	}
	return text + ": " + e.Cause.Error()
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Cause }

// CodeOf returns the code of the outermost *Error in err's chain, Unknown for another error, "" for nil.
func CodeOf(err error) Code {
	if err == nil {
		return ""
	}
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Code
	}
	return Unknown
}

// Classify returns the code of a standard library error.
func Classify(err error) Code {
	switch {
	case err == nil:
		return ""
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return Aborted
	case errors.Is(err, fs.ErrNotExist):
		return NotFound
	case errors.Is(err, fs.ErrExist):
		return Exists
	case errors.Is(err, fs.ErrPermission):
		return PermissionDenied
	case errors.Is(err, fs.ErrInvalid):
		return Invalid
	}
	return systemCode(err)
}
