package harness

import "time"

// The numbers of the loop; those of retries are in package turn. Source: design "Numbers".
const (
	// PartialInterval is the least time between a partial commit's return and the next one.
	PartialInterval = 10 * time.Millisecond
	// PartialStretch caps the interval under load.
	PartialStretch = 100 * time.Millisecond
	// UsageInterval is the least time between context updates while streaming.
	UsageInterval = 100 * time.Millisecond
	// deltasPerBase is how many appends a live document takes before its base is written again.
	deltasPerBase = 256
	// MaxToolRestarts bounds how often a call that may run again is started again after a process that died in it.
	MaxToolRestarts = 10
	// MaxErrorText bounds what a failed call tells the model, in bytes.
	MaxErrorText = 4 << 10
)
