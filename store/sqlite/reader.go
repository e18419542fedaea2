package sqlite

import (
	"fmt"
	"os"
	"sync"
)

// Reader is a read-only connection beside the owner's, in this or another process. It takes no owner lock and never
// waits for a writer. It is safe for concurrent use; calls run one at a time, so take several Readers for parallel reads.
type Reader struct {
	path string
	mu   sync.Mutex // guards tx
	tx   Tx
}

// OpenReader connects to an existing database. Errors: fs.ErrNotExist, ErrNotDatabase, *ErrUnwritable (a reader of a file
// with a write-ahead log needs its index beside it).
func OpenReader(path string) (*Reader, error) {
	full, err := Resolve(path)
	if err != nil {
		return nil, err
	}
	if _, err := os.Stat(full); err != nil {
		return nil, fmt.Errorf("open database %q for reading: %w", path, classify(full, err))
	}
	c, err := connect(full, fmt.Sprintf("mode=ro&_query_only=1&_mutex=no&_busy_timeout=%d", BusyTimeout.Milliseconds()))
	if err != nil {
		return nil, fmt.Errorf("open database %q for reading: %w", path, err)
	}
	return &Reader{path: full, tx: Tx{conn: c}}, nil
}

// Query runs one statement on what is committed now; see Tx.Query.
func (r *Reader) Query(sql string, args []any, each func(*Row) error) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.tx.Query(sql, args, each)
}

// View runs fn on one snapshot: all its queries see the same commits. Exec fails in it.
func (r *Reader) View(fn func(*Tx) error) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, err := r.tx.Exec("BEGIN"); err != nil {
		return err
	}
	err := fn(&r.tx)
	if _, end := r.tx.Exec("COMMIT"); err == nil {
		err = end
	}
	return err
}

// Close ends the connection. A second Close does nothing.
func (r *Reader) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.tx.conn == nil {
		return nil
	}
	err := r.tx.conn.close()
	r.tx.conn = nil
	if err != nil {
		return fmt.Errorf("close reader of %q: %w", r.path, err)
	}
	return nil
}
