package executor

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/workflowd/workflowd/agentcore/fault"
	"github.com/workflowd/workflowd/workflow"
)

// overrun is the cause of an attempt that took longer than its node may: in all, or between two chunks.
type overrun struct {
	what  string
	limit time.Duration
}

func (o *overrun) Error() string { return fmt.Sprintf("%s %v", o.what, o.limit) }

// Unwrap gives the error its kind.
func (o *overrun) Unwrap() error {
	return &fault.Error{Kind: workflow.DeadlineExceeded, Message: o.Error()}
}

func overran(err error) bool {
	_, is := errors.AsType[*overrun](err)
	return is
}

// bound ends the attempt when it takes too long, from now until stop.
func (a *attempt) bound() (stop func()) {
	n := a.v.Node()
	var total *time.Timer
	if limit := time.Duration(n.TimeoutMS) * time.Millisecond; limit > 0 {
		total = time.AfterFunc(limit, func() { a.cancel(&overrun{"ran longer than its total timeout of", limit}) })
	}
	if limit := time.Duration(n.IdleMS) * time.Millisecond; limit > 0 {
		a.idle = &idle{limit: limit, cancel: a.cancel}
	}
	return func() {
		if total != nil {
			total.Stop()
		}
		a.idle.end()
	}
}

// idle ends an attempt that delivers nothing. A nil one never does. It is safe for concurrent use.
type idle struct {
	limit  time.Duration
	cancel context.CancelCauseFunc

	mu    sync.Mutex
	timer *time.Timer
	over  bool // the stream has ended
}

// begin begins to count anew.
func (i *idle) begin() {
	if i == nil {
		return
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	switch {
	case i.over:
	case i.timer == nil:
		i.timer = time.AfterFunc(i.limit, func() { i.cancel(&overrun{"delivered nothing within its idle timeout of", i.limit}) })
	default:
		i.timer.Reset(i.limit)
	}
}

// pause stops counting until begin.
func (i *idle) pause() {
	if i == nil {
		return
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.timer != nil {
		i.timer.Stop()
	}
}

// end stops counting for good.
func (i *idle) end() {
	if i == nil {
		return
	}
	i.pause()
	i.mu.Lock()
	defer i.mu.Unlock()
	i.over = true
}
