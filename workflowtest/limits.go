package workflowtest

import "time"

// The numbers of the kit.
const (
	// patience is how long, on the bubble's clock, a run may stand still before the test is told that it is stuck. It costs
	// nothing: it passes only when nobody else waits for a time that is nearer.
	patience = 31 * 24 * time.Hour
	// shownData is how much of an event's data a line of the log shows, in bytes.
	shownData = 80
	// shownChunks is how many chunks of a node in a row the log shows before it counts them.
	shownChunks = 3
	// shownSchema is how much of a changed type a message shows, in bytes.
	shownSchema = 240
	// maxRecording bounds a recording's text, in bytes.
	maxRecording = 64 << 20
)
