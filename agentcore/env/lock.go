package env

import (
	"context"
	"sync"
)

// locks serialises changes of files in this process. A key is an environment ID and a canonical path; an entry exists
// while somebody holds or awaits it. It is process-wide because two environments with one ID are the same files.
var locks = struct {
	sync.Mutex
	held map[lockKey]*lockEntry
}{held: map[lockKey]*lockEntry{}}

type lockKey struct{ id, path string }

type lockEntry struct {
	token chan struct{} // holds one value while free
	users int
}

// Lock waits until nobody else in this process holds the file, and returns the function that gives it back (once; later
// calls do nothing). path must be canonical, so that two names of one file share the lock. Whoever reads a file to write
// it back holds the lock for both. When ctx ends first the error is Aborted. Source: notes/durable-kernel 9.5, item 22.
func Lock(ctx context.Context, e Environment, path string) (unlock func(), err error) {
	key := lockKey{e.ID(), path}
	locks.Lock()
	entry := locks.held[key]
	if entry == nil {
		entry = &lockEntry{token: make(chan struct{}, 1)}
		entry.token <- struct{}{}
		locks.held[key] = entry
	}
	entry.users++
	locks.Unlock()

	leave := func() {
		locks.Lock()
		defer locks.Unlock()
		if entry.users--; entry.users == 0 {
			delete(locks.held, key)
		}
	}
	select {
	case <-ctx.Done():
		leave()
		return nil, &Error{Op: "lock", Path: path, Code: Aborted, Cause: context.Cause(ctx)}
	case <-entry.token:
	}
	return sync.OnceFunc(func() { entry.token <- struct{}{}; leave() }), nil
}
