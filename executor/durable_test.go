package executor_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/workflowd/workflowd/agentcore/fault"
	"github.com/workflowd/workflowd/executor"
	"github.com/workflowd/workflowd/executor/runlog"
	"github.com/workflowd/workflowd/store/runstore"
	"github.com/workflowd/workflowd/workflow"
)

// host opens engines on one store, one after the other, as processes do.
type host func(t *testing.T, options ...executor.Option) *executor.Engine

// onEachStore runs a test on memory and on a file.
func onEachStore(t *testing.T, test func(*testing.T, host)) {
	t.Helper()
	for _, kind := range []string{"memory", "file"} {
		t.Run(kind, func(t *testing.T) { onStore(t, kind, test) })
	}
}

// onStore runs a test on one kind of store.
func onStore(t *testing.T, kind string, test func(*testing.T, host)) {
	memory, path := runlog.NewMemory(), filepath.Join(t.TempDir(), "runs.db")
	test(t, func(t *testing.T, options ...executor.Option) *executor.Engine {
		t.Helper()
		if kind == "memory" {
			return open(t, memory, options...)
		}
		store, err := runstore.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		return open(t, store, options...)
	})
}

func leave(t *testing.T, e *executor.Engine) {
	t.Helper()
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
}

func attach[Out any](t *testing.T, e *executor.Engine, id executor.RunID) *executor.Run[Out] {
	t.Helper()
	run, err := executor.Attach[Out](t.Context(), e, id)
	if err != nil {
		t.Fatal(err)
	}
	return run
}

// counting delivers 1 to 4 and stops after stopAt chunks of the first attempt until the host leaves.
func counting(stopAt int, options ...workflow.NodeOption) *workflow.Workflow[int, []int] {
	return workflow.MustDefine("counting", 1, func(b builder, in workflow.Ref[int]) workflow.Ref[[]int] {
		return workflow.ThenStream(b, in, workflow.StreamFunc("count", func(c ctx, n int) iter.Seq2[int, error] {
			return func(yield func(int, error) bool) {
				next := 1
				for n := range workflow.Committed[int](c) {
					next = n + 1
				}
				for ; next <= n; next++ {
					if c.Run().Attempt == 1 && next > stopAt {
						<-c.Done()
						yield(0, context.Cause(c))
						return
					}
					if !yield(next, nil) {
						return
					}
				}
			}
		}, collect[int], options...)).From()
	})
}

func TestAHostThatLeavesKeepsTheWorkAndTheNextOneGoesOn(t *testing.T) {
	for _, test := range []struct {
		name    string
		options []workflow.NodeOption
		want    string
	}{
		{
			"a node that starts over retracts its chunks", nil, `run.queued
run.running
node.started count#1.1
node.chunk count#1.1 1
node.chunk count#1.1 2
node.suspended count#1.1
run.suspended
run.running
node.retracted count#1.2 from 3
node.started count#1.2
node.chunk count#1.2 1
node.chunk count#1.2 2
node.chunk count#1.2 3
node.chunk count#1.2 4
node.succeeded count#1.2
run.succeeded`,
		},
		{
			"a node that resumes keeps them", []workflow.NodeOption{workflow.ResumeAfterCrash()}, `run.queued
run.running
node.started count#1.1
node.chunk count#1.1 1
node.chunk count#1.1 2
node.suspended count#1.1
run.suspended
run.running
node.started count#1.2
node.chunk count#1.2 3
node.chunk count#1.2 4
node.succeeded count#1.2
run.succeeded`,
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			onEachStore(t, func(t *testing.T, h host) {
				e := h(t)
				run := start(t, register(t, e, counting(2, test.options...)), 4)
				until(t, run, runlog.NodeChunk, 2)
				leave(t, e)
				e = h(t)
				register(t, e, counting(2, test.options...))
				again := attach[[]int](t, e, run.ID())
				if diff := cmp.Diff([]int{1, 2, 3, 4}, result(t, again)); diff != "" {
					t.Error(diff)
				}
				if diff := cmp.Diff(test.want, wholeStory(t, again)); diff != "" {
					t.Error(diff)
				}
			})
		})
	}
}

func TestAnAnswerReachesARunThatNobodyHolds(t *testing.T) {
	onEachStore(t, func(t *testing.T, h host) {
		e := h(t)
		run := start(t, register(t, e, asking()), 1)
		until(t, run, runlog.RunWaiting, 1)
		leave(t, e)
		e = h(t)
		open, err := e.Requests(runlog.RequestQuery{Status: []runlog.RequestStatus{runlog.RequestOpen}})
		if err != nil || len(open) != 1 {
			t.Fatalf("%v %v", open, err)
		}
		// The workflow is not registered here: the answer is kept, the run blocked.
		if _, err := e.Answer(t.Context(), open[0].ID, []byte(`{"yes":true}`), "ann"); err != nil {
			t.Fatal(err)
		}
		blocked := until(t, attach[string](t, e, run.ID()), runlog.RunBlocked, 1)
		if !strings.Contains(string(blocked.Data), "workflowd runs cancel "+string(run.ID())) {
			t.Errorf("the reason names no command: %s", blocked.Data)
		}
		register(t, e, asking())
		if got := result(t, attach[string](t, e, run.ID())); got != "answered true" {
			t.Errorf("got %q", got)
		}
	})
}

// hooked calls after behind each commit, before the owner hears of it.
type hooked struct {
	runlog.Store
	after func(*runlog.Batch)
}

func (s *hooked) Commit(b *runlog.Batch) error {
	err := s.Store.Commit(b)
	if err == nil {
		s.after(b)
	}
	return err
}

// The owner that blocks a run must not miss the registration that comes before it has ended.
func TestARegistrationReachesARunThatIsJustBeingBlocked(t *testing.T) {
	memory := runlog.NewMemory()
	e := open(t, memory)
	run := start(t, register(t, e, asking()), 1)
	until(t, run, runlog.RunWaiting, 1)
	requests, err := e.Requests(runlog.RequestQuery{Run: run.ID()})
	if err != nil {
		t.Fatal(err)
	}
	leave(t, e)
	var next *executor.Engine
	next = open(t, &hooked{Store: memory, after: func(b *runlog.Batch) {
		if b.Change != nil && b.Change.Status == runlog.Blocked {
			register(t, next, asking())
		}
	}})
	if _, err := next.Answer(t.Context(), requests[0].ID, []byte(`{"yes":true}`), "ann"); err != nil {
		t.Fatal(err)
	}
	if got := result(t, attach[string](t, next, run.ID())); got != "answered true" {
		t.Fatalf("got %q", got)
	}
}

// meeting lets nobody leave Request before all have come.
type meeting struct {
	runlog.Store
	all sync.WaitGroup
}

func (s *meeting) Request(id string) (runlog.Request, error) {
	q, err := s.Store.Request(id)
	s.all.Done()
	s.all.Wait()
	return q, err
}

func TestAnswersAtTheSameTimeHaveOneWinner(t *testing.T) {
	const people = 20
	memory := runlog.NewMemory()
	first := open(t, memory)
	begun := start(t, register(t, first, asking()), 1)
	until(t, begun, runlog.RunWaiting, 1)
	requests, err := first.Requests(runlog.RequestQuery{Run: begun.ID()})
	if err != nil {
		t.Fatal(err)
	}
	leave(t, first)
	store := &meeting{Store: memory}
	store.all.Add(people) // all find the request open; the run stays blocked, so nobody else asks
	e := open(t, store)
	var won, repeated, refused atomic.Int32
	var wg sync.WaitGroup
	for i := range people {
		wg.Go(func() {
			receipt, err := e.Answer(t.Context(), requests[0].ID, []byte(fmt.Sprintf(`{"yes":%t}`, i%2 == 0)), fmt.Sprint("person ", i))
			switch {
			case fault.Is(err, fault.Conflict):
				refused.Add(1)
			case err != nil:
				t.Error(err)
			case receipt.Repeated:
				repeated.Add(1)
			default:
				won.Add(1)
			}
		})
	}
	wg.Wait()
	if won.Load() != 1 || repeated.Load() != people/2-1 || refused.Load() != people/2 {
		t.Errorf("%d won, %d repeated, %d refused", won.Load(), repeated.Load(), refused.Load())
	}
	if n := strings.Count(story(t, attach[string](t, e, begun.ID())), "request.answered"); n != 1 {
		t.Errorf("%d answers in the log", n)
	}
}

func TestANewOwnerStopsTheOldOne(t *testing.T) {
	store := runlog.NewMemory()
	old, err := executor.New(t.Context(), store)
	if err != nil {
		t.Fatal(err)
	}
	entered, cause := make(chan struct{}, 2), make(chan fault.Kind, 1)
	flow := workflow.MustDefine("owned", 1, func(b builder, in workflow.Ref[int]) workflow.Ref[int] {
		return workflow.Then(b, in, fn("work", func(c ctx, n int) (int, error) {
			entered <- struct{}{}
			if c.Run().Epoch == 1 {
				for c.Err() == nil {
					if err := c.TokenUsage().Report("record", workflow.Usage{Input: 1}); err != nil {
						break // the write that finds the other owner
					}
				}
				<-c.Done() // the write may fail a moment before the owner hears why and tells its nodes
				cause <- c.Abort().Cause()
				return 0, c.Err()
			}
			return n + 1, nil
		}))
	})
	run := start(t, register(t, old, flow), 1)
	<-entered
	next := open(t, store)
	if kind := <-cause; kind != fault.OwnerLost {
		t.Errorf("the old owner's node was told %q", kind)
	}
	before, err := next.Run(run.ID())
	if err != nil {
		t.Fatal(err)
	}
	if err := old.Suspend(t.Context()); err != nil {
		t.Error(err)
	}
	if after, err := next.Run(run.ID()); err != nil || after.LastSeq != before.LastSeq {
		t.Errorf("the old owner wrote on: %d to %d, %v", before.LastSeq, after.LastSeq, err)
	}
	register(t, next, flow)
	if got := result(t, attach[int](t, next, run.ID())); got != 2 {
		t.Errorf("got %d", got)
	}
}

func TestOnceKeepsItsResultAndReportsAnUnknownOutcome(t *testing.T) {
	onEachStore(t, func(t *testing.T, h host) {
		var done, cut atomic.Int32
		flow := workflow.MustDefine("effects", 1, func(b builder, in workflow.Ref[int]) workflow.Ref[string] {
			return workflow.Then(b, in, fn("effects", func(c ctx, n int) (string, error) {
				first, err := workflow.Once(c, "done", func(context.Context) (int32, error) { return done.Add(1), nil })
				if err != nil {
					return "", err
				}
				for i := range 2 { // an effect that failed for sure may be tried again
					_, err := workflow.Once(c, fmt.Sprint("failing", i), func(context.Context) (int, error) { return 0, errors.New("no") })
					if err == nil || err.Error() != "no" {
						return "", fmt.Errorf("the effect's error is %w", err)
					}
				}
				// The attempt asks in the middle of an effect, so it is parked with the intent alone on record.
				_, err = c.Journal().Once("cut", false, func(context.Context) (json.RawMessage, error) {
					cut.Add(1)
					panic(must(workflow.Ask[string, answer](c, "go on", "?")))
				})
				return fmt.Sprint(first, " ", fault.KindOf(err)), nil
			}))
		})
		e := h(t)
		run := start(t, register(t, e, flow), 1)
		until(t, run, runlog.RunWaiting, 1)
		leave(t, e)
		e = h(t)
		register(t, e, flow)
		open, err := e.Requests(runlog.RequestQuery{Run: run.ID()})
		if err != nil {
			t.Fatal(err)
		}
		again := attach[string](t, e, run.ID())
		if _, err := again.Answer(t.Context(), open[0].ID, answer{}, "ann"); err != nil {
			t.Fatal(err)
		}
		if got := result(t, again); got != "1 interrupted" || done.Load() != 1 || cut.Load() != 1 {
			t.Errorf("got %q; the effects ran %d and %d times", got, done.Load(), cut.Load())
		}
	})
}

// must returns the error as the *workflow.Error that a node may panic with.
func must(_ any, err error) *workflow.Error {
	return fault.New(fault.UserInputRequired, "%w", err)
}

func TestSleepAndSignalsParkARun(t *testing.T) {
	onEachStore(t, func(t *testing.T, h host) {
		flow := workflow.MustDefine("patient", 1, func(b builder, in workflow.Ref[int]) workflow.Ref[string] {
			return workflow.Then(b, in, fn("wait", func(c ctx, n int) (string, error) {
				first, err := workflow.Recv[string](c, "news", 0)
				if err != nil {
					return "", err
				}
				second, err := workflow.Recv[string](c, "news", 0)
				if err != nil {
					return "", err
				}
				if err := workflow.Sleep(c, "nap", 30*time.Millisecond); err != nil {
					return "", err
				}
				_, err = workflow.Recv[string](c, "never", 20*time.Millisecond)
				if errors.Is(err, context.Canceled) || !fault.Is(err, workflow.DeadlineExceeded) {
					return "", err
				}
				return first + second, nil
			}))
		})
		e := h(t)
		run := start(t, register(t, e, flow), 1)
		until(t, run, runlog.RunWaiting, 1)
		for range 2 {
			if err := run.Signal(t.Context(), "news", "one", "good "); err != nil {
				t.Fatal(err)
			}
		}
		until(t, run, runlog.RunWaiting, 2)
		leave(t, e)
		e = h(t)
		register(t, e, flow)
		again := attach[string](t, e, run.ID())
		if err := again.Signal(t.Context(), "news", "two", "news"); err != nil {
			t.Fatal(err)
		}
		if got := result(t, again); got != "good news" {
			t.Errorf("got %q", got)
		}
	})
}

func TestAWaitingRunHoldsNoGoroutine(t *testing.T) {
	e := open(t, runlog.NewMemory())
	h := register(t, e, asking())
	idle := start(t, h, 0)
	until(t, idle, runlog.RunWaiting, 1)
	before := runtime.NumGoroutine()
	var runs []*executor.Run[string]
	for i := range 200 {
		runs = append(runs, start(t, h, i))
	}
	for _, run := range runs {
		until(t, run, runlog.RunWaiting, 1)
	}
	if err := e.Suspend(t.Context()); err != nil { // returns when no owner is left
		t.Fatal(err)
	}
	crew := 4 * runtime.GOMAXPROCS(0) // idle goroutines that the engine keeps, however many runs there are
	late := time.After(10 * time.Second)
	for after := runtime.NumGoroutine(); after > before+crew; after = runtime.NumGoroutine() {
		select {
		case <-late:
			t.Fatalf("%d goroutines for 200 runs that wait, %d before", after, before)
		default:
			runtime.Gosched() // some are just ending
		}
	}
}

func TestAFailingNodeIsRetriedAfterItsBackoff(t *testing.T) {
	e := open(t, runlog.NewMemory())
	var entries atomic.Int32
	run := start(t, register(t, e, workflow.MustDefine("retry", 1, func(b builder, in workflow.Ref[int]) workflow.Ref[int32] {
		return workflow.Then(b, in, fn("flaky", func(ctx, int) (int32, error) {
			if n := entries.Add(1); n < 3 {
				return 0, fmt.Errorf("failure %d", n)
			}
			return entries.Load(), nil
		}, workflow.Retry(3, time.Millisecond)))
	})), 0)
	if got := result(t, run); got != 3 {
		t.Errorf("entered %d times", got)
	}
	if n := strings.Count(wholeStory(t, run), "node.sleeping"); n != 2 {
		t.Errorf("%d waits", n)
	}
}

func TestPauseStopsARunUntilResume(t *testing.T) {
	onEachStore(t, func(t *testing.T, h host) {
		e := h(t)
		run := start(t, register(t, e, counting(2, workflow.ResumeAfterCrash())), 4)
		until(t, run, runlog.NodeChunk, 2)
		if err := e.Pause(t.Context(), run.ID(), "night"); err != nil {
			t.Fatal(err)
		}
		until(t, run, runlog.RunPaused, 1)
		leave(t, e)
		e = h(t)
		register(t, e, counting(2, workflow.ResumeAfterCrash()))
		if r, err := e.Run(run.ID()); err != nil || r.Status != runlog.Paused || r.Reason != "night" {
			t.Errorf("%s %q %v", r.Status, r.Reason, err)
		}
		if err := e.Resume(t.Context(), run.ID()); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]int{1, 2, 3, 4}, result(t, attach[[]int](t, e, run.ID()))); diff != "" {
			t.Error(diff)
		}
	})
}
