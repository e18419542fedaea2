package sqlite

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
)

func writer(t testing.TB) (*Writer, string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "x.db")
	db, err := Open(path, Options{Schema: testSchema(t)})
	if err != nil {
		t.Fatal(err)
	}
	w := NewWriter(db)
	t.Cleanup(func() {
		if err := w.Close(); err != nil {
			t.Error(err)
		}
	})
	return w, path
}

// together submits all functions so that they share one commit: a first submission holds the lead until they all wait.
func together(w *Writer, d Durability, fns ...func(*Tx) error) []error {
	var wg sync.WaitGroup
	leading, release := make(chan struct{}), make(chan struct{})
	var first error
	wg.Go(func() {
		first = w.Submit(Fast, func(*Tx) error { close(leading); <-release; return nil })
	})
	<-leading
	errs := make([]error, len(fns))
	for i, fn := range fns {
		wg.Go(func() { errs[i] = w.Submit(d, fn) })
		for waiting := 0; waiting <= i; {
			w.mu.Lock()
			waiting = len(w.queue)
			w.mu.Unlock()
		}
	}
	close(release)
	wg.Wait()
	return append(errs, first)
}

func TestOneBadWriteOfASharedCommitFailsAlone(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	w, path := writer(t)
	refused := errors.New("refused")
	errs := together(w, Fast,
		insert("a"),
		func(tx *Tx) error { return errors.Join(insert("lost")(tx), refused) },
		func(tx *Tx) error { _ = insert("lost too")(tx); panic("boom") },
		func(tx *Tx) error { _, err := tx.Exec(`INSERT INTO item VALUES (1, 'x', 77)`); return err },
		insert("b"),
	)
	if errs[0] != nil || errs[4] != nil || errs[5] != nil {
		t.Fatalf("good members got %v", errs)
	}
	if !errors.Is(errs[1], refused) || !strings.Contains(fmt.Sprint(errs[2]), "boom") || !errors.Is(errs[3], ErrConstraint) {
		t.Fatalf("bad members got %v", errs[1:4])
	}
	r, err := OpenReader(path)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if got := bodies(t, r); !cmp.Equal(got, []string{"a", "b"}) {
		t.Fatalf("got %q", got)
	}
	if w.last != 5 {
		t.Errorf("the five shared a commit of %d", w.last)
	}
}

func TestOneSyncedMemberMakesTheSharedCommitSynced(t *testing.T) {
	w, _ := writer(t)
	var during []level
	note := func(*Tx) error { during = append(during, w.db.level); return nil }
	if err := w.Submit(Fast, insert("first")); err != nil {
		t.Fatal(err)
	}
	if err := w.Submit(Fast, note); err != nil {
		t.Fatal(err)
	}
	for _, err := range together(w, Synced, note, note) {
		if err != nil {
			t.Fatal(err)
		}
	}
	if want := []level{young, full, full}; !cmp.Equal(during, want) {
		t.Fatalf("got %v, want %v", during, want)
	}
}

func TestALoneBadWriteLeavesTheWriterUsable(t *testing.T) {
	w, _ := writer(t)
	if err := w.Submit(Fast, func(*Tx) error { panic("boom") }); err == nil || errors.Is(err, ErrUnknownEffect) {
		t.Fatalf("got %v", err)
	}
	if err := w.Submit(Synced, insert("next")); err != nil {
		t.Fatal(err)
	}
}

func TestManySubmittersAllGetTheirRow(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	w, path := writer(t)
	const submitters, each = 16, 40
	var wg sync.WaitGroup
	for s := range submitters {
		wg.Go(func() {
			for i := range each {
				if err := w.Submit(Durability(i%2), insert(fmt.Sprintf("%02d.%02d", s, i))); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if err := w.Submit(Fast, insert("late")); !errors.Is(err, ErrClosed) {
		t.Errorf("after close: got %v", err)
	}
	db := open(t, path, Options{Schema: testSchema(t)})
	got := bodies(t, db)
	seen := map[string]int{} // rows of one submitter keep their order
	for _, body := range got {
		who, n, _ := strings.Cut(body, ".")
		if want := fmt.Sprintf("%02d", seen[who]); n != want {
			t.Fatalf("submitter %s: row %s came where %s was due", who, n, want)
		}
		seen[who]++
	}
	slices.Sort(got)
	if len(slices.Compact(got)) != submitters*each {
		t.Fatalf("got %d rows, want %d", len(got), submitters*each)
	}
}

func TestABrokenTransactionFailsEveryMemberAndWritesNothing(t *testing.T) {
	w, path := writer(t)
	errs := together(w, Fast,
		insert("a"),
		func(tx *Tx) error { _, err := tx.Exec(`ROLLBACK`); return errors.Join(err, errors.New("ended it")) },
		insert("b"),
	)
	if errs[0] == nil || errs[1] == nil || errs[2] == nil {
		t.Fatalf("got %v", errs)
	}
	if err := w.Submit(Fast, insert("after")); err != nil {
		t.Fatal(err)
	}
	r, err := OpenReader(path)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if got := bodies(t, r); !cmp.Equal(got, []string{"after"}) {
		t.Fatalf("got %q", got)
	}
}
