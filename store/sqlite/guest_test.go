package sqlite

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func appTable(name string) bool { return strings.HasPrefix(strings.ToLower(name), "app_") }

func committed(t *testing.T, path string) []string {
	t.Helper()
	r, err := OpenReader(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	}()
	return bodies(t, r)
}

// asGuest runs statements one after the other and returns the first error.
func asGuest(w *Writer, statements ...string) error {
	return w.Submit(Fast, func(tx *Tx) error {
		return tx.Guest(appTable, func(g *Guest) error {
			for _, sql := range statements {
				if _, err := g.Exec(sql); err != nil {
					return err
				}
			}
			return nil
		})
	})
}

const guestTable = `CREATE TABLE IF NOT EXISTS app_tally (id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT NOT NULL UNIQUE, n REAL) STRICT`

func TestAGuestUsesItsOwnTables(t *testing.T) {
	w, _ := writer(t)
	for _, sql := range []string{
		guestTable, guestTable + ";", `CREATE INDEX app_by_n ON app_tally (n)`, `ALTER TABLE app_tally ADD COLUMN note TEXT`,
		`CREATE TABLE app_part (tally INTEGER REFERENCES app_tally (id) ON DELETE CASCADE)`,
		`INSERT INTO app_tally (name) VALUES ('a'), ('b')`, `INSERT INTO app_part SELECT id FROM app_tally`,
		`INSERT INTO app_tally (name) VALUES ('a') ON CONFLICT (name) DO UPDATE SET n = coalesce(n, 0) + 1`,
		`UPDATE app_tally SET note = upper(name) WHERE id IN (SELECT tally FROM app_part)`, `DELETE FROM app_tally WHERE name = 'b'`,
		`WITH RECURSIVE app_c (i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM app_c WHERE i < 3) INSERT INTO app_part SELECT 1 FROM app_c`,
		`INSERT INTO app_tally (name) SELECT value FROM json_each('["x", "y"]')`, `ALTER TABLE app_tally RENAME TO app_count`,
		`DROP INDEX app_by_n`, `DROP TABLE app_part`,
	} {
		if err := asGuest(w, sql); err != nil {
			t.Errorf("%s: %v", sql, err)
		}
	}
	var got []string
	err := w.Submit(Fast, func(tx *Tx) error {
		return tx.Guest(appTable, func(g *Guest) error {
			return g.Query(`SELECT id, name, n, note, x'01' FROM app_count WHERE id < ? ORDER BY id`, []any{5}, func(row []any) error {
				got = append(got, fmt.Sprintf("%T %v, %T %v, %T %v, %T %v, %T %v", row[0], row[0], row[1], row[1], row[2], row[2], row[3], row[3], row[4], row[4]))
				return nil
			})
		})
	})
	want := []string{"int64 1, string a, float64 1, string A, []uint8 [1]", "int64 4, string x, <nil> <nil>, <nil> <nil>, []uint8 [1]"}
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestAGuestReachesNothingElse(t *testing.T) {
	w, path := writer(t)
	if err := asGuest(w, guestTable, `INSERT INTO app_tally (name) VALUES ('a')`); err != nil {
		t.Fatal(err)
	}
	if err := w.Submit(Fast, insert("ours")); err != nil {
		t.Fatal(err)
	}
	before := committed(t, path)
	for _, sql := range []string{
		`SELECT * FROM item`, `SELECT count(*) FROM item`, `SELECT * FROM app_tally, item`, `INSERT INTO item (body) VALUES (x'00')`,
		`UPDATE item SET body = x'00'`, `UPDATE app_tally SET n = (SELECT count(id) FROM item)`, `DELETE FROM item`, `DROP TABLE item`,
		`ALTER TABLE item ADD COLUMN x`, `CREATE INDEX app_i ON item (body)`, `CREATE INDEX i ON app_tally (n)`, `CREATE TABLE mine (x)`,
		`CREATE TEMP TABLE app_t (x)`, `CREATE VIEW app_v AS SELECT * FROM item`, `CREATE TRIGGER app_g AFTER INSERT ON app_tally BEGIN DELETE FROM item; END`,
		`CREATE VIRTUAL TABLE app_f USING fts5 (x)`, `COMMIT`, `END`, `ROLLBACK`, `BEGIN`, `SAVEPOINT app_s`, `RELEASE s`, `ROLLBACK TO s`,
		`PRAGMA user_version = 7`, `PRAGMA writable_schema = 1`, `SELECT * FROM pragma_table_info('item')`, `ATTACH ':memory:' AS app_other`, `DETACH main`, `VACUUM`, `ANALYZE`,
		`DELETE FROM schema_version`, `UPDATE sqlite_schema SET sql = ''`, `SELECT load_extension('x')`,
		`INSERT INTO app_tally (name) VALUES ('b'); COMMIT`, `INSERT INTO app_tally (name) VALUES ('b'); INSERT INTO app_tally (name) VALUES ('c')`,
		`INSERT INTO app_tally (name) VALUES (?)`, `not SQL`,
	} {
		errs := together(w, Fast, insert("beside "+sql), func(tx *Tx) error {
			return tx.Guest(appTable, func(g *Guest) error {
				if _, err := g.Exec(`INSERT INTO app_tally (name) VALUES ('half')`); err != nil {
					return err
				}
				if _, err := g.Exec(sql); err == nil {
					t.Errorf("%s: it was done", sql)
				}
				return nil // the guest passes the error over: it counts all the same
			})
		})
		if errs[0] != nil || errs[1] == nil {
			t.Errorf("%s: the guest's commit: %v, the one beside it: %v", sql, errs[1], errs[0])
		}
		before = append(before, "beside "+sql)
	}
	if diff := cmp.Diff(before, committed(t, path)); diff != "" {
		t.Error(diff)
	}
	names := 0
	err := w.Submit(Fast, func(tx *Tx) error {
		return tx.Query(`SELECT count(*) FROM app_tally`, nil, func(r *Row) error { names = int(r.Int64(0)); return nil })
	})
	if err != nil || names != 1 {
		t.Errorf("%d rows are left of refused transactions, %v", names-1, err)
	}
}

func TestARowThatIsRefusedIsTheGuestsOwnBusiness(t *testing.T) {
	w, _ := writer(t)
	err := w.Submit(Fast, func(tx *Tx) error {
		return tx.Guest(appTable, func(g *Guest) error {
			if _, err := g.Exec(guestTable); err != nil {
				return err
			}
			for range 2 {
				if _, err := g.Exec(`INSERT INTO app_tally (name) VALUES (?)`, "a"); err != nil && !errors.Is(err, ErrConstraint) {
					return err
				}
			}
			return nil
		})
	})
	if err != nil {
		t.Error(err)
	}
	if err := asGuest(w, `INSERT INTO app_tally (name) VALUES ('a')`); !errors.Is(err, ErrConstraint) {
		t.Errorf("got %v", err)
	}
}

// OR ROLLBACK ends the whole transaction: nothing of the guest's may be written behind it, and nobody beside it is told that
// its commit is there.
func TestAGuestThatEndsTheTransactionLeavesNothing(t *testing.T) {
	w, path := writer(t)
	if err := asGuest(w, guestTable, `INSERT INTO app_tally (name) VALUES ('a')`); err != nil {
		t.Fatal(err)
	}
	for _, alone := range []bool{true, false} {
		var late error
		guest := func(tx *Tx) error {
			return tx.Guest(appTable, func(g *Guest) error {
				if _, err := g.Exec(`INSERT OR ROLLBACK INTO app_tally (name) VALUES ('a')`); !errors.Is(err, ErrConstraint) {
					t.Errorf("got %v", err)
				}
				_, late = g.Exec(`INSERT INTO app_tally (name) VALUES ('late')`)
				return nil
			})
		}
		var errs []error
		if alone {
			errs = []error{errors.New("nobody"), w.Submit(Fast, guest)}
		} else {
			errs = together(w, Fast, insert("beside"), guest)
		}
		if !errors.Is(late, ErrEnded) || !errors.Is(errs[1], ErrEnded) || errs[0] == nil {
			t.Errorf("late %v, guest %v, beside %v", late, errs[1], errs[0])
		}
	}
	if got := committed(t, path); len(got) != 0 {
		t.Errorf("got %v", got)
	}
	if err := asGuest(w, `INSERT INTO app_tally (name) VALUES ('later')`); err != nil {
		t.Errorf("afterwards: %v", err)
	}
}

func TestOurStatementsGoOnAfterAGuest(t *testing.T) {
	w, path := writer(t)
	for i := range 5 {
		if err := w.Submit(Fast, insert(fmt.Sprint(i))); err != nil {
			t.Fatal(err)
		}
		if err := asGuest(w, fmt.Sprintf(`CREATE TABLE app_%d (x)`, i)); err != nil {
			t.Fatal(err)
		}
	}
	var kept *Guest
	if err := w.Submit(Fast, func(tx *Tx) error { return tx.Guest(appTable, func(g *Guest) error { kept = g; return nil }) }); err != nil {
		t.Fatal(err)
	}
	if _, err := kept.Exec(`DELETE FROM app_1`); !errors.Is(err, ErrClosed) {
		t.Errorf("behind its transaction: %v", err)
	}
	if diff := cmp.Diff([]string{"0", "1", "2", "3", "4"}, committed(t, path)); diff != "" {
		t.Error(diff)
	}
}
