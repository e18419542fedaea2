package sessionstore

import "time"

// The numbers of this package. Source: design 4.
const (
	// IdleHandle is for Options.Idle: after so long without use a session gives its open file back.
	IdleHandle = time.Second
	// HandlesMost is how many session files with Options.Idle this process holds open.
	HandlesMost = 256
	// puttingsMost is how many idle files are put away at the same time.
	puttingsMost = 16
	// sweepPause is the least time between two looks at what idles.
	sweepPause = 10 * time.Millisecond
)
