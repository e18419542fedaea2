package sqlite

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"

	sqlite3 "github.com/mattn/go-sqlite3"
)

// conn is one connection with its kept statements. It belongs to one goroutine at a time.
type conn struct {
	path  string
	raw   *sqlite3.SQLiteConn
	stmts map[string]*kept
	args  []driver.NamedValue // reused by every call
	cells []driver.Value      // reused by every row
	guest *Guest              // whose statements are being prepared; nil = our own
	watch bool                // the authorizer is set
}

// kept is a prepared statement. It has one cursor, so it cannot run while its own rows are being read.
type kept struct {
	*sqlite3.SQLiteStmt
	columns int
	reading bool
}

func connect(path, query string) (*conn, error) {
	opened, err := (&sqlite3.SQLiteDriver{}).Open(uri(path, query))
	if err != nil {
		return nil, classify(path, err)
	}
	raw, ok := opened.(*sqlite3.SQLiteConn)
	if !ok {
		return nil, errors.Join(fmt.Errorf("the driver returned a %T", opened), opened.Close())
	}
	return &conn{path: path, raw: raw, stmts: map[string]*kept{}}, nil
}

func (c *conn) close() error {
	var errs []error
	for _, stmt := range c.stmts {
		errs = append(errs, stmt.Close())
	}
	c.stmts = nil
	return errors.Join(append(errs, c.raw.Close())...)
}

// script runs statements without arguments that are not worth keeping; it may hold several.
func (c *conn) script(sql string) error {
	_, err := c.raw.Exec(sql, nil)
	return classify(c.path, err)
}

// prepare returns the kept statement for sql, which is one statement.
func (c *conn) prepare(sql string) (*kept, error) {
	if stmt := c.stmts[sql]; stmt != nil {
		if stmt.reading {
			return nil, fmt.Errorf("statement %q: its rows are still being read", sql)
		}
		return stmt, nil
	}
	if c.stmts == nil {
		return nil, ErrClosed
	}
	prepared, err := c.raw.Prepare(sql)
	if err != nil {
		return nil, fmt.Errorf("prepare %q: %w", sql, classify(c.path, err))
	}
	stmt, ok := prepared.(*sqlite3.SQLiteStmt)
	if !ok {
		return nil, errors.Join(fmt.Errorf("the driver prepared a %T", prepared), prepared.Close())
	}
	c.stmts[sql] = &kept{SQLiteStmt: stmt}
	return c.stmts[sql], nil
}

// bind converts args into c.args.
func (c *conn) bind(args []any) (err error) {
	c.args, err = values(c.args[:0], args)
	return err
}

// values appends args as the driver takes them. Named types count as what they are made of; nil and a nil slice are NULL.
func values(list []driver.NamedValue, args []any) ([]driver.NamedValue, error) {
	for i, arg := range args {
		var v driver.Value
		switch arg := arg.(type) {
		case nil, int64, string, []byte, bool, float64:
			v = arg
		case int:
			v = int64(arg)
		default:
			var err error
			if v, err = driver.DefaultParameterConverter.ConvertValue(arg); err != nil {
				return nil, fmt.Errorf("argument %d: %w", i+1, err)
			}
		}
		list = append(list, driver.NamedValue{Ordinal: i + 1, Value: v})
	}
	return list, nil
}

func (c *conn) exec(sql string, args []any) (int64, error) {
	stmt, err := c.prepare(sql)
	if err != nil {
		return 0, err
	}
	if err := c.bind(args); err != nil {
		return 0, err
	}
	result, err := stmt.ExecContext(context.Background(), c.args)
	if err != nil {
		return 0, classify(c.path, err)
	}
	return result.RowsAffected()
}

func (c *conn) query(sql string, args []any, each func(*Row) error) (err error) {
	stmt, err := c.prepare(sql)
	if err != nil {
		return err
	}
	if err := c.bind(args); err != nil {
		return err
	}
	rows, err := stmt.QueryContext(context.Background(), c.args)
	if err != nil {
		return classify(c.path, err)
	}
	if stmt.columns == 0 {
		stmt.columns = len(rows.Columns())
	}
	stmt.reading = true
	row := Row{cells: c.take(stmt.columns)}
	defer func() {
		stmt.reading = false
		c.cells = row.cells
		if closeErr := rows.Close(); err == nil {
			err = classify(c.path, closeErr)
		}
	}()
	for {
		switch err := rows.Next(row.cells); {
		case err == io.EOF:
			return nil
		case err != nil:
			return classify(c.path, err)
		}
		if err := each(&row); err != nil {
			return err
		}
		if row.err != nil {
			return row.err
		}
	}
}

// take hands out the reused cells; a query inside a query's callback gets its own.
func (c *conn) take(n int) []driver.Value {
	cells := c.cells
	c.cells = nil
	if cap(cells) < n {
		return make([]driver.Value, n)
	}
	return cells[:n]
}

// Row is one result row, valid inside the callback. Columns are counted from 0. A column of another type gives the zero
// value, and the query then ends with an error that names it.
type Row struct {
	cells []driver.Value
	err   error
}

func (r *Row) wrong(i int, want string) {
	if r.err == nil {
		r.err = fmt.Errorf("%w: column %d is a %T, want %s", ErrNotDatabase, i, r.cells[i], want)
	}
}

// Int64 returns an integer; NULL is 0.
func (r *Row) Int64(i int) int64 {
	switch v := r.cells[i].(type) {
	case int64:
		return v
	case nil:
		return 0
	}
	r.wrong(i, "integer")
	return 0
}

// Bool returns an integer as a truth value; NULL is false.
func (r *Row) Bool(i int) bool { return r.Int64(i) != 0 }

// Text returns a text; NULL is "".
func (r *Row) Text(i int) string {
	switch v := r.cells[i].(type) {
	case string:
		return v
	case []byte:
		return string(v)
	case nil:
		return ""
	}
	r.wrong(i, "text")
	return ""
}

// Bytes returns a blob or a text as bytes of the caller's own; NULL is nil.
func (r *Row) Bytes(i int) []byte {
	switch v := r.cells[i].(type) {
	case []byte:
		return v // the driver made this copy for us
	case string:
		return []byte(v)
	case nil:
		return nil
	}
	r.wrong(i, "blob")
	return nil
}

// Null reports whether the column is NULL.
func (r *Row) Null(i int) bool { return r.cells[i] == nil }
