package sqlite

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
