package sqlite

import (
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"
	"sync"
)

// Writer lets many goroutines share one connection and one commit. It is safe for concurrent use.
//
// Exactly one goroutine owns the connection at a time: the leader. A submitter that finds nobody leading leads at once, on
// its own goroutine, so a lone commit costs what it costs without a Writer. Those who come meanwhile wait in the queue;
// when
// the leader is done it hands over to the first of them, who commits all that wait. No goroutine exists while nobody submits.
type Writer struct {
	db *DB

	mu      sync.Mutex
	free    *sync.Cond // signalled when leading becomes false
	queue   []*member  // waiting, in order of arrival
	leading bool
	last    int // size of the last shared commit
	closed  bool
}

// member is one submission.
type member struct {
	d    Durability
	fn   func(*Tx) error
	err  error
	lead bool          // woken to lead; otherwise woken because it is done
	wake chan struct{} // capacity 1
}

// NewWriter takes over db: nobody else may use it any more. Close closes it.
func NewWriter(db *DB) *Writer {
	w := &Writer{db: db}
	w.free = sync.NewCond(&w.mu)
	return w
}

// Submit runs fn in a transaction that it may share with others, and returns after the commit that holds its writes. An
// error or a panic of fn undoes fn's writes alone and is returned. One Synced member makes the shared commit Synced.
// ErrUnknownEffect as with DB.Transact; any other error means that nothing of fn was written. fn runs once, on this or
// another submitter's goroutine, sees what earlier members wrote, and must not call Submit.
func (w *Writer) Submit(d Durability, fn func(*Tx) error) error {
	m := &member{d: d, fn: fn}
	w.mu.Lock()
	if w.closed {
		w.mu.Unlock()
		return ErrClosed
	}
	w.queue = append(w.queue, m)
	if w.leading {
		m.wake = make(chan struct{}, 1)
		w.mu.Unlock()
		<-m.wake
		if !m.lead {
			return m.err
		}
	} else {
		w.leading = true
		w.mu.Unlock()
	}
	w.run(w.gather())
	return m.err
}

// gather takes the submissions of the next commit, the caller's own among them. After a shared commit those it woke are
// on their way with their next submissions: it lets them arrive, as long as the queue grows.
func (w *Writer) gather() []*member {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.last > 1 {
		for seen := 0; seen < len(w.queue) && len(w.queue) < GroupMost; {
			seen = len(w.queue)
			w.mu.Unlock()
			runtime.Gosched()
			w.mu.Lock()
		}
	}
	n := min(len(w.queue), GroupMost)
	group := w.queue[:n:n]
	w.queue = w.queue[n:]
	w.last = n
	return group
}

// run commits the group, wakes its members and hands the lead over. The first member is the caller.
func (w *Writer) run(group []*member) {
	w.db.commitGroup(group)
	w.mu.Lock()
	if len(w.queue) > 0 {
		w.queue[0].lead = true
		w.queue[0].wake <- struct{}{}
	} else {
		w.queue = nil
		w.leading = false
		w.free.Broadcast()
	}
	w.mu.Unlock()
	for _, m := range group[1:] {
		m.wake <- struct{}{}
	}
}

// commitGroup sets the err of every member.
func (db *DB) commitGroup(group []*member) {
	d := Fast
	for _, m := range group {
		d = max(d, m.d)
	}
	if err := db.begin(d); err != nil {
		failAll(group, err)
		return
	}
	kept := 0
	for _, m := range group {
		if len(group) == 1 {
			m.err = guarded(&db.Tx, m.fn)
		} else {
			m.err = db.Savepoint(func(tx *Tx) error { return guarded(tx, m.fn) })
		}
		if m.err == nil {
			kept++
		}
		if _, lost := errors.AsType[*lostTransaction](m.err); lost || db.conn.raw.AutoCommit() {
			failAll(group, db.rollback(fmt.Errorf("shared commit: %w", m.err)))
			return
		}
	}
	if kept == 0 {
		cause := group[0].err
		if err := db.rollback(cause); len(group) == 1 {
			group[0].err = err
		}
		return // a rollback that failed has broken the DB; the members' own errors stand
	}
	if err := db.commit(); err != nil {
		failAll(group, err)
	}
}

// failAll gives err to every member that has no error of its own.
func failAll(group []*member, err error) {
	for _, m := range group {
		if m.err == nil {
			m.err = err
		}
	}
}

// guarded turns a panic of fn into its error: the goroutine may be another submitter's, who did nothing wrong.
func guarded(tx *Tx, fn func(*Tx) error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic in a submitted function: %v\n%s", p, debug.Stack())
		}
	}()
	return fn(tx)
}

// Close waits for the submissions that are on their way and closes the database. Later ones get ErrClosed.
func (w *Writer) Close() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.closed = true
	for w.leading {
		w.free.Wait()
	}
	return w.db.Close()
}
