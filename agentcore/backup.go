package agentcore

import (
	"context"
	"errors"
	"io/fs"

	"github.com/workflowd/workflowd/agentcore/fault"
	"github.com/workflowd/workflowd/store/sessionstore"
	"github.com/workflowd/workflowd/store/sqlite"
)

// ExportDatabase copies the session file at databasePath, what its log holds included, to destination, which must not
// exist. The session must be closed: both files are locked meanwhile, and one in use is refused. The copy is consistent
// and appears whole or not at all. It holds the session's records alone: files of the working directory, running
// processes and keys are not in it, so keep the working directory beside it. Its unfinished work goes on wherever it is
// opened; open only one of the two.
//
// Errors have kinds: session_busy (either has an owner), not_found (no source), conflict (the destination exists),
// input_validation (the source is no session of ours, is damaged, or is of a newer version), storage.
// Source: P-317, P-319 to P-328.
func ExportDatabase(ctx context.Context, databasePath, destination string) error {
	return transferred(sessionstore.Export(ctx, databasePath, destination))
}

// ImportDatabase makes the session file at databasePath, which must not exist, out of an exported one. It is
// ExportDatabase the other way, with the same errors: an existing session is never overwritten, and the lock of the source
// is not taken over. Source: P-318.
func ImportDatabase(ctx context.Context, source, databasePath string) error {
	return transferred(sessionstore.Import(ctx, source, databasePath))
}

func transferred(err error) error {
	if err == nil || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return &fault.Error{Kind: kindOf(err), Message: err.Error(), Cause: err}
}

// kindOf names what is wrong with a session file.
func kindOf(err error) fault.Kind {
	if _, locked := errors.AsType[*sqlite.ErrLocked](err); locked {
		return fault.SessionBusy
	}
	for _, known := range []struct {
		err  error
		kind fault.Kind
	}{
		{fs.ErrNotExist, fault.NotFound}, {fs.ErrExist, fault.Conflict}, {sqlite.ErrForeign, fault.InputValidation},
		{sqlite.ErrNewer, fault.InputValidation}, {sqlite.ErrNotDatabase, fault.InputValidation},
	} {
		if errors.Is(err, known.err) {
			return known.kind
		}
	}
	return fault.Storage
}
