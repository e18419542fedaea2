package local

import "time"

const (
	// drainIdle is how long output may be silent after a command has ended before a background process that still
	// holds the pipe is left alone. Source: notes/durable-kernel 9.5, item 7.
	drainIdle = 100 * time.Millisecond
	// drainMax ends the wait for a background process that never stops writing, once the pipe was seen empty or drainBytes,
	// the largest pipe, were read, so that a slow reader loses nothing of what the command itself had left in it.
	drainMax   = 1500 * time.Millisecond
	drainBytes = 1 << 20
	// killGrace is the time between SIGTERM and SIGKILL. Cancel returns within seconds: bugs 49.
	killGrace = time.Second
	// killPoll is how often the end of a process group is looked for in that time.
	killPoll = 10 * time.Millisecond
	// sweepRounds bounds the search for strays that go on starting others while they are killed.
	sweepRounds = 10
	// readChunk is the size of one read of output.
	readChunk = 32 << 10
	// tempMode is that of files with output: nobody else may read them.
	tempMode = 0o600
)
