package sessionstore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/workflowd/workflowd/agentcore/session"
	"github.com/workflowd/workflowd/internal/disk"
	"github.com/workflowd/workflowd/store/sqlite"
	"github.com/workflowd/workflowd/store/sqlite/disktest"
)

// notes is how many entries the session of left has.
const notes = 5

// left puts a session file and its log at path as a killed owner leaves them: the last commits are in the log alone.
func left(t *testing.T, path string) {
	t.Helper()
	other := filepath.Join(t.TempDir(), "x.db")
	o := acquired(t, other)
	o.root(t)
	for i := range notes {
		b := o.note(fmt.Sprintf(`"note %d %s"`, i, strings.Repeat("x", 3000)))
		b.Durability = session.Synced
		o.must(t, b)
		if i == notes/2 {
			if err := o.db.Checkpoint(); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	put(t, path, content(t, other))
	put(t, path+"-wal", content(t, other+"-wal"))
}

// holds opens a session and checks that it has all its notes and takes another.
func holds(t *testing.T, path string, want int64) {
	t.Helper()
	s, err := Open(t.Context(), path, Options{MustExist: true})
	if err != nil {
		t.Fatal(err)
	}
	o := &owner{Store: s}
	if o.state, err = s.Acquire(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := o.count(t, "entries"); got != want {
		t.Errorf("%s: %d notes, want %d", path, got, want)
	}
	o.must(t, o.note(`"goes on"`))
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

// Promise: P-319, P-322, P-326
func TestAnExportHoldsTheLogAndAnImportGoesOnAtOnce(t *testing.T) {
	dir := t.TempDir()
	source, file, restored := filepath.Join(dir, "a/s.db"), filepath.Join(dir, "backups/today/s.db"), filepath.Join(dir, "b/s.db")
	left(t, source)
	before, log := content(t, source), content(t, source+"-wal")
	if bytes.Contains(before, []byte(`"note 4`)) {
		t.Fatal("the last note is in the file already: this proves nothing about the log")
	}
	if err := Export(t.Context(), source, file); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(before, content(t, source)) || !bytes.Equal(log, content(t, source+"-wal")) {
		t.Error("the source changed")
	}
	if err := Import(t.Context(), file, restored); err != nil {
		t.Fatal(err)
	}
	lock, err := sqlite.LockOwner(source) // owned by somebody: the restored one does not care
	if err != nil {
		t.Fatal(err)
	}
	holds(t, restored, notes)
	holds(t, file, notes)
	if err := lock.Unlock(); err != nil {
		t.Fatal(err)
	}
	holds(t, source, notes)
	for _, name := range []string{file, restored} {
		if _, err := os.Stat(name + ".new"); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("something is left beside %s: %v", name, err)
		}
	}
}

// Promise: P-314, P-319, P-321, P-323, P-324, P-325
func TestWhatMayNotBeCopiedIsRefusedAndNothingChanges(t *testing.T) {
	locked := func(t *testing.T, path string) {
		lock, err := sqlite.LockOwner(path)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := lock.Unlock(); err != nil {
				t.Error(err)
			}
		})
	}
	for _, test := range []struct {
		name    string
		arrange func(t *testing.T, source, destination string)
		want    error // nil = *sqlite.ErrLocked
	}{
		{"no source", func(t *testing.T, source, _ string) {
			if err := errors.Join(os.Remove(source), os.Remove(source+"-wal")); err != nil {
				t.Fatal(err)
			}
		}, fs.ErrNotExist},
		{"the source has an owner", func(t *testing.T, source, _ string) { locked(t, source) }, nil},
		{"the destination has an owner", func(t *testing.T, _, destination string) { locked(t, destination) }, nil},
		{"the destination exists", func(t *testing.T, _, destination string) { put(t, destination, []byte("precious")) }, fs.ErrExist},
		{"a log of the destination exists", func(t *testing.T, _, destination string) { put(t, destination+"-wal", []byte("old")) }, fs.ErrExist},
		{"the destination is a link to nowhere", func(t *testing.T, _, destination string) {
			if err := os.Symlink("nowhere", destination); err != nil {
				t.Fatal(err)
			}
		}, fs.ErrExist},
		{"a text", func(t *testing.T, source, _ string) { put(t, source, bytes.Repeat([]byte("text\n"), 1000)) }, sqlite.ErrNotDatabase},
		{"an empty file", func(t *testing.T, source, _ string) {
			put(t, source, []byte{})
			if err := os.Remove(source + "-wal"); err != nil {
				t.Fatal(err)
			}
		}, sqlite.ErrForeign},
		{"another program's database", func(t *testing.T, source, _ string) {
			if err := errors.Join(os.Remove(source), os.Remove(source+"-wal")); err != nil {
				t.Fatal(err)
			}
			db, err := sqlite.Open(source, sqlite.Options{})
			if err != nil {
				t.Fatal(err)
			}
			_, err = db.Exec(`CREATE TABLE theirs(x)`)
			if err := errors.Join(err, db.Close()); err != nil {
				t.Fatal(err)
			}
		}, sqlite.ErrForeign},
		{"a damaged session", func(t *testing.T, source, _ string) {
			text := content(t, source)
			copy(text[len(text)-6*1024:], bytes.Repeat([]byte{0xa5}, 4*1024))
			put(t, source, text)
		}, sqlite.ErrNotDatabase},
	} {
		t.Run(test.name, func(t *testing.T) {
			dir := t.TempDir()
			source, destination := filepath.Join(dir, "s.db"), filepath.Join(dir, "copy.db")
			left(t, source)
			test.arrange(t, source, destination)
			before := snapshot(t, dir)
			err := Export(t.Context(), source, destination)
			if _, ok := errors.AsType[*sqlite.ErrLocked](err); test.want == nil && !ok || test.want != nil && !errors.Is(err, test.want) {
				t.Errorf("got %v", err)
			}
			if after := snapshot(t, dir); after != before {
				t.Errorf("before:\n%safter:\n%s", before, after)
			}
		})
	}
	t.Run("onto itself", func(t *testing.T) {
		source := filepath.Join(t.TempDir(), "s.db")
		left(t, source)
		if err := Export(t.Context(), source, source); !errors.Is(err, fs.ErrExist) {
			if _, ok := errors.AsType[*sqlite.ErrLocked](err); !ok {
				t.Errorf("got %v", err)
			}
		}
		holds(t, source, notes)
	})
}

// snapshot describes every file of dir that matters: locks and the shared index do not.
func snapshot(t *testing.T, dir string) string {
	t.Helper()
	var b strings.Builder
	list, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range list {
		if name := e.Name(); !strings.HasSuffix(name, ".lock") && !strings.HasSuffix(name, "-shm") {
			text := ""
			if e.Type().IsRegular() {
				text = string(content(t, filepath.Join(dir, name)))
			}
			fmt.Fprintf(&b, "%s %s %d %x\n", name, e.Type(), len(text), digest(text))
		}
	}
	return b.String()
}

func digest(text string) (sum uint64) {
	for _, c := range []byte(text) {
		sum = sum*1099511628211 ^ uint64(c)
	}
	return sum
}

// Promise: P-320
func TestBothFilesAreOwnedWhileACopyIsMade(t *testing.T) {
	dir := t.TempDir()
	source, destination := filepath.Join(dir, "s.db"), filepath.Join(dir, "copy.db")
	left(t, source)
	asked := 0
	disk.Watch(func(e disk.Event) error {
		if e.Op != disk.Write && e.Op != disk.Link {
			return nil
		}
		for _, path := range []string{source, destination} {
			_, err := sqlite.LockOwner(path)
			if _, locked := errors.AsType[*sqlite.ErrLocked](err); !locked {
				t.Errorf("%s is free in mid-copy: %v", path, err)
			}
			asked++
		}
		return nil
	})
	t.Cleanup(func() { disk.Watch(nil) })
	if err := Export(t.Context(), source, destination); err != nil {
		t.Fatal(err)
	}
	if asked != 4 {
		t.Errorf("asked %d times, want 4", asked)
	}
}

func TestAStoppedCopyLeavesNothing(t *testing.T) {
	dir := t.TempDir()
	source, destination := filepath.Join(dir, "s.db"), filepath.Join(dir, "copy.db")
	left(t, source)
	ctx, stop := context.WithCancelCause(t.Context())
	reason := errors.New("enough")
	disk.Watch(func(e disk.Event) error {
		if e.Op == disk.Write {
			stop(reason)
		}
		return nil
	})
	t.Cleanup(func() { disk.Watch(nil) })
	before := snapshot(t, dir)
	if err := Export(ctx, source, destination); !errors.Is(err, reason) {
		t.Errorf("got %v", err)
	}
	if after := snapshot(t, dir); after != before {
		t.Errorf("before:\n%safter:\n%s", before, after)
	}
}

// A process that dies, a power loss and an error at any moment of a copy leave the source as it was and no destination,
// or a whole one; the copy can be made again.
func TestACopyIsWholeOrAbsentWhateverHappensInIt(t *testing.T) {
	dir := t.TempDir()
	source := filepath.Join(dir, "s.db")
	left(t, source)
	d := disktest.Watch(t, dir)
	if err := Export(t.Context(), source, filepath.Join(dir, "backups/copy.db")); err != nil {
		t.Fatal(err)
	}
	events := len(d.Journal())
	rng := rand.New(rand.NewPCG(3, 4))
	whole := 0
	for n := range events + 1 {
		for luck := range disktest.Lucks {
			to := t.TempDir()
			if err := d.Survive(n, luck, rng, to); err != nil {
				t.Fatal(err)
			}
			copied := filepath.Join(to, "backups/copy.db")
			if _, err := os.Stat(copied); err == nil {
				whole++
				holds(t, copied, notes)
			} else if err := Export(t.Context(), filepath.Join(to, "s.db"), copied); err != nil {
				t.Fatalf("event %d of %d, luck %d: once more: %v", n, events, luck, err)
			}
			holds(t, filepath.Join(to, "s.db"), notes)
		}
	}
	if events < 20 || whole < 4 {
		t.Errorf("%d events, %d whole copies: this proves little", events, whole)
	}
	for n := range events {
		for _, fault := range []disktest.Fault{disktest.IOError, disktest.Full} {
			copied := filepath.Join(dir, fmt.Sprintf("backups/%d-%d.db", n, fault))
			d.Refuse(n, fault)
			err := Export(t.Context(), source, copied)
			refused := d.Refused()
			d.Refuse(-1, fault)
			_, statErr := os.Stat(copied)
			switch {
			case err == nil && statErr == nil: // what was refused was not needed
			case err == nil:
				t.Errorf("event %d: no error and no copy", n)
			case !refused:
				t.Errorf("event %d: nothing was refused: %v", n, err)
			case statErr == nil: // it has its name; only making that last failed
				holds(t, copied, notes)
			default:
				if err := Export(t.Context(), source, copied); err != nil {
					t.Errorf("event %d: once more after %v: %v", n, err, err)
				}
			}
		}
	}
	holds(t, source, notes)
}
