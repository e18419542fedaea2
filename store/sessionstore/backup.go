package sessionstore

import (
	"context"
	"fmt"

	"github.com/workflowd/workflowd/store/sqlite"
)

// Export copies the session file at source, commits that are still in its log included, to a new file. It holds the owner
// locks of both meanwhile, so a session that is in use is refused, and it changes nothing in the source: an older version
// stays one. The copy holds the session's records and nothing else: no working directory, no process, no key. It is
// synced, and appears whole or not at all. ctx stops the copying.
//
// Errors: fs.ErrNotExist (no source), fs.ErrExist (the destination is never overwritten), *sqlite.ErrLocked,
// sqlite.ErrForeign (no session of ours), sqlite.ErrNewer, sqlite.ErrNotDatabase, *sqlite.ErrUnwritable,
// sqlite.ErrDiskFull. Source: P-317 to P-328.
func Export(ctx context.Context, source, destination string) error {
	return transfer(ctx, "export", source, destination)
}

// Import is Export the other way: it makes the session at destination out of an exported file. The session goes on where
// it was when it was exported; nothing ties it to its source.
func Import(ctx context.Context, source, destination string) error {
	return transfer(ctx, "import", source, destination)
}

func transfer(ctx context.Context, verb, source, destination string) error {
	parsed, err := schema()
	if err == nil {
		err = sqlite.Backup(ctx, parsed, source, destination)
	}
	if err != nil {
		return fmt.Errorf("%s session: %w", verb, err)
	}
	return nil
}
