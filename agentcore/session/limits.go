package session

// MaxTaskInput bounds the input that a command gives a task, in bytes of JSON. Source: design 4, P-153.
const MaxTaskInput = 256 << 10

// Limits of a feed. Beyond either, what waits is replaced by one full frame.
const (
	// WatchFrames is how many frames may wait for a reader. Source: durable kernel 10.
	WatchFrames = 100
	// WatchBytes is how many bytes of content may wait for a reader. Source: design 4, "subscriber buffer".
	WatchBytes = 1 << 20
)
