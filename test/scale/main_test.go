//go:build linux

package scale

import (
	"flag"
	"fmt"
	"os"
	"runtime"
	"testing"
)

// childEnv makes this binary be the process that is measured.
const childEnv = "WORKFLOWD_SCALE_CHILD"

// The goals. Source: design 6, "waiting".
const (
	filesMost     = 4096    // ulimit -n
	heapMost      = 8 << 10 // of an idle session, bytes
	goroutineMost = 100     // of the whole process
)

var (
	flagSessions = flag.Int("scale.sessions", 500, "how many sessions, a fifth of them with a lease; and a fifth as many agents")
	flagWakes    = flag.Int("scale.wakes", 200, "how many random ones are woken")
	flagProfile  = flag.String("scale.profile", "", "a file for the heap profile of what idles")
)

func TestMain(m *testing.M) {
	flag.Parse()
	if *flagProfile != "" {
		runtime.MemProfileRate = 1
	}
	if kind := os.Getenv(childEnv); kind != "" {
		if err := child(kind, os.Getenv(dirEnv), os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}
