package executor_test

import (
	"context"
	"fmt"
	"iter"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/workflowd/workflowd/agentcore/fault"
	"github.com/workflowd/workflowd/executor/runlog"
	"github.com/workflowd/workflowd/workflow"
)

// take works for d, or until it is told to stop.
func take(c context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-c.Done():
		return c.Err()
	}
}

// slow takes one after the other of times, the last one again and again.
func slow(name string, times []time.Duration, options ...workflow.NodeOption) workflow.Node[int, int] {
	return fn(name, func(c ctx, n int) (int, error) {
		return n + 1, take(c, times[min(c.Run().Attempt, len(times))-1])
	}, options...)
}

func single(node workflow.Node[int, int]) *workflow.Workflow[int, int] {
	return workflow.MustDefine("single", 1, func(b builder, in workflow.Ref[int]) workflow.Ref[int] { return workflow.Then(b, in, node) })
}

func TestAnAttemptThatRunsOverHasFailed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		e := open(t, runlog.NewMemory())
		var told fault.Kind
		h := register(t, e, workflow.MustDefine("over", 1, func(b builder, in workflow.Ref[int]) workflow.Ref[int] {
			workflow.Then(b, in, fn("beside", func(c ctx, _ int) (int, error) { return 0, take(c, time.Hour) }))
			return workflow.Then(b, in, fn("slow", func(c ctx, n int) (int, error) {
				err := take(c, time.Hour)
				told = c.Abort().Cause()
				return n, err
			}, workflow.Timeout(2*time.Minute, 0)))
		}))
		run := start(t, h, 1)
		_, err := run.Result(t.Context())
		if !fault.Is(err, workflow.DeadlineExceeded) || err.Error() != `node "slow": ran longer than its total timeout of 2m0s` {
			t.Errorf("got %v", err)
		}
		if told != workflow.DeadlineExceeded || time.Since(begin) != 2*time.Minute {
			t.Errorf("the node was told %q after %v", told, time.Since(begin))
		}
		r, err := e.Run(run.ID())
		if err != nil || r.Status != runlog.Failed { // expired is for a run that missed its own deadline
			t.Errorf("the run is %s, %v", r.Status, err)
		}
		nodes, err := e.Nodes(run.ID())
		if err != nil {
			t.Fatal(err)
		}
		for _, n := range nodes {
			if n.Path == "beside" && (n.Status != runlog.NodeIsAborted || n.Failure.Kind != fault.ExecutionAborted) {
				t.Errorf("the node beside is %s, %+v", n.Status, n.Failure)
			}
		}
	})
}

func TestARetryHasAllItsTimeAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := open(t, runlog.NewMemory())
		times := []time.Duration{time.Hour, time.Hour, 50 * time.Second}
		run := start(t, register(t, e, single(slow("slow", times, workflow.Timeout(time.Minute, 0), workflow.Retry(3, time.Second)))), 1)
		if got := result(t, run); got != 2 {
			t.Errorf("got %d", got)
		}
		want := `run.queued
run.running
node.started slow#1.1
node.sleeping slow#1.1
run.sleeping
run.running
node.started slow#1.2
node.sleeping slow#1.2
run.sleeping
run.running
node.started slow#1.3
node.succeeded slow#1.3
run.succeeded`
		if diff := cmp.Diff(want, wholeStory(t, run)); diff != "" {
			t.Error(diff)
		}
	})
}

// What a node returns behind its time does not count, however good it looks.
func TestAResultAfterTheTimeIsNone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := open(t, runlog.NewMemory())
		deaf := fn("deaf", func(_ ctx, n int) (int, error) { <-time.After(time.Hour); return n, nil }, workflow.Timeout(time.Minute, 0))
		if _, err := start(t, register(t, e, single(deaf)), 1).Result(t.Context()); !fault.Is(err, workflow.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
	})
}

// ticking delivers a chunk after each of the pauses.
func ticking(pauses []time.Duration, options ...workflow.NodeOption) *workflow.Workflow[int, []int] {
	return workflow.MustDefine("ticking", 1, func(b builder, in workflow.Ref[int]) workflow.Ref[[]int] {
		return workflow.ThenStream(b, in, workflow.StreamFunc("tick", func(c ctx, _ int) iter.Seq2[int, error] {
			return func(yield func(int, error) bool) {
				for i, pause := range pauses {
					if err := take(c, pause); err != nil {
						yield(0, err)
						return
					}
					if !yield(i, nil) {
						return
					}
				}
			}
		}, func(c ctx, n int, chunks iter.Seq[int]) ([]int, error) {
			all, _ := collect(c, n, chunks)
			return all, take(c, 30*time.Second) // a fold is not idle
		}, options...)).From()
	})
}

func TestAStreamThatFallsSilentHasFailed(t *testing.T) {
	for _, test := range []struct {
		name   string
		pauses []time.Duration
		want   string
	}{
		{"each chunk begins the time anew", []time.Duration{8 * time.Second, 9 * time.Second, 9 * time.Second}, ""},
		{"silence in the middle", []time.Duration{8 * time.Second, 11 * time.Second}, `node "tick": delivered nothing within its idle timeout of 10s`},
		{"silence from the start", []time.Duration{time.Hour}, `node "tick": delivered nothing within its idle timeout of 10s`},
		{"never silent, and too long", []time.Duration{9 * time.Second, 9 * time.Second, 9 * time.Second, 9 * time.Second, 9 * time.Second, 9 * time.Second, 9 * time.Second}, `node "tick": ran longer than its total timeout of 1m0s`},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := open(t, runlog.NewMemory())
				run := start(t, register(t, e, ticking(test.pauses, workflow.Timeout(time.Minute, 10*time.Second))), 0)
				_, err := run.Result(t.Context())
				switch {
				case test.want == "" && err != nil:
					t.Errorf("got %v", err)
				case test.want != "" && (!fault.Is(err, workflow.DeadlineExceeded) || err.Error() != test.want):
					t.Errorf("got %v, want %s", err, test.want)
				}
			})
		})
	}
}

// A node whose chunks the store takes its time to write is held up by us: that is no silence of its own.
func TestAStreamThatIsHeldUpIsNotIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slowDisk := &hooked{Store: runlog.NewMemory(), after: func(b *runlog.Batch) {
			if len(b.Events) > 0 && b.Events[0].Kind.Chunk() {
				<-time.After(15 * time.Second)
			}
		}}
		e := open(t, slowDisk)
		const chunks = 500 // more than the log holds back
		run := start(t, register(t, e, ticking(make([]time.Duration, chunks), workflow.Timeout(0, 10*time.Second))), 0)
		if got := result(t, run); len(got) != chunks {
			t.Errorf("%d chunks", len(got))
		}
	})
}

func TestPausesDoNotCount(t *testing.T) {
	onEachStoreInTime(t, func(t *testing.T, h host) {
		flow := workflow.MustDefine("patient", 1, func(b builder, in workflow.Ref[int]) workflow.Ref[string] {
			return workflow.Then(b, in, fn("wait", func(c ctx, n int) (string, error) {
				if err := take(c, 40*time.Second); err != nil {
					return "", err
				}
				a, err := workflow.Ask[int, answer](c, "sure", n)
				if err != nil {
					return "", err
				}
				if err := workflow.Sleep(c, "nap", time.Hour); err != nil {
					return "", err
				}
				news, err := workflow.Recv[string](c, "news", 0)
				return fmt.Sprint(a.Yes, news), err
			}), workflow.Timeout(time.Minute, 0))
		})
		e := h(t)
		run := start(t, register(t, e, flow), 1)
		until(t, run, runlog.RunWaiting, 1)
		<-time.After(time.Hour)
		if _, err := run.Answer(t.Context(), asked(t, e, run).ID, answer{true}, "ann"); err != nil {
			t.Fatal(err)
		}
		until(t, run, runlog.RunWaiting, 2)
		<-time.After(time.Hour)
		if err := run.Signal(t.Context(), "news", "1", " news"); err != nil {
			t.Fatal(err)
		}
		if got := result(t, run); got != "true news" {
			t.Errorf("got %q", got)
		}
	})
}

// The time is an attempt's: a restart begins another attempt.
func TestARestartBeginsTheTimeAnew(t *testing.T) {
	onEachStoreInTime(t, func(t *testing.T, h host) {
		flow := single(slow("slow", []time.Duration{time.Hour, 50 * time.Second}, workflow.Timeout(time.Minute, 0)))
		e := h(t)
		run := start(t, register(t, e, flow), 1)
		<-time.After(40 * time.Second)
		leave(t, e)
		e = h(t)
		register(t, e, flow)
		run = attach[int](t, e, run.ID())
		if got := result(t, run); got != 2 {
			t.Errorf("got %d", got)
		}
		if s := wholeStory(t, run); strings.Contains(s, "node.failed") || strings.Count(s, "node.started") != 2 {
			t.Error(s)
		}
	})
}

func TestElementsOfAMapHaveTheirOwnTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := open(t, runlog.NewMemory())
		h := register(t, e, workflow.MustDefine("each", 1, func(b builder, in workflow.Ref[[]int]) workflow.Ref[[]int] {
			return workflow.Map(b, in, fn("each", func(c ctx, seconds int) (int, error) {
				return seconds, take(c, time.Duration(seconds)*time.Second)
			}), workflow.Timeout(time.Minute, 0))
		}))
		if got := result(t, start(t, h, []int{50, 59, 1})); len(got) != 3 {
			t.Errorf("got %v", got)
		}
		_, err := start(t, h, []int{50, 61, 1}).Result(t.Context())
		if !fault.Is(err, workflow.DeadlineExceeded) || !strings.Contains(err.Error(), `"each[1]"`) {
			t.Errorf("got %v", err)
		}
	})
}
