package sessionstore

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/workflowd/workflowd/agentcore/session"
	"github.com/workflowd/workflowd/store/sqlite"
	"github.com/workflowd/workflowd/store/sqlite/disktest"
)

// inUse returns a session file and its log as a killed owner of five commits leaves them.
func inUse(t *testing.T) (file, log []byte) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "x.db")
	o := acquired(t, path)
	o.root(t)
	for range 4 {
		b := o.note(`"a note"`)
		b.Durability = session.Synced
		o.must(t, b)
	}
	return content(t, path), content(t, path+"-wal")
}

func content(t *testing.T, path string) []byte {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	return text
}

func put(t *testing.T, path string, text []byte) {
	t.Helper()
	if text == nil {
		return
	}
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
}

// What is no sound session file is refused by name and stays as it is, its log too.
func TestABadFileIsRefusedAndLeftAsItIs(t *testing.T) {
	file, log := inUse(t)
	noise := bytes.Repeat([]byte{0xa5, 0x5a, 0x13}, 2000)
	spoilt := func(at, n int) []byte {
		b := bytes.Clone(file)
		copy(b[at:at+n], noise)
		return b
	}
	for _, test := range []struct {
		name      string
		file, log []byte
		want      error
	}{
		{"noise", noise, nil, sqlite.ErrNotDatabase},
		{"noise with a log", noise, log, sqlite.ErrNotDatabase},
		{"a spoilt first page", spoilt(0, 1024), nil, sqlite.ErrNotDatabase},
		{"a spoilt schema", spoilt(100, 400), nil, sqlite.ErrNotDatabase},
		{"the first half of a page", file[:512], nil, sqlite.ErrNotDatabase},
		{"the first page alone", file[:1024], nil, sqlite.ErrNotDatabase},
		{"an empty file whose log is there", []byte{}, log, sqlite.ErrNotDatabase},
	} {
		t.Run(test.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "x.db")
			put(t, path, test.file)
			put(t, path+"-wal", test.log)
			s, err := Open(t.Context(), path, Options{})
			if err == nil {
				if _, err = s.Acquire(t.Context()); err == nil {
					t.Error("it opened")
				}
				if closeErr := s.Close(); closeErr != nil {
					t.Error(closeErr)
				}
			}
			if !errors.Is(err, test.want) && !errors.Is(err, session.ErrCorrupt) {
				t.Errorf("got %v, want %v", err, test.want)
			}
			if !bytes.Equal(content(t, path), test.file) {
				t.Error("the file changed")
			}
			if test.log != nil && !bytes.Equal(content(t, path+"-wal"), test.log) {
				t.Error("its log changed")
			}
		})
	}
}

// A log that was cut or overwritten counts up to its last whole commit; the file behind it is never harmed.
func TestABrokenLogCountsUpToItsLastWholeCommit(t *testing.T) {
	file, log := inUse(t)
	most := int64(0)
	for cut := 0; cut <= len(log); cut += 256 {
		for _, spoil := range []func() []byte{
			func() []byte { return bytes.Clone(log[:cut]) },
			func() []byte { return append(bytes.Clone(log[:cut]), bytes.Repeat([]byte{0xa5}, len(log)-cut)...) },
		} {
			path := filepath.Join(t.TempDir(), "x.db")
			put(t, path, file)
			put(t, path+"-wal", spoil())
			s := store(t, path)
			o := &owner{Store: s}
			notes := o.count(t, "entries")
			sound := ""
			if err := s.db.Query("PRAGMA integrity_check", nil, func(r *sqlite.Row) error { sound += r.Text(0); return nil }); err != nil {
				t.Fatal(err)
			}
			if notes < most || notes > 4 || sound != "ok" {
				t.Fatalf("cut at %d: %d notes after %d, integrity: %s", cut, notes, most, sound)
			}
			if cut > 0 && cut < len(log) && len(spoil()) < len(log) {
				most = notes
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
		}
	}
	if most < 3 {
		t.Errorf("only %d notes came back", most)
	}
}

// A session on a disk that fails: full is a commit without effect and the session goes on; an I/O error is an unknown
// effect, the session is poisoned, and reopening shows all of the commit or nothing.
func TestASessionOnADiskThatFails(t *testing.T) {
	note := func(tx *session.Tx) error {
		tx.Append(session.Entry{Conversation: session.Root, Kind: "app.note", Data: []byte(`"n"`)})
		tx.Sync()
		return tx.EnsureRoot()
	}
	for _, test := range []struct {
		name  string
		fault disktest.Fault
		left  bool // the session is usable
	}{{"full", disktest.Full, true}, {"I/O error", disktest.IOError, false}} {
		t.Run(test.name, func(t *testing.T) {
			dir := t.TempDir()
			path := filepath.Join(dir, "x.db")
			disk := disktest.Watch(t, dir)
			s, err := session.Open(t.Context(), store(t, path))
			if err != nil {
				t.Fatal(err)
			}
			if _, err := s.Commit(t.Context(), note); err != nil {
				t.Fatal(err)
			}
			disk.Refuse(0, test.fault)
			_, err = s.Commit(t.Context(), note)
			if !disk.Refused() || err == nil {
				t.Fatalf("got %v", err)
			}
			if errors.Is(err, session.ErrNoEffect) != test.left || errors.Is(err, session.ErrPoisoned) == test.left {
				t.Errorf("got %v", err)
			}
			_, err = s.Commit(t.Context(), note)
			if test.left && err != nil || !test.left && !errors.Is(err, session.ErrPoisoned) {
				t.Errorf("the next commit: %v", err)
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			o := acquired(t, path)
			want := int64(2)
			if got := o.count(t, "entries"); got != want && (test.left || got != want-1) {
				t.Errorf("%d entries after reopening", got)
			}
		})
	}
}
