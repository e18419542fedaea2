package executor

import (
	"testing"
	"time"
)

func TestChunksGoAtOnceAfterSilenceAndThenInFlushes(t *testing.T) {
	last := time.Unix(1_790_000_000, 0)
	for _, test := range []struct {
		name          string
		since         time.Duration
		chunks, bytes int
		want          time.Duration
	}{
		{"the first after silence", time.Second, 1, 10, 0},
		{"the first when the last flush was just now", 0, 1, 10, FlushEvery},
		{"the rest of the interval", 10 * time.Millisecond, 5, 100, 15 * time.Millisecond},
		{"enough chunks", time.Millisecond, FlushChunks, 20, 0},
		{"enough bytes", time.Millisecond, 1, FlushBytes, 0},
		{"exactly the interval", FlushEvery, 1, 1, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := pace(last.Add(test.since), last, test.chunks, test.bytes); got != test.want {
				t.Errorf("wait %v, want %v", got, test.want)
			}
		})
	}
}

func TestBackoffDoublesUpToItsCap(t *testing.T) {
	for failures, want := range map[int]time.Duration{1: time.Second, 2: 2 * time.Second, 5: 16 * time.Second, 30: backoffMost, 1000: backoffMost} {
		if got := backoff(time.Second, failures); got != want {
			t.Errorf("after failure %d: %v, want %v", failures, got, want)
		}
	}
}
