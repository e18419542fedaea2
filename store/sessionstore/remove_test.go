package sessionstore

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/workflowd/workflowd/agentcore/session"
	"github.com/workflowd/workflowd/store/sqlite"
)

func names(t *testing.T, dir string) (list []string) {
	t.Helper()
	files, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		list = append(list, f.Name())
	}
	return list
}

func TestARemovedSessionGivesItsSpaceBack(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "x.db")
	o := acquired(t, path)
	o.fill(t, session.Root, 500)
	if err := Remove(path); err == nil {
		t.Fatal("a session in use was removed")
	} else if _, locked := errors.AsType[*sqlite.ErrLocked](err); !locked {
		t.Fatalf("a session in use: %v, want *sqlite.ErrLocked", err)
	}
	o.must(t, o.note(`"still there"`))
	if err := o.Close(); err != nil {
		t.Fatal(err)
	}
	if err := Remove(path); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"x.db" + sqlite.LockSuffix}, names(t, dir)); diff != "" {
		t.Errorf("files that are left (-want +got):\n%s", diff)
	}
	if err := Remove(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a second removal: %v, want fs.ErrNotExist", err)
	}
	again := acquired(t, path)
	if again.state.StoreID == o.state.StoreID || again.state.Seq != 0 {
		t.Errorf("a new session of that name starts as %+v", again.state)
	}
}

// The process dies behind the first file: what is left of the others must not become part of a new session.
func TestARemovalThatWasInterruptedLeavesNoSession(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "x.db")
	o := acquired(t, path)
	o.root(t)
	o.must(t, o.note(`"old"`))
	log, err := os.ReadFile(path + "-wal")
	if err != nil || len(log) == 0 {
		t.Fatalf("the log is empty: %v", err)
	}
	if err := o.Close(); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.Remove(path), os.WriteFile(path+"-wal", log, 0o600)); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(t.Context(), path, Options{MustExist: true}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the session exists: %v", err)
	}
	again := acquired(t, path)
	again.root(t)
	if n := again.count(t, "entries"); n != 0 {
		t.Errorf("a new session of that name holds %d entries", n)
	}
}
