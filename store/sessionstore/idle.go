package sessionstore

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/workflowd/workflowd/agentcore/session"
	"github.com/workflowd/workflowd/store/sqlite"
)

// handles are the open files of stores with Options.Idle, but for those that are on their way out. One timer looks at all of
// them.
var handles = struct {
	mu       sync.Mutex
	open     map[*Store]struct{}
	due      time.Time // of the timer
	timer    int       // its number; those before it do nothing when they ring
	sweeping bool      // somebody looks, and sets the timer afterwards
	looks    int       // so far
}{open: map[*Store]struct{}{}}

// puttings bounds how many files are put away at the same time behind everybody: each holds a goroutine and a thread while
// the disk works.
var puttings = make(chan struct{}, puttingsMost)

// sweep puts the files away that were not used for long enough, until there is none, and sets the timer for the next one.
func sweep(timer int) {
	handles.mu.Lock()
	defer handles.mu.Unlock()
	if handles.sweeping || timer != handles.timer {
		return
	}
	handles.sweeping = true
	handles.looks++
	for {
		old, next := expired(time.Now())
		if len(old) == 0 {
			handles.sweeping, handles.due = false, time.Time{}
			if !next.IsZero() {
				wakeAt(next)
			}
			return
		}
		handles.mu.Unlock()
		for _, s := range old {
			puttings <- struct{}{}
			go func() {
				defer func() { <-puttings }()
				s.unused()
			}()
		}
		handles.mu.Lock()
	}
}

// expired takes out a few stores whose time has come; when there is none it returns when that of the others comes. The caller
// holds handles.mu.
func expired(now time.Time) (old []*Store, next time.Time) {
	for s := range handles.open {
		if due := s.due(); !due.After(now) {
			delete(handles.open, s)
			if old = append(old, s); len(old) == puttingsMost {
				return old, next
			}
		} else if next.IsZero() || due.Before(next) {
			next = due
		}
	}
	return old, next
}

// wakeAt sets the timer, unless it is set for an earlier time. One whose time has passed does not count: it rings now, or
// belonged to a clock that stands. The caller holds handles.mu.
func wakeAt(at time.Time) {
	now := time.Now()
	if handles.sweeping || handles.due.After(now) && !at.Before(handles.due) {
		return
	}
	handles.due = at
	handles.timer++
	timer := handles.timer
	time.AfterFunc(max(at.Sub(now), sweepPause), func() { sweep(timer) })
}

// due is when the file is put away if nobody uses it until then.
func (s *Store) due() time.Time { return time.Unix(0, s.used.Load()).Add(s.idle) }

// transact is a transaction on the file, which is fetched if it was put away.
func (s *Store) transact(d sqlite.Durability, fn func(*sqlite.Tx) error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.fetch(); err != nil {
		return err
	}
	return s.db.Transact(d, fn)
}

// watch begins to look after the file. It was just opened; the caller holds mu, or nobody else knows the store yet.
func (s *Store) watch() {
	if s.idle <= 0 {
		return
	}
	s.used.Store(time.Now().UnixNano())
	handles.mu.Lock()
	var least *Store
	if len(handles.open) >= HandlesMost {
		for o := range handles.open {
			if least == nil || o.used.Load() < least.used.Load() {
				least = o
			}
		}
		delete(handles.open, least)
	}
	handles.open[s] = struct{}{}
	wakeAt(s.due())
	handles.mu.Unlock()
	if least == nil {
		return
	}
	select {
	case puttings <- struct{}{}: // the caller needs no sync of another's file
		go func() {
			defer func() { <-puttings }()
			least.makeRoom()
		}()
	default:
		least.makeRoom()
	}
}

// stay puts a store back into the list: it is in use.
func (s *Store) stay() {
	handles.mu.Lock()
	defer handles.mu.Unlock()
	handles.open[s] = struct{}{}
	wakeAt(s.due())
}

func (s *Store) forget() {
	handles.mu.Lock()
	defer handles.mu.Unlock()
	delete(handles.open, s)
}

// makeRoom puts the file away unless it is in use right now.
func (s *Store) makeRoom() {
	if !s.mu.TryLock() {
		s.stay()
		return
	}
	s.putAway()
	idled := s.idled
	s.mu.Unlock()
	idled()
}

// unused puts the file away unless it was used meanwhile.
func (s *Store) unused() {
	s.mu.Lock()
	if !s.closed && !s.away && s.due().After(time.Now()) {
		s.stay()
		s.mu.Unlock()
		return
	}
	s.putAway()
	idled := s.idled
	s.mu.Unlock()
	idled()
}

// OnIdle implements session.Idler.
func (s *Store) OnIdle(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.idled = f
}

// putAway closes the file and keeps its lock, if that is wanted. The caller holds mu.
func (s *Store) putAway() {
	if s.away || s.closed || s.failed != nil {
		return
	}
	s.forget()
	s.away = true
	if s.lock, s.failed = s.db.PutAway(); s.yield && s.failed == nil {
		s.failed = s.lock.Unlock()
		s.lock = nil
	}
}

// fetch makes sure that the file is open and ours. An error leaves the file as it is; the next use tries again, except
// behind another owner. The caller holds mu.
func (s *Store) fetch() error {
	s.used.Store(time.Now().UnixNano())
	if s.failed != nil {
		return fmt.Errorf("%w: %w", sqlite.ErrClosed, s.failed)
	}
	if !s.away || s.closed {
		return nil
	}
	path, kept := s.db.Path(), s.lock != nil
	if _, err := os.Stat(path); err != nil { // else its directory would be made anew
		return err
	}
	parsed, err := schema()
	if err == nil && !kept {
		s.lock, err = sqlite.LockOwner(path)
	}
	if err != nil {
		return err
	}
	lock := s.lock
	s.lock = nil // the file frees it if it does not open
	db, err := sqlite.Open(path, sqlite.Options{Schema: parsed, PageSize: pageSize, Lock: lock, MustOpen: true})
	if err != nil {
		return err
	}
	if !kept {
		if err := s.stillMine(db); err != nil {
			return errors.Join(err, db.Close())
		}
	}
	s.db, s.away = db, false
	s.watch()
	return nil
}

// stillMine looks whether somebody owned the file since Acquire. It is for a lock that was given back: one that was kept
// lets nobody in. Every commit carries the epoch in any case.
func (s *Store) stillMine(db *sqlite.DB) error {
	mine := s.state.StoreID == "" // not acquired yet
	err := db.Query(selectOwner, []any{s.state.Epoch, s.state.StoreID}, func(*sqlite.Row) error { mine = true; return nil })
	if err == nil && !mine {
		s.failed = fmt.Errorf("epoch %d is over: %w", s.state.Epoch, session.ErrStale)
		err = s.failed
	}
	return err
}

const selectOwner = `SELECT 1 FROM meta WHERE id=1 AND epoch=? AND store_id=?`

// shut is Close.
func (s *Store) shut() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil
	}
	s.closed = true
	s.forget()
	if s.away { // nothing but the lock is left, if that
		if s.lock != nil {
			return s.lock.Unlock()
		}
		if errors.Is(s.failed, session.ErrStale) {
			return nil // there is nothing of ours to be closed
		}
		return s.failed
	}
	if s.behind {
		return s.db.CloseBehind()
	}
	return s.db.Close()
}
