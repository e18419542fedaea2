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
	s, err := sessionstore.Open(ctx, opts.DatabasePath, sessionstore.Options{})
	if err == nil {
		return s, nil
	}
	if locked, ok := errors.AsType[*sqlite.ErrLocked](err); ok {
		return nil, fault.New(fault.SessionBusy, "%w", locked)
	}
	return nil, fault.New(fault.Storage, "%w", err)
}
