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
	// unknownWindow is what a summary request assumes of a model whose window nobody named, in tokens.
	unknownWindow = 128_000
	// overflowShare says which part of a context is kept when the provider finds it too long: one in so many tokens.
	overflowShare = 4
	// MaxErrorText bounds what a failed call tells the model, in bytes.
	MaxErrorText = 4 << 10
)
