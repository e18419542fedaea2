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

// leisurely is the pace at which the last answer takes seconds: time to do something to its process. At lasting it takes
// longer than any other process needs to start.
const (
	leisurely = "20ms"
	lasting   = "50ms"
)

// fewSeconds is within which a command that finds the data directory taken must say so, on a loaded machine. It waits for
// nobody, so it takes as long as a start.
const fewSeconds = 10 * time.Second

// answering starts the agent scenario, as events, and returns once its effects are done and its last answer streams.
func answering(t *testing.T, pace string) (*trial, *process) {
	t.Helper()
	s := scenarios[0]
	tr := &trial{s: s, b: baselineOf(t, s), p: newPlace(t)}
	c := tr.p.start(t, tr.asEvents(pace), "")
	c.out.await(t, "the beginning of its answer", func(out string) bool {
		_, behind, done := strings.Cut(out, `"result":"the second is noted`)
		return done && strings.Contains(behind, string(runlog.ItemAppend))
	})
	return tr, c
}

func (tr *trial) asEvents(pace string) []string { return tr.s.command(tr.p, pace, "--output", "jsonl") }

// While a process works, another one on the same data directory ends at once, with one line that names the process, and
// the first is not disturbed.
//
// Promise: P-300
func TestASecondProcessIsToldWhoHasTheData(t *testing.T) {
	tr, first := answering(t, lasting)
	tr.refused(t, first)
	must(t, first.cmd.Process.Kill()) // the rest would take seconds
	tr.ran(t, first.wait(t))
	tr.ran(t, tr.p.start(t, tr.asEvents(pace), "").wait(t))
	tr.check(t)
}

// A process that cannot move still has its data: another one neither waits for it nor takes over, and it goes on where it
// was when it can.
//
// Promise: P-300
func TestAFrozenProcessKeepsItsData(t *testing.T) {
	tr, first := answering(t, leisurely)
	must(t, first.cmd.Process.Signal(syscall.SIGSTOP))
	tr.refused(t, first)
	must(t, first.cmd.Process.Signal(syscall.SIGCONT))
	tr.ran(t, first.wait(t))
	tr.check(t)
}

// refused starts the same command while first runs.
func (tr *trial) refused(t *testing.T, first *process) {
	t.Helper()
	e := tr.p.start(t, tr.asEvents(pace), "").wait(t)
	if e.code != daemon.ExitConflict || e.took > fewSeconds || e.out != "" {
		t.Errorf("the second process: %s", e)
	}
	if who := fmt.Sprintf("process %d", first.cmd.Process.Pid); !strings.Contains(errorLine(t, e.err), who) {
		t.Errorf("the error does not name the holder, %s: %s", who, e.err)
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

// Whoever deletes the lock files of a living process lets a second one in. The second finishes the work. The first, which
// cannot move meanwhile and then can, writes nothing from then on, and says so, whether the second is still at work or not.
//
// Invariant: INV-04
func TestAnOwnerWithoutItsLockFilesWritesNothing(t *testing.T) {
	for _, when := range []string{"works", "has finished"} {
		t.Run("it wakes up while the second "+when, func(t *testing.T) {
			tr, first := answering(t, leisurely)
			must(t, first.cmd.Process.Signal(syscall.SIGSTOP))
			deleteLocks(t, tr.p.data)
			tr.lefts = append(tr.lefts, look(t, tr.s, tr.p)) // what the second finds, as after a kill
			second := tr.p.start(t, tr.asEvents(leisurely), "")
			second.out.await(t, "that it carries on", func(out string) bool { return strings.Contains(out, `"epoch":2`) })
			var finished ended
			if when == "has finished" {
				finished = second.wait(t)
			}
			must(t, first.cmd.Process.Signal(syscall.SIGCONT))
			lost := first.wait(t)
			if when == "works" {
				finished = second.wait(t)
			}
			if lost.code != daemon.ExitConflict {
				t.Errorf("the first process: %s", lost)
			}
			if line := errorLine(t, lost.err); !strings.Contains(line, "another process owns the runs") {
				t.Errorf("the first process does not say why it stopped: %s", line)
			}
			tr.ends = append(tr.ends, lost)
			tr.ran(t, finished)
			end := tr.check(t)
			if owners := epochs(end.runs[0].events); len(owners) != 2 {
				t.Errorf("the log was written by owners %v, want two", owners)
			}
			for _, e := range events(t, lost) {
				if e.Epoch != 1 {
					t.Errorf("the first process showed event %d of owner %d", e.Seq, e.Epoch)
				}
			}
		})
	}
}

func epochs(events []runlog.Event) map[int64]bool {
	owners := map[int64]bool{}
	for _, e := range events {
		owners[e.Epoch] = true
	}
	return owners
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

// events are those that a process printed.
func events(t *testing.T, e ended) []runlog.Event {
	t.Helper()
	var list []runlog.Event
	for line := range strings.Lines(e.out) {
		var event runlog.Event
		must(t, json.Unmarshal([]byte(line), &event))
		list = append(list, event)
	}
	return list
}
