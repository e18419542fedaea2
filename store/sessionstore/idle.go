package sessionstore

import (
	"fmt"
	"sync"
	"time"

	"github.com/workflowd/workflowd/store/sqlite"
)

// handles are the open files of stores with Options.Idle.
var handles = struct {
	mu   sync.Mutex
	open map[*Store]struct{}
}{open: map[*Store]struct{}{}}

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
	if s.timer == nil {
		s.timer = time.AfterFunc(s.idle, s.tick)
	} else {
		s.timer.Reset(s.idle)
	}
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
	handles.mu.Unlock()
	if least != nil {
		least.makeRoom()
	}
}

func (s *Store) forget() {
	handles.mu.Lock()
	defer handles.mu.Unlock()
	delete(handles.open, s)
}

// makeRoom puts the file away unless it is in use right now.
func (s *Store) makeRoom() {
	if s.mu.TryLock() {
		defer s.mu.Unlock()
		s.putAway()
		return
	}
	handles.mu.Lock()
	defer handles.mu.Unlock()
	handles.open[s] = struct{}{}
}

// tick puts a file away that was not used for long enough, or looks again when that could be.
func (s *Store) tick() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if rest := s.idle - time.Since(time.Unix(0, s.used.Load())); rest > 0 {
		s.timer.Reset(rest)
		return
	}
	s.putAway()
}

// putAway closes the file and keeps its lock. The caller holds mu.
func (s *Store) putAway() {
	if s.away != nil || s.closed {
		return
	}
	s.forget()
	s.away, s.failed = s.db.PutAway()
}

// fetch makes sure that the file is open. The lock was kept, and every commit carries the epoch: nobody was here
// meanwhile, or the next commit finds out. The caller holds mu.
func (s *Store) fetch() error {
	s.used.Store(time.Now().UnixNano())
	switch {
	case s.failed != nil:
		return fmt.Errorf("%w: %w", sqlite.ErrClosed, s.failed)
	case s.away == nil:
		return nil
	}
	parsed, err := schema()
	if err != nil {
		return err
	}
	lock := s.away
	s.away = nil
	db, err := sqlite.Open(s.db.Path(), sqlite.Options{Schema: parsed, PageSize: pageSize, Lock: lock, MustOpen: true})
	if err != nil {
		s.failed = err
		return fmt.Errorf("%w: %w", sqlite.ErrClosed, err)
	}
	s.db = db
	s.watch()
	return nil
}

// shut is Close.
func (s *Store) shut() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil
	}
	s.closed = true
	if s.timer != nil {
		s.timer.Stop()
	}
	s.forget()
	if s.away != nil { // nothing but the lock is left
		lock := s.away
		s.away = nil
		return lock.Unlock()
	}
	if s.failed != nil {
		return s.failed
	}
	if s.behind {
		return s.db.CloseBehind()
	}
	return s.db.Close()
}
