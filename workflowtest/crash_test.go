package workflowtest_test

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/workflowd/workflowd/agentcore/fault"
	"github.com/workflowd/workflowd/executor/runlog"
	"github.com/workflowd/workflowd/workflow"
	"github.com/workflowd/workflowd/workflowtest"
)

// paying asks, waits a day and pays once; made counts the payments, attempts the entries.
func paying(made *int) *workflow.Workflow[int, string] {
	return workflow.MustDefine("paying", 1, func(b builder, in workflow.Ref[int]) workflow.Ref[string] {
		asked := workflow.Then(b, in, node("ask", func(c ctx, n int) (bool, error) { return workflow.Ask[int, bool](c, "pay", n) }))
		later := workflow.Then(b, asked, node("later", func(c ctx, yes bool) (bool, error) { return yes, workflow.Sleep(c, "day", 24*time.Hour) }))
		return workflow.Then(b, later, node("pay", func(c ctx, _ bool) (string, error) {
			return workflow.Once(c, "transfer", func(context.Context) (string, error) { *made++; return "paid", nil })
		}))
	})
}

func TestARunGoesOnAfterTheProcessEndedAtAnyMoment(t *testing.T) {
	for _, at := range []struct {
		kind  runlog.EventKind
		path  string
		pays  int // attempts of pay that are entered by the log
		early bool
	}{
		{kind: runlog.RunQueued, pays: 1, early: true},
		{kind: runlog.NodeStarted, path: "ask", pays: 1, early: true},
		{kind: runlog.RequestOpened, path: "ask", pays: 1, early: true},
		{kind: runlog.RunWaiting, pays: 1, early: true},
		{kind: runlog.RequestAnswered, path: "ask", pays: 1},
		{kind: runlog.NodeSucceeded, path: "ask", pays: 1},
		{kind: runlog.NodeSleeping, path: "later", pays: 1},
		{kind: runlog.RunSleeping, pays: 1},
		{kind: runlog.NodeStarted, path: "pay", pays: 2},
		{kind: runlog.NodeSucceeded, path: "pay", pays: 1},
		{kind: runlog.RunSucceeded, pays: 1},
	} {
		t.Run(fmt.Sprintf("behind %s %s", at.kind, at.path), func(t *testing.T) {
			onEachStore(t, func(t *testing.T, options ...workflowtest.Option) {
				made := 0
				env := workflowtest.New(t, paying(&made), options...)
				env.CrashAfter(at.kind, at.path)
				run := env.Start(7)
				if at.early {
					env.Restart()
				}
				run.Question().Answer(true)
				if !at.early {
					env.Restart()
				}
				if got := run.Result(); got != "paid" || made != 1 {
					t.Errorf("got %q, paid %d times", got, made)
				}
				run.WantTimes("pay", at.pays)
				run.WantLog("node.started ask", "request.opened ask pay 7", "request.answered ask true", "node.sleeping later", "node.succeeded pay", "run.succeeded")
			})
		})
	}
}

// Behind the commit that says so, a node has not been entered; behind the commit of its end, it is not entered again.
func TestTheEndComesBeforeWhatFollowsFromTheCommit(t *testing.T) {
	for kind, entered := range map[runlog.EventKind]int{runlog.NodeStarted: 1, runlog.NodeSucceeded: 1} {
		t.Run(string(kind), func(t *testing.T) {
			onEachStore(t, func(t *testing.T, options ...workflowtest.Option) {
				count, after := 0, 0
				env := workflowtest.New(t, chain("counts",
					node("count", func(ctx, int) (int, error) { count++; return count, nil }),
					node("after", func(_ ctx, n int) (int, error) { after++; return n, nil })), options...)
				env.CrashAfter(kind, "count")
				run := env.Start(1)
				synctest.Wait()
				if kind == runlog.NodeStarted && count != 0 || after != 0 {
					t.Errorf("after the end count was entered %d times, after %d times", count, after)
				}
				env.Restart()
				if got := run.Result(); got != entered || count != entered || after != 1 {
					t.Errorf("got %d; entered %d and %d times", got, count, after)
				}
			})
		})
	}
}

// The process ends between an effect and its record: nobody may guess what happened.
func TestAnEffectThatACrashCutsOffHasAnUnknownOutcome(t *testing.T) {
	onEachStore(t, func(t *testing.T, options ...workflowtest.Option) {
		made := 0
		var env *workflowtest.Env[int, string]
		env = workflowtest.New(t, workflow.MustDefine("pays", 1, func(b builder, in workflow.Ref[int]) workflow.Ref[string] {
			return workflow.Then(b, in, node("pay", func(c ctx, _ int) (string, error) {
				return workflow.Once(c, "transfer", func(context.Context) (string, error) {
					made++
					env.Crash()
					return "paid", nil
				})
			}))
		}), options...)
		run := env.Start(1)
		env.Restart()
		if f := run.Failure(); f.Kind != fault.Interrupted || made != 1 {
			t.Errorf("failed with %+v, paid %d times", f, made)
		}
	})
}

func TestChunksOfAnAttemptThatACrashCutOffAreRetracted(t *testing.T) {
	onEachStore(t, func(t *testing.T, options ...workflowtest.Option) {
		words := func(name string, more ...workflow.NodeOption) workflow.StreamNode[int, int, []int] {
			return workflow.StreamFunc(name, func(c ctx, to int) iter.Seq2[int, error] {
				return func(yield func(int, error) bool) {
					next := len(slices.Collect(workflow.Committed[int](c)))
					for ; next < to; next++ {
						if !yield(next, nil) {
							return
						}
						<-time.After(time.Second)
					}
				}
			}, func(_ ctx, _ int, all iter.Seq[int]) ([]int, error) { return slices.Collect(all), nil }, more...)
		}
		env := workflowtest.New(t, workflow.MustDefine("talks", 1, func(b builder, in workflow.Ref[int]) workflow.Ref[[]int] {
			again := workflow.ThenStream(b, in, words("again"))
			kept := workflow.ThenStream(b, workflow.Apply(b, again, func(all []int) int { return len(all) }), words("kept", workflow.ResumeAfterCrash()))
			return workflow.Join2(b, again, kept, func(a, b []int) []int { return append(a, b...) })
		}), options...)
		env.CrashAfter(runlog.NodeChunk, "again") // ahead of the start: its first chunk waits for nothing
		run := env.Start(3)
		env.Restart()
		env.CrashAfter(runlog.NodeChunk, "kept")
		env.Restart()
		if got := run.Result(); !slices.Equal(got, []int{0, 1, 2, 0, 1, 2}) {
			t.Errorf("got %v", got)
		}
		run.WantNodes("again", "again", "kept", "kept")
		run.WantLog("node.chunk again 0", "node.retracted again 1 chunks", "node.chunk again 0 (attempt 2)", "node.chunk kept 0", "node.started kept (attempt 2)", "node.chunk kept 1 (attempt 2)")
	})
}

// Without a crash the process leaves in good order, and what nodes have in work is suspended.
func TestAHostThatLeavesSuspendsWhatItHasInWork(t *testing.T) {
	onEachStore(t, func(t *testing.T, options ...workflowtest.Option) {
		slow := node("slow", func(c ctx, n int) (int, error) {
			select {
			case <-time.After(time.Hour):
				return n, nil
			case <-c.Done():
				return 0, c.Err()
			}
		})
		env := workflowtest.New(t, chain("slow", slow), options...)
		run := env.Start(1)
		if got := run.Rest(); got != runlog.Running {
			t.Errorf("it is %s", got)
		}
		env.Restart()
		if got := run.Result(); got != 1 {
			t.Errorf("got %d", got)
		}
		run.WantLog("node.suspended slow", "run.suspended", "node.started slow (attempt 2)")
	})
}

func TestAChangeIsDeployedUnderRunsThatFit(t *testing.T) {
	version := func(n int, nodes ...workflow.Node[int, int]) *workflow.Workflow[int, int] {
		return workflow.MustDefine("changes", n, func(b builder, in workflow.Ref[int]) workflow.Ref[int] {
			for _, node := range nodes {
				in = workflow.Then(b, in, node)
			}
			return in
		})
	}
	asking := node("ask", func(c ctx, n int) (int, error) { return workflow.Ask[int, int](c, "more", n) })
	onEachStore(t, func(t *testing.T, options ...workflowtest.Option) {
		env := workflowtest.New(t, version(1, add("first", 1), asking, add("last", 10)), options...)
		run := env.Start(1)
		run.Question()
		env.Restart(version(2, add("first", 1), asking, add("other", 100)))
		run.Question().Answer(5)
		if got := run.Result(); got != 105 {
			t.Errorf("got %d", got)
		}

		run = env.Start(1)
		run.Question()
		env.Restart(version(3, add("renamed", 1), asking))
		if got := run.Rest(); got != runlog.Blocked {
			t.Errorf("it is %s", got)
		}
		run.WantLog(`run.blocked workflow "changes" version 2 is not registered, and version 3 does not fit: node "first", which has begun, is gone;`)
	})
}
