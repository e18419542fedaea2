package workflowtest_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/workflowd/workflowd/executor/runlog"
	"github.com/workflowd/workflowd/workflow"
	"github.com/workflowd/workflowd/workflowtest"
)

func TestOutsideOfABubbleNothingBegins(t *testing.T) {
	said := failing(t, func(t testing.TB) { workflowtest.New(t, chain("short", add("one", 1))) })
	wantSaid(t, said, "call it inside synctest.Test(t, func(t *testing.T)")
}

// A run that nothing can move any more is told at once, with what it waits for.
func TestARunThatStandsStillSaysWhatItWaitsFor(t *testing.T) {
	for _, test := range []struct {
		name string
		node func(ctx, int) (int, error)
		want string
	}{
		{"a question", func(c ctx, n int) (int, error) { return workflow.Ask[int, int](c, "how many", n) }, `result: the run stands still: node "still" asks "how many"; answer it with Question().Answer`},
		{"a signal", func(c ctx, n int) (int, error) { return workflow.Recv[int](c, "go", 0) }, `result: the run stands still: node "still" waits for a signal "go"; send it with Signal`},
		{"itself", func(c ctx, n int) (int, error) { <-c.Done(); return 0, c.Err() }, `result: the run stands still: the code of node "still" does not return`},
		{"a failure", func(c ctx, n int) (int, error) { return 0, errors.New("no room") }, `result: the run has failed: node "still": node_failed: no room`},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				said := failing(t, func(t testing.TB) { workflowtest.New(t, chain("stops", node("still", test.node))).Start(1).Result() })
				wantSaid(t, said, test.want, "node.started still")
			})
		})
	}
}

func TestAfterTheProcessEndedOnlyRestartGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		said := failing(t, func(t testing.TB) {
			env := workflowtest.New(t, chain("short", add("one", 1)))
			env.CrashAfter(runlog.NodeStarted, "one")
			env.Start(1).Result()
		})
		wantSaid(t, said, "the process has ended behind node.started one; call Restart and go on")
		said = failing(t, func(t testing.TB) {
			env := workflowtest.New(t, chain("short", add("one", 1)))
			env.Crash()
			env.Start(1)
		})
		wantSaid(t, said, "start: the process has ended where Crash was called; call Restart and go on")
	})
}

func TestAMomentThatDoesNotComeFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		said := failing(t, func(t testing.TB) {
			env := workflowtest.New(t, chain("short", add("one", 1)))
			env.CrashAfter(runlog.NodeFailed, "one")
			env.Start(1)
			env.Restart()
		})
		wantSaid(t, said, `restart: the process was to end behind "node.failed one", which did not come`, "node.succeeded one")
		said = failing(t, func(t testing.TB) {
			env := workflowtest.New(t, chain("short", add("one", 1)))
			env.CrashAfter(runlog.RunFailed, "")
			env.Start(1).Result()
		})
		wantSaid(t, said, `the process was to end behind "run.failed", which did not come`)
	})
}

func TestAChangeWithoutAVersionIsNotDeployed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		said := failing(t, func(t testing.TB) {
			env := workflowtest.New(t, chain("short", add("one", 1)))
			env.Start(1)
			env.Restart(chain("short", add("two", 2)))
		})
		wantSaid(t, said, `workflow "short" version 1 is registered with another graph; give the new one version 2`)
	})
}

func TestAnAnswerThatDoesNotFitFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asking := node("ask", func(c ctx, n int) (int, error) { return workflow.Ask[int, int](c, "how many", n) })
		said := failing(t, func(t testing.TB) {
			workflowtest.New(t, chain("asks", asking)).Start(1).Question().Answer("many")
		})
		wantSaid(t, said, `answer to question "how many": answer to request`, "request.opened ask")
		said = failing(t, func(t testing.TB) {
			q := workflowtest.New(t, chain("asks", asking)).Start(1).Question()
			q.Answer(1)
			q.Answer(2)
		})
		wantSaid(t, said, `was answered by "the test" with 1`)
	})
}

func TestANodeThatDoesNotReturnFailsTheTest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		said := failing(t, func(t testing.TB) {
			deaf := node("deaf", func(ctx, int) (int, error) { <-release; return 0, nil })
			workflowtest.New(t, chain("deaf", deaf)).Start(1).Rest()
		})
		wantSaid(t, said, "close the engine: nodes of 1 runs did not return")
		close(release)
		<-time.After(time.Second)
	})
}
