package turn

import "time"

// The numbers of retries and continuations. Source: design "Numbers", spec create-agent "Errors".
const (
	// MaxConnection bounds consecutive resends, dropped, recovery and lost-call continuations together.
	MaxConnection = 10
	// MaxLength bounds consecutive output-limit continuations.
	MaxLength = 2
	// MaxEmpty bounds continuations asking for an answer that did not come.
	MaxEmpty = 1
	// MaxOverflow bounds compactions because the provider said that the context is too long.
	MaxOverflow = 1
	// BaseBackoff is the wait before the first further attempt; it doubles with each one.
	BaseBackoff = 250 * time.Millisecond
	// MaxBackoff caps every wait.
	MaxBackoff = 8 * time.Second
)
