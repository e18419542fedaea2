package sqlite

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

func TestAFileClosedBehindIsWholeAndFreeAfterwards(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.db")
	for n := range 20 { // each Open waits for the closing before it
		db, err := Open(path, Options{Schema: testSchema(t)})
		if err != nil {
			t.Fatal(err)
		}
		rows := int64(-1)
		if err := db.Query("SELECT count(*) FROM item", nil, func(r *Row) error { rows = r.Int64(0); return nil }); err != nil || rows != int64(n) {
			t.Fatalf("%d rows (%v), want %d", rows, err, n)
		}
		if err := db.Transact(Fast, insertRow); err != nil {
			t.Fatal(err)
		}
		if err := db.CloseBehind(); err != nil {
			t.Fatal(err)
		}
		if err := db.Transact(Fast, insertRow); !errors.Is(err, ErrClosed) {
			t.Fatalf("a commit after the close: %v, want ErrClosed", err)
		}
		if err := errors.Join(db.CloseBehind(), db.Close()); err != nil {
			t.Fatalf("a second close: %v", err)
		}
	}
	if err := Drain(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path + "-wal"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the log is still there: %v", err)
	}
}

func TestAnOpenerOfAnotherProcessWaitsForAnOwnerThatIsClosing(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.db")
	db := open(t, path, Options{Schema: testSchema(t)})
	if err := writeHolder(path+LockSuffix, newHolder(true)); err != nil { // what the other process has written
		t.Fatal(err)
	}
	opened := make(chan error, 1)
	go func() {
		other, err := Open(path, Options{Schema: testSchema(t)})
		if err == nil {
			err = other.Close()
		}
		opened <- err
	}()
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-opened; err != nil {
		t.Errorf("got %v, want it to wait", err)
	}
}

func TestABurstOfClosingsIsBounded(t *testing.T) {
	dir := t.TempDir()
	for n := range 3 * closingsMost {
		db, err := Open(filepath.Join(dir, string(rune('a'+n%26))+string(rune('a'+n/26))), Options{Schema: testSchema(t)})
		if err != nil {
			t.Fatal(err)
		}
		if err := db.CloseBehind(); err != nil {
			t.Fatal(err)
		}
		closings.mu.Lock()
		if n := len(closings.done); n > closingsMost {
			t.Errorf("%d files are being closed, at most %d", n, closingsMost)
		}
		closings.mu.Unlock()
	}
	if err := Drain(); err != nil {
		t.Fatal(err)
	}
}

func TestWhatFailsBehindIsToldByDrain(t *testing.T) {
	dir := t.TempDir()
	db, err := Open(filepath.Join(dir, "x.db"), Options{Schema: testSchema(t)})
	if err != nil {
		t.Fatal(err)
	}
	db.fresh.dirs = append(db.fresh.dirs, filepath.Join(dir, "gone")) // a directory that cannot be synced
	if err := db.CloseBehind(); err != nil {
		t.Fatal(err)
	}
	if err := Drain(); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v, want what failed", err)
	}
	if err := Drain(); err != nil {
		t.Errorf("a second Drain: %v", err)
	}
}

func TestAFileThatIsRemovedWhileItClosesStaysRemoved(t *testing.T) {
	for range 50 {
		dir := filepath.Join(t.TempDir(), "d")
		db, err := Open(filepath.Join(dir, "x.db"), Options{Schema: testSchema(t)})
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(db.Transact(Fast, insertRow), db.CloseBehind(), os.RemoveAll(dir), Drain()); err != nil {
			t.Fatal(err)
		}
		if _, err := os.Lstat(dir); !errors.Is(err, fs.ErrNotExist) {
			t.Fatalf("the directory is back: %v", err)
		}
	}
}
