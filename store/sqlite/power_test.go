package sqlite_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/workflowd/workflowd/store/sqlite"
	"github.com/workflowd/workflowd/store/sqlite/disktest"
)

// bookSchema is one table of numbered pages with text.
func bookSchema(t testing.TB) *sqlite.Schema {
	t.Helper()
	s, err := sqlite.ParseSchema(fstest.MapFS{"s/0001_book.sql": {Data: []byte(
		"CREATE TABLE book(page INTEGER PRIMARY KEY,text TEXT NOT NULL)STRICT;CREATE INDEX book_text ON book(text);")}}, "s")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// returned is the note in the journal when the commit of a page came back; a synced one takes all pages before it along.
type returned struct {
	path   string
	page   int
	synced bool
}

// author writes a book, one page per commit, and notes every commit that came back.
type author struct {
	t      *testing.T
	disk   *disktest.Disk
	name   string // below the directory that is watched
	path   string
	o      sqlite.Options
	db     *sqlite.DB
	page   int
	length int // of a page's text
}

func newAuthor(t *testing.T, dir, name string, page, length int) *author {
	t.Helper()
	return &author{t: t, name: name, path: filepath.Join(dir, name), length: length, o: sqlite.Options{Schema: bookSchema(t), PageSize: page}}
}

func (a *author) open() {
	a.t.Helper()
	var err error
	if a.db, err = sqlite.Open(a.path, a.o); err != nil {
		a.t.Fatal(err)
	}
	a.o.Lock = nil
}

func (a *author) close() {
	a.t.Helper()
	if err := a.db.Close(); err != nil {
		a.t.Fatal(err)
	}
	a.safe()
}

// putAway closes the file and keeps its lock for the next open.
func (a *author) putAway() {
	a.t.Helper()
	var err error
	if a.o.Lock, err = a.db.PutAway(); err != nil {
		a.t.Fatal(err)
	}
	a.safe()
}

// safe notes that everything so far is on the disk.
func (a *author) safe() { a.disk.Note(returned{a.path, a.page, true}) }

// kill leaves everything as it is, as a killed process does.
func (a *author) kill() {
	a.t.Helper()
	if err := a.db.Abandon(); err != nil {
		a.t.Fatal(err)
	}
	dead := a.db
	a.t.Cleanup(func() { _ = dead.Close() }) // only for its descriptors
}

// write commits one page for each letter: f is a fast commit, S a synced one.
func (a *author) write(commits string) {
	a.t.Helper()
	for _, c := range commits {
		d := sqlite.Fast
		if c == 'S' {
			d = sqlite.Synced
		}
		a.page++
		if err := a.db.Transact(d, func(tx *sqlite.Tx) error { return insertPage(tx, a.page, a.length) }); err != nil {
			a.t.Fatal(err)
		}
		a.disk.Note(returned{a.path, a.page, d == sqlite.Synced})
	}
}

func insertPage(tx *sqlite.Tx, page, length int) error {
	_, err := tx.Exec("INSERT INTO book VALUES (?,?)", page, pageText(page, length))
	return err
}

func pageText(page, length int) string {
	return strings.Repeat(fmt.Sprintf("%d,", page), length)[:length]
}

// readBook opens what a power loss left and returns the number of pages, which must be a whole beginning of the book in a
// sound file.
func readBook(path string, o sqlite.Options, length int) (pages int, err error) {
	db, err := sqlite.Open(path, o)
	if err != nil {
		return 0, err
	}
	sound := ""
	err = db.Query("PRAGMA integrity_check", nil, func(r *sqlite.Row) error { sound += r.Text(0); return nil })
	if err == nil && sound != "ok" {
		err = fmt.Errorf("integrity check: %s", sound)
	}
	if err == nil {
		err = db.Query("SELECT page,text FROM book ORDER BY page", nil, func(r *sqlite.Row) error {
			pages++
			if r.Int64(0) != int64(pages) || r.Text(1) != pageText(pages, length) {
				return fmt.Errorf("page %d is %d with %.20q", pages, r.Int64(0), r.Text(1))
			}
			return nil
		})
	}
	if err == nil { // and it can go on
		err = db.Transact(sqlite.Synced, func(tx *sqlite.Tx) error { return insertPage(tx, pages+1, length) })
	}
	if closeErr := db.Close(); err == nil {
		err = closeErr
	}
	return pages, err
}

// cutEverywhere cuts the power before each event of the journal that matters, with every luck, and reads what is left of
// the books. most bounds the cuts at writes.
func cutEverywhere(t *testing.T, most int, books ...*author) {
	t.Helper()
	d := books[0].disk
	journal := d.Journal()
	matters := make([]bool, len(journal)+1)
	for i := range matters {
		matters[i] = i%(1+len(journal)/most) == 0 || i == len(journal)
	}
	for i, e := range journal {
		if e.Op != disktest.Write && e.Op != disktest.Note {
			matters[i], matters[i+1] = true, true
		}
	}
	rng := rand.New(rand.NewPCG(1, 2))
	cuts := 0
	for n := range matters {
		if matters[n] {
			cutAt(t, n, rng, books...)
			cuts += int(disktest.Lucks)
		}
	}
	t.Logf("%d events, %d cuts survived", len(journal), cuts)
}

// cutAt cuts the power before event n of the journal.
func cutAt(t *testing.T, n int, rng *rand.Rand, books ...*author) {
	t.Helper()
	d := books[0].disk
	journal := d.Journal()
	for luck := range disktest.Lucks {
		dir := t.TempDir()
		if err := d.Survive(n, luck, rng, dir); err != nil {
			t.Fatal(err)
		}
		for _, a := range books {
			pages, err := readBook(filepath.Join(dir, a.name), a.o, a.length)
			atLeast, atMost := promised(journal[:n], a.path)
			if err == nil && (pages < atLeast || pages > atMost+1) {
				err = fmt.Errorf("%d pages, want %d to %d", pages, atLeast, atMost+1)
			}
			if err != nil {
				t.Fatalf("%s: power cut before event %d of %d, luck %d: %v\njournal before it:\n%s", a.name, n, len(journal), luck, err, tail(journal[:n]))
			}
		}
		if err := os.RemoveAll(dir); err != nil {
			t.Fatal(err)
		}
	}
}

// promised returns how many pages of a book must be there after a journal, and how many have returned at all.
func promised(journal []disktest.Event, path string) (atLeast, atMost int) {
	for _, e := range journal {
		if r, ok := e.Note.(returned); ok && r.path == path {
			atMost = r.page
			if r.synced {
				atLeast = r.page
			}
		}
	}
	return atLeast, atMost
}

// tail shows the end of a journal.
func tail(journal []disktest.Event) string {
	var b strings.Builder
	for i, e := range journal[max(0, len(journal)-25):] {
		fmt.Fprintf(&b, "%4d %-8s %s %s %d+%d %v\n", max(0, len(journal)-25)+i, e.Op, e.Path, e.To, e.At, len(e.Data), e.Note)
	}
	return b.String()
}

// What a synced commit returned is there after a power loss at any moment, with all before it; fast commits are a
// beginning of what was written; the file is sound and goes on.
func TestAPowerLossAtAnyMomentLosesNoSyncedCommitAndBreaksNothing(t *testing.T) {
	stories := []struct {
		name string
		page int // size
		text int // bytes of a page of the book
		cuts int // at writes; those at syncs and names come on top
		tell func(a *author)
	}{
		{"a new file, fast commits alone", 1024, 300, 100, func(a *author) { a.open(); a.write("ffff"); a.close() }},
		{"a new file, the first commit synced", 1024, 300, 100, func(a *author) { a.open(); a.write("SffSf"); a.close() }},
		{"a new file, fast then synced", 1024, 300, 100, func(a *author) { a.open(); a.write("ffSfSSff"); a.close() }},
		{"closed and opened again", 1024, 300, 100, func(a *author) {
			for _, commits := range []string{"ffS", "ff", "Sf", "f", "fS"} {
				a.open()
				a.write(commits)
				a.close()
			}
		}},
		{"killed before anything was synced", 1024, 300, 100, func(a *author) {
			a.open()
			a.write("ff")
			a.kill()
			a.open()
			a.write("fSf")
			a.kill()
			a.open()
			a.write("fS")
			a.close()
		}},
		{"put away and opened with its lock", 1024, 300, 100, func(a *author) {
			for _, commits := range []string{"ff", "fS", "ff"} {
				a.open()
				a.write(commits)
				a.putAway()
			}
			a.open()
			a.close()
		}},
		{"a checkpoint between commits", 1024, 300, 100, func(a *author) {
			a.open()
			for _, commits := range []string{"fS", "ff", "Sf", "ff"} {
				a.write(commits)
				if err := a.db.Checkpoint(); err != nil {
					a.t.Fatal(err)
				}
			}
			a.close()
		}},
		{"a log that starts anew by itself", 512, 60_000, 12, func(a *author) {
			a.open()
			a.write("Sffffffffff")
			a.close()
		}},
		{"a log that starts anew, nothing synced", 512, 60_000, 12, func(a *author) {
			a.open()
			a.write("ffffffffff")
			a.close()
		}},
	}
	for _, story := range stories {
		t.Run(story.name, func(t *testing.T) {
			dir := t.TempDir()
			a := newAuthor(t, dir, "agents/p/c/s.db", story.page, story.text) // in directories that do not exist yet
			a.disk = disktest.Watch(t, dir)
			story.tell(a)
			cutEverywhere(t, story.cuts, a)
		})
	}
}
