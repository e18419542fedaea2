package harness

import (
	"context"
	"sync"
)

// feed is one reader's queue of events. A slow reader never slows a turn: the queue takes everything, and neighbouring
// deltas of one block merge once it is long.
type feed struct {
	mu    sync.Mutex
	queue []Event
	err   error
	wake  chan struct{} // capacity 1
}

// mergeAt is how many events may wait before neighbouring deltas merge.
const mergeAt = 1024

func newFeed() *feed { return &feed{wake: make(chan struct{}, 1)} }

func (f *feed) put(e Event) {
	f.mu.Lock()
	if n := len(f.queue); n < mergeAt || !merge(&f.queue[n-1], e) {
		f.queue = append(f.queue, e)
	}
	f.mu.Unlock()
	f.signal()
}

func (f *feed) end(err error) {
	f.mu.Lock()
	if f.err == nil {
		f.err = err
	}
	f.mu.Unlock()
	f.signal()
}

func (f *feed) signal() {
	select {
	case f.wake <- struct{}{}:
	default:
	}
}

// take waits for events. It returns what is queued, or the feed's error once the queue is empty, or ctx's cause.
func (f *feed) take(ctx context.Context) ([]Event, error) {
	for {
		f.mu.Lock()
		queue, err := f.queue, f.err
		f.queue = nil
		f.mu.Unlock()
		if len(queue) > 0 {
			return queue, nil
		}
		if err != nil {
			return nil, err
		}
		select {
		case <-f.wake:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// merge appends e to last when both are deltas of the same block and touch.
func merge(last *Event, e Event) bool {
	switch l := (*last).(type) {
	case TextDelta:
		if e, ok := e.(TextDelta); ok && touches(l.Place, len(l.Text), e.Place) {
			l.Text += e.Text
			*last = l
			return true
		}
	case ThinkingDelta:
		if e, ok := e.(ThinkingDelta); ok && touches(l.Place, len(l.Text), e.Place) {
			l.Text += e.Text
			*last = l
			return true
		}
	case Tool, Retry, ContextUsage, Plan, PlanApproval, UsageReport, Paused, TurnEnd:
	}
	return false
}

func touches(a Place, n int, b Place) bool {
	return a.Entry == b.Entry && a.Block == b.Block && a.Offset+n == b.Offset
}
