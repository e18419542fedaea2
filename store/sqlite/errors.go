package sqlite

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"
	"time"

	sqlite3 "github.com/mattn/go-sqlite3"
)

var (
	// ErrUnknownEffect marks a commit that failed in a way that may have reached the disk. Every other error of Tx, Submit
	// and Exec means that nothing was written.
	ErrUnknownEffect = errors.New("sqlite: the effect of the commit is unknown")
	// ErrDiskFull reports that the disk, or a quota, is full. Nothing was written.
	ErrDiskFull = errors.New("sqlite: the disk is full")
	// ErrDisk reports that the disk failed to read, write or sync. Nothing was written, unless it comes with ErrUnknownEffect.
	ErrDisk = errors.New("sqlite: the disk failed")
	// ErrNotDatabase reports a file that is no SQLite database, or a damaged one.
	ErrNotDatabase = errors.New("sqlite: not a database")
	// ErrConstraint reports a row that the schema refuses: a key that exists, a reference to nothing.
	ErrConstraint = errors.New("sqlite: constraint")
	// ErrNotYours reports a statement of a Guest that reaches beyond what the guest may touch. Nothing of it was done.
	ErrNotYours = errors.New("sqlite: the statement reaches beyond its own tables")
	// ErrEnded reports that SQLite has ended the transaction by itself: the disk is full, or the statement said OR ROLLBACK.
	ErrEnded = errors.New("sqlite: the transaction has ended")
	// ErrClosed reports use after Close, or after the connection broke.
	ErrClosed = errors.New("sqlite: closed")
	// ErrNewer reports a database that a newer program has migrated. It is not touched.
	ErrNewer = errors.New("sqlite: the database belongs to a newer version of this program")
	// ErrForeign reports a database that other code than this program's made. It is not touched.
	ErrForeign = errors.New("sqlite: the database was made by another program")
	// ErrPathTooLong reports a path that SQLite cannot open on this system.
	ErrPathTooLong = errors.New("sqlite: path too long")
)

// ErrLocked reports that another owner, in this process or another, has the file.
type ErrLocked struct {
	Path   string // of the database
	Holder Holder // zero when the holder could not be read
}

// Error names the file and, when known, the process that has it.
func (e *ErrLocked) Error() string {
	if e.Holder.PID == 0 {
		return fmt.Sprintf("%s is in use by another process", e.Path)
	}
	return fmt.Sprintf("%s is in use by process %d since %s", e.Path, e.Holder.PID, e.Holder.Since.Format(time.RFC3339))
}

// ErrUnwritable reports a directory or file that this process may not write.
type ErrUnwritable struct {
	Path string // the directory or file that refused
	Err  error
}

// Error names the path.
func (e *ErrUnwritable) Error() string { return fmt.Sprintf("%s cannot be written: %v", e.Path, e.Err) }

// Unwrap returns the system's error.
func (e *ErrUnwritable) Unwrap() error { return e.Err }

// classify gives a file system or SQLite error the type that callers branch on; it keeps the original in the chain.
func classify(path string, err error) error {
	if err == nil {
		return nil
	}
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		return fmt.Errorf("%w: %w", ErrDiskFull, err)
	}
	if errors.Is(err, syscall.EIO) {
		return fmt.Errorf("%w: %w", ErrDisk, err)
	}
	if errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EROFS) {
		return &ErrUnwritable{Path: path, Err: err}
	}
	e, ok := errors.AsType[sqlite3.Error](err)
	if !ok {
		return err
	}
	switch e.Code {
	case sqlite3.ErrFull:
		return fmt.Errorf("%w: %w", ErrDiskFull, err)
	case sqlite3.ErrIoErr:
		return fmt.Errorf("%w: %w", ErrDisk, err)
	case sqlite3.ErrAuth:
		return fmt.Errorf("%w: %w", ErrNotYours, err)
	case sqlite3.ErrConstraint:
		return fmt.Errorf("%w: %w", ErrConstraint, err)
	case sqlite3.ErrNotADB, sqlite3.ErrCorrupt:
		return fmt.Errorf("%w: %w", ErrNotDatabase, err)
	case sqlite3.ErrReadonly, sqlite3.ErrPerm:
		return &ErrUnwritable{Path: path, Err: err}
	case sqlite3.ErrCantOpen:
		if _, statErr := os.Stat(path); statErr == nil || errors.Is(statErr, fs.ErrPermission) {
			return &ErrUnwritable{Path: path, Err: err}
		}
	}
	return err
}
