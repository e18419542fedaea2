//go:build unix

package crash

import (
	"context"
	"flag"
	"fmt"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/workflowd/workflowd/daemon"
	"github.com/workflowd/workflowd/daemon/stock"
)

// childEnv makes this binary be workflowd.
const childEnv = "WORKFLOWD_CRASH_CHILD"

var (
	flagAll    = flag.Bool("crash.all", false, "every fault point at its first, a middle and its last hit, also while recovering")
	flagRandom = flag.Int("crash.random", 8, "how many kills at random moments")
	flagSeed   = flag.Uint64("crash.seed", 0, "of the random moments; 0 = a new one")
)

func TestMain(m *testing.M) {
	if path := os.Getenv(clientEnv); path != "" {
		os.Exit(asClient(path))
	}
	if os.Getenv(childEnv) != "" {
		stdio := daemon.IO{In: os.Stdin, Out: os.Stdout, Err: os.Stderr}
		os.Exit(daemon.Run(context.Background(), os.Args[1:], stdio, append(stock.Parts(), hand())...))
	}
	flag.Parse()
	code := m.Run()
	tally.print()
	os.Exit(code)
}

// tally counts over all tests. Times are information, never judged.
var tally counts

type counts struct {
	mu       sync.Mutex
	kills    int
	restarts []time.Duration // from the start of a restarted command to its end
}

func (c *counts) killed() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.kills++
	return c.kills
}

func (c *counts) restarted(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.restarts = append(c.restarts, d)
}

func (c *counts) print() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.kills == 0 {
		return
	}
	line := fmt.Sprintf("crash: %d kills, %d restarts", c.kills, len(c.restarts))
	if n := len(c.restarts); n > 0 {
		slices.Sort(c.restarts)
		line += fmt.Sprintf(", restart to end p50 %d ms, max %d ms", c.restarts[n/2].Milliseconds(), c.restarts[n-1].Milliseconds())
	}
	fmt.Println(line)
}
