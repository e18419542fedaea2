package harness

import (
	"context"
	"sync"
	"time"
)

// flusher commits growing output at the cadence of the design: the first piece at once, then as soon as the last commit
// returned but not within PartialInterval of it; slow commits stretch the interval up to PartialStretch. At most one
// commit is in flight, on the flusher's own goroutine.
type flusher struct {
	flush func(ctx context.Context) error
	wake  chan struct{} // capacity 1
	quit  chan struct{}
	wg    sync.WaitGroup
	err   error // first failed commit; read after stop
}

func newFlusher(flush func(context.Context) error) *flusher {
	return &flusher{flush: flush, wake: make(chan struct{}, 1), quit: make(chan struct{})}
}

// start begins flushing. ctx ends only the waits between commits.
func (f *flusher) start(ctx context.Context) { f.wg.Go(func() { f.loop(ctx) }) }

// kick says that there is something to commit.
func (f *flusher) kick() {
	select {
	case f.wake <- struct{}{}:
	default:
	}
}

// stop ends flushing and waits for the commit in flight. What is pending stays pending.
func (f *flusher) stop() {
	close(f.quit)
	f.wg.Wait()
}

func (f *flusher) loop(ctx context.Context) {
	for {
		select {
		case <-f.wake:
		case <-f.quit:
			return
		case <-ctx.Done():
			return
		}
		begun := time.Now()
		if f.err = f.flush(ctx); f.err != nil {
			return
		}
		pause := time.NewTimer(interval(time.Since(begun)))
		select {
		case <-pause.C:
		case <-f.quit:
			pause.Stop()
			return
		}
	}
}

// stretch is how many times its own duration a commit is followed by rest: one commit in so many may be ours.
const stretch = 4

// interval is the rest after a commit that took d.
func interval(d time.Duration) time.Duration {
	return min(max(PartialInterval, stretch*d), PartialStretch)
}
