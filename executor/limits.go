package executor

import "time"

// The numbers of the engine. Source of the first four: design section 4, "run event log".
const (
	FlushEvery  = 25 * time.Millisecond // chunks wait at most this long for their commit
	FlushChunks = 20                    // or until so many wait
	FlushBytes  = 4 << 10               // or so many bytes of them
	FlushFirst  = 0 * time.Millisecond  // the first chunk after FlushEvery of silence does not wait

	// A node that delivers faster than the log is written is held here. Eight flushes keep the writer busy.
	maxBufferedChunks = 8 * FlushChunks
	maxBufferedBytes  = 8 * FlushBytes

	// MaxActive bounds the runs that advance at the same time; further ones queue in order. A run that waits is not active.
	// The recovery goal is 1,000 in flight (design section 6).
	MaxActive = 2048
	// DrainLimit is how long Close waits for nodes after telling them that the host leaves. Source: design section 4.
	DrainLimit = 30 * time.Second
	// MaxInput bounds the JSON of a run's input, of an answer and of a signal. Source: design section 4, request bodies.
	MaxInput = 20 << 20

	// A run whose store failed is tried again after this wait, doubled up to the second one. Source: INV of the retry
	// budget's cap, design section 4 (backoff at most 8 s).
	storageRetryFirst = 250 * time.Millisecond
	storageRetryMost  = 8 * time.Second
	// backoffMost caps the wait between attempts of a node.
	backoffMost = time.Hour

	eventPage = 256 // events read from the store at a time
	pruneStep = 64  // runs removed at a time
	// mostDecided is after how many records of what is decided without running a node there is a commit. It bounds how long
	// the commit holds up other runs.
	mostDecided = 256
)

// pace decides when chunks that wait are committed: at once after silence, else when enough wait or for long enough. It
// is a pure function. wait is how long to wait, 0 = commit now.
func pace(now, last time.Time, chunks, bytes int) (wait time.Duration) {
	switch since := now.Sub(last); {
	case chunks >= FlushChunks, bytes >= FlushBytes:
		return 0
	case since >= FlushEvery:
		return FlushFirst
	default:
		return FlushEvery - since
	}
}

// backoff is the wait before the attempt that follows failure number failures, from 1.
func backoff(first time.Duration, failures int) time.Duration {
	wait := first
	for range failures - 1 {
		if wait >= backoffMost/2 {
			return backoffMost
		}
		wait *= 2
	}
	return min(wait, backoffMost)
}
