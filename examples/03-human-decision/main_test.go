package main

import (
	"bytes"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/workflowd/workflowd/daemon"
	"github.com/workflowd/workflowd/workflowtest"
)

// Each command is a process of its own; between them there is nothing but the data directory.
func TestTheQuestionWaitsForItsAnswerBetweenTwoCommands(t *testing.T) {
	data := filepath.Join(t.TempDir(), "data")
	typed := func(want int, args ...string) string {
		t.Helper()
		var out, told bytes.Buffer
		code := daemon.Run(t.Context(), append(args, "--data-dir", data), daemon.IO{In: strings.NewReader(""), Out: &out, Err: &told}, command)
		if code != want {
			t.Fatalf("%q: exit code %d, want %d\n%s%s", args, code, want, out.String(), told.String())
		}
		return out.String() + told.String()
	}
	run := []string{"run", "expense", "-i", "owner=ann", "-i", "amount=120", "--request-id", "17"}
	asked := typed(daemon.ExitWaiting, run...)
	id := regexp.MustCompile(`req_[0-9A-Z]{26}`).FindString(typed(daemon.ExitOK, "runs"))
	if !strings.Contains(asked, `? how much to pay  {"owner":"ann","amount":120}`) || !strings.Contains(asked, "'runs answer "+id+" --answer JSON'") {
		t.Errorf("the question was put so:\n%s", asked)
	}
	if wrong := typed(daemon.ExitUsage, "runs", "answer", id, "--answer", `{"choice":"some"}`); !strings.Contains(wrong, "/choice: value must be one of 'all', 'half', 'nothing'") {
		t.Errorf("a wrong answer:\n%s", wrong)
	}
	typed(daemon.ExitUsage, "runs", "answer", id, "--deny")
	typed(daemon.ExitOK, "runs", "answer", id, "--answer", `{"choice":"half","note":"keep the rest"}`)
	for range 2 { // the second time it only tells the end
		if paid := typed(daemon.ExitOK, run...); !strings.HasPrefix(paid, "paid 60 to ann\n") {
			t.Errorf("it ended so:\n%s", paid)
		}
	}
}

// The same in one process, as a test of a workflow is written: docs/testing-workflows.md.
func TestWhatIsPaidIsWhatWasDecidedAlsoAfterARestart(t *testing.T) {
	for choice, want := range map[string]string{"all": "paid 120 to ann", "half": "paid 60 to ann", "nothing": "paid 0 to ann"} {
		t.Run(choice, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				env := workflowtest.New(t, expense)
				run := env.Start(Expense{Owner: "ann", Amount: 120})
				run.Question()
				env.Restart()
				run.Question().Answer(Verdict{Choice: choice})
				if got := run.Result(); got != want {
					t.Errorf("got %q, want %q", got, want)
				}
				run.WantNodes("decide", "decide", "pay")
			})
		})
	}
}
