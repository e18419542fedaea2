package session_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/workflowd/workflowd/agentcore/session"
	"github.com/workflowd/workflowd/agentcore/session/sessiontest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var errTest = errors.New("told by the test")

// open returns a session on storage that is closed with the test.
func open(t *testing.T, storage session.Storage) *session.Session {
	t.Helper()
	s, err := session.Open(t.Context(), storage)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func commit(t *testing.T, s *session.Session, fn func(*session.Tx) error) session.Seq {
	t.Helper()
	seq, err := s.Commit(t.Context(), fn)
	if err != nil {
		t.Fatal(err)
	}
	return seq
}

func view(t *testing.T, s *session.Session, fn func(*session.Tx) error) {
	t.Helper()
	if err := s.View(t.Context(), fn); err != nil {
		t.Fatal(err)
	}
}

// note appends an entry of a kind to the main conversation.
func note(kind string) func(*session.Tx) error {
	return func(tx *session.Tx) error {
		if err := tx.EnsureRoot(); err != nil {
			return err
		}
		tx.Append(session.Entry{Conversation: session.Root, Kind: kind})
		return nil
	}
}

// notes returns the kinds of the main conversation's entries, oldest first.
func notes(t *testing.T, s *session.Session) []string {
	t.Helper()
	var kinds []string
	view(t, s, func(tx *session.Tx) error {
		entries, err := tx.Entries(session.EntryQuery{Conversation: session.Root})
		for _, e := range entries {
			kinds = append([]string{e.Kind}, kinds...)
		}
		return err
	})
	return kinds
}

func wantNotes(t *testing.T, s *session.Session, want ...string) {
	t.Helper()
	if diff := cmp.Diff(want, notes(t, s)); diff != "" {
		t.Errorf("entries (-want +got):\n%s", diff)
	}
}

func TestTheLineIsFirstComeFirstServed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t, session.NewMemory())
		hold := make(chan struct{})
		var group sync.WaitGroup
		join := func(kind string, wait <-chan struct{}) {
			group.Go(func() {
				commit(t, s, func(tx *session.Tx) error {
					if wait != nil {
						<-wait
					}
					return note(kind)(tx)
				})
			})
			synctest.Wait() // it stands in line now
		}
		join("first", hold)
		want := []string{"first"}
		for i := range 20 {
			kind := fmt.Sprintf("waiter %d", i)
			join(kind, nil)
			want = append(want, kind)
		}
		close(hold)
		group.Wait()
		wantNotes(t, s, want...)
	})
}

func TestTheContextEndsOnlyTheWaitForTheLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t, session.NewMemory())
		hold := make(chan struct{})
		ctx, cancel := context.WithCancelCause(t.Context())
		var admitted, waiting error
		var group sync.WaitGroup
		group.Go(func() {
			_, admitted = s.Commit(ctx, func(tx *session.Tx) error {
				<-hold
				return note("admitted")(tx)
			})
		})
		synctest.Wait()
		group.Go(func() { _, waiting = s.Commit(ctx, note("waiting")) })
		synctest.Wait()
		cancel(errTest)
		synctest.Wait()
		close(hold)
		group.Wait()
		if admitted != nil {
			t.Errorf("the admitted commit ended with %v", admitted)
		}
		if !errors.Is(waiting, errTest) {
			t.Errorf("the waiting commit ended with %v, want the cause of its context", waiting)
		}
		wantNotes(t, s, "admitted")
	})
}

func TestCloseWaitsForTheCommitUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		memory := session.NewMemory()
		s := open(t, memory)
		hold := make(chan struct{})
		var group sync.WaitGroup
		group.Go(func() {
			commit(t, s, func(tx *session.Tx) error {
				<-hold
				return note("under way")(tx)
			})
		})
		synctest.Wait()
		closed := false
		group.Go(func() {
			if err := s.Close(); err != nil {
				t.Error(err)
			}
			closed = true
		})
		synctest.Wait()
		if closed {
			t.Error("Close returned while a commit was under way")
		}
		var late error
		group.Go(func() { _, late = s.Commit(t.Context(), note("late")) })
		synctest.Wait()
		close(hold)
		group.Wait()
		if !errors.Is(late, session.ErrClosed) {
			t.Errorf("a commit behind Close ended with %v, want ErrClosed", late)
		}
		if err := s.View(t.Context(), func(*session.Tx) error { return nil }); !errors.Is(err, session.ErrClosed) {
			t.Errorf("a view behind Close ended with %v, want ErrClosed", err)
		}
		wantNotes(t, open(t, memory.Reopen()), "under way")
	})
}

// failing closes with an error, twice.
type failing struct{ session.Storage }

func (f failing) Close() error {
	return errors.Join(errTest, f.Storage.Close())
}

func TestASecondCloseReturnsTheFirstOnesError(t *testing.T) {
	s, err := session.Open(t.Context(), failing{session.NewMemory()})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := s.Close(); !errors.Is(err, errTest) {
			t.Errorf("Close = %v, want the storage's error", err)
		}
	}
}

func TestOpenClosesTheStorageWhenItFails(t *testing.T) {
	memory := session.NewMemory()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := session.Open(ctx, memory); !errors.Is(err, context.Canceled) {
		t.Errorf("Open = %v, want the context's error", err)
	}
	if _, err := memory.Conversations(); !errors.Is(err, session.ErrClosed) {
		t.Errorf("the storage answers %v, want ErrClosed", err)
	}
}

func TestAFailedCallbackRollsBackAndLeavesTheSessionUsable(t *testing.T) {
	s := open(t, session.NewMemory())
	commit(t, s, note("before"))
	_, err := s.Commit(t.Context(), func(tx *session.Tx) error {
		tx.Publish("never")
		if err := note("lost")(tx); err != nil {
			return err
		}
		return errTest
	})
	if !errors.Is(err, errTest) {
		t.Errorf("Commit = %v, want the callback's error", err)
	}
	if seq := commit(t, s, note("after")); seq != 2 {
		t.Errorf("the next commit has number %d, want 2: a rolled-back commit takes none", seq)
	}
	wantNotes(t, s, "before", "after")
}

func TestAPanickingCallbackRollsBackAndReturnsTheLine(t *testing.T) {
	s := open(t, session.NewMemory())
	var kept *session.Tx
	func() {
		defer func() {
			if recover() == nil {
				t.Error("the panic was swallowed")
			}
		}()
		commit(t, s, func(tx *session.Tx) error {
			kept = tx
			if err := note("lost")(tx); err != nil {
				return err
			}
			panic(errTest)
		})
	}()
	commit(t, s, note("after"))
	wantNotes(t, s, "after")
	wantDead(t, kept)
}

// A storage says for sure that it wrote nothing: the commit is rolled back like a failed callback.
// Invariant: INV-19
func TestACommitWithoutEffectRollsBackAndLeavesTheSessionUsable(t *testing.T) {
	storage := &sessiontest.Faulty{Storage: session.NewMemory()}
	s := open(t, storage)
	var published []any
	s.Watch(func(c session.Commit) { published = append(published, c.Published...) })
	storage.Before = func(*session.Batch) error {
		storage.Before = nil
		return fmt.Errorf("disk full: %w", session.ErrNoEffect)
	}
	_, err := s.Commit(t.Context(), func(tx *session.Tx) error {
		tx.Publish("lost")
		tx.CreateTask(session.Task{Kind: "lost", Status: session.TaskPending})
		return note("lost")(tx)
	})
	if !errors.Is(err, session.ErrNoEffect) {
		t.Errorf("Commit = %v, want ErrNoEffect", err)
	}
	view(t, s, func(tx *session.Tx) error {
		if live := tx.LiveTasks(); len(live) != 0 {
			t.Errorf("live tasks %v, want none", live)
		}
		return nil
	})
	commit(t, s, func(tx *session.Tx) error {
		tx.Publish("kept")
		return note("kept")(tx)
	})
	wantNotes(t, s, "kept")
	if diff := cmp.Diff([]any{"kept"}, published); diff != "" {
		t.Errorf("publications (-want +got):\n%s", diff)
	}
}

// Invariant: INV-20
func TestAFailureOfUnknownEffectPoisonsTheSession(t *testing.T) {
	cases := []struct {
		name   string
		arm    func(*sessiontest.Faulty)
		stored []string
	}{
		{"the write did not happen", func(f *sessiontest.Faulty) { f.Before = func(*session.Batch) error { return errTest } }, []string{"first"}},
		{"the write happened and the reply got lost", func(f *sessiontest.Faulty) { f.After = func(*session.Batch) error { return errTest } }, []string{"first", "second"}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			memory := session.NewMemory()
			storage := &sessiontest.Faulty{Storage: memory}
			s := open(t, storage)
			commit(t, s, note("first"))
			c.arm(storage)
			calls := 0
			s.Watch(func(session.Commit) { calls++ })
			if _, err := s.Commit(t.Context(), note("second")); !errors.Is(err, session.ErrPoisoned) || !errors.Is(err, errTest) {
				t.Errorf("Commit = %v, want ErrPoisoned with the cause", err)
			}
			storage.Before, storage.After = nil, nil
			if _, err := s.Commit(t.Context(), note("third")); !errors.Is(err, session.ErrPoisoned) || !errors.Is(err, errTest) {
				t.Errorf("the next Commit = %v, want ErrPoisoned with the cause", err)
			}
			if err := s.View(t.Context(), func(*session.Tx) error { return nil }); !errors.Is(err, session.ErrPoisoned) {
				t.Errorf("View = %v, want ErrPoisoned", err)
			}
			if calls != 0 {
				t.Errorf("listeners heard of %d commits, want none", calls)
			}
			wantNotes(t, open(t, memory.Reopen()), c.stored...)
		})
	}
}

func TestAPanickingStorePoisonsTheSession(t *testing.T) {
	storage := &sessiontest.Faulty{Storage: session.NewMemory()}
	s := open(t, storage)
	storage.Before = func(*session.Batch) error { panic(errTest) }
	func() {
		defer func() {
			if recover() == nil {
				t.Error("the panic was swallowed")
			}
		}()
		commit(t, s, note("lost"))
	}()
	storage.Before = nil
	if _, err := s.Commit(t.Context(), note("next")); !errors.Is(err, session.ErrPoisoned) {
		t.Errorf("Commit = %v, want ErrPoisoned", err)
	}
}

// Invariant: INV-04
func TestAnOvertakenOwnerWritesNothingAndStops(t *testing.T) {
	memory := session.NewMemory()
	old := open(t, memory)
	commit(t, old, note("old owner"))
	next := open(t, memory.Reopen())
	if old.StoreID() != next.StoreID() || next.Epoch() <= old.Epoch() {
		t.Errorf("stores %q and %q, epochs %d and %d: want one store and growing epochs", old.StoreID(), next.StoreID(), old.Epoch(), next.Epoch())
	}
	for range 2 {
		if _, err := old.Commit(t.Context(), note("stale")); !errors.Is(err, session.ErrStale) || errors.Is(err, session.ErrPoisoned) {
			t.Errorf("Commit of the old owner = %v, want ErrStale", err)
		}
	}
	if err := old.View(t.Context(), func(*session.Tx) error { return nil }); !errors.Is(err, session.ErrStale) {
		t.Errorf("View of the old owner = %v, want ErrStale", err)
	}
	commit(t, next, note("new owner"))
	wantNotes(t, next, "old owner", "new owner")
}

// Invariant: INV-02
func TestPublicationsLeaveAfterTheirCommitAndInOrder(t *testing.T) {
	written := false
	storage := &sessiontest.Faulty{Storage: session.NewMemory()}
	storage.After = func(*session.Batch) error { written = true; return nil }
	s := open(t, storage)
	var heard []string
	for _, name := range []string{"a", "b"} {
		s.Watch(func(c session.Commit) {
			if !written {
				t.Error("a listener was called before the write")
			}
			heard = append(heard, fmt.Sprint(name, c.Seq, c.Published, len(c.Batch.Entries)))
		})
	}
	for i := range 2 {
		written = false
		commit(t, s, func(tx *session.Tx) error {
			tx.Publish(2 * i)
			if err := note("n")(tx); err != nil {
				return err
			}
			tx.Publish(2*i + 1)
			return nil
		})
	}
	if diff := cmp.Diff([]string{"a1 [0 1] 1", "b1 [0 1] 1", "a2 [2 3] 1", "b2 [2 3] 1"}, heard); diff != "" {
		t.Errorf("listeners heard (-want +got):\n%s", diff)
	}
}

func TestADraftWithoutWritesIsNotStoredAndPublishesNothing(t *testing.T) {
	storage := &sessiontest.Faulty{Storage: session.NewMemory()}
	storage.Before = func(*session.Batch) error { t.Error("an empty batch reached the store"); return nil }
	s := open(t, storage)
	s.Watch(func(session.Commit) { t.Error("a listener heard of nothing") })
	seq := commit(t, s, func(tx *session.Tx) error {
		tx.Publish("dropped")
		tx.Sync()
		return nil
	})
	if seq != 0 {
		t.Errorf("Commit = %d, want the number of the newest commit, 0", seq)
	}
}

// Invariant: INV-05
func TestTheSyncModeDecidesWhichCommitsWaitForTheDisk(t *testing.T) {
	cases := []struct {
		name        string
		mode        session.SyncMode
		plain, sync session.Durability
	}{
		{"auto syncs what asks for it", session.Auto, session.Fast, session.Synced},
		{"relaxed syncs nothing", session.Relaxed, session.Fast, session.Fast},
		{"strict syncs everything", session.Strict, session.Synced, session.Synced},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			var got []session.Durability
			storage := &sessiontest.Faulty{Storage: session.NewMemory()}
			storage.Before = func(b *session.Batch) error { got = append(got, b.Durability); return nil }
			s := open(t, storage)
			s.SetSyncMode(c.mode)
			commit(t, s, note("plain"))
			commit(t, s, func(tx *session.Tx) error {
				tx.Sync()
				return note("synced")(tx)
			})
			if diff := cmp.Diff([]session.Durability{c.plain, c.sync}, got); diff != "" {
				t.Errorf("durability (-want +got):\n%s", diff)
			}
		})
	}
}

func TestReopeningContinuesTheCounters(t *testing.T) {
	memory := session.NewMemory()
	create := func(s *session.Session) (id session.TaskID, seq session.Seq) {
		seq = commit(t, s, func(tx *session.Tx) error {
			if got := tx.Seq(); got != 1 && got != 2 {
				t.Errorf("Seq in the draft = %d", got)
			}
			id = tx.CreateTask(session.Task{Kind: "k", Status: session.TaskPending})
			return nil
		})
		return id, seq
	}
	first := open(t, memory)
	id, seq := create(first)
	if id != session.TaskID(session.Root)+1 || seq != 1 {
		t.Errorf("a fresh store gives id %d in commit %d, want %d in 1", id, seq, session.Root+1)
	}
	second := open(t, memory.Reopen())
	if next, seq := create(second); next != id+1 || seq != 2 {
		t.Errorf("the reopened store gives id %d in commit %d, want %d in 2", next, seq, id+1)
	}
	view(t, second, func(tx *session.Tx) error {
		if live := tx.LiveTasks(); len(live) != 2 || live[0].ID != id || live[0].Epoch != first.Epoch() || live[1].Epoch != second.Epoch() {
			t.Errorf("live tasks %+v: want both, each with the epoch of its writer", live)
		}
		return nil
	})
}

// Only a commit that was written uses its ids up.
// Invariant: INV-16
func TestAnIdentifierIsNeverCommittedTwice(t *testing.T) {
	memory := session.NewMemory()
	storage := &sessiontest.Faulty{Storage: memory}
	s := open(t, storage)
	mint := func(s *session.Session, fail error) (session.EntryID, error) {
		var id session.EntryID
		_, err := s.Commit(t.Context(), func(tx *session.Tx) error {
			if err := tx.EnsureRoot(); err != nil {
				return err
			}
			id = tx.Append(session.Entry{Conversation: session.Root, Kind: "k"})
			return fail
		})
		return id, err
	}
	dropped, _ := mint(s, errTest)
	taken, err := mint(s, nil)
	if err != nil || taken != dropped {
		t.Errorf("behind a rolled-back %d comes %d, %v: a number that nobody saw committed is free", dropped, taken, err)
	}
	storage.After = func(*session.Batch) error { return errTest }
	lost, err := mint(s, nil)
	if !errors.Is(err, session.ErrPoisoned) || lost == taken {
		t.Errorf("the commit with the lost reply minted %d, %v", lost, err)
	}
	if next, err := mint(open(t, memory.Reopen()), nil); err != nil || next <= lost {
		t.Errorf("after reopening comes %d, %v: want more than %d, which was written", next, err, lost)
	}
}

func TestAReservedEntryIsAppendedByALaterCommit(t *testing.T) {
	memory := session.NewMemory()
	s := open(t, memory)
	var reserved, between session.EntryID
	commit(t, s, func(tx *session.Tx) error {
		reserved = tx.ReserveEntry()
		return note("first")(tx)
	})
	s = open(t, memory.Reopen())
	commit(t, s, func(tx *session.Tx) error {
		between = tx.Append(session.Entry{Conversation: session.Root, Kind: "second"})
		if got := tx.Append(session.Entry{ID: reserved, Conversation: session.Root, Kind: "reserved"}); got != reserved {
			t.Errorf("Append = %d, want the reserved %d", got, reserved)
		}
		return nil
	})
	if between <= reserved {
		t.Errorf("a reserved id %d was minted again: %d", reserved, between)
	}
	wantNotes(t, s, "reserved", "first", "second")
}
