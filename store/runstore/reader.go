package runstore

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/workflowd/workflowd/agentcore/fault"
	"github.com/workflowd/workflowd/store/sqlite"
)

// Reader reads a file of runs, also while another process owns it: it takes no lock and sees every commit that returned.
// Its methods are those of runlog.Store that read. It is safe for concurrent use.
type Reader struct {
	path string
	free chan *sqlite.Reader
	all  []*sqlite.Reader
}

// ErrOlder reports a file that an earlier version wrote and no owner has opened since; Open brings it up to date.
var ErrOlder = errors.New("runstore: the file has an older schema")

// OpenReader opens an existing file for reading. Errors: fault.NotFound, ErrOlder and a newer schema as fault.Storage.
func OpenReader(path string) (*Reader, error) {
	full, err := filepath.Abs(path)
	if err != nil {
		return nil, fault.New(fault.InputValidation, "run store: %w", err)
	}
	r, err := connect(full)
	if err == nil {
		if err = r.current(); err != nil {
			err = errors.Join(err, r.Close())
		}
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, fault.New(fault.NotFound, "run store: %w", err)
	case err != nil:
		return nil, fault.New(fault.Storage, "run store: %w", err)
	}
	return r, nil
}

func connect(path string) (*Reader, error) {
	r := &Reader{path: path, free: make(chan *sqlite.Reader, readers)}
	for range readers {
		one, err := sqlite.OpenReader(path)
		if err != nil {
			return nil, errors.Join(err, r.Close())
		}
		r.all = append(r.all, one)
		r.free <- one
	}
	return r, nil
}

// current checks that the file has this program's schema.
func (r *Reader) current() error {
	tables, err := schema()
	if err != nil {
		return err
	}
	have := 0
	err = r.query(`SELECT max(version) FROM schema_version`, nil, func(row *sqlite.Row) error { have = int(row.Int64(0)); return nil })
	switch {
	case err != nil:
		return err
	case have < tables.Version():
		return fmt.Errorf("%w: %d, this program has %d", ErrOlder, have, tables.Version())
	case have > tables.Version():
		return fmt.Errorf("%w: it has schema %d, this program knows %d", sqlite.ErrNewer, have, tables.Version())
	}
	return nil
}

// query runs one statement on a free connection.
func (r *Reader) query(sql string, args []any, each func(*sqlite.Row) error) error {
	one := <-r.free
	defer func() { r.free <- one }()
	return translate(one.Query(sql, args, each))
}

// Path returns the absolute path of the file.
func (r *Reader) Path() string { return r.path }

// Close ends the connections; what is asked later fails with runlog.ErrClosed. A second Close does nothing.
func (r *Reader) Close() error {
	var errs []error
	for _, one := range r.all {
		errs = append(errs, one.Close())
	}
	return errors.Join(errs...)
}
