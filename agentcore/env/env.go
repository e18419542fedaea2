package env

import (
	"context"
	"io"
	"os"
)

// Environment is one machine, or a part of one. Implementations are safe for concurrent use.
type Environment interface {
	// ID is stable: equal IDs mean equal files. A session is bound to it. Source: P-282, P-284.
	ID() string
	// Dir is the absolute working directory that relative paths and commands start from.
	Dir() string
	// Files returns the file system as far as scope allows. A scope that this environment cannot enforce is an error of
	// code Invalid; it never answers with more than the scope.
	Files(scope Scope) (FileSystem, error)
	// Exec runs one command to its end and returns how it ended. See Command for limits and output. A command that ran,
	// whatever its exit code, is a nil error.
	Exec(ctx context.Context, cmd Command) (Exit, error)
	// Temp creates an empty file that nobody else can read and that Cleanup removes, for output too large to keep in
	// memory. Its path is good for commands; file tools reach it only when the scope does.
	Temp(ctx context.Context, name string) (TempFile, error)
	// Cleanup ends what commands left running and removes temporary files. It is idempotent; the environment is not used
	// afterwards.
	Cleanup(ctx context.Context) error
}

// TempFile is a file made by Temp, open for writing. It is used by one goroutine.
type TempFile interface {
	io.WriteCloser
	Path() string // absolute, in the environment
}

// Scope says which files a caller may reach. Values are immutable.
type Scope interface {
	// Roots are absolute directories, the working directory first.
	Roots() []string
	// Confined is false when paths outside Roots are allowed too.
	Confined() bool
}

// Locator is a Scope of the local machine that resolves paths itself.
type Locator interface {
	Scope
	// Locate resolves every link in path, a relative one from the first root, and returns where it really is. What does
	// not exist yet is located too. A path outside the scope is an error that names the roots.
	Locate(path string) (Place, error)
}

// Place is a located path. Root stays open as long as its Locator; Name is relative to it and has no link in it at the
// time of the call. Opening Name through Root can therefore reach nothing outside, even when a directory is swapped for a
// link in between.
type Place struct {
	Root *os.Root
	Name string // "." for the root itself
	Path string // absolute and canonical; two names of one file have the same Path
}
