package executor

import (
	"runtime"
	"sync"
)

// crew runs attempts on goroutines that it keeps for the next ones: a fresh goroutine would grow its stack anew for each
// node, which costs more than a trivial node itself. A few idle ones stay, whatever the number of runs.
type crew struct {
	mu     sync.Mutex
	idle   []chan func() // capacity 1; a closed one sends its goroutine home
	closed bool
	work   sync.WaitGroup
}

// maxIdle is how many goroutines are kept: enough for the nodes that one commit starts on each processor.
var maxIdle = 4 * runtime.GOMAXPROCS(0)

func (c *crew) run(fn func()) {
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
func (c *crew) rest(next chan func()) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed || len(c.idle) >= maxIdle {
		return false
	}
	c.idle = append(c.idle, next)
	return true
}

// dismiss sends the idle goroutines home; those at work go when they are done.
func (c *crew) dismiss() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	for _, next := range c.idle {
		close(next)
	}
	c.idle = nil
}
