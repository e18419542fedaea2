package runstore

import (
	"context"
	"crypto/sha256"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"sync"

	"github.com/workflowd/workflowd/agentcore/fault"
	"github.com/workflowd/workflowd/executor/runlog"
	"github.com/workflowd/workflowd/internal/ids"
	"github.com/workflowd/workflowd/store/sqlite"
)

// BlobBytes is the length above which JSON is stored by its hash. Source: notes/engine.md F, "payloads > 16 kB".
const BlobBytes = 16 << 10

// RemoveRows is about how many rows one commit of a removal deletes. It bounds how long it holds up the others: about ten
// milliseconds.
const RemoveRows = 250

// readers is how many connections read beside the owner's.
const readers = 2

//go:embed schema/*.sql
var files embed.FS

var schema = sync.OnceValues(func() (*sqlite.Schema, error) { return sqlite.ParseSchema(files, "schema") })

// Store is a runlog.Store in a file. It is safe for concurrent use.
type Store struct {
	*Reader
	writer *sqlite.Writer
	close  func() error
}

var _ runlog.Store = (*Store)(nil)

// Open opens or creates the file and becomes its owner. Errors: fault.SessionBusy when another owner has it, else
// fault.Storage.
func Open(path string) (*Store, error) {
	tables, err := schema()
	if err != nil {
		return nil, fault.New(fault.Internal, "schema of runs: %w", err)
	}
	db, err := sqlite.Open(path, sqlite.Options{Schema: tables})
	if err != nil {
		kind := fault.Storage
		if _, locked := errors.AsType[*sqlite.ErrLocked](err); locked {
			kind = fault.SessionBusy
		}
		return nil, fault.New(kind, "run store: %w", err)
	}
	s := &Store{writer: sqlite.NewWriter(db)}
	if s.Reader, err = connect(db.Path()); err != nil {
		return nil, fault.New(fault.Storage, "run store: %w", errors.Join(err, s.writer.Close()))
	}
	s.close = sync.OnceValue(func() error {
		// The readers first, so that the owner's connection is the last and the write-ahead log goes with it.
		return errors.Join(s.Reader.Close(), s.writer.Close())
	})
	return s, nil
}

// Close ends the ownership. A second Close returns the first one's result.
func (s *Store) Close() error { return s.close() }

// Acquire implements runlog.Store.
func (s *Store) Acquire(context.Context) (state runlog.State, err error) {
	err = s.writer.Submit(sqlite.Synced, func(tx *sqlite.Tx) error {
		const raise = `INSERT INTO wf_owner (id, store_id, epoch) VALUES (1, ?, 1)
			ON CONFLICT (id) DO UPDATE SET epoch = epoch + 1 RETURNING store_id, epoch`
		return tx.Query(raise, []any{ids.New("run_store_")}, func(r *sqlite.Row) error {
			state = runlog.State{StoreID: r.Text(0), Epoch: r.Int64(1)}
			return nil
		})
	})
	return state, translate(err)
}

// translate gives an error of the database the name that runlog knows.
func translate(err error) error {
	if errors.Is(err, sqlite.ErrClosed) {
		return fmt.Errorf("%w: %w", runlog.ErrClosed, err)
	}
	return err
}

// stored is JSON as it is kept: inline, or its hash when it is long.
func stored(tx *sqlite.Tx, raw json.RawMessage) (inline, ref any, err error) {
	if raw == nil {
		return nil, nil, nil
	}
	if len(raw) <= BlobBytes {
		return []byte(raw), nil, nil
	}
	sum := sha256.Sum256(raw)
	_, err = tx.Exec(`INSERT OR IGNORE INTO wf_blob (sha256, bytes) VALUES (?, ?)`, sum[:], []byte(raw))
	return nil, sum[:], err
}

// optional is JSON of a record's part, NULL when there is none.
func optional[T any](v *T, there bool) (any, error) {
	if !there {
		return nil, nil //nolint:nilnil // NULL
	}
	return json.Marshal(v)
}
