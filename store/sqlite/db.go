package sqlite

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/workflowd/workflowd/internal/disk"
	"github.com/workflowd/workflowd/internal/faultpoint"
)

// Durability is what a commit promises when it returns.
type Durability int

// Fast survives a killed process; Synced survives a power loss too, and takes every earlier commit of the file with it.
// Source: design "Ten rules" 4.
const (
	Fast Durability = iota
	Synced
)

// The durable edges of this package.
var (
	beforeCommit = faultpoint.New("sqlite.commit.before")
	afterCommit  = faultpoint.New("sqlite.commit.after")
)

// Options of Open. The zero value opens a database without tables and takes its lock.
type Options struct {
	Schema   *Schema // applied at open; nil = none
	PageSize int     // of a new file, a power of two from 512 to 65536; 0 = DefaultPageSize. Bytes
	Lock     *Lock   // taken before with LockOwner(path), given to the DB; nil = Open takes it
	MustOpen bool    // the file must exist: fs.ErrNotExist instead of a new one
}

// DB is a database file with its owner's only writing connection. It belongs to one goroutine at a time.
type DB struct {
	Tx       // outside a transaction each Exec is a commit of its own
	path     string
	lock     *Lock
	fresh    *newborn // not nil when this DB created the file
	level    level    // of PRAGMA synchronous in force
	emptyLog bool     // the write-ahead log had nothing in it when we came, and we have not committed yet
	broken   error    // why nothing works any more
}

// level is what SQLite syncs at a commit.
type level int

const (
	normal    level = iota // nothing, except the header of a log that starts anew
	full                   // the log
	headerOff              // not even the header: see begin
	young                  // as normal, and the log stays: see newborn
)

// levelScripts are what a level says of syncing and of checkpoints. Without any syncing there must be no checkpoint either,
// nor into a file that was never synced itself.
var levelScripts = [...][2]string{
	normal:    {"PRAGMA synchronous=NORMAL", checkpoints},
	full:      {"PRAGMA synchronous=FULL", checkpoints},
	headerOff: {"PRAGMA synchronous=OFF", noCheckpoints},
	young:     {"PRAGMA synchronous=NORMAL", noCheckpoints},
}

const noCheckpoints = "PRAGMA wal_autocheckpoint=0"

var checkpoints = fmt.Sprintf("PRAGMA wal_autocheckpoint=%d", checkpointPages)

// switchTo puts a level in force by the statements in which it differs. Checkpoints are forbidden before syncing ends, and
// allowed after it has begun.
func (db *DB) switchTo(l level) error {
	order := []int{0, 1}
	if levelScripts[l][1] == noCheckpoints {
		order = []int{1, 0}
	}
	for _, i := range order {
		if levelScripts[l][i] != levelScripts[db.level][i] {
			if err := db.conn.script(levelScripts[l][i]); err != nil {
				return err
			}
		}
	}
	db.level = l
	return nil
}

// Open takes the owner lock of path (its directory is created), creates the file from the schema's template when there is
// none, connects, and applies missing migrations. Errors: *ErrLocked, *ErrUnwritable, ErrNewer, ErrForeign,
// ErrNotDatabase, ErrPathTooLong, ErrDiskFull. On an error nothing stays open; a Lock in o is freed too.
func Open(path string, o Options) (_ *DB, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("open database %q: %w", path, err)
		}
	}()
	db := &DB{lock: o.Lock}
	defer func() {
		if err != nil {
			err = errors.Join(err, db.release())
		}
	}()
	full, err := Resolve(path)
	if err != nil {
		return nil, err
	}
	made, err := makeParents(full)
	if err != nil {
		return nil, err
	}
	if db.lock == nil {
		if db.lock, err = lockResolved(full); err != nil {
			return nil, err
		}
	} else if db.lock.path != full {
		return nil, fmt.Errorf("the lock given is for %q", db.lock.path)
	}
	torn := false
	switch info, statErr := os.Stat(full); {
	case errors.Is(statErr, fs.ErrNotExist) && !o.MustOpen:
		torn = true
	case statErr != nil:
		return nil, classify(full, statErr)
	case info.IsDir():
		return nil, fmt.Errorf("%w: it is a directory", ErrNotDatabase)
	default:
		if torn, err = adopt(full, info, o); err != nil {
			return nil, classify(full, err)
		}
	}
	if torn {
		if o.MustOpen {
			return nil, fmt.Errorf("%w: a power loss took it before anything in it was synced", fs.ErrNotExist)
		}
		if db.fresh, err = create(full, append(made, db.lock.made...), o); err != nil {
			return nil, err
		}
	}
	db.path = full
	if info, err := os.Stat(full + "-wal"); errors.Is(err, fs.ErrNotExist) || err == nil && info.Size() == 0 {
		db.emptyLog = true
	} else if err := refuseNoise(full); err != nil {
		return nil, classify(full, err)
	}
	if db.conn, err = connect(full, ownerQuery); err != nil {
		return nil, err
	}
	return db, db.prepareOwner(o.Schema)
}

// ownerQuery: one goroutine at a time uses the connection, so SQLite need not lock it.
var ownerQuery = fmt.Sprintf("_mutex=no&_foreign_keys=1&_busy_timeout=%d", BusyTimeout.Milliseconds())

func (db *DB) prepareOwner(schema *Schema) error {
	mode := ""
	err := db.conn.query("PRAGMA journal_mode=WAL", nil, func(r *Row) error { mode = r.Text(0); return nil })
	if err != nil {
		return err
	}
	if mode != "wal" {
		return fmt.Errorf("journal mode is %q: the file system does not support a write-ahead log", mode)
	}
	if schema == nil || db.fresh != nil {
		return nil // a new file came with the schema in its template
	}
	return schema.migrate(db.conn)
}

// Path returns the absolute path of the file.
func (db *DB) Path() string { return db.path }

// Transact runs fn in one transaction and commits it with durability d: all of it is written or nothing. An error of fn
// rolls back and is returned as it is. ErrUnknownEffect marks a commit that may or may not have reached the disk; after
// any failure other than fn's own the caller should close the DB.
func (db *DB) Transact(d Durability, fn func(*Tx) error) error {
	if err := db.begin(d); err != nil {
		return err
	}
	if err := fn(&db.Tx); err != nil {
		return db.rollback(err)
	}
	return db.commit()
}

func (db *DB) begin(d Durability) error {
	if db.broken != nil {
		return db.broken
	}
	if db.conn == nil {
		return ErrClosed
	}
	want := normal
	switch {
	case d == Synced:
		want = full
	case db.emptyLog:
		// SQLite syncs the header of a log that it starts anew, because the log may still hold frames of the time before,
		// which an old header on the disk would bring back. An empty log holds none: there the sync only costs time, and
		// the next sync of the log covers the header.
		want = headerOff
	case db.fresh != nil && !db.fresh.synced && db.fresh.commits < newbornCommits:
		want = young
	}
	if db.fresh != nil && (want == normal || want == full) {
		if err := db.fresh.sync(); err != nil {
			return classify(db.path, err)
		}
	}
	if want != db.level {
		if err := db.switchTo(want); err != nil {
			return err
		}
	}
	_, err := db.conn.exec("BEGIN IMMEDIATE", nil)
	return err
}

func (db *DB) commit() error {
	beforeCommit.Hit()
	if _, err := db.conn.exec("COMMIT", nil); err != nil {
		if !errors.Is(err, ErrDiskFull) { // the commit record is the last thing written: without room there is none
			err = fmt.Errorf("%w: %w", ErrUnknownEffect, err)
		}
		return db.rollback(err)
	}
	afterCommit.Hit()
	db.emptyLog = false
	if db.fresh != nil {
		db.fresh.commits++
	}
	return nil
}

// rollback ends the transaction because of cause. A rollback that fails breaks the DB; nothing is written then either.
func (db *DB) rollback(cause error) error {
	if db.conn.raw.AutoCommit() {
		return cause // SQLite rolled back by itself
	}
	if _, err := db.conn.exec("ROLLBACK", nil); err != nil {
		db.broken = fmt.Errorf("%w: rollback: %w", ErrClosed, err)
		return errors.Join(cause, db.broken)
	}
	return cause
}

// Checkpoint moves the write-ahead log into the file and truncates it. Readers may make it do less; that is no error.
func (db *DB) Checkpoint() error {
	if db.conn == nil {
		return ErrClosed
	}
	if db.fresh != nil {
		if err := db.fresh.sync(); err != nil {
			return classify(db.path, err)
		}
	}
	return db.conn.query("PRAGMA wal_checkpoint(TRUNCATE)", nil, func(*Row) error { return nil })
}

// CopyTo writes a consistent, compacted and synced copy, what is in the write-ahead log included, to a path that must not
// exist. Source: P-322, P-323.
func (db *DB) CopyTo(path string) error {
	if db.conn == nil {
		return ErrClosed
	}
	full, err := Resolve(path)
	if err != nil {
		return err
	}
	if _, err := os.Lstat(full); !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("copy to %q: %w", path, errors.Join(fs.ErrExist, err))
	}
	if _, err := db.conn.exec("VACUUM INTO ?", []any{full}); err != nil {
		return fmt.Errorf("copy to %q: %w", path, classify(full, err))
	}
	if err := disk.SyncPath(full); err != nil {
		return fmt.Errorf("copy to %q: %w", path, err)
	}
	return disk.SyncNames(filepath.Dir(full))
}

// Close moves the write-ahead log into the file, closes it and gives the owner lock back. A second Close does nothing.
func (db *DB) Close() error {
	if db.conn == nil {
		return nil
	}
	err := db.settle()
	if err = errors.Join(err, db.release()); err != nil {
		return fmt.Errorf("close database %q: %w", db.path, err)
	}
	return nil
}

// settle closes the connection. The last connection of a file empties its log; when readers are left, which keep SQLite
// from doing that, it is truncated here.
func (db *DB) settle() error {
	if db.fresh != nil {
		if err := db.fresh.sync(); err != nil {
			return classify(db.path, err)
		}
	}
	if db.level == headerOff {
		if err := db.switchTo(normal); err != nil {
			return err
		}
	}
	c := db.conn
	db.conn = nil
	if err := c.close(); err != nil {
		return err
	}
	info, err := os.Stat(db.path + "-wal")
	if errors.Is(err, fs.ErrNotExist) || err == nil && info.Size() == 0 {
		return nil
	}
	if err != nil {
		return err
	}
	if c, err = connect(db.path, ownerQuery+"&mode=rw"); err != nil { // it is not made anew when somebody removed it
		return err
	}
	db.conn = c
	return db.Checkpoint()
}

// release lets go of everything that is held, in the reverse order of taking it.
func (db *DB) release() error {
	var errs []error
	if db.conn != nil {
		errs = append(errs, db.conn.close())
		db.conn = nil
	}
	if db.fresh != nil {
		errs = append(errs, db.fresh.close())
		db.fresh = nil
	}
	if db.lock != nil {
		errs = append(errs, db.lock.Unlock())
		db.lock = nil
	}
	return errors.Join(errs...)
}
