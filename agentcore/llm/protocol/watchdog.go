package protocol

import (
	"context"
	"math"
	"sync/atomic"
	"time"
)

// watchdog ends a stream that waits too long for its next event. Time that the consumer takes does not count. One timer
// serves the whole stream: it looks at the clock when it fires instead of being reset for each event.
type watchdog struct {
	limit time.Duration
	since atomic.Int64 // start of the wait in nanoseconds behind start; -1 = nobody waits
	start time.Time
	end   context.CancelCauseFunc
	timer *time.Timer
}

// idleError is the cause of a stream that the watchdog ended.
type idleError struct{ limit time.Duration }

// Error names the limit.
func (e *idleError) Error() string {
	return "the endpoint sent no event for " + e.limit.String()
}

func newWatchdog(limit time.Duration, end context.CancelCauseFunc) *watchdog {
	w := &watchdog{limit: limit, start: time.Now(), end: end}
	w.since.Store(-1)
	w.timer = time.AfterFunc(math.MaxInt64, w.look) // look uses w.timer, so it must be set before it can fire
	w.timer.Reset(limit)
	return w
}

func (w *watchdog) look() {
	left := w.limit
	if since := w.since.Load(); since >= 0 {
		left -= time.Since(w.start) - time.Duration(since)
	}
	if left <= 0 {
		w.end(&idleError{w.limit})
		return
	}
	w.timer.Reset(left)
}

func (w *watchdog) wait()  { w.since.Store(int64(time.Since(w.start))) }
func (w *watchdog) pause() { w.since.Store(-1) }
func (w *watchdog) stop()  { w.timer.Stop() }
