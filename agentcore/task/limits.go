package task

import "time"

// The numbers of tasks.
const (
	// MaxCheckpoint bounds the JSON of a typed checkpoint, in bytes: it is written again with every step. An input has the
	// same bound, session.MaxTaskInput.
	MaxCheckpoint = 256 << 10
	// MaxRestarts is the bound of typed definitions that name none: a step that took its process down so often rests.
	// Source: durable kernel 2.8 "Parking", which names no number.
	MaxRestarts = 5
	// longestNap bounds how long a change of the machine's clock stays unnoticed while tasks sleep.
	longestNap = time.Minute
)
