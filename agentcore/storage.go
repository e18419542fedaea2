package agentcore

import (
	"context"
	"errors"

	"github.com/workflowd/workflowd/agentcore/fault"
	"github.com/workflowd/workflowd/agentcore/session"
	"github.com/workflowd/workflowd/store/sessionstore"
	"github.com/workflowd/workflowd/store/sqlite"
)

// open returns the session's store: the file, or memory without one. Errors have kinds: session_busy names the owner,
// storage what is wrong with the place.
func open(ctx context.Context, opts Options) (session.Storage, error) {
	if opts.DatabasePath == "" {
		return session.NewMemory(), nil
	}
	s, err := sessionstore.Open(ctx, opts.DatabasePath, sessionstore.Options{Behind: true, Idle: sessionstore.IdleHandle})
	if err == nil {
		return s, nil
	}
	if locked, ok := errors.AsType[*sqlite.ErrLocked](err); ok {
		return nil, fault.New(fault.SessionBusy, "%w", locked)
	}
	return nil, fault.New(fault.Storage, "%w", err)
}

// Drain waits until the files of all closed agents are whole without their write-ahead logs, and returns what failed since
// the last call: Agent.Close does not wait for that. Nothing is lost without it; a program calls it before it ends, or
// before it copies session files by itself.
func Drain() error { return sqlite.Drain() }
