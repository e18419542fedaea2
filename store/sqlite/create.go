package sqlite

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
)

// Session files hold what people wrote: their owner alone reads them.
const (
	filePerm fs.FileMode = 0o600
	dirPerm  fs.FileMode = 0o700
)

// unfinishedSuffix names a new database until its bytes are complete.
const unfinishedSuffix = ".new"

// newborn is a database file whose own bytes, and whose directories, were never synced. The write-ahead log of a synced
// commit is worth nothing without them, so the first synced commit syncs them before. The open file is kept until the
// connection is closed: closing any descriptor of the file would drop SQLite's own locks on it (POSIX rules).
type newborn struct {
	file   *os.File
	dirs   []string // whose new entries are not synced
	synced bool
}

func (n *newborn) sync() error {
	if n.synced {
		return nil
	}
	if err := n.file.Sync(); err != nil {
		return err
	}
	for _, dir := range n.dirs {
		if err := syncFile(dir); err != nil {
			return err
		}
	}
	n.synced = true
	return nil
}

func (n *newborn) close() error { return n.file.Close() }

// create writes a new database at path, whole or not at all, from the schema's template. The caller holds the owner lock.
func create(path string, dirs []string, o Options) (_ *newborn, err error) {
	size := o.PageSize
	if size == 0 {
		size = DefaultPageSize
	}
	if size < 512 || size > 65536 || size&(size-1) != 0 {
		return nil, fmt.Errorf("page size %d: want a power of two from 512 to 65536", size)
	}
	schema := o.Schema
	if schema == nil {
		schema = &Schema{templates: map[int][]byte{}}
	}
	bytes, err := schema.template(size)
	if err != nil {
		return nil, err
	}
	// A log of an earlier file of this name must not be replayed into the new one.
	for _, suffix := range []string{"-wal", "-shm"} {
		if err := os.Remove(path + suffix); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, classify(path+suffix, err)
		}
	}
	unfinished := path + unfinishedSuffix
	f, err := os.OpenFile(unfinished, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, filePerm)
	if err != nil {
		return nil, classify(unfinished, err)
	}
	n := &newborn{file: f, dirs: append(dirs, filepath.Dir(path))}
	defer func() {
		if err != nil {
			err = errors.Join(classify(unfinished, err), f.Close())
		}
	}()
	if _, err := f.Write(bytes); err != nil {
		return nil, err
	}
	if runtime.GOOS == "windows" { // an open file cannot be renamed there, and has no POSIX locks to lose
		if err := n.sync(); err != nil {
			return nil, err
		}
		if err := f.Close(); err != nil {
			return nil, err
		}
		if err := os.Rename(unfinished, path); err != nil {
			return nil, err
		}
		n.file, err = os.Open(path)
		return n, err
	}
	return n, os.Rename(unfinished, path)
}

// makeParents creates the directories above path and returns those that got a new entry by it, to be synced.
func makeParents(path string) ([]string, error) {
	var missing []string
	dir := filepath.Dir(path)
	for at := dir; ; at = filepath.Dir(at) {
		info, err := os.Stat(at)
		if err == nil && info.IsDir() {
			break
		}
		if err == nil {
			return nil, &ErrUnwritable{Path: at, Err: errors.New("not a directory")}
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return nil, classify(at, err)
		}
		missing = append(missing, filepath.Dir(at))
		if at == filepath.Dir(at) {
			break
		}
	}
	if len(missing) == 0 {
		return nil, nil
	}
	if err := os.MkdirAll(dir, dirPerm); err != nil {
		return nil, fmt.Errorf("create directory: %w", classify(dir, err))
	}
	return missing, nil
}

// syncFile syncs a file or, where the system can do that, a directory.
func syncFile(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	err = f.Sync()
	if err != nil && runtime.GOOS == "windows" {
		err = nil // directories cannot be synced there
	}
	return errors.Join(err, f.Close())
}
