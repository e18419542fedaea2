package sessionstore

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/workflowd/workflowd/store/sqlite"
)

// removed are the ends of the names that a session's files have, in the order in which they go: without its first a session
// does not exist, and whoever makes a new one clears what is left of the others. The lock file stays: see sqlite.LockSuffix.
var removed = []string{"", ".new", "-wal", "-shm", "-journal"}

// Remove deletes the session file at path and gives its space back. It takes the owner's lock meanwhile, so a session in use
// is refused. After a crash the session is whole or gone. Errors: fs.ErrNotExist, *sqlite.ErrLocked, *sqlite.ErrUnwritable.
// One conversation of a session is removed by session.Tx.Remove. Source: P-137.
func Remove(path string) (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("remove session %q: %w", path, err)
		}
	}()
	full, err := sqlite.Resolve(path)
	if err != nil {
		return err
	}
	if _, err := os.Stat(full); err != nil {
		return err
	}
	lock, err := sqlite.LockOwner(full)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, lock.Unlock()) }()
	for _, suffix := range removed {
		err := os.Remove(full + suffix)
		if errors.Is(err, fs.ErrNotExist) && suffix != "" {
			continue
		}
		if err != nil {
			return err
		}
	}
	return syncNames(filepath.Dir(full))
}

// syncNames makes removed names stay removed over a power loss. Systems that cannot open a directory keep it in order
// themselves.
func syncNames(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	if err := d.Sync(); err != nil && !errors.Is(err, errors.ErrUnsupported) && !errors.Is(err, fs.ErrInvalid) {
		return errors.Join(err, d.Close())
	}
	return d.Close()
}
