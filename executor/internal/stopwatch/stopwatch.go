package stopwatch

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/workflowd/workflowd/agentcore/fault"
	"github.com/workflowd/workflowd/workflow"
)

// Overrun is the end of an attempt that took too long. Its kind is workflow.DeadlineExceeded.
type Overrun struct {
	What  string
	Limit time.Duration
}

// Error says which limit it was.
func (o *Overrun) Error() string { return fmt.Sprintf("%s %v", o.What, o.Limit) }

// Unwrap gives the error its kind.
func (o *Overrun) Unwrap() error {
	return &fault.Error{Kind: workflow.DeadlineExceeded, Message: o.Error()}
}

// Overran reports whether err is, or wraps, an *Overrun.
func Overran(err error) bool {
	_, is := errors.AsType[*Overrun](err)
	return is
}

// Watch calls end when its attempt takes too long. A nil one never does. It is safe for concurrent use.
type Watch struct {
	end   func(error)
	total *time.Timer // nil = no limit
	limit time.Duration

	mu    sync.Mutex
	idle  *time.Timer // nil = not begun
	quiet bool        // silence counts no more
}

// Start begins to count the whole attempt; silence counts from Begin on. A limit of 0 is none. end gets an *Overrun each
// time a limit is passed, on a goroutine of its own; the first one counts.
func Start(total, idle time.Duration, end func(error)) *Watch {
	if total <= 0 && idle <= 0 {
		return nil
	}
	w := &Watch{end: end, limit: idle, quiet: idle <= 0}
	if total > 0 {
		w.total = time.AfterFunc(total, func() { end(&Overrun{"ran longer than its total timeout of", total}) })
	}
	return w
}

// Begin begins to count the silence anew.
func (w *Watch) Begin() {
	if w == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.quiet:
	case w.idle == nil:
		w.idle = time.AfterFunc(w.limit, func() { w.end(&Overrun{"delivered nothing within its idle timeout of", w.limit}) })
	default:
		w.idle.Reset(w.limit)
	}
}

// Pause stops counting the silence until Begin.
func (w *Watch) Pause() {
	if w == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.idle != nil {
		w.idle.Stop()
	}
}

// Quiet stops counting the silence for good: the stream has ended.
func (w *Watch) Quiet() {
	if w == nil {
		return
	}
	w.Pause()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.quiet = true
}

// Stop stops counting: the attempt has returned.
func (w *Watch) Stop() {
	if w == nil {
		return
	}
	w.Quiet()
	if w.total != nil {
		w.total.Stop()
	}
}
