package sqlite_test

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"github.com/workflowd/workflowd/store/sqlite"
	"github.com/workflowd/workflowd/store/sqlite/disktest"
)

// behind closes the file behind the author.
func (a *author) behind() {
	a.t.Helper()
	if err := a.db.CloseBehind(); err != nil {
		a.t.Fatal(err)
	}
}

// drain waits for every closing; what the books hold is then on the disk.
func drain(t *testing.T, books ...*author) {
	t.Helper()
	if err := sqlite.Drain(); err != nil {
		t.Fatal(err)
	}
	for _, a := range books {
		a.safe()
	}
}

// shelf returns the authors of some books in one directory.
func shelf(t *testing.T, dir string, names ...string) []*author {
	t.Helper()
	var books []*author
	disk := disktest.Watch(t, dir)
	for _, name := range names {
		a := newAuthor(t, dir, name, 1024, 300)
		a.disk = disk
		books = append(books, a)
	}
	return books
}

// The log is moved into the file behind the caller: at no event of that does a power loss take what a synced commit
// returned, and after Drain it takes nothing at all.
func TestAPowerLossWhileFilesAreClosedBehindLosesNoSyncedCommit(t *testing.T) {
	for _, story := range []struct {
		name string
		tell func(t *testing.T, a, b, c *author)
	}{
		{"a file that was never synced", func(t *testing.T, a, _, _ *author) {
			a.open()
			a.write("ff")
			a.behind()
			drain(t, a)
		}},
		{"an opener follows at once, again and again", func(t *testing.T, a, _, _ *author) {
			for _, commits := range []string{"fS", "ff", "S", "f", "", "fSf"} {
				a.open()
				a.write(commits)
				a.behind()
			}
			drain(t, a)
		}},
		{"others write and close meanwhile", func(t *testing.T, a, b, c *author) {
			for _, commits := range []string{"Sf", "fS"} {
				for _, book := range []*author{a, b, c} {
					book.open()
					book.write(commits)
				}
				a.behind()
				b.write("fS")
				b.behind()
				c.write("f")
				c.behind()
			}
			drain(t, a, b, c)
		}},
	} {
		t.Run(story.name, func(t *testing.T) {
			books := shelf(t, t.TempDir(), "p/a/s.db", "p/b/s.db", "p/c/s.db")
			story.tell(t, books[0], books[1], books[2])
			var told []*author
			for _, a := range books {
				if a.page > 0 {
					told = append(told, a)
				}
			}
			cutEverywhere(t, 40, told...)
		})
	}
}

// The disk is slow at one event of a closing, whichever, and somebody wants the file: a power loss then keeps every synced
// commit; the opener gets the file afterwards, with everything in it.
func TestAnOpenerWaitsForTheSlowestEventOfAClosing(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	n := 0
	for more := true; more; n++ {
		t.Run(fmt.Sprintf("event %d", n), func(t *testing.T) {
			a := shelf(t, t.TempDir(), "p/s.db")[0]
			more = a.slowly(n, rng)
		})
		if t.Failed() {
			return
		}
	}
	if t.Logf("%d events", n-1); n < 8 {
		t.Error("too few events to prove anything")
	}
}

// slowly closes a file behind the author on a disk that is slow at event n, and opens it meanwhile. more is false when the
// closing had no such event.
func (a *author) slowly(n int, rng *rand.Rand) (more bool) {
	a.t.Helper()
	a.open()
	a.write("fSff")
	reached, release := a.disk.Hold(n)
	a.behind()
	drained, opened := make(chan error, 1), make(chan error, 1)
	go func() { drained <- sqlite.Drain() }()
	select {
	case <-reached:
		more = true
	case err := <-drained:
		drained <- err
	}
	go func() {
		var err error
		a.db, err = sqlite.Open(a.path, a.o)
		a.disk.Note("opened")
		opened <- err
	}()
	if more {
		cutAt(a.t, len(a.disk.Journal()), rng, a)
	}
	release()
	if err := errors.Join(<-drained, <-opened); err != nil {
		a.t.Fatal(err)
	}
	if last := a.disk.Journal()[len(a.disk.Journal())-1]; last.Note != "opened" {
		a.t.Errorf("the opener had the file before the closing was done with it: %s %s", last.Op, last.Path)
	}
	a.close()
	if pages, err := readBook(a.path, a.o, a.length); err != nil || pages != a.page {
		a.t.Errorf("%d pages, %v", pages, err)
	}
	return more
}

// The disk fails at one event of a closing, once or from then on: Drain tells it, or the file is whole without its log; the
// others of the burst are; everything that was committed is in the file and its log, and synced commits survive a power loss.
func TestADiskThatFailsWhileFilesAreClosedBehindHarmsNothing(t *testing.T) {
	for _, test := range []struct {
		name    string
		commits string
		fault   disktest.Fault
		lasting bool
		told    bool // at some event; else the second attempt of the closing always mends it
	}{
		{"an I/O error", "fSff", disktest.IOError, false, false},
		{"I/O errors from then on", "fSff", disktest.IOError, true, true},
		{"an I/O error, nothing was synced", "ff", disktest.IOError, false, true},
		{"a full disk", "fSff", disktest.Full, false, false},
		{"a disk that stays full", "fSff", disktest.Full, true, true},
		{"a disk that stays full, nothing was synced", "ff", disktest.Full, true, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			told, n := 0, 0
			for more := true; more; n++ {
				t.Run(fmt.Sprintf("at event %d", n), func(t *testing.T) {
					var err error
					if more, err = burst(t, test.commits, disktest.Trouble{After: n, Fault: test.fault, Lasting: test.lasting}); err != nil {
						told++
					}
				})
				if t.Failed() {
					return
				}
			}
			t.Logf("%d events failed, %d of them were told", n-1, told)
			if n < 8 || (told > 0) != test.told {
				t.Error("the story does not prove what it should")
			}
		})
	}
}

// burst closes three files behind the caller, and the disk fails at an event of the first. more is false when the first had
// no such event; err is what Drain told.
func burst(t *testing.T, commits string, trouble disktest.Trouble) (more bool, err error) {
	t.Helper()
	books := shelf(t, t.TempDir(), "a/s.db", "b/s.db", "c/s.db")
	victim, disk := books[0], books[0].disk
	for _, a := range books {
		a.open()
		a.write(commits)
	}
	trouble.Path = victim.path
	disk.Fail(trouble)
	for _, a := range books {
		a.behind()
	}
	err = sqlite.Drain()
	more = disk.Refused()
	disk.Fail(disktest.Trouble{})
	switch _, gone := os.Stat(victim.path + "-wal"); {
	case err != nil && !more:
		t.Fatalf("an error without a failure: %v", err)
	case err != nil && (typeOf(err) == "" || !strings.Contains(err.Error(), victim.path)):
		t.Fatalf("an error without a type or the file's name: %v", err)
	case err == nil && !errors.Is(gone, fs.ErrNotExist):
		t.Fatalf("nobody was told, and the log is still there: %v", gone)
	}
	if err := sqlite.Drain(); err != nil {
		t.Errorf("told twice: %v", err)
	}
	cutAt(t, len(disk.Journal()), rand.New(rand.NewPCG(7, uint64(trouble.After))), books...)
	for i, a := range books {
		if _, err := os.Stat(a.path + "-wal"); i > 0 && !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("the log of %s, whose disk is well, is still there: %v", a.name, err)
		}
		if pages, err := readBook(a.path, a.o, a.length); err != nil || pages != a.page {
			t.Errorf("%s: %d pages of %d: %v", a.name, pages, a.page, err)
		}
	}
	return more, err
}
