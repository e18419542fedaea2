package sqlite

import (
	"cmp"
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"strings"

	sqlite3 "github.com/mattn/go-sqlite3"
)

// Tx is the verbs of a transaction. It is valid inside the callback that got it, on that goroutine.
type Tx struct{ conn *conn }

// Exec runs one statement and returns how many rows it changed. The statement is prepared once and kept, so its text must
// come from a small fixed set. Arguments: nil, integers, floats, strings, byte slices, bools and types made of them.
// Errors: ErrConstraint, ErrDiskFull.
func (tx *Tx) Exec(sql string, args ...any) (changed int64, err error) {
	if tx.conn == nil {
		return 0, ErrClosed
	}
	return tx.conn.exec(sql, args)
}

// Query runs one statement and calls each for every row, in order, until it returns an error. The row is valid inside the
// call; each may run other statements. The statement is kept, as with Exec.
func (tx *Tx) Query(sql string, args []any, each func(*Row) error) error {
	if tx.conn == nil {
		return ErrClosed
	}
	return tx.conn.query(sql, args, each)
}

// Savepoint runs fn so that its error undoes what fn wrote and nothing else. It nests.
func (tx *Tx) Savepoint(fn func(*Tx) error) error {
	if tx.conn == nil {
		return ErrClosed
	}
	if _, err := tx.conn.exec("SAVEPOINT s", nil); err != nil {
		return err
	}
	if err := fn(tx); err != nil {
		if tx.conn.raw.AutoCommit() {
			return err // the whole transaction is gone already
		}
		if _, undo := tx.conn.exec("ROLLBACK TO s", nil); undo != nil {
			return &lostTransaction{cause: err, undo: undo}
		}
		if _, undo := tx.conn.exec("RELEASE s", nil); undo != nil {
			return &lostTransaction{cause: err, undo: undo}
		}
		return err
	}
	_, err := tx.conn.exec("RELEASE s", nil)
	return err
}

// lostTransaction reports a savepoint that could not be undone: the transaction around it must not commit.
type lostTransaction struct{ cause, undo error }

func (e *lostTransaction) Error() string { return e.cause.Error() + "; undo: " + e.undo.Error() }

func (e *lostTransaction) Unwrap() []error { return []error{e.cause, e.undo} }

// Guest is a transaction as the code of others may use it: its statements touch the guest's own tables and nothing else,
// and cannot end the transaction. It is valid inside the callback that got it.
type Guest struct {
	conn *conn
	owns func(name string) bool
	bad  error // of a statement after which the transaction must not commit, whatever the guest makes of it
}

// Guest runs fn on the transaction. owns says which tables, and indexes of them, are the guest's. An error of fn is
// returned as it is; so is an error of a statement that fn passed over, unless it is an ErrConstraint.
func (tx *Tx) Guest(owns func(name string) bool, fn func(*Guest) error) error {
	c := tx.conn
	if c == nil {
		return ErrClosed
	}
	if !c.watch {
		c.raw.RegisterAuthorizer(c.authorize) // once: setting it makes SQLite prepare every kept statement anew
		c.watch = true
	}
	g := &Guest{conn: c, owns: owns}
	err := fn(g)
	g.conn = nil
	switch {
	case err != nil:
		return err
	case g.bad != nil:
		return g.bad
	case c.raw.AutoCommit():
		return ErrEnded
	}
	return nil
}

// Exec runs one statement and returns how many rows an INSERT, UPDATE or DELETE changed. The statement is not kept. Errors:
// ErrNotYours, ErrConstraint, ErrEnded, ErrDiskFull.
func (g *Guest) Exec(sql string, args ...any) (changed int64, err error) {
	err = g.run(sql, args, func(stmt *sqlite3.SQLiteStmt, values []driver.NamedValue) error {
		result, err := stmt.ExecContext(context.Background(), values)
		if err == nil {
			changed, err = result.RowsAffected()
		}
		return err
	})
	return changed, err
}

// Query runs one statement and calls each for every row, in order, until it returns an error. The row is the callee's: nil,
// int64, float64, string or []byte for each column, bool and time.Time for columns that are declared so.
func (g *Guest) Query(sql string, args []any, each func(row []any) error) error {
	var refused error
	err := g.run(sql, args, func(stmt *sqlite3.SQLiteStmt, values []driver.NamedValue) (err error) {
		rows, err := stmt.QueryContext(context.Background(), values)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, rows.Close()) }()
		for refused == nil {
			cells := make([]driver.Value, len(rows.Columns()))
			if err := rows.Next(cells); err != nil {
				if err == io.EOF {
					return nil
				}
				return err
			}
			row := make([]any, len(cells))
			for i, cell := range cells {
				row[i] = cell
			}
			refused = each(row)
		}
		return nil
	})
	return cmp.Or(refused, err)
}

// run prepares one statement for the guest and notes what must not be committed.
func (g *Guest) run(sql string, args []any, fn func(*sqlite3.SQLiteStmt, []driver.NamedValue) error) error {
	c := g.conn
	switch {
	case c == nil:
		return ErrClosed
	case c.raw.AutoCommit():
		return ErrEnded // a statement now would be a commit of its own
	case strings.Contains(strings.TrimRight(sql, "; \t\r\n"), ";"):
		return g.note(fmt.Errorf("%w: a semicolon; give one statement at a time, and values as arguments", ErrNotYours))
	}
	list, err := values(nil, args)
	if err != nil {
		return g.note(err)
	}
	c.guest = g
	prepared, err := c.raw.Prepare(sql)
	c.guest = nil
	if err != nil {
		return g.note(classify(c.path, err))
	}
	stmt, ok := prepared.(*sqlite3.SQLiteStmt)
	if !ok {
		return g.note(errors.Join(fmt.Errorf("the driver prepared a %T", prepared), prepared.Close()))
	}
	if n := stmt.NumInput(); n != len(list) {
		err = fmt.Errorf("the statement takes %d arguments, it was given %d", n, len(list))
	} else {
		err = fn(stmt, list)
	}
	return g.note(classify(c.path, errors.Join(err, stmt.Close())))
}

func (g *Guest) note(err error) error {
	if err != nil && !errors.Is(err, ErrConstraint) {
		g.bad = cmp.Or(g.bad, err)
	}
	return err
}

// What SQLite itself reads and writes on behalf of a statement: its catalog, counters, the check of a table that is altered,
// and the two table functions of JSON. It lets nobody write to its catalog directly.
var common = map[string]bool{
	"sqlite_master": true, "sqlite_temp_master": true, "sqlite_schema": true, "sqlite_sequence": true, "pragma_quick_check": true,
	"json_each": true, "json_tree": true,
}

// Actions that the driver has no name for. Source: sqlite3.h.
const actionRecursive = 33

// authorize says whether a statement that is being prepared may do one thing. Our own may do everything.
func (c *conn) authorize(action int, first, second, _ string) int {
	g := c.guest
	if g == nil {
		return sqlite3.SQLITE_OK
	}
	allowed := false
	switch action {
	case sqlite3.SQLITE_SELECT, actionRecursive:
		allowed = true
	case sqlite3.SQLITE_FUNCTION:
		allowed = second != "load_extension"
	case sqlite3.SQLITE_READ, sqlite3.SQLITE_INSERT, sqlite3.SQLITE_UPDATE, sqlite3.SQLITE_DELETE:
		allowed = common[first] || g.owns(first)
	case sqlite3.SQLITE_CREATE_TABLE, sqlite3.SQLITE_DROP_TABLE:
		allowed = g.owns(first) || first == "sqlite_sequence"
	case sqlite3.SQLITE_CREATE_INDEX, sqlite3.SQLITE_DROP_INDEX:
		allowed = g.owns(second) && g.owns(strings.TrimPrefix(first, "sqlite_autoindex_"))
	case sqlite3.SQLITE_REINDEX:
		allowed = g.owns(strings.TrimPrefix(first, "sqlite_autoindex_"))
	case sqlite3.SQLITE_ALTER_TABLE:
		allowed = g.owns(second)
	}
	if allowed {
		return sqlite3.SQLITE_OK
	}
	return sqlite3.SQLITE_DENY
}
