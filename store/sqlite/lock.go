package sqlite

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"runtime"
	"time"

	"github.com/gofrs/flock"
)

// LockSuffix is appended to a database's path to name its lock file. The file is never deleted: whoever deletes it lets
// a second owner in, which the stores survive by their epochs.
const LockSuffix = ".lock"

// Holder is who has a database, as written into the lock file.
type Holder struct {
	PID     int       `json:"pid"`
	Since   time.Time `json:"since"`
	Closing bool      `json:"closing,omitempty"` // it only waits for the disk: see CloseBehind
}

// Lock is the ownership of a database file. The operating system frees it when the process ends, however it ends. It is
// held by an open file and not inherited by child processes.
type Lock struct {
	path  string // of the database
	flock *flock.Flock
	made  []string // directories whose new entries are not synced
}

// LockOwner takes the ownership of the database at path, which need not exist; its directory is created. It does not
// wait. Errors: *ErrLocked, *ErrUnwritable, ErrPathTooLong. Source: P-300, P-301.
func LockOwner(path string) (*Lock, error) {
	path, err := Resolve(path)
	if err != nil {
		return nil, err
	}
	made, err := makeParents(path)
	if err != nil {
		return nil, err
	}
	l, err := lockResolved(path)
	if err == nil {
		l.made = made
	}
	return l, err
}

func lockResolved(path string) (*Lock, error) {
	name := path + LockSuffix
	l := &Lock{path: path, flock: flock.New(name, flock.SetPermissions(filePerm))}
	ok, err := l.try()
	if err != nil {
		return nil, fmt.Errorf("lock %q: %w", path, classify(name, err))
	}
	if !ok {
		return nil, fmt.Errorf("lock %q: %w", path, &ErrLocked{Path: path, Holder: readHolder(name)})
	}
	if err := writeHolder(name, newHolder(false)); err != nil {
		return nil, errors.Join(fmt.Errorf("lock %q: %w", path, classify(name, err)), l.flock.Close())
	}
	return l, nil
}

// Path returns the absolute path of the locked database.
func (l *Lock) Path() string { return l.path }

// Unlock gives the ownership back. The lock file stays. A second Unlock does nothing.
func (l *Lock) Unlock() error {
	if err := l.flock.Unlock(); err != nil {
		return fmt.Errorf("unlock %q: %w", l.path, err)
	}
	return nil
}

func newHolder(closing bool) Holder {
	return Holder{PID: os.Getpid(), Since: time.Now().UTC().Truncate(time.Millisecond), Closing: closing}
}

// holderAt is where the text starts: Windows locks the first byte against everybody.
const holderAt = 1

func writeHolder(name string, h Holder) error {
	text, err := json.Marshal(h)
	if err != nil {
		return err
	}
	f, err := os.OpenFile(name, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	if runtime.GOOS != "windows" {
		_, err = f.WriteAt([]byte{' '}, 0)
	}
	if err == nil {
		_, err = f.WriteAt(text, holderAt)
	}
	if err == nil {
		err = f.Truncate(int64(holderAt + len(text)))
	}
	return errors.Join(err, f.Close())
}

// readHolder reads who holds the lock. It may catch the holder in the middle of writing: then the result is zero.
func readHolder(name string) Holder {
	f, err := os.Open(name)
	if err != nil {
		return Holder{}
	}
	defer f.Close()
	text := make([]byte, holderMost)
	n, _ := f.ReadAt(text, holderAt) // a short file is the usual case
	var h Holder
	if json.Unmarshal(bytes.TrimSpace(text[:n]), &h) != nil {
		return Holder{}
	}
	return h
}
