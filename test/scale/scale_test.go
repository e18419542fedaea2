//go:build linux

package scale

import (
	"encoding/json"
	"os"
	"os/exec"
	"testing"
)

// Invariant: INV-07
// A session with a lease keeps its owner lock, which is an open file, while it idles. One without holds nothing.
func TestIdleSessionsHoldLittleAndWake(t *testing.T) { check(t, "sessions") }

// An agent that has answered idles with its lock and its settings.
func TestIdleAgentsHoldLittleAndWake(t *testing.T) { check(t, "agents") }

// check measures a fleet in a process of its own.
func check(t *testing.T, kind string) {
	t.Helper()
	exe, err := os.Executable()
	must(t, err)
	cmd := exec.CommandContext(t.Context(), exe, os.Args[1:]...)
	cmd.Env = append(os.Environ(), childEnv+"="+kind, dirEnv+"="+t.TempDir())
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	must(t, err)
	fig := &Figures{}
	if err := json.Unmarshal(out, fig); err != nil {
		t.Fatalf("%v: %q", err, out)
	}
	t.Logf("%s: %s", kind, out)
	for _, count := range []struct {
		what      string
		got, most int
	}{
		{"bytes of heap each", fig.Heap, heapMost},
		{"goroutines while all idle", fig.Goroutines, goroutineMost},
		{"goroutines at most", fig.Peak, goroutineMost},
		{"open files at most", fig.FilesPeak, filesMost},
	} {
		if count.got > count.most {
			t.Errorf("%s: %d %s, want at most %d", kind, count.got, count.what, count.most)
		}
	}
}
