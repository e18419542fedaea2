package session

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
)

// firstID is the first number a store hands out: Root has its own.
const firstID = int64(Root) + 1

// Session is the one owner of a store. It is safe for concurrent use: every commit and every read runs alone on a
// first-come, first-served line.
//
// line guards all other fields but feeds; whoever holds it owns them.
type Session struct {
	mode    SyncMode
	line    chan struct{} // capacity 1: a send takes the line, a receive returns it
	storage Storage
	state   State
	live    map[TaskID]Task // every task that is not terminal
	owned   map[TaskID]int  // live ordinary tasks by the owner they work for; no zeros
	keeper  map[ConversationID]TaskID
	keeps   map[TaskID][]ConversationID // keeper, the other way round
	docs    map[Address]document
	// taskDocs are the documents of live tasks, by address; a task in unread may have more, from before this owner.
	taskDocs map[TaskID]map[Address]DocumentID
	unread   map[TaskID]bool
	broken   error // why nothing works any more: closed, poisoned, stale
	watch    []func(Commit)
	idlers   []func()
	feeds    feeds // has a lock of its own

	closeOnce sync.Once
	closeErr  error
}

// SyncMode decides which commits wait for the disk.
type SyncMode int

// Auto syncs what drafts ask for; Relaxed syncs nothing (kill-safe only); Strict syncs every commit.
const (
	Auto SyncMode = iota
	Relaxed
	Strict
)

// SetSyncMode chooses the mode. Call it before the session is shared.
func (s *Session) SetSyncMode(m SyncMode) { s.mode = m }

// Commit is what listeners see of a commit: the batch as stored and the publications drafted with it, in order.
type Commit struct {
	Seq       Seq
	Batch     *Batch
	Published []any
	Keepers   map[ConversationID]TaskID // conversations that have another keeper now, 0 = none; as Tx.Keeper says it
}

// Open takes ownership of storage and loads the live tasks. The session closes storage, also when Open fails.
func Open(ctx context.Context, storage Storage) (*Session, error) {
	state, err := storage.Acquire(ctx)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("acquire session store: %w", err), storage.Close())
	}
	state.NextID = max(state.NextID, firstID)
	s := &Session{line: make(chan struct{}, 1), storage: storage, state: state,
		live: map[TaskID]Task{}, owned: map[TaskID]int{}, keeper: map[ConversationID]TaskID{}, keeps: map[TaskID][]ConversationID{},
		docs: map[Address]document{}, taskDocs: map[TaskID]map[Address]DocumentID{}, unread: map[TaskID]bool{}}
	if i, ok := storage.(Idler); ok {
		i.OnIdle(s.idle)
	}
	tasks, err := storage.Tasks(TaskQuery{Live: true})
	if err == nil {
		err = s.load(tasks)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("load live tasks: %w", err), storage.Close())
	}
	return s, nil
}

// StoreID is the identity of the store, the same over every reopen.
func (s *Session) StoreID() string { return s.state.StoreID }

// Epoch is this owner's number; it grows with every open.
func (s *Session) Epoch() int64 { return s.state.Epoch }

// Watch adds a listener. It is called on the line, in commit order, right after a commit is adopted; it must be quick,
// must not call the session, and must not keep the batch's slices for writing. Call Watch before the session is shared.
func (s *Session) Watch(f func(Commit)) { s.watch = append(s.watch, f) }

// OnIdle adds a listener. It is called on the line, between commits, when nobody has used an Idler's session for a while: it
// forgets what can be read again. It must be quick and must not call the session. Call OnIdle before the session is shared.
func (s *Session) OnIdle(f func()) { s.idlers = append(s.idlers, f) }

// idle gives memory back. Maps are made anew: they never shrink. Whoever has the line uses the session.
func (s *Session) idle() {
	select {
	case s.line <- struct{}{}:
	default:
		return
	}
	defer s.leave()
	s.docs = map[Address]document{}
	s.live, s.owned, s.taskDocs, s.unread = anew(s.live), anew(s.owned), anew(s.taskDocs), anew(s.unread)
	s.keeper, s.keeps = anew(s.keeper), anew(s.keeps)
	for _, f := range s.idlers {
		f()
	}
}

func anew[K comparable, V any](m map[K]V) map[K]V {
	small := make(map[K]V, len(m))
	maps.Copy(small, m)
	return small
}

// Commit runs fn on the line and commits what it drafted, atomically. ctx ends only the wait for the line: an admitted
// commit is never half done. An error of fn rolls everything back and leaves the session usable; an unknown failure of
// the store poisons it. fn must not block on anything that needs another commit. A draft without writes is not stored
// and its publications are dropped.
func (s *Session) Commit(ctx context.Context, fn func(*Tx) error) (Seq, error) {
	if err := s.enter(ctx); err != nil {
		return 0, err
	}
	defer s.leave()
	defer func() {
		if s.broken != nil {
			s.feeds.stop(s.broken)
		}
	}()
	tx := &Tx{s: s, batch: Batch{Epoch: s.state.Epoch}, next: s.state.NextID}
	if err := tx.run(fn); err != nil {
		return 0, err
	}
	if !tx.wrote {
		return s.state.Seq, nil
	}
	b := &tx.batch
	b.Seq, b.NextID = s.state.Seq+1, tx.next
	switch s.mode {
	case Auto:
	case Relaxed:
		b.Durability = Fast
	case Strict:
		b.Durability = Synced
	}
	s.broken = ErrPoisoned // a store or a listener that panics leaves it so
	if err := s.storage.Commit(b); err != nil {
		tx.forget()
		switch {
		case errors.Is(err, ErrStale):
			s.broken = err
		case errors.Is(err, ErrNoEffect):
			s.broken = nil
		default:
			s.broken = fmt.Errorf("%w: %w", ErrPoisoned, err)
			err = s.broken
		}
		return 0, err
	}
	s.adopt(tx)
	s.broken = nil
	return b.Seq, nil
}

// View runs fn on the line for reading. Writes drafted by fn are refused. fn may subscribe to things: no commit happens
// while it runs.
func (s *Session) View(ctx context.Context, fn func(*Tx) error) error {
	if err := s.enter(ctx); err != nil {
		return err
	}
	defer s.leave()
	tx := &Tx{s: s, next: s.state.NextID, readOnly: true}
	return tx.run(fn)
}

// Close waits for the commit under way and releases the store. Nothing is cancelled: what is unfinished is found again
// by the next Open. A second Close returns the first one's error.
func (s *Session) Close() error {
	s.closeOnce.Do(func() {
		s.line <- struct{}{}
		if s.broken == nil {
			s.broken = ErrClosed
		}
		s.feeds.stop(s.broken)
		s.closeErr = s.storage.Close()
		s.leave()
	})
	return s.closeErr
}

func (s *Session) enter(ctx context.Context) error {
	select {
	case s.line <- struct{}{}:
	default:
		select {
		case s.line <- struct{}{}:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	if s.broken != nil {
		err := s.broken
		s.leave()
		return err
	}
	return nil
}

func (s *Session) leave() { <-s.line }

func (s *Session) adopt(tx *Tx) {
	s.state.Seq, s.state.NextID = tx.batch.Seq, tx.batch.NextID
	moves := tx.moves()
	s.adoptTasks(tx.batch.Tasks, moves)
	s.adoptTaskDocuments(&tx.batch)
	tx.keep()
	s.publish(&tx.batch)
	c := Commit{Seq: tx.batch.Seq, Batch: &tx.batch, Published: tx.published, Keepers: moves}
	for _, f := range s.watch {
		f(c)
	}
}
