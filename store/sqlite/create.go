package sqlite

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"syscall"

	"github.com/workflowd/workflowd/internal/disk"
)

// Session files hold what people wrote: their owner alone reads them.
const (
	filePerm fs.FileMode = 0o600
	dirPerm  fs.FileMode = 0o700
)

// unfinishedSuffix names a new database until its bytes are complete.
const unfinishedSuffix = ".new"

// newborn is a database file whose own bytes, and whose directories, were never synced. The write-ahead log of a synced
// commit is worth nothing without them, so the first synced commit syncs them before; so does whatever moves the log into
// the file. Until then the file has a second name, path + unfinishedSuffix, by which an Open after a crash knows that it
// may be torn. The open file is kept until the connection is closed: closing any descriptor of the file would drop
// SQLite's own locks on it (POSIX rules).
type newborn struct {
	path    string
	file    *os.File
	dirs    []string // whose new entries are not synced
	synced  bool
	commits int // since Open
}

func (n *newborn) sync() error {
	if n.synced {
		return nil
	}
	if err := disk.SyncFile(n.file, n.path); err != nil {
		return err
	}
	if err := disk.Delete(n.path + unfinishedSuffix); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for _, dir := range n.dirs { // its own is among them: the second name is gone for good before anything changes the file
		if err := disk.SyncNames(dir); err != nil {
			return err
		}
	}
	n.synced = true
	return nil
}

func (n *newborn) close() error { return n.file.Close() }

// pageSize is of a new file. An error when SQLite has no such pages.
func (o Options) pageSize() (int, error) {
	size := o.PageSize
	if size == 0 {
		size = DefaultPageSize
	}
	if size < 512 || size > 65536 || size&(size-1) != 0 {
		return 0, fmt.Errorf("page size %d: want a power of two from 512 to 65536", size)
	}
	return size, nil
}

// template returns the bytes of a new file.
func (o Options) template() ([]byte, error) {
	size, err := o.pageSize()
	if err != nil {
		return nil, err
	}
	schema := o.Schema
	if schema == nil {
		schema = &Schema{templates: map[int][]byte{}}
	}
	return schema.template(size)
}

// create writes a new database at path, whole or not at all, from the schema's template. The caller holds the owner lock.
func create(path string, dirs []string, o Options) (_ *newborn, err error) {
	content, err := o.template()
	if err != nil {
		return nil, err
	}
	// A log of an earlier file of this name must not be replayed into the new one.
	unfinished := path + unfinishedSuffix
	for _, name := range []string{path + "-wal", path + "-shm", unfinished, path} {
		if err := disk.Delete(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, classify(name, err)
		}
	}
	f, err := os.OpenFile(unfinished, os.O_WRONLY|os.O_CREATE|os.O_EXCL, filePerm)
	if err != nil {
		return nil, classify(unfinished, err)
	}
	n := &newborn{path: path, file: f, dirs: append(dirs, filepath.Dir(path))}
	defer func() {
		if err != nil {
			err = errors.Join(classify(unfinished, err), n.file.Close())
		}
	}()
	if err := disk.Fill(f, content); err != nil {
		return nil, err
	}
	if runtime.GOOS != "windows" && disk.Name(unfinished, path) == nil {
		return n, nil
	}
	// Without second names (FAT, some network shares) the file is synced before it gets its only one. Windows renames no
	// open file, and has no POSIX locks to lose.
	if err := disk.SyncFile(f, unfinished); err != nil {
		return nil, err
	}
	if err := f.Close(); err != nil {
		return nil, err
	}
	if err := disk.Move(unfinished, path); err != nil {
		return nil, err
	}
	if n.file, err = os.Open(path); err != nil {
		return nil, err
	}
	return n, n.sync()
}

// adopt looks at a file that an Open before us made and never synced: its second name is still there. A torn one, which
// never had a synced commit, is reported to be made anew; a whole one is synced.
func adopt(path string, first fs.FileInfo, o Options) (torn bool, err error) {
	unfinished := path + unfinishedSuffix
	second, err := os.Lstat(unfinished)
	if errors.Is(err, fs.ErrNotExist) {
		return first.Size() == 0, refuseEmpty(path, first, o)
	}
	if err != nil {
		return false, err
	}
	if !os.SameFile(first, second) { // left over from a creation that did not end
		return false, disk.Delete(unfinished)
	}
	content, err := o.template()
	if err != nil {
		return false, err
	}
	file, err := os.ReadFile(path)
	if err != nil || tornFrom(content, file) {
		return err == nil, err
	}
	if err := disk.SyncPath(path); err != nil {
		return false, err
	}
	if err := disk.Delete(unfinished); err != nil {
		return false, err
	}
	return false, syncAbove(path)
}

// refuseEmpty refuses an empty file that holds, or should hold, something: one that must exist, one with a log. Any other
// is a new database.
func refuseEmpty(path string, file fs.FileInfo, o Options) error {
	if file.Size() > 0 {
		return nil
	}
	if o.MustOpen {
		return fmt.Errorf("%w: the file is empty", ErrNotDatabase)
	}
	switch log, err := os.Stat(path + "-wal"); {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case log.Size() > 0:
		return fmt.Errorf("%w: the file is empty and its log is not", ErrNotDatabase)
	}
	return nil
}

// magic is how every SQLite file begins, from its first sync on.
const magic = "SQLite format 3\x00"

// refuseNoise refuses a file that is no database but has a log: SQLite would move the log into it before it is refused, and
// take the log away. Closing the descriptor drops this process's POSIX locks on the file: the owner has none yet, and a
// Reader's snapshot is guarded by the index beside it.
func refuseNoise(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	begins := make([]byte, len(magic))
	_, err = io.ReadFull(f, begins)
	err = errors.Join(err, f.Close())
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || err == nil && string(begins) != magic {
		err = fmt.Errorf("%w: it does not begin like one", ErrNotDatabase)
	}
	return err
}

// tornFrom reports whether file is what a power loss left of a template: a part of its sectors and nothing else. A file
// that was in use, or that another version of the schema made, is not.
func tornFrom(template, file []byte) bool {
	if len(file) > len(template) || bytes.Equal(file, template) {
		return false
	}
	for at := 0; at < len(file); at += sector {
		part := file[at:min(at+sector, len(file))]
		if !bytes.HasPrefix(template[at:], part) && len(bytes.Trim(part, "\x00")) > 0 {
			return false
		}
	}
	return true
}

// syncAbove syncs the directories above path as far up as this process may have made one: not above one that it may not
// write, or whose file system is read-only or syncs no directories.
func syncAbove(path string) error {
	for dir := filepath.Dir(path); ; dir = filepath.Dir(dir) {
		if err := disk.SyncNames(dir); err != nil {
			for _, end := range []error{fs.ErrPermission, syscall.EROFS, syscall.EINVAL, errors.ErrUnsupported} {
				if errors.Is(err, end) {
					return nil
				}
			}
			return err
		}
		if dir == filepath.Dir(dir) {
			return nil
		}
	}
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
