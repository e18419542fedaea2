package crew

import (
	"runtime"
	"sync"
)

// Crew runs functions on goroutines that it keeps for the next ones. The zero value is ready. It is safe for concurrent use.
type Crew struct {
	mu     sync.Mutex
	idle   []chan func() // capacity 1; a closed one sends its goroutine home
	closed bool
	work   sync.WaitGroup
}

// maxIdle is how many goroutines are kept: enough for the nodes that one commit starts on each processor.
var maxIdle = 4 * runtime.GOMAXPROCS(0)

// Run runs fn on an idle goroutine, or on a new one. It does not wait. fn may end its goroutine.
func (c *Crew) Run(fn func()) {
	c.mu.Lock()
	if n := len(c.idle); n > 0 {
		next := c.idle[n-1]
		c.idle = c.idle[:n-1]
		c.mu.Unlock()
		next <- fn
		return
	}
	c.mu.Unlock()
	c.work.Go(func() {
		next := make(chan func(), 1)
		for fn != nil {
			fn()
			if !c.rest(next) {
				return
			}
			fn = <-next
		}
	})
}

// rest puts a goroutine among the idle ones, unless there are enough.
func (c *Crew) rest(next chan func()) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed || len(c.idle) >= maxIdle {
		return false
	}
	c.idle = append(c.idle, next)
	return true
}

// Dismiss sends the idle goroutines home; those at work go when they are done.
func (c *Crew) Dismiss() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	for _, next := range c.idle {
		close(next)
	}
	c.idle = nil
}

// Wait returns when no goroutine is left. Dismiss comes first.
func (c *Crew) Wait() { c.work.Wait() }
