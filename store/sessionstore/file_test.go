package sessionstore

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/workflowd/workflowd/agentcore/session"
	"github.com/workflowd/workflowd/store/sqlite"
)

// owner is a store with the counters a session keeps.
type owner struct {
	*Store
	state session.State
}

func acquired(t testing.TB, path string) *owner {
	t.Helper()
	o := &owner{Store: store(t, path)}
	var err error
	if o.state, err = o.Acquire(context.Background()); err != nil {
		t.Fatal(err)
	}
	return o
}

func (o *owner) id() int64 {
	o.state.NextID++
	return o.state.NextID - 1
}

// put commits b with the next counters.
func (o *owner) put(b session.Batch) error {
	b.Epoch, b.Seq, b.NextID = o.state.Epoch, o.state.Seq+1, o.state.NextID
	if err := o.Commit(&b); err != nil {
		return err
	}
	o.state.Seq++
	return nil
}

func (o *owner) must(t testing.TB, b session.Batch) {
	t.Helper()
	if err := o.put(b); err != nil {
		t.Fatal(err)
	}
}

func (o *owner) root(t testing.TB) {
	t.Helper()
	o.must(t, session.Batch{Conversations: []session.Conversation{{ID: session.Root}}})
}

func (o *owner) note(text string) session.Batch {
	return session.Batch{Entries: []session.Entry{{ID: session.EntryID(o.id()), Conversation: session.Root, Kind: "app.note", Data: []byte(text)}}}
}

func (o *owner) count(t testing.TB, table string) (n int64) {
	t.Helper()
	err := o.db.Query("SELECT count(*) FROM "+table, nil, func(r *sqlite.Row) error { n = r.Int64(0); return nil })
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// A lost lock is the case the epoch is for: no two owners ever write, whatever happens to the lock file.
func TestAnOwnerWhoseLockFileWasDeletedWritesNothingOnceAnotherHasOpened(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.db")
	first := acquired(t, path)
	first.root(t)
	if err := os.Remove(path + sqlite.LockSuffix); err != nil {
		t.Fatal(err)
	}
	first.must(t, first.note(`"still alone"`))
	second := acquired(t, path)
	for range 3 {
		if err := first.put(first.note(`"stale"`)); !errors.Is(err, session.ErrStale) || errors.Is(err, session.ErrNoEffect) {
			t.Fatalf("the first owner's commit: %v, want ErrStale", err)
		}
	}
	if got := second.count(t, "entries"); got != 1 {
		t.Fatalf("%d entries, want the one from before", got)
	}
	second.must(t, second.note(`"mine"`))
	if second.state.StoreID != first.state.StoreID {
		t.Errorf("the identity changed")
	}
}

func TestAFileWithoutItsMetadataRowIsRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.db")
	o := acquired(t, path)
	o.root(t)
	if _, err := o.db.Exec(`DELETE FROM meta`); err != nil {
		t.Fatal(err)
	}
	if err := o.put(o.note(`1`)); !errors.Is(err, session.ErrCorrupt) {
		t.Errorf("commit: %v, want ErrCorrupt", err)
	}
	if err := o.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := store(t, path).Acquire(t.Context()); !errors.Is(err, session.ErrCorrupt) {
		t.Errorf("acquire: %v, want ErrCorrupt", err)
	}
}

func liveDocument(o *owner) session.DocumentWrite {
	return session.DocumentWrite{ID: session.DocumentID(o.id()), Address: session.Address{Scope: session.ScopeConversation, Owner: 1, Kind: "pi.live"},
		Create: true, Version: 1, Base: []byte(`{"text":""}`)}
}

func TestADocumentThatContradictsItselfIsCorruptAndNotEmpty(t *testing.T) {
	for _, damage := range []string{
		`DELETE FROM revisions WHERE base=1`,
		`DELETE FROM revisions`,
		`UPDATE revisions SET content=CAST('{' AS BLOB) WHERE base=1`,
		`UPDATE revisions SET content=CAST('[{"op":"append","path":"/none","value":"x"}]' AS BLOB) WHERE base=0`,
		`UPDATE revisions SET content=CAST('[{"op":"append","path":"/text","value":"x","more":1}]' AS BLOB) WHERE base=0`,
	} {
		o := acquired(t, filepath.Join(t.TempDir(), "x.db"))
		w := liveDocument(o)
		o.must(t, session.Batch{Documents: []session.DocumentWrite{w}})
		delta := session.DocumentWrite{ID: w.ID, Delta: []byte(`[{"op":"append","path":"/text","value":"x"}]`)}
		o.must(t, session.Batch{Documents: []session.DocumentWrite{delta}})
		if _, err := o.db.Exec(damage); err != nil {
			t.Fatal(err)
		}
		if doc, err := o.Document(w.Address, 0); !errors.Is(err, session.ErrCorrupt) {
			t.Errorf("%s: got %s, %v, want ErrCorrupt", damage, doc.Value, err)
		}
	}
}

func TestOldRevisionsOfALatestDocumentGoAndTheirPagesAreUsedAgain(t *testing.T) {
	o := acquired(t, filepath.Join(t.TempDir(), "x.db"))
	w := liveDocument(o)
	commit := func(w session.DocumentWrite) {
		t.Helper()
		o.must(t, session.Batch{Documents: []session.DocumentWrite{w}})
	}
	rows := func(want int64) {
		t.Helper()
		if got := o.count(t, "revisions"); got != want {
			t.Fatalf("%d revisions, want %d", got, want)
		}
	}
	commit(w)
	delta := session.DocumentWrite{ID: w.ID, Delta: []byte(`[{"op":"append","path":"/text","value":"` + strings.Repeat("x", 900) + `"}]`)}
	for range 10 {
		commit(delta)
	}
	rows(11)
	size := func() (n int64) {
		if err := o.db.Query("PRAGMA page_count", nil, func(r *sqlite.Row) error { n = r.Int64(0); return nil }); err != nil {
			t.Fatal(err)
		}
		return n
	}
	grown := size()
	for range 5 {
		commit(session.DocumentWrite{ID: w.ID, Base: []byte(`{"text":""}`)})
		rows(1)
		commit(delta)
		rows(2)
		for range 9 {
			commit(delta)
		}
	}
	if got := size(); got > grown+2 {
		t.Errorf("the file grew from %d to %d pages", grown, got)
	}
	commit(session.DocumentWrite{ID: w.ID, Retire: true})
	rows(0)
	if got := o.count(t, "documents"); got != 0 {
		t.Errorf("%d documents are left", got)
	}
}

func TestAFullDiskIsACommitWithoutEffect(t *testing.T) {
	o := acquired(t, filepath.Join(t.TempDir(), "x.db"))
	o.root(t)
	limit := func(pages string) {
		if err := o.db.Query("PRAGMA max_page_count="+pages, nil, func(*sqlite.Row) error { return nil }); err != nil {
			t.Fatal(err)
		}
	}
	limit("40")
	big := `"` + strings.Repeat("x", 100_000) + `"`
	err := o.put(o.note(big))
	if !errors.Is(err, session.ErrNoEffect) || !errors.Is(err, sqlite.ErrDiskFull) {
		t.Fatalf("got %v, want ErrNoEffect and ErrDiskFull", err)
	}
	o.must(t, o.note(`"small"`))
	limit("4000")
	o.must(t, o.note(big))
	if got := o.count(t, "entries"); got != 2 {
		t.Errorf("%d entries, want 2", got)
	}
}

// Promise: P-321
func TestOnlyASessionFileIsOpened(t *testing.T) {
	dir := t.TempDir()
	text := filepath.Join(dir, "text.db")
	if err := os.WriteFile(text, []byte(strings.Repeat("no database\n", 100)), 0o600); err != nil {
		t.Fatal(err)
	}
	foreign := filepath.Join(dir, "foreign.db")
	db, err := sqlite.Open(foreign, sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := db.Exec(`CREATE TABLE theirs(x)`); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(t.Context(), text, Options{}); !errors.Is(err, sqlite.ErrNotDatabase) {
		t.Errorf("a text: %v", err)
	}
	if _, err := Open(t.Context(), foreign, Options{}); !errors.Is(err, sqlite.ErrForeign) {
		t.Errorf("another program's database: %v", err)
	}
	if _, err := Open(t.Context(), filepath.Join(dir, "none.db"), Options{MustExist: true}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
}

// Promise: P-645, P-636
func TestDatabasePathSeparatesEveryTriple(t *testing.T) {
	long := strings.Repeat("a", 81)
	for _, test := range []struct{ name, project, conversation, key, want string }{
		{"plain names stay", "default", "run_01", "main-2", "default/run_01/main-2.db"},
		{"upper case is escaped, so case never matters", "A", "Ab", "b", "~41/~41b/b.db"},
		{"separators and dots cannot leave the directory", "..", "../x", "a/b", "~2e~2e/~2e~2e~2fx/a~2fb.db"},
		{"the escape itself is escaped", "~41", "~", "a", "~7e41/~7e/a.db"},
		{"other scripts go byte by byte", "é", "c", "k", "~c3~a9/c/k.db"},
		{"an empty part has a name", "", "c", "", "~/c/~.db"},
		{"80 bytes stay", long[:80], "c", "k", long[:80] + "/c/k.db"},
		{"more are cut and told apart by digest", long, "c", "k", long[:80] + "8c48280d57fb88f161adf34d9f597d93/c/k.db"},
	} {
		got := DatabasePath("dir", test.project, test.conversation, test.key)
		want := filepath.Join("dir", filepath.FromSlash(test.want))
		if got != want {
			t.Errorf("%s: got %q, want %q", test.name, got, want)
		}
	}
	seen := map[string]string{}
	for _, part := range []string{"", "~", "a", "A", "~61", "~41", "a~", long, long + "a", strings.Repeat("a", 80), strings.Repeat("A", 40), "a b", "a_b"} {
		got := DatabasePath("", "p", part, "k")
		if other, taken := seen[got]; taken {
			t.Errorf("%q and %q share %q", part, other, got)
		}
		seen[got] = part
	}
}
