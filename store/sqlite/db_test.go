package sqlite

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
)

const testTable = `CREATE TABLE item (id INTEGER PRIMARY KEY, body BLOB NOT NULL, parent INTEGER REFERENCES item (id)) STRICT;`

func schemaOf(t testing.TB, files map[string]string) *Schema {
	t.Helper()
	dir := fstest.MapFS{}
	for name, text := range files {
		dir["sql/"+name] = &fstest.MapFile{Data: []byte(text)}
	}
	s, err := ParseSchema(dir, "sql")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func testSchema(t testing.TB) *Schema {
	t.Helper()
	return schemaOf(t, map[string]string{"0001_init.sql": testTable})
}

func open(t testing.TB, path string, o Options) *DB {
	t.Helper()
	db, err := Open(path, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return db
}

func bodies(t testing.TB, q interface {
	Query(string, []any, func(*Row) error) error
}) []string {
	t.Helper()
	var got []string
	if err := q.Query(`SELECT body FROM item ORDER BY id`, nil, func(r *Row) error { got = append(got, r.Text(0)); return nil }); err != nil {
		t.Fatal(err)
	}
	return got
}

func insert(body string) func(*Tx) error {
	return func(tx *Tx) error {
		_, err := tx.Exec(`INSERT INTO item (body) VALUES (?)`, []byte(body))
		return err
	}
}

func number(t testing.TB, db *DB, sql string) int64 {
	t.Helper()
	var n int64
	if err := db.Query(sql, nil, func(r *Row) error { n = r.Int64(0); return nil }); err != nil {
		t.Fatal(err)
	}
	return n
}

func TestATransactionIsWrittenWholeOrNotAtAll(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a", "b", "x.db")
	db := open(t, path, Options{Schema: testSchema(t)})
	if err := db.Transact(Fast, insert("one")); err != nil {
		t.Fatal(err)
	}
	refused := errors.New("no")
	err := db.Transact(Synced, func(tx *Tx) error {
		if err := insert("two")(tx); err != nil {
			return err
		}
		return refused
	})
	if err != refused {
		t.Fatalf("got %v, want the function's own error", err)
	}
	err = db.Transact(Fast, func(tx *Tx) error {
		_, err := tx.Exec(`INSERT INTO item (body, parent) VALUES ('three', 99)`)
		return err
	})
	if !errors.Is(err, ErrConstraint) || errors.Is(err, ErrUnknownEffect) {
		t.Fatalf("got %v, want a constraint error with no effect", err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	if err := db.Transact(Fast, insert("late")); !errors.Is(err, ErrClosed) {
		t.Fatalf("after close: got %v, want ErrClosed", err)
	}
	again := open(t, path, Options{Schema: testSchema(t), MustOpen: true})
	if got := bodies(t, again); !cmp.Equal(got, []string{"one"}) {
		t.Fatalf("got %q", got)
	}
}

func TestDurabilityIsChosenPerCommit(t *testing.T) {
	db := open(t, filepath.Join(t.TempDir(), "x.db"), Options{Schema: testSchema(t), PageSize: 1024})
	level := func(tx *Tx) (n int64, err error) {
		err = tx.Query("PRAGMA synchronous", nil, func(r *Row) error { n = r.Int64(0); return nil })
		return n, err
	}
	const off, normal, full = 0, 1, 2 // off: a new log has no older content that its header must guard against
	for i, step := range []struct {
		d    Durability
		want int64
	}{{Fast, off}, {Fast, normal}, {Synced, full}, {Synced, full}, {Fast, normal}, {Synced, full}} {
		err := db.Transact(step.d, func(tx *Tx) error {
			if got, err := level(tx); err != nil || got != step.want {
				t.Errorf("commit %d: synchronous is %d, want %d (%v)", i, got, step.want, err)
			}
			return insert("x")(tx)
		})
		if err != nil {
			t.Fatal(err)
		}
		if synced := i >= 2; db.fresh.synced != synced {
			t.Errorf("commit %d: the new file itself synced = %v, want %v", i, db.fresh.synced, synced)
		}
	}
	if got := number(t, db, "PRAGMA page_size"); got != 1024 {
		t.Errorf("page size %d", got)
	}
	if got := number(t, db, "PRAGMA foreign_keys"); got != 1 {
		t.Errorf("foreign keys %d", got)
	}
}

func TestCloseLeavesOneFileAndTheLock(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.db")
	db := open(t, path, Options{Schema: testSchema(t)})
	if err := db.Transact(Fast, insert("one")); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(filepath.Dir(path))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	if want := []string{"x.db", "x.db.lock"}; !cmp.Equal(names, want) {
		t.Fatalf("got %q, want %q", names, want)
	}
}

// Promise: P-300
func TestASecondOpenerIsToldWhoHasTheFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.db")
	db := open(t, path, Options{Schema: testSchema(t)})
	_, err := Open(path, Options{Schema: testSchema(t)})
	locked, ok := errors.AsType[*ErrLocked](err)
	if !ok || locked.Path != path || locked.Holder.PID != os.Getpid() || locked.Holder.Since.IsZero() {
		t.Fatalf("got %v (%+v)", err, locked)
	}
	if !strings.Contains(err.Error(), fmt.Sprint(os.Getpid())) {
		t.Errorf("the error does not name the holder: %v", err)
	}
	text, err := os.ReadFile(path + LockSuffix)
	if err != nil || !json.Valid(text) {
		t.Errorf("lock file holds %q (%v)", text, err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	lock, err := LockOwner(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Open(path, Options{Schema: testSchema(t)}); !errors.As(err, &locked) {
		t.Fatalf("got %v, want ErrLocked", err)
	}
	open(t, path, Options{Schema: testSchema(t), Lock: lock})
}

func TestAnyFileNameIsAPlainName(t *testing.T) {
	for _, name := range []string{"a?mode=memory", "50%", "%41", "a#b", "a b", "名前", "file:x", "a&b=c", "'\"", `back\slash`, "-dash", "new\nline"} {
		path := filepath.Join(t.TempDir(), name)
		db := open(t, path, Options{Schema: testSchema(t)})
		if err := db.Transact(Fast, insert(name)); err != nil {
			t.Fatalf("%q: %v", name, err)
		}
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(path); err != nil {
			t.Errorf("%q: %v", name, err)
		}
		again := open(t, path, Options{Schema: testSchema(t), MustOpen: true})
		if got := bodies(t, again); !cmp.Equal(got, []string{name}) {
			t.Errorf("%q: got %q", name, got)
		}
	}
}

func TestTheLongestUnixPathOpensAndALongerOneSaysSo(t *testing.T) {
	dir := t.TempDir()
	pad := unixMostPath - len(dir) - len("/x.db")
	for pad > 100 {
		dir = filepath.Join(dir, strings.Repeat("d", 99))
		pad -= 100
	}
	longest := filepath.Join(dir, "x.db"+strings.Repeat("y", pad))
	if len(longest) != unixMostPath {
		t.Fatalf("the test built %d bytes", len(longest))
	}
	db := open(t, longest, Options{Schema: testSchema(t)})
	if err := db.Transact(Synced, insert("deep")); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(longest+"z", Options{}); !errors.Is(err, ErrPathTooLong) {
		t.Fatalf("got %v, want ErrPathTooLong", err)
	}
}

func TestWhatIsNoDatabaseOfOursIsRefusedAndNotTouched(t *testing.T) {
	foreign := filepath.Join(t.TempDir(), "foreign.db")
	db := open(t, foreign, Options{})
	if _, err := db.Exec(`CREATE TABLE theirs (x)`); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	text := filepath.Join(t.TempDir(), "text.db")
	if err := os.WriteFile(text, []byte(strings.Repeat("just text\n", 200)), 0o600); err != nil {
		t.Fatal(err)
	}
	other := filepath.Join(t.TempDir(), "other.db")
	if err := open(t, other, Options{Schema: schemaOf(t, map[string]string{"0001_else.sql": `CREATE TABLE e (x);`})}).Close(); err != nil {
		t.Fatal(err)
	}
	newer := filepath.Join(t.TempDir(), "newer.db")
	two := schemaOf(t, map[string]string{"0001_init.sql": testTable, "0002_more.sql": `CREATE TABLE more (x);`})
	if err := open(t, newer, Options{Schema: two}).Close(); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		path string
		want error
	}{{foreign, ErrForeign}, {text, ErrNotDatabase}, {other, ErrForeign}, {newer, ErrNewer}, {t.TempDir(), ErrNotDatabase}} {
		before, _ := os.ReadFile(test.path) // a directory has no content
		if _, err := Open(test.path, Options{Schema: testSchema(t)}); !errors.Is(err, test.want) {
			t.Errorf("%s: got %v, want %v", test.path, err, test.want)
		}
		if after, _ := os.ReadFile(test.path); !cmp.Equal(before, after) {
			t.Errorf("%s: the file changed", test.path)
		}
	}
	if _, err := Open(filepath.Join(t.TempDir(), "none.db"), Options{MustOpen: true}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("missing file: got %v", err)
	}
}

// SQLite moves a log that fits into any file of its name when it lets go of it, and removes it.
func TestALogStaysBesideWhatIsNoDatabase(t *testing.T) {
	db := open(t, filepath.Join(t.TempDir(), "x.db"), Options{Schema: testSchema(t)})
	if err := db.Transact(Synced, func(tx *Tx) error { _, err := tx.Exec(`CREATE TABLE more (x)`); return err }); err != nil {
		t.Fatal(err)
	}
	log, err := os.ReadFile(db.Path() + "-wal")
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"short", strings.Repeat("just text\n", 2000)} {
		path := filepath.Join(t.TempDir(), "text.db")
		if err := errors.Join(os.WriteFile(path, []byte(text), 0o600), os.WriteFile(path+"-wal", log, 0o600)); err != nil {
			t.Fatal(err)
		}
		if _, err := Open(path, Options{Schema: testSchema(t)}); !errors.Is(err, ErrNotDatabase) {
			t.Errorf("got %v, want ErrNotDatabase", err)
		}
		got, err := os.ReadFile(path)
		left, logErr := os.ReadFile(path + "-wal")
		if err != nil || logErr != nil || string(got) != text || string(left) != string(log) {
			t.Errorf("the file or its log changed: %v, %v", err, logErr)
		}
	}
}

func TestAnOldDatabaseIsMigratedStepByStep(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.db")
	db := open(t, path, Options{Schema: testSchema(t)})
	if err := db.Transact(Fast, insert("old")); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	bad := schemaOf(t, map[string]string{"0001_init.sql": testTable, "0002_more.sql": `CREATE TABLE more (x); INSERT INTO nowhere VALUES (1);`})
	if _, err := Open(path, Options{Schema: bad}); err == nil || !strings.Contains(err.Error(), "0002_more.sql") {
		t.Fatalf("got %v, want an error naming the step", err)
	}
	good := schemaOf(t, map[string]string{"0001_init.sql": testTable, "0002_more.sql": `CREATE TABLE more (x); INSERT INTO more VALUES (7);`})
	db = open(t, path, Options{Schema: good})
	if got := number(t, db, `SELECT x FROM more`); got != 7 {
		t.Errorf("second step: got %d", got)
	}
	if got := bodies(t, db); !cmp.Equal(got, []string{"old"}) {
		t.Errorf("rows: got %q", got)
	}
	if got := number(t, db, `SELECT max(version) FROM schema_version`); got != 2 {
		t.Errorf("recorded version %d", got)
	}
}

func TestBadMigrationListsAreRefused(t *testing.T) {
	for name, files := range map[string]fstest.MapFS{
		"a gap":      {"sql/0001_a.sql": {}, "sql/0003_b.sql": {}},
		"a bad name": {"sql/init.sql": {}},
		"nothing":    {"sql": {Mode: fs.ModeDir}},
	} {
		if _, err := ParseSchema(files, "sql"); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

func TestAnEmptyFileIsWhatAPowerLossLeftOfANewOne(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.db")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	db := open(t, path, Options{Schema: testSchema(t)})
	if err := db.Transact(Synced, insert("one")); err != nil {
		t.Fatal(err)
	}
}

func TestReadersSeeCommitsAndOneSnapshotPerView(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.db")
	db := open(t, path, Options{Schema: testSchema(t)})
	if err := db.Transact(Fast, insert("one")); err != nil {
		t.Fatal(err)
	}
	r, err := OpenReader(path)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	err = r.View(func(tx *Tx) error {
		first := bodies(t, tx)
		if err := db.Transact(Fast, insert("two")); err != nil {
			return err
		}
		if second := bodies(t, tx); !cmp.Equal(first, second) {
			t.Errorf("a view moved from %q to %q", first, second)
		}
		_, err := tx.Exec(`DELETE FROM item`)
		return err
	})
	if _, ok := errors.AsType[*ErrUnwritable](err); !ok {
		t.Errorf("a write through a reader: got %v", err)
	}
	if got := bodies(t, r); !cmp.Equal(got, []string{"one", "two"}) {
		t.Errorf("got %q", got)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	if got := bodies(t, r); len(got) != 2 {
		t.Errorf("after the owner's close: got %q", got)
	}
	late, err := OpenReader(path)
	if err != nil {
		t.Fatal(err)
	}
	defer late.Close()
	if got := bodies(t, late); len(got) != 2 {
		t.Errorf("a reader without an owner: got %q", got)
	}
}

// Promise: P-322, P-323
func TestACopyHoldsTheLogAndNeverOverwrites(t *testing.T) {
	dir := t.TempDir()
	db := open(t, filepath.Join(dir, "x.db"), Options{Schema: testSchema(t)})
	if err := db.Transact(Fast, insert("in the log")); err != nil {
		t.Fatal(err)
	}
	target := filepath.Join(dir, "copy.db")
	if err := db.CopyTo(target); err != nil {
		t.Fatal(err)
	}
	before, err := os.ReadFile(target)
	if err != nil {
		t.Fatal(err)
	}
	if err := db.CopyTo(target); !errors.Is(err, fs.ErrExist) {
		t.Errorf("got %v, want fs.ErrExist", err)
	}
	after, err := os.ReadFile(target)
	if err != nil || !cmp.Equal(before, after) {
		t.Errorf("the existing file changed (%v)", err)
	}
	again := open(t, target, Options{Schema: testSchema(t), MustOpen: true})
	if got := bodies(t, again); !cmp.Equal(got, []string{"in the log"}) {
		t.Errorf("got %q", got)
	}
}

func TestAStatementIsNotReusedWhileItsRowsAreRead(t *testing.T) {
	db := open(t, filepath.Join(t.TempDir(), "x.db"), Options{Schema: testSchema(t)})
	for _, body := range []string{"a", "b"} {
		if err := db.Transact(Fast, insert(body)); err != nil {
			t.Fatal(err)
		}
	}
	const all = `SELECT id FROM item`
	seen := 0
	err := db.Query(all, nil, func(r *Row) error {
		seen++
		if got := number(t, db, `SELECT count(*) FROM item`); got != 2 {
			t.Errorf("inner query of another text: %d", got)
		}
		return db.Query(all, nil, func(*Row) error { return nil })
	})
	if err == nil || seen != 1 {
		t.Fatalf("got %v after %d rows, want a refusal in the first", err, seen)
	}
	if err := db.Query(all, nil, func(r *Row) error { _ = r.Bool(0); r.Text(0); return nil }); !errors.Is(err, ErrNotDatabase) {
		t.Fatalf("a column of another type: got %v", err)
	}
}
