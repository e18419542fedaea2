package disk

import (
	"errors"
	"os"
	"runtime"
	"sync/atomic"
)

// Op is what an Event is about to do.
type Op int

// The operations.
const (
	Write   Op = iota // Data at the start of a new, empty file Path
	Sync              // the content of Path
	SyncDir           // the names in the directory Path
	Rename            // Path becomes To
	Link              // To becomes a second name of Path
	Remove            // the name Path goes away
)

// Event is one operation that is about to happen. Data is valid during the call.
type Event struct {
	Op       Op
	Path, To string
	Data     []byte
}

var watcher atomic.Pointer[func(Event) error]

// ErrLeftOut is a watcher's answer to a sync that would prove nothing: it is left out and counts as done.
var ErrLeftOut = errors.New("disk: left out")

// Watch calls see before every operation of this process, on the goroutine that asked for it; an error of see is returned
// instead of doing it. There is one watcher at a time; nil ends it. For tests.
func Watch(see func(Event) error) {
	if see == nil {
		watcher.Store(nil)
		return
	}
	watcher.Store(&see)
}

func about(e Event) error {
	if see := watcher.Load(); see != nil {
		return (*see)(e)
	}
	return nil
}

// Fill writes data into the new, empty file f. Nothing is synced.
func Fill(f *os.File, data []byte) error {
	if err := about(Event{Op: Write, Path: f.Name(), Data: data}); err != nil {
		return err
	}
	_, err := f.Write(data)
	return err
}

// SyncFile syncs the content of f, which is named path by now.
func SyncFile(f *os.File, path string) error {
	switch err := about(Event{Op: Sync, Path: path}); {
	case errors.Is(err, ErrLeftOut):
		return nil
	case err != nil:
		return err
	}
	return f.Sync()
}

// SyncPath is SyncFile of a file that is not open. Do not use it on a SQLite file that this process has open: closing any
// descriptor of a file drops the process's locks on it.
func SyncPath(path string) error {
	f, err := os.OpenFile(path, os.O_RDWR, 0) // Windows flushes only what may be written
	if err != nil {
		return err
	}
	return errors.Join(SyncFile(f, path), f.Close())
}

// SyncNames syncs the names in the directory dir. On Windows it does nothing: directories cannot be synced there.
func SyncNames(dir string) error {
	switch err := about(Event{Op: SyncDir, Path: dir}); {
	case errors.Is(err, ErrLeftOut), err == nil && runtime.GOOS == "windows":
		return nil
	case err != nil:
		return err
	}
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// Move renames a file; an existing one of that name is replaced.
func Move(from, to string) error {
	if err := about(Event{Op: Rename, Path: from, To: to}); err != nil {
		return err
	}
	return os.Rename(from, to)
}

// Name gives the file from the second name to, which must not exist: fs.ErrExist.
func Name(from, to string) error {
	if err := about(Event{Op: Link, Path: from, To: to}); err != nil {
		return err
	}
	return os.Link(from, to)
}

// Delete removes a file's name.
func Delete(path string) error {
	if err := about(Event{Op: Remove, Path: path}); err != nil {
		return err
	}
	return os.Remove(path)
}
