package builtin

import "time"

// Bounds of what the model gets. Source: design section 4 "tool output to the model".
const (
	MaxOutputBytes = 50 << 10
	MaxOutputLines = 2000
)

// Bounds of single tools.
const (
	// MaxFound is how many paths find returns unless limit says less.
	MaxFound = 1000
	// DefaultMatches is how many lines grep returns when limit says nothing, MaxMatches how many it may be asked for.
	DefaultMatches, MaxMatches = 100, 2000
	// MaxContext is the number of lines around a match.
	MaxContext = 20
	// MaxMatchBytes is how much of a matching line is shown, around the match.
	MaxMatchBytes = 500
	// MaxPatternBytes bounds a regular expression or glob.
	MaxPatternBytes = 4 << 10
	// MaxEditBytes is the largest file that edit changes.
	MaxEditBytes = 32 << 20
	// MaxDetailBytes bounds the diff that people see.
	MaxDetailBytes = 64 << 10
	// MaxSpillBytes is the most output of one command that is kept in a file.
	MaxSpillBytes = 1 << 30
	// DefaultTimeout ends a command that was given no limit of its own. A command that waits for ever would hold its turn.
	DefaultTimeout = 10 * time.Minute
)

const (
	sniffBytes     = 8 << 10  // of a file, to tell text from binary
	countBytes     = 16 << 20 // read on behind a page to count the lines of the file
	ignoreBytes    = 256 << 10
	blockBytes     = 256 << 10 // one block of a searched file
	maxBlockBytes  = 4 << 20   // the longest line that is searched in one piece
	diffInputBytes = 1 << 20   // the largest old or new content that a diff is made of
	diffContext    = 3
	looseBytes     = 4 << 20 // the largest content that a loose match is looked for in
	suggestions    = 3       // names that a missing path may have meant
)
