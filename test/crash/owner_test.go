//go:build unix

package crash

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/workflowd/workflowd/daemon"
	"github.com/workflowd/workflowd/executor/runlog"
)

// leisurely is the pace at which the last answer takes seconds: time to do something to its process.
const leisurely = "20ms"

// fewSeconds is within which a command that finds the data directory taken must say so, on a loaded machine. It waits for
// nobody, so it takes as long as a start.
const fewSeconds = 10 * time.Second

// answering starts the agent scenario, as events, and returns once its effects are done and its last answer streams.
func answering(t *testing.T) (*trial, *process, []string) {
	t.Helper()
	s := scenarios[0]
	tr := &trial{s: s, b: baselineOf(t, s), p: newPlace(t)}
	args := s.command(tr.p, leisurely, "--output", "jsonl")
	c := tr.p.start(t, args, "")
	c.out.await(t, "the beginning of its answer", func(out string) bool {
		_, behind, done := strings.Cut(out, `"result":"the second is noted`)
		return done && strings.Contains(behind, string(runlog.ItemAppend))
	})
	return tr, c, args
}

// While a process works, another one on the same data directory ends at once, with one line that names the process, and
// the first is not disturbed. It does not matter whether the first can move.
//
// Promise: P-300
func TestASecondProcessIsToldWhoHasTheData(t *testing.T) {
	for _, frozen := range []bool{false, true} {
		t.Run(fmt.Sprintf("frozen %t", frozen), func(t *testing.T) {
			tr, first, args := answering(t)
			if frozen {
				must(t, first.cmd.Process.Signal(syscall.SIGSTOP))
			}
			e := tr.p.start(t, args, "").wait(t)
			if frozen {
				must(t, first.cmd.Process.Signal(syscall.SIGCONT))
			}
			if e.code != daemon.ExitConflict || e.took > fewSeconds || e.out != "" {
				t.Errorf("the second process: %s", e)
			}
			if who := fmt.Sprintf("process %d", first.cmd.Process.Pid); !strings.Contains(errorLine(t, e.err), who) {
				t.Errorf("the error does not name the holder, %s: %s", who, e.err)
			}
			tr.ran(t, first.wait(t))
			tr.check(t)
		})
	}
}

var errorPattern = regexp.MustCompile(`(?m)^workflowd: .*$`)

// errorLine is the one line of stderr that tells the error.
func errorLine(t *testing.T, stderr string) string {
	t.Helper()
	lines := errorPattern.FindAllString(stderr, -1)
	if len(lines) != 1 {
		t.Fatalf("want one line with the error, got %q in:\n%s", lines, stderr)
	}
	return lines[0]
}

// Whoever deletes the lock files of a living process lets a second one in. The second finishes the work; the first writes
// nothing from then on, and says so.
//
// Invariant: INV-04
func TestAnOwnerWithoutItsLockFilesWritesNothing(t *testing.T) {
	for _, frozen := range []bool{false, true} {
		t.Run(fmt.Sprintf("frozen %t", frozen), func(t *testing.T) {
			tr, first, args := answering(t)
			if frozen {
				must(t, first.cmd.Process.Signal(syscall.SIGSTOP))
			}
			deleteLocks(t, tr.p.data)
			tr.lefts = append(tr.lefts, look(t, tr.s, tr.p)) // what the second finds: the first may be caught in a call
			second := tr.p.start(t, args, "")
			if frozen {
				second.out.await(t, "that it carries on", func(out string) bool { return strings.Contains(out, `"epoch":2`) })
				must(t, first.cmd.Process.Signal(syscall.SIGCONT))
			}
			lost := first.wait(t)
			if lost.code != daemon.ExitConflict {
				t.Errorf("the first process: %s", lost)
			}
			if line := errorLine(t, lost.err); !strings.Contains(line, "another owner took over") && !strings.Contains(line, "another process") {
				t.Errorf("the first process does not say why it stopped: %s", line)
			}
			tr.ends = append(tr.ends, lost)
			tr.ran(t, second.wait(t))
			end := tr.check(t)
			owners := map[int64]bool{}
			for _, e := range end.runs[0].events {
				owners[e.Epoch] = true
			}
			if len(owners) != 2 {
				t.Errorf("the log was written by owners %v, want two", owners)
			}
			tr.sawOnlyKept(t, lost, end)
		})
	}
}

func deleteLocks(t *testing.T, dir string) {
	t.Helper()
	n := 0
	must(t, filepath.WalkDir(dir, func(path string, _ os.DirEntry, err error) error {
		if err == nil && strings.HasSuffix(path, lockSuffix) {
			n++
			return os.Remove(path)
		}
		return err
	}))
	if n != 2 {
		t.Fatalf("%d lock files in %s, want those of the runs and of the session", n, dir)
	}
}

// sawOnlyKept: what the overtaken process showed is in the log.
func (tr *trial) sawOnlyKept(t *testing.T, e ended, end state) {
	t.Helper()
	kept := map[runlog.Seq]string{}
	for _, event := range end.runs[0].events {
		raw, err := json.Marshal(event)
		must(t, err)
		kept[event.Seq] = string(raw)
	}
	for line := range strings.Lines(e.out) {
		var event runlog.Event
		must(t, json.Unmarshal([]byte(line), &event))
		if kept[event.Seq] != strings.TrimSpace(line) {
			t.Errorf("the overtaken process showed an event that the log does not have: %s", line)
		}
	}
}
