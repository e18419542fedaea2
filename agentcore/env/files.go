package env

import (
	"context"
	"io"
	"io/fs"
	"time"
)

// FileSystem is the files of an environment inside one Scope. Paths are absolute or relative to the working directory,
// in the environment's own syntax; what a path leads to is decided after all links are resolved. A ctx that has ended
// means no effect at all. Implementations are safe for concurrent use.
type FileSystem interface {
	// Canonical returns the absolute path without links. The last parts need not exist.
	Canonical(ctx context.Context, path string) (string, error)
	// Stat describes what path leads to.
	Stat(ctx context.Context, path string) (Info, error)
	// Lstat describes path itself: a link is not followed in its last part.
	Lstat(ctx context.Context, path string) (Info, error)
	// Open opens a regular file for reading. A directory is IsDirectory, anything else NotRegular, at once: a FIFO
	// without a writer never blocks.
	Open(ctx context.Context, path string) (File, error)
	// OpenDir opens a directory.
	OpenDir(ctx context.Context, path string) (Dir, error)
	// Write replaces or creates a file so that a reader, and a crash, see the old content or the new one and nothing
	// between. An existing file keeps its mode; a link is written through. The data is on disk when it returns.
	Write(ctx context.Context, path string, data []byte, opts WriteOptions) (Written, error)
	// MkdirAll creates a directory and its parents. An existing directory is success.
	MkdirAll(ctx context.Context, path string) error
	// Rename moves from to, replacing a file there atomically. A link is moved, not what it leads to.
	Rename(ctx context.Context, from, to string) error
	// Remove deletes a file, a link (never what it leads to) or a directory. A directory with entries needs Recursive.
	Remove(ctx context.Context, path string, opts RemoveOptions) error
}

// Kind sorts directory entries.
type Kind string

// The kinds. Other is a FIFO, socket or device.
const (
	RegularFile Kind = "file"
	Directory   Kind = "directory"
	Link        Kind = "link"
	Other       Kind = "other"
)

// KindOf returns the kind of a mode.
func KindOf(mode fs.FileMode) Kind {
	switch {
	case mode.IsRegular():
		return RegularFile
	case mode.IsDir():
		return Directory
	case mode&fs.ModeSymlink != 0:
		return Link
	}
	return Other
}

// Info describes one entry. Name is its last part.
type Info struct {
	Name    string
	Kind    Kind
	Size    int64 // bytes; of a regular file
	Mode    fs.FileMode
	ModTime time.Time
}

// File is an open regular file. It is used by one goroutine.
type File interface {
	io.Reader
	io.ReaderAt
	io.Closer
	Info() Info // as at opening
}

// Dir is an open directory. Nothing reached through it is outside it, and links are never followed: File and Dir of a
// link are NotRegular and NotDirectory. It is used by one goroutine; a closed Dir leaves those opened from it usable.
type Dir interface {
	// Entries lists the directory in byte order of names. An entry that vanishes meanwhile is left out.
	Entries(ctx context.Context) ([]Info, error)
	// File opens the regular file name.
	File(ctx context.Context, name string) (File, error)
	// Dir opens the directory name.
	Dir(ctx context.Context, name string) (Dir, error)
	io.Closer
}

// WriteOptions shape Write. The zero value replaces or creates, mode 0644, and needs the parent directory to exist.
type WriteOptions struct {
	Mode    fs.FileMode // permission bits of a new file; 0 = DefaultFileMode
	Parents bool        // create missing parents
}

// Written is what Write did.
type Written struct {
	Path    string // canonical
	Created bool   // there was no file before
	Bytes   int
}

// RemoveOptions shape Remove.
type RemoveOptions struct {
	Recursive bool // a directory with everything below
	Missing   bool // a missing path is success
}
