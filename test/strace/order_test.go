//go:build linux

package strace

import (
	"errors"
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/workflowd/workflowd/agentcore/llm/scripted"
)

// The words by which the story is found in the logs. The command does not hold its own result.
const (
	prompt  = "Please count to 1234."
	command = "echo counted to $((1000+234)), as asked"
	result  = "counted to 1234, as asked"
	answer  = "All of it was counted."
)

// firstEvent is in the first line that tells of the input: how full the model's context is.
const firstEvent = `"unit":"tokens"`

// The files that hold promises.
const (
	runLog     = "workflowd.db-wal"
	sessionLog = "agent.db-wal"
)

// moment is a call by which something outside learns of a promise.
type moment struct {
	name  string
	fits  func(call) bool
	nth   int    // of the calls that fit; 0 = the first
	file  string // the log that holds the promise
	holds string // the promise: words that were written into the log and synced
	whole bool   // nothing else in the log waits for a sync either
}

func stdout(c call) bool { return c.name == "write" && strings.HasPrefix(c.args, "1<") }

func prints(words string) func(call) bool {
	return func(c call) bool { return stdout(c) && strings.Contains(c.text, words) }
}

func startsShell(c call) bool { return c.name == "execve" && strings.Contains(c.args, command) }

func asksModel(c call) bool {
	return c.name == "write" && strings.HasPrefix(c.path, "socket:") && strings.HasPrefix(c.text, "POST ")
}

func letsGo(c call) bool {
	return c.name == "pwrite64" && filepath.Base(c.path) == "agent.db.lock" && strings.Contains(c.text, `"closing":true`)
}

var (
	shellStarts = moment{name: "the shell is started", fits: startsShell, file: sessionLog, holds: command, whole: true}
	askedAgain  = moment{name: "the model is asked with the result", fits: asksModel, nth: 2, file: sessionLog, holds: result, whole: true}
	letGo       = moment{name: "the session is let go of", fits: letsGo, file: sessionLog, holds: answer, whole: true}
)

// A call that must not run twice is safe at every step: its intent is synced before the shell starts, its result before the
// model hears of it, the answer before the session is let go of and before it is printed; and the receipts of the run and of
// its input before the first line that tells of each.
//
// Promise: P-461, P-462, P-805
// Invariant: INV-01, INV-05
func TestTheLogIsSyncedBeforeAnybodyOutsideReliesOnIt(t *testing.T) {
	for output, moments := range map[string][]moment{
		"text": {shellStarts, askedAgain, letGo,
			{name: "the answer is printed", fits: prints(answer), file: runLog, holds: answer, whole: true}},
		"jsonl": {{name: "the run's receipt is printed", fits: stdout, file: runLog, holds: prompt},
			{name: "the input's first event is printed", fits: prints(firstEvent), file: sessionLog, holds: prompt},
			shellStarts, askedAgain, letGo,
			{name: "the end is printed", fits: prints("run.succeeded"), file: runLog, holds: answer, whole: true}},
	} {
		t.Run(output, func(t *testing.T) {
			out, work := newPrinted(), t.TempDir()
			model := scripted.New(scripted.Func(func(r scripted.Request) (scripted.Response, error) {
				if slices.ContainsFunc(r.Messages, func(m scripted.Message) bool { return m.Role == "tool" }) {
					return scripted.Response{scripted.Text{Text: answer}}, nil
				}
				if output == "jsonl" { // else the intent would sync the input's receipt too
					if err := out.await(firstEvent); err != nil {
						return nil, err
					}
				}
				return scripted.Response{scripted.Call{Name: "bash", Args: fmt.Sprintf(`{"command":%q}`, command)}}, nil
			}), scripted.Options{})
			server := httptest.NewServer(model)
			t.Cleanup(server.Close)
			calls := run(t, work, out, "run", "agent", "--data-dir", "data", "--model", "m", "--base-url", server.URL+"/v1",
				"--output", output, "-i", "prompt="+prompt)
			if err := errors.Join(model.Err(), out.await(answer)); err != nil {
				t.Fatal(err)
			}
			for _, m := range moments {
				calls.check(t, filepath.Join(work, "data"), m)
			}
			calls.checkShell(t)
		})
	}
}

// find returns the call of the moment.
func (calls trace) find(t *testing.T, m moment) call {
	t.Helper()
	at := call{}
	for range max(1, m.nth) {
		next, ok := calls.first(at.begun, m.fits)
		if !ok {
			t.Fatalf("%s: that is not in the trace of %d calls", m.name, len(calls))
		}
		at = next
	}
	return at
}

// check finds the moment's call, and looks at the log before it.
func (calls trace) check(t *testing.T, data string, m moment) {
	t.Helper()
	at := calls.find(t, m)
	list, synced := calls.written(calls.log(t, data, m.file), at.begun)
	found, loose := false, 0
	for i, w := range list {
		found = found || synced[i] > 0 && strings.Contains(w.text, m.holds)
		if synced[i] == 0 {
			loose++
		}
	}
	if !found {
		t.Errorf("%s, and %q is not in what was synced of %s; %s", m.name, m.holds, m.file, at)
	}
	if m.whole && loose > 0 {
		t.Errorf("%s, and of %d writes to %s %d are not synced; %s", m.name, len(list), m.file, loose, at)
	}
}

// log returns the full path of a log: a run's name is in that of its session's.
func (calls trace) log(t *testing.T, data, file string) string {
	t.Helper()
	w, ok := calls.first(0, func(c call) bool {
		return c.name == "pwrite64" && strings.HasPrefix(c.path, data+string(os.PathSeparator)) && filepath.Base(c.path) == file
	})
	if !ok {
		t.Fatalf("nothing was written to %s", file)
	}
	return w.path
}

// checkShell checks that the session's log was synced between the shell's end and the next request: the words of the result
// alone could have been there before, as output of a running command.
func (calls trace) checkShell(t *testing.T) {
	t.Helper()
	shell, asked := calls.find(t, shellStarts), calls.find(t, askedAgain)
	end := calls.find(t, moment{name: "the shell ends", fits: func(c call) bool { return c.name == ended && c.pid == shell.pid }})
	sync, ok := calls.first(end.begun, func(c call) bool { return slices.Contains(syncs, c.name) && filepath.Base(c.path) == sessionLog })
	if !ok || sync.failed || sync.done == 0 || sync.done > asked.begun {
		t.Errorf("the session's log is not synced between the shell's end (line %d) and the next request (line %d)", end.begun, asked.begun)
	}
}
