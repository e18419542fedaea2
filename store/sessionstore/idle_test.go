package sessionstore

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/workflowd/workflowd/agentcore/session"
	"github.com/workflowd/workflowd/store/sqlite"
)

// idler opens a session whose file is put away after a second without use.
func idler(t *testing.T, path string) *owner {
	t.Helper()
	return owning(t, path, Options{Idle: time.Second})
}

func owning(t *testing.T, path string, opts Options) *owner {
	t.Helper()
	s, err := Open(t.Context(), path, opts)
	if err != nil {
		t.Fatal(err)
	}
	o := &owner{Store: s}
	if o.state, err = s.Acquire(t.Context()); err != nil {
		t.Fatal(err)
	}
	return o
}

func (s *Store) isAway() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.away
}

// Promise: P-300
func TestAnIdleSessionHasNoHandleAndKeepsItsOwner(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.db")
	synctest.Test(t, func(t *testing.T) {
		o := idler(t, path)
		o.root(t)
		for i := range 3 { // use keeps it
			<-time.After(900 * time.Millisecond)
			o.must(t, o.note(fmt.Sprint(i)))
			if o.isAway() {
				t.Fatal("put away while in use")
			}
		}
		<-time.After(3 * time.Second)
		synctest.Wait()
		if !o.isAway() {
			t.Fatal("still open after three idle seconds")
		}
		for _, suffix := range []string{"-wal", "-shm"} {
			if _, err := os.Stat(path + suffix); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("%s is left: %v", suffix, err)
			}
		}
		_, err := Open(t.Context(), path, Options{})
		if _, locked := errors.AsType[*sqlite.ErrLocked](err); !locked {
			t.Errorf("beside an idle owner: %v, want ErrLocked", err)
		}
		entries, err := o.Entries(session.EntryQuery{Conversation: session.Root})
		if err != nil || len(entries) != 3 {
			t.Errorf("%d entries (%v), want 3", len(entries), err)
		}
		o.must(t, o.note(`"back"`))
		<-time.After(3 * time.Second)
		synctest.Wait()
		if !o.isAway() {
			t.Error("the second time it stays open")
		}
		if err := errors.Join(o.Close(), o.Close()); err != nil {
			t.Fatal(err)
		}
		if _, err := o.Task(1); !errors.Is(err, session.ErrClosed) {
			t.Errorf("a read after Close: %v", err)
		}
	})
	o := acquired(t, path)
	if o.state.Epoch != 2 || o.count(t, "entries") != 4 {
		t.Errorf("got %+v with %d entries", o.state, o.count(t, "entries"))
	}
}

func TestTheOwnerOfAnIdleFileThatWasTakenWritesNothing(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.db")
	synctest.Test(t, func(t *testing.T) {
		first := idler(t, path)
		first.root(t)
		<-time.After(2 * time.Second)
		synctest.Wait()
		if err := os.Remove(path + sqlite.LockSuffix); err != nil {
			t.Fatal(err)
		}
		second := acquired(t, path)
		if err := first.put(first.note(`"stale"`)); !errors.Is(err, session.ErrStale) {
			t.Errorf("got %v, want ErrStale", err)
		}
		second.must(t, second.note(`"mine"`))
		if err := first.Close(); err != nil {
			t.Error(err)
		}
	})
}

func TestOnlySoManyFilesAreOpenAtATime(t *testing.T) {
	dir := t.TempDir()
	var all []*owner
	for i := range HandlesMost + 20 {
		o := owning(t, filepath.Join(dir, fmt.Sprint(i)), Options{Idle: time.Hour})
		o.root(t)
		all = append(all, o)
	}
	for range cap(puttings) { // what goes on behind has ended
		puttings <- struct{}{}
	}
	for range cap(puttings) {
		<-puttings
	}
	away := 0
	for i, o := range all {
		if o.isAway() {
			away++
			if i >= HandlesMost {
				t.Errorf("file %d is away and was used lately", i)
			}
		}
	}
	if away != 20 {
		t.Errorf("%d files are put away, want 20", away)
	}
	for _, o := range all {
		o.must(t, o.note(`"again"`))
		if err := o.Close(); err != nil {
			t.Fatal(err)
		}
	}
	handles.mu.Lock()
	defer handles.mu.Unlock()
	if len(handles.open) != 0 {
		t.Errorf("%d handles are counted after all were closed", len(handles.open))
	}
}

// yielder is an idler that gives its lock back too.
func yielder(t *testing.T, path string) *owner {
	t.Helper()
	return owning(t, path, Options{Idle: time.Second, Yield: true})
}

// idle waits until the session has put its file away.
func (o *owner) idle(t *testing.T) {
	t.Helper()
	<-time.After(2 * time.Second)
	synctest.Wait()
	if !o.isAway() {
		t.Fatal("still open after two idle seconds")
	}
}

func TestASessionThatYieldsHoldsNothingWhileIdleAndGoesOn(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.db")
	synctest.Test(t, func(t *testing.T) {
		o := yielder(t, path)
		o.root(t)
		told := 0
		o.OnIdle(func() { told++ })
		for round := range 3 {
			o.must(t, o.note(fmt.Sprint(round)))
			o.idle(t)
			if lock, err := sqlite.LockOwner(path); err != nil {
				t.Errorf("an idle session keeps its lock: %v", err)
			} else if err := lock.Unlock(); err != nil {
				t.Fatal(err)
			}
		}
		if told != 3 {
			t.Errorf("told %d times of three rests", told)
		}
		entries, err := o.Entries(session.EntryQuery{Conversation: session.Root})
		if err != nil || len(entries) != 3 {
			t.Errorf("%d entries (%v), want 3", len(entries), err)
		}
		if err := o.Close(); err != nil {
			t.Error(err)
		}
	})
}

func TestASessionThatYieldedWaitsForAnotherOwner(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.db")
	synctest.Test(t, func(t *testing.T) {
		o := yielder(t, path)
		o.root(t)
		o.idle(t)
		other, err := Open(t.Context(), path, Options{}) // it looks, and never becomes the owner
		if err != nil {
			t.Fatal(err)
		}
		err = o.put(o.note(`"early"`))
		if _, locked := errors.AsType[*sqlite.ErrLocked](err); !locked || !errors.Is(err, session.ErrNoEffect) {
			t.Errorf("beside another one: %v, want ErrLocked without effect", err)
		}
		if err := other.Close(); err != nil {
			t.Fatal(err)
		}
		o.must(t, o.note(`"late"`))
		if err := o.Close(); err != nil {
			t.Error(err)
		}
	})
}

func TestASessionThatYieldedIsStaleBehindAnotherOwner(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.db")
	synctest.Test(t, func(t *testing.T) {
		o := yielder(t, path)
		o.root(t)
		o.idle(t)
		other := acquired(t, path)
		other.must(t, other.note(`"mine"`))
		if err := other.Close(); err != nil {
			t.Fatal(err)
		}
		if _, err := o.Entries(session.EntryQuery{Conversation: session.Root}); !errors.Is(err, session.ErrStale) {
			t.Errorf("a read behind another owner: %v, want ErrStale", err)
		}
		if err := o.put(o.note(`"stale"`)); !errors.Is(err, session.ErrStale) {
			t.Errorf("a commit behind another owner: %v, want ErrStale", err)
		}
		if lock, err := sqlite.LockOwner(path); err != nil {
			t.Errorf("a stale session keeps the lock: %v", err)
		} else if err := lock.Unlock(); err != nil {
			t.Fatal(err)
		}
		if err := o.Close(); err != nil {
			t.Error(err)
		}
	})
}

func TestAnEmptySessionThatYieldedSeesThatItIsStale(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.db")
	synctest.Test(t, func(t *testing.T) {
		o := yielder(t, path)
		o.idle(t)
		other := acquired(t, path)
		other.root(t)
		if err := other.Close(); err != nil {
			t.Fatal(err)
		}
		if _, err := o.Conversations(); !errors.Is(err, session.ErrStale) {
			t.Errorf("got %v, want ErrStale", err)
		}
	})
}

func TestAFileThatCouldNotBeFetchedIsFetchedLater(t *testing.T) {
	for _, yield := range []bool{false, true} {
		path := filepath.Join(t.TempDir(), "place", "x.db")
		synctest.Test(t, func(t *testing.T) {
			o := owning(t, path, Options{Idle: time.Second, Yield: yield})
			o.root(t)
			o.idle(t)
			if err := os.Rename(filepath.Dir(path), filepath.Dir(path)+"-moved"); err != nil {
				t.Fatal(err)
			}
			if err := o.put(o.note(`"early"`)); !errors.Is(err, fs.ErrNotExist) || !errors.Is(err, session.ErrNoEffect) {
				t.Errorf("without the file: %v, want that it does not exist, without effect", err)
			}
			if err := o.put(o.note(`"early"`)); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("the second time: %v", err)
			}
			if err := os.Rename(filepath.Dir(path)+"-moved", filepath.Dir(path)); err != nil {
				t.Fatal(err)
			}
			o.must(t, o.note(`"late"`))
			if err := o.Close(); err != nil {
				t.Error(err)
			}
			if _, err := os.Stat(filepath.Dir(path) + "-moved"); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("the directory was made anew meanwhile: %v", err)
			}
		})
	}
}

func TestOneTimerLooksAtAllFiles(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		slow := owning(t, filepath.Join(dir, "slow"), Options{Idle: time.Hour})
		slow.root(t)
		before := looks()
		for i := range 10 {
			o := owning(t, filepath.Join(dir, fmt.Sprint(i)), Options{Idle: time.Second})
			o.root(t)
			o.idle(t)
		}
		<-time.After(2 * time.Hour)
		synctest.Wait()
		if n := looks() - before; !slow.isAway() || n > 12 {
			t.Errorf("%d looks at eleven files that idle one by one, want about one each; the last is away: %t", n, slow.isAway())
		}
		if err := slow.Close(); err != nil {
			t.Error(err)
		}
	})
}

func looks() int {
	handles.mu.Lock()
	defer handles.mu.Unlock()
	return handles.looks
}
