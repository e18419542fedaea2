package sqlite

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync"
	"time"
)

// closings are the files that CloseBehind is not done with.
var closings = struct {
	mu     sync.Mutex
	done   map[string]chan struct{} // by path; closed when the file is
	failed []error                  // for Drain, at most failuresKept
}{done: map[string]chan struct{}{}}

// CloseBehind is Close whose waiting for the disk goes on behind the caller: every commit is as safe as before, because
// they are in the write-ahead log. Until it is done the file is owned: an Open of the same path waits for it, here and in
// other processes. A process that ends before leaves the log to the next Open. Drain waits for all and has their errors.
// More than closingsMost at a time, or a lock file that cannot be written, make it a plain Close.
func (db *DB) CloseBehind() error {
	if db.conn == nil {
		return nil
	}
	done := make(chan struct{})
	if !startClosing(db.path, done) {
		return db.Close()
	}
	err := writeHolder(db.path+LockSuffix, newHolder(true))
	rest := *db
	*db = DB{path: db.path}
	if err != nil {
		err = errors.Join(fmt.Errorf("close database %q: %w", rest.path, err), rest.Close())
		endClosing(rest.path, done)
		return err
	}
	go func() {
		err := rest.Close()
		if _, gone := os.Lstat(rest.path); err != nil && !errors.Is(gone, fs.ErrNotExist) { // removed meanwhile: nothing to be whole
			keepFailure(err)
		}
		endClosing(rest.path, done)
	}()
	return nil
}

// PutAway is Close that keeps the owner lock: opening the file with the returned one goes on with it. On an error the lock
// is freed; what is committed is in the file or its log.
func (db *DB) PutAway() (*Lock, error) {
	if db.conn == nil {
		return nil, ErrClosed
	}
	err := db.settle()
	lock := db.lock
	db.lock = nil
	if err = errors.Join(err, db.release()); err != nil {
		return nil, fmt.Errorf("put database %q away: %w", db.path, errors.Join(err, lock.Unlock()))
	}
	return lock, nil
}

func startClosing(path string, done chan struct{}) bool {
	closings.mu.Lock()
	defer closings.mu.Unlock()
	if len(closings.done) >= closingsMost || closings.done[path] != nil {
		return false
	}
	closings.done[path] = done
	return true
}

func endClosing(path string, done chan struct{}) {
	closings.mu.Lock()
	delete(closings.done, path)
	closings.mu.Unlock()
	close(done)
}

func keepFailure(err error) {
	closings.mu.Lock()
	defer closings.mu.Unlock()
	if len(closings.failed) < failuresKept {
		closings.failed = append(closings.failed, err)
	}
}

// awaitClosing returns when no CloseBehind of this process has path any more.
func awaitClosing(path string) {
	closings.mu.Lock()
	done := closings.done[path]
	closings.mu.Unlock()
	if done != nil {
		<-done
	}
}

// Drain waits for every CloseBehind that has begun and returns what failed since the last call. A program calls it before
// it ends, so that its files are whole without their logs.
func Drain() error {
	closings.mu.Lock()
	waiting := make([]chan struct{}, 0, len(closings.done))
	for _, done := range closings.done {
		waiting = append(waiting, done)
	}
	closings.mu.Unlock()
	for _, done := range waiting {
		<-done
	}
	closings.mu.Lock()
	defer closings.mu.Unlock()
	err := errors.Join(closings.failed...)
	closings.failed = nil
	return err
}

// try takes the lock, waiting only for an owner that says it is closing.
func (l *Lock) try() (bool, error) {
	awaitClosing(l.path)
	for until := time.Now().Add(closingWait); ; time.Sleep(closingPoll) {
		ok, err := l.flock.TryLock()
		if ok || err != nil || !readHolder(l.path+LockSuffix).Closing || time.Now().After(until) {
			return ok, err
		}
	}
}
