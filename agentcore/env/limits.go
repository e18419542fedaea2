package env

import (
	"io/fs"
	"time"
)

// Bounds of every environment.
const (
	// MaxTimeout is the longest limit of a command; a longer one is refused before anything starts. Source:
	// notes/durable-kernel 9.5, item 4.
	MaxTimeout = 2147483647 * time.Millisecond
	// MaxWalkDepth bounds the directories that a Walk holds open.
	MaxWalkDepth = 256
	// DefaultFileMode is the mode of a new file, DefaultDirMode that of a new directory, both before umask.
	DefaultFileMode fs.FileMode = 0o644
	DefaultDirMode  fs.FileMode = 0o755
)
