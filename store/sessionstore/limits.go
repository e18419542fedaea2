package sessionstore

import "time"

// The numbers of this package. Source: design 4.
const (
	// IdleHandle is for Options.Idle: after so long without use a session gives its open file back.
	IdleHandle = time.Second
	// HandlesMost is how many session files with Options.Idle this process holds open.
	HandlesMost = 256
)
