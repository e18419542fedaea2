package sqlite_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/workflowd/workflowd/store/sqlite"
	"github.com/workflowd/workflowd/store/sqlite/disktest"
)

// sufferer writes a book on a disk that refuses once, and says what came of it.
type sufferer struct {
	author
	confirmed int // pages whose commit returned
	unknown   bool
}

// try does one thing; when it fails the file is closed and opened again, and must hold what was confirmed and no more.
func (s *sufferer) try(what string, do func() error) error {
	err := do()
	if err == nil {
		return nil
	}
	if !s.disk.Refused() {
		return fmt.Errorf("%s: failed without a refusal: %w", what, err)
	}
	if typed := typeOf(err); typed == "" {
		return fmt.Errorf("%s: an error without a type: %w", what, err)
	}
	s.unknown = errors.Is(err, sqlite.ErrUnknownEffect)
	if s.db != nil && !s.unknown && what == "commit" { // nothing was written: it goes on as it is
		if err := do(); err != nil {
			return fmt.Errorf("%s once more: %w", what, err)
		}
		return nil
	}
	if s.db != nil {
		if err := s.db.Close(); err != nil {
			return fmt.Errorf("close after %s failed: %w", what, err)
		}
		s.db = nil
	}
	pages, err := readBook(s.path, s.o, s.length)
	if err != nil {
		return fmt.Errorf("reopen after %s failed: %w", what, err)
	}
	if pages != s.confirmed && (!s.unknown || pages != s.confirmed+1) {
		return fmt.Errorf("after %s failed there are %d pages, %d were confirmed", what, pages, s.confirmed)
	}
	s.confirmed = pages + 1 // the reader wrote one
	s.db, err = sqlite.Open(s.path, s.o)
	return err
}

func typeOf(err error) string {
	if _, ok := errors.AsType[*sqlite.ErrUnwritable](err); ok {
		return "unwritable"
	}
	for _, known := range []error{sqlite.ErrUnknownEffect, sqlite.ErrDiskFull, sqlite.ErrDisk} {
		if errors.Is(err, known) {
			return known.Error()
		}
	}
	return ""
}

func (s *sufferer) openIt() error {
	return s.try("open", func() (err error) { s.db, err = sqlite.Open(s.path, s.o); return err })
}

func (s *sufferer) closeIt() error {
	return s.try("close", func() error {
		db := s.db
		s.db = nil
		return db.Close()
	})
}

func (s *sufferer) commit(d sqlite.Durability) error {
	return s.try("commit", func() error {
		err := s.db.Transact(d, func(tx *sqlite.Tx) error { return insertPage(tx, s.confirmed+1, s.length) })
		if err == nil {
			s.confirmed++
		}
		return err
	})
}

// story opens, commits in both classes, checkpoints and closes, twice.
func (s *sufferer) story() error {
	for _, commits := range [][]sqlite.Durability{
		{sqlite.Fast, sqlite.Fast, sqlite.Synced, sqlite.Fast}, {sqlite.Fast, sqlite.Synced},
	} {
		if err := s.openIt(); err != nil {
			return err
		}
		for i, d := range commits {
			if err := s.commit(d); err != nil {
				return err
			}
			if i == 2 {
				if err := s.try("checkpoint", s.db.Checkpoint); err != nil {
					return err
				}
			}
		}
		if s.db == nil {
			continue
		}
		if err := s.closeIt(); err != nil {
			return err
		}
		if s.db != nil { // it failed and was opened again
			if err := s.db.Close(); err != nil {
				return err
			}
			s.db = nil
		}
	}
	return nil
}

// Whatever the disk refuses, and whenever: the error has a type; a commit that failed without unknown effect is not there
// and can be tried again; one that returned is there; the file opens again and is sound.
func TestADiskThatRefusesOnceCostsAtMostTheCommitItRefused(t *testing.T) {
	for name, fault := range map[string]disktest.Fault{"I/O error": disktest.IOError, "disk full": disktest.Full} {
		t.Run(name, func(t *testing.T) {
			unknown := 0
			for n := 0; ; n++ {
				again := false
				t.Run(fmt.Sprintf("at event %d", n), func(t *testing.T) {
					dir := t.TempDir()
					s := &sufferer{author: *newAuthor(t, dir, "p/c/s.db", 1024, 300)}
					s.disk = disktest.Watch(t, dir)
					s.disk.Refuse(n, fault)
					if err := s.story(); err != nil {
						t.Fatalf("%v\njournal:\n%s", err, tail(s.disk.Journal()))
					}
					again = s.disk.Refused()
					s.disk.Refuse(-1, disktest.IOError) // not while the result is read
					pages, err := readBook(s.path, s.o, s.length)
					if err != nil || pages != s.confirmed {
						t.Fatalf("at the end there are %d pages of %d: %v", pages, s.confirmed, err)
					}
					if s.unknown {
						unknown++
					}
				})
				if t.Failed() || !again {
					t.Logf("%d events refused, %d of them with unknown effect", n, unknown)
					if !t.Failed() && (n < 50 || unknown == 0) {
						t.Errorf("the story is too short to prove anything")
					}
					return
				}
			}
		})
	}
}
