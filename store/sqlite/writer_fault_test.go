package sqlite

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/workflowd/workflowd/store/sqlite/disktest"
)

// spilling is a page size with which large rows reach the log before their commit: SQLite keeps about two million bytes back.
const (
	spilling = 65536
	large    = 3_000_000
)

var errRefused = errors.New("refused")

// crew is a shared commit of some good members and a bad one, on a disk that fails at one event of it.
type crew struct {
	*Writer
	disk *disktest.Disk
	path string
}

func newCrew(t *testing.T, pageSize int) *crew {
	t.Helper()
	dir := t.TempDir()
	c := &crew{disk: disktest.Watch(t, dir), path: filepath.Join(dir, "x.db")}
	db, err := Open(c.path, Options{Schema: testSchema(t), PageSize: pageSize})
	if err != nil {
		t.Fatal(err)
	}
	c.Writer = NewWriter(db)
	return c
}

// shares submits good members around a bad one to one commit and checks that whatever happens to the commit happens to all
// of them: all succeed, or all get the same failure; the bad one fails in any case. It returns that failure.
func (c *crew) shares(t *testing.T, bodies ...string) error {
	t.Helper()
	fns := []func(*Tx) error{func(tx *Tx) error { return errors.Join(insert("bad")(tx), errRefused) }}
	for _, body := range bodies {
		fns = append(fns, insert(body))
	}
	errs := together(c.Writer, Synced, append(fns[1:], fns[0])...)
	bad, good := errs[len(bodies)], errs[:len(bodies)]
	if c.last != len(fns) {
		t.Fatalf("a commit of %d, want %d", c.last, len(fns))
	}
	if bad == nil || good[0] == nil && !errors.Is(bad, errRefused) {
		t.Errorf("the bad member got %v", bad)
	}
	for _, err := range good {
		if (err == nil) != (good[0] == nil) || errors.Is(err, ErrUnknownEffect) != errors.Is(good[0], ErrUnknownEffect) {
			t.Errorf("one commit, two outcomes: %v and %v", good[0], err)
		}
		if err != nil && !errors.Is(err, ErrUnknownEffect) && !errors.Is(err, ErrDisk) && !errors.Is(err, ErrDiskFull) {
			t.Errorf("an error without a type: %v", err)
		}
	}
	return good[0]
}

// rows closes the file and reads it again, the beginnings of the rows.
func (c *crew) rows(t *testing.T) []string {
	t.Helper()
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	db := open(t, c.path, Options{Schema: testSchema(t), MustOpen: true})
	sound := ""
	if err := db.Query("PRAGMA integrity_check", nil, func(r *Row) error { sound += r.Text(0); return nil }); err != nil || sound != "ok" {
		t.Fatalf("integrity: %s, %v", sound, err)
	}
	got := bodies(t, db)
	for i := range got {
		got[i] = got[i][:min(len(got[i]), 5)]
	}
	return got
}

// The disk fails at any event of a shared commit, once or for a while: every member gets that error and none is written,
// unless it is said that this is unknown; the next commit works, and reopening shows the same.
func TestADiskThatFailsFailsEveryMemberOfASharedCommitAndNoOther(t *testing.T) {
	for _, test := range []struct {
		name    string
		members []string
		trouble disktest.Trouble
		rests   int // how many failures at least left nothing; the others are of unknown effect
		unknown int
	}{
		{"an I/O error", []string{"a", "b"}, disktest.Trouble{Fault: disktest.IOError}, 3, 3},
		{"I/O errors for a while", []string{"a", "b"}, disktest.Trouble{Fault: disktest.IOError, Lasting: true}, 3, 3},
		{"a full disk", []string{"a", "b"}, disktest.Trouble{Fault: disktest.Full}, 3, 1},
		{"a disk that is full for a while", []string{"a", "b"}, disktest.Trouble{Fault: disktest.Full, Lasting: true}, 3, 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			rests, unknown, n := 0, 0, 0
			for more := true; more; n++ {
				t.Run(fmt.Sprintf("at event %d", n), func(t *testing.T) {
					c := newCrew(t, 1024)
					want := []string{}
					if n%2 == 0 { // else the file itself is synced with this commit
						if err := c.Submit(Synced, insert("first")); err != nil {
							t.Fatal(err)
						}
						want = append(want, "first")
					}
					test.trouble.After = n / 2
					c.disk.Fail(test.trouble)
					err := c.shares(t, test.members...)
					if more = c.disk.Refused() || n%2 == 0; err != nil && !c.disk.Refused() {
						t.Errorf("it failed without a reason: %v", err)
					}
					if test.trouble.Lasting && err != nil {
						if again := c.shares(t, "never"); again == nil {
							t.Error("a commit on a disk that fails")
						}
					}
					c.disk.Fail(disktest.Trouble{})
					if next := c.shares(t, "next"); next != nil {
						t.Errorf("the next commit: %v", next)
					}
					either := [][]string{want}
					switch {
					case err == nil:
						either = [][]string{append(want, test.members...)}
					case errors.Is(err, ErrUnknownEffect):
						unknown++
						either = append(either, append(slices.Clone(want), test.members...))
					default:
						rests++
					}
					got := c.rows(t)
					for i := range either {
						either[i] = append(either[i], "next")
					}
					if !slices.ContainsFunc(either, func(want []string) bool { return cmp.Equal(want, got) }) {
						t.Errorf("after %v there are %q, want one of %q", err, got, either)
					}
				})
				if t.Failed() {
					return
				}
			}
			t.Logf("%d events, %d left nothing, %d are unknown", n-1, rests, unknown)
			if rests < test.rests || unknown < test.unknown {
				t.Error("too few failures to prove anything")
			}
		})
	}
}

// A member whose rows reach the log before the commit does: what fails then fails it alone or the whole commit, and each
// member was told what became of it.
func TestADiskThatFailsUnderALargeMemberTellsEachWhatBecameOfIt(t *testing.T) {
	outcomes := map[string]int{}
	for _, fault := range []disktest.Fault{disktest.IOError, disktest.Full} {
		n := 0
		for more := true; more; n += 5 {
			t.Run(fmt.Sprintf("fault %d at event %d", fault, n), func(t *testing.T) {
				c := newCrew(t, spilling)
				if err := c.Submit(Synced, insert("first")); err != nil {
					t.Fatal(err)
				}
				c.disk.Fail(disktest.Trouble{Fault: fault, After: n})
				members := []string{"small", strings.Repeat("large", large/5), "after"}
				errs := together(c.Writer, Synced, insert(members[0]), insert(members[1]), insert(members[2]))[:3]
				more = c.disk.Refused()
				c.disk.Fail(disktest.Trouble{})
				if err := c.Submit(Synced, insert("next")); err != nil {
					t.Errorf("the next commit: %v", err)
				}
				want, unknown := []string{"first"}, []string{"first"}
				for i, err := range errs {
					if err == nil {
						want = append(want, members[i][:5])
					}
					if err == nil || errors.Is(err, ErrUnknownEffect) {
						unknown = append(unknown, members[i][:5])
					}
				}
				if got := c.rows(t); !cmp.Equal(got, append(want, "next")) && !cmp.Equal(got, append(unknown, "next")) {
					t.Errorf("after %v there are %q", errs, got)
				}
				outcomes[fmt.Sprint(errs[0] == nil, errs[1] == nil, errs[2] == nil)]++
			})
			if t.Failed() {
				return
			}
		}
		if n < 40 {
			t.Errorf("%d events: the rows never reached the log before the commit", n)
		}
	}
	t.Logf("members that succeeded: %v", outcomes)
}
