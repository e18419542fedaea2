package executor

import "time"

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
