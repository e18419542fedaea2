package sessionstore

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/workflowd/workflowd/store/sqlite"
)

// plainMost is the longest path that Windows takes in its plain form; longest is what SQLite opens here, and copied what
// it can be copied to.
const (
	plainMost = 260
	longest   = 504
	copied    = longest - len(".new")
)

// deep returns a path of n bytes in a new directory; its last directory is made with the file.
func deep(t *testing.T, n int, name string) string {
	t.Helper()
	const part = 100
	dir := t.TempDir()
	for n-len(dir)-len(name)-1 > part {
		dir = filepath.Join(dir, strings.Repeat("d", part-1))
	}
	path := filepath.Join(dir, strings.Repeat("e", n-len(dir)-len(name)-1)+name)
	if len(path) != n {
		t.Fatalf("the test built %d bytes", len(path))
	}
	return path
}

func filesIn(t *testing.T, dir string) []string {
	t.Helper()
	list, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, f := range list {
		names = append(names, f.Name())
	}
	return names
}

// What a session does below a path that is longer than Windows takes in its plain form. The form that makes it work there
// is a pure function with a table of its own, store/sqlite/path_test.go.
// Promise: P-303, P-304, P-305, P-306, P-307, P-308
func TestALongPathIsAPathLikeAnyOther(t *testing.T) {
	for _, n := range []int{plainMost, plainMost + 1, 400, copied} {
		path := deep(t, n, "a.db")
		o := acquired(t, path)
		o.root(t)
		o.must(t, o.note(`"one"`))
		if _, err := Open(t.Context(), path, Options{}); !isLocked(err) {
			t.Errorf("%d bytes: beside its owner: %v", n, err)
		}
		if err := Export(t.Context(), path, deep(t, n, "b.db")); !isLocked(err) {
			t.Errorf("%d bytes: export beside its owner: %v", n, err)
		}
		if err := o.Close(); err != nil {
			t.Fatal(err)
		}
		backup, restored := deep(t, n, "b.db"), deep(t, n, "c.db")
		if err := Export(t.Context(), path, backup); err != nil {
			t.Fatalf("%d bytes: export: %v", n, err)
		}
		if err := Import(t.Context(), backup, restored); err != nil {
			t.Fatalf("%d bytes: import: %v", n, err)
		}
		for _, at := range []string{path, restored} {
			o := acquired(t, at)
			if got := o.count(t, "entries"); got != 1 || o.Path() != at {
				t.Errorf("%d bytes: %d entries at %s", n, got, o.Path())
			}
			if err := o.Close(); err != nil {
				t.Fatal(err)
			}
			if got := filesIn(t, filepath.Dir(at)); !slices.Equal(got, []string{filepath.Base(at), filepath.Base(at) + sqlite.LockSuffix}) {
				t.Errorf("%d bytes: in its directory are %q", n, got)
			}
		}
		if err := Remove(path); err != nil {
			t.Errorf("%d bytes: remove: %v", n, err)
		}
		if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%d bytes: it is still there: %v", n, err)
		}
	}
}

func isLocked(err error) bool {
	_, ok := errors.AsType[*sqlite.ErrLocked](err)
	return ok
}

// A name must leave room for the one it is copied under; what does not is refused before anything is made.
// Promise: P-306
func TestADestinationThatIsTooLongToBeWrittenSaysSo(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.db")
	if err := acquired(t, path).Close(); err != nil {
		t.Fatal(err)
	}
	to := deep(t, copied+1, "b.db")
	if err := Export(t.Context(), path, to); !errors.Is(err, sqlite.ErrPathTooLong) {
		t.Errorf("got %v, want ErrPathTooLong", err)
	}
	if _, err := os.Stat(filepath.Dir(to)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a directory was made: %v", err)
	}
	if err := acquired(t, deep(t, longest, "c.db")).Close(); err != nil {
		t.Errorf("a session may still have that name: %v", err)
	}
}

// Everything behind the opening uses the resolved path: where the process goes meanwhile does not matter.
// Promise: P-304, P-305
func TestARelativePathIsResolvedOnce(t *testing.T) {
	home, elsewhere := t.TempDir(), t.TempDir()
	t.Chdir(home)
	s, err := Open(t.Context(), filepath.Join("deep", "a.db"), Options{Idle: time.Hour, Behind: true})
	if err != nil {
		t.Fatal(err)
	}
	o := &owner{Store: s}
	if o.state, err = s.Acquire(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Chdir(elsewhere)
	o.root(t)
	s.mu.Lock()
	s.putAway()
	s.mu.Unlock()
	o.must(t, o.note(`"behind it"`)) // fetches the file
	if _, err := Open(t.Context(), filepath.Join(home, "deep", "a.db"), Options{}); !isLocked(err) {
		t.Errorf("beside its owner: %v", err)
	}
	if err := errors.Join(s.Close(), sqlite.Drain()); err != nil {
		t.Fatal(err)
	}
	t.Chdir(home)
	if err := Export(t.Context(), filepath.Join("deep", "a.db"), "b.db"); err != nil {
		t.Error(err)
	}
	if err := Remove(filepath.Join("deep", "a.db")); err != nil {
		t.Error(err)
	}
	if got := filesIn(t, elsewhere); len(got) != 0 {
		t.Errorf("in the other directory are %q", got)
	}
	if got := append(filesIn(t, home), filesIn(t, filepath.Join(home, "deep"))...); !slices.Equal(got, []string{"b.db", "b.db.lock", "deep", "a.db.lock"}) {
		t.Errorf("there are %q", got)
	}
}
