package harness

import "time"

// The numbers of the loop. Source: design "Numbers", spec create-agent "Errors".
const (
	// MaxConnection bounds consecutive resends, dropped, recovery and lost-call continuations together.
	MaxConnection = 10
	// MaxLength bounds consecutive output-limit continuations.
	MaxLength = 2
	// MaxEmpty bounds continuations asking for an answer that did not come.
	MaxEmpty = 1
	// BaseBackoff is the wait before the first further attempt; it doubles with each one.
	BaseBackoff = 250 * time.Millisecond
	// MaxBackoff caps every wait.
	MaxBackoff = 8 * time.Second
	// PartialInterval is the least time between a partial commit's return and the next one.
	PartialInterval = 10 * time.Millisecond
	// PartialStretch caps the interval under load.
	PartialStretch = 100 * time.Millisecond
	// UsageInterval is the least time between context updates while streaming.
	UsageInterval = 100 * time.Millisecond
	// deltasPerBase is how many appends a live document takes before its base is written again.
	deltasPerBase = 256
	// MaxErrorText bounds what a failed call tells the model, in bytes.
	MaxErrorText = 4 << 10
)
