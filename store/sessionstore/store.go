package sessionstore

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/workflowd/workflowd/agentcore/session"
	"github.com/workflowd/workflowd/internal/ids"
	"github.com/workflowd/workflowd/store/sqlite"
)

// pageSize keeps a small session small: a session has about twenty tables and indexes, each of at least one page. Bytes.
const pageSize = 1024

//go:embed schema/*.sql
var schemaFiles embed.FS

var schema = sync.OnceValues(func() (*sqlite.Schema, error) { return sqlite.ParseSchema(schemaFiles, "schema") })

// Options of Open. The zero value creates the file when there is none and takes its lock.
type Options struct {
	MustExist bool         // fs.ErrNotExist instead of a new session
	Lock      *sqlite.Lock // taken before with sqlite.LockOwner; the store frees it, also when Open fails
	Behind    bool         // Close does not wait for the disk: see sqlite.DB.CloseBehind and sqlite.Drain
	// Idle is after how long without use the file is put away: it stays owned, has no open handle, and comes back with the
	// next use. So does the least used one when HandlesMost files with Idle are open. 0 = never.
	Idle time.Duration
	// Yield gives the owner lock back with the file, so that an idle session holds nothing that the system counts. The next
	// use takes it again: *sqlite.ErrLocked, without any effect, while another owner has it; session.ErrStale, for good,
	// once there was one.
	Yield bool
}

// Store is one session's records in a SQLite file. It is used by one session.Session, one call at a time; its own clock
// comes beside that.
//
// mu guards all fields below it.
type Store struct {
	behind bool
	empty  bool // nothing was ever committed, so reads need no statement
	idle   time.Duration
	yield  bool
	state  session.State // as Acquire left it
	used   atomic.Int64  // when; nanoseconds since 1970

	mu     sync.Mutex
	db     *sqlite.DB
	away   bool         // the file is put away
	lock   *sqlite.Lock // of a file that is away; nil when it was given back too
	idled  func()       // called behind putting away
	closed bool
	failed error // why nothing works any more
}

var (
	_ session.Storage = (*Store)(nil)
	_ session.Idler   = (*Store)(nil)
)

// Open takes the owner lock of path, creates or migrates the file, and keeps it open until Close. ctx ends only the wait
// before anything is touched. Errors: *sqlite.ErrLocked, *sqlite.ErrUnwritable, sqlite.ErrNewer, sqlite.ErrForeign,
// sqlite.ErrNotDatabase, sqlite.ErrPathTooLong, sqlite.ErrDiskFull.
func Open(ctx context.Context, path string, o Options) (*Store, error) {
	parsed, err := schema()
	if err == nil {
		err = ctx.Err()
	}
	if err != nil {
		if o.Lock != nil {
			err = errors.Join(err, o.Lock.Unlock())
		}
		return nil, fmt.Errorf("open session store %q: %w", path, err)
	}
	db, err := sqlite.Open(path, sqlite.Options{Schema: parsed, PageSize: pageSize, Lock: o.Lock, MustOpen: o.MustExist})
	if err != nil {
		return nil, fmt.Errorf("open session store: %w", err)
	}
	s := &Store{db: db, behind: o.Behind, idle: o.Idle, yield: o.Yield, idled: func() {}}
	s.watch()
	return s, nil
}

// Path returns the absolute path of the file.
func (s *Store) Path() string { return s.db.Path() }

// Acquire raises the epoch and returns the state. A file without its metadata row is session.ErrCorrupt.
func (s *Store) Acquire(ctx context.Context) (session.State, error) {
	var state session.State
	if err := ctx.Err(); err != nil {
		return state, fmt.Errorf("acquire session store: %w", err)
	}
	rows := 0
	err := s.transact(sqlite.Fast, func(tx *sqlite.Tx) error {
		return tx.Query(acquire, []any{ids.New(ids.Session)}, func(r *sqlite.Row) error {
			rows++
			state = session.State{StoreID: r.Text(0), Epoch: r.Int64(1), Seq: session.Seq(r.Int64(2)), NextID: r.Int64(3)}
			return nil
		})
	})
	if err == nil && rows != 1 {
		err = fmt.Errorf("%w: no metadata row", session.ErrCorrupt)
	}
	if err != nil {
		return session.State{}, fmt.Errorf("acquire session store %q: %w", s.Path(), translate(err))
	}
	s.empty, s.state = state.Seq == 0 && !s.yield, state
	return state, nil
}

// A new file's row comes from the template and gets its identity with its first owner.
const acquire = `UPDATE meta SET epoch=epoch+1, store_id=CASE store_id WHEN '' THEN ? ELSE store_id END WHERE id=1
	RETURNING store_id, epoch, seq, next_id`

// Commit writes the batch whole or not at all. Errors: session.ErrStale; session.ErrNoEffect when it certainly left
// nothing (sqlite.ErrDiskFull and sqlite.ErrConstraint are such causes); any other means that the effect is unknown.
func (s *Store) Commit(b *session.Batch) error {
	if err := b.Check(); err != nil {
		return fmt.Errorf("commit %d: %w: %w", b.Seq, session.ErrNoEffect, err)
	}
	s.empty = false // also when the commit fails: its effect may be unknown
	d := sqlite.Fast
	if b.Durability == session.Synced {
		d = sqlite.Synced
	}
	err := s.transact(d, func(tx *sqlite.Tx) error {
		changed, err := tx.Exec(advance, int64(b.Seq), b.NextID, b.Epoch)
		if err != nil {
			return err
		}
		if changed != 1 {
			return refusal(tx, b)
		}
		return writeBatch(tx, b)
	})
	switch {
	case err == nil:
		return nil
	case errors.Is(err, session.ErrStale), errors.Is(err, sqlite.ErrUnknownEffect):
		return fmt.Errorf("commit %d: %w", b.Seq, err)
	case errors.Is(err, sqlite.ErrClosed):
		return fmt.Errorf("commit %d: %w: %w", b.Seq, session.ErrClosed, err)
	default:
		return fmt.Errorf("commit %d: %w: %w", b.Seq, session.ErrNoEffect, err)
	}
}

const advance = `UPDATE meta SET seq=?1, next_id=?2 WHERE id=1 AND epoch=?3 AND seq<?1 AND next_id<=?2`

// refusal says why the metadata row did not take the batch.
func refusal(tx *sqlite.Tx, b *session.Batch) error {
	cause := fmt.Errorf("%w: no metadata row", session.ErrCorrupt)
	err := tx.Query(`SELECT epoch, seq, next_id FROM meta WHERE id=1`, nil, func(r *sqlite.Row) error {
		if epoch := r.Int64(0); epoch != b.Epoch {
			cause = fmt.Errorf("at epoch %d, in force is %d: %w", b.Epoch, epoch, session.ErrStale)
		} else {
			cause = fmt.Errorf("counters go back: seq %d to %d, next id %d to %d", r.Int64(1), b.Seq, r.Int64(2), b.NextID)
		}
		return nil
	})
	return errors.Join(err, cause)
}

// translate gives an error of the file the kernel's name where it has one.
func translate(err error) error {
	switch {
	case errors.Is(err, sqlite.ErrClosed):
		return fmt.Errorf("%w: %w", session.ErrClosed, err)
	case errors.Is(err, sqlite.ErrNotDatabase):
		return fmt.Errorf("%w: %w", session.ErrCorrupt, err)
	default:
		return err
	}
}

// Close empties the write-ahead log, closes the file and frees the owner lock, with Options.Behind after it has returned.
// A second Close does nothing.
func (s *Store) Close() error {
	s.empty = false // a read after it is told so
	if err := s.shut(); err != nil {
		return fmt.Errorf("close session store: %w", err)
	}
	return nil
}
