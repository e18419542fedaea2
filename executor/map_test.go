package executor_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/workflowd/workflowd/agentcore/fault"
	"github.com/workflowd/workflowd/executor"
	"github.com/workflowd/workflowd/executor/runlog"
	"github.com/workflowd/workflowd/workflow"
	"github.com/workflowd/workflowd/workflow/userinput"
)

func TestAMapWorksOnAsManyElementsAsItMay(t *testing.T) {
	for _, test := range []struct {
		name    string
		options []workflow.NodeOption
		most    int32
		takes   time.Duration
	}{
		{"one after the other", []workflow.NodeOption{workflow.Parallel(1)}, 1, 100 * time.Second},
		{"a few", []workflow.NodeOption{workflow.Parallel(30)}, 30, 4 * time.Second},
		{"all of them", []workflow.NodeOption{workflow.Parallel(1000)}, 100, time.Second},
		{"as the engine likes", nil, 64, 2 * time.Second},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var active, most atomic.Int32
				e := open(t, runlog.NewMemory())
				h := register(t, e, workflow.MustDefine("each", 1, func(b builder, in workflow.Ref[[]int]) workflow.Ref[[]int] {
					return workflow.Map(b, in, fn("each", func(c ctx, n int) (int, error) {
						now := active.Add(1)
						defer active.Add(-1)
						for was := most.Load(); now > was && !most.CompareAndSwap(was, now); was = most.Load() {
						}
						return n, take(c, time.Second)
					}), test.options...)
				}))
				begin := time.Now()
				if got := result(t, start(t, h, make([]int, 100))); len(got) != 100 {
					t.Errorf("%d results", len(got))
				}
				if most.Load() != test.most || time.Since(begin) != test.takes {
					t.Errorf("%d at a time, it took %v", most.Load(), time.Since(begin))
				}
			})
		})
	}
}

// halves fails for odd numbers.
func halves(options ...workflow.NodeOption) workflow.Node[int, int] {
	return fn("half", func(_ ctx, n int) (int, error) {
		if n%2 != 0 {
			return 0, fault.New(fault.Unsupported, "%d is odd", n)
		}
		return n / 2, nil
	}, options...)
}

func TestAPartialMapKeepsWhatWentWellAndSaysWhatDidNot(t *testing.T) {
	onEachStoreInTime(t, func(t *testing.T, h host) {
		e := h(t)
		handle := register(t, e, workflow.MustDefine("partial", 1, func(b builder, in workflow.Ref[[]int]) workflow.Ref[[]workflow.Element[int]] {
			return workflow.MapPartial(b, in, halves(), workflow.Parallel(1), workflow.Retry(2, time.Second))
		}))
		run := start(t, handle, []int{4, 3, 0})
		want := []workflow.Element[int]{
			{Value: 2},
			{Failure: &workflow.Failure{Node: "half[1]", Visit: 1, Attempt: 2, Kind: fault.Unsupported, Message: "3 is odd"}},
			{},
		}
		if diff := cmp.Diff(want, result(t, run)); diff != "" {
			t.Error(diff)
		}
		record, err := e.Run(run.ID())
		if err != nil {
			t.Fatal(err)
		}
		const text = `[{"value":2},{"failure":{"node":"half[1]","visit":1,"attempt":2,"kind":"unsupported","message":"3 is odd"}},{"value":0}]`
		if string(record.Output) != text {
			t.Errorf("the result is %s", record.Output)
		}
		if got := result(t, start(t, handle, []int{})); len(got) != 0 {
			t.Errorf("of nothing: %v", got)
		}
	})
}

// kept returns the values of a map's finished elements, by path.
func kept(t *testing.T, e *executor.Engine, id executor.RunID) string {
	t.Helper()
	nodes, err := e.Nodes(id)
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, n := range nodes {
		if strings.Contains(n.Path, "[") {
			all = append(all, fmt.Sprintf("%s %s %s", n.Path, n.Status, n.Output))
		}
	}
	return strings.Join(all, ", ")
}

// What finished before a failure stays on record, the failure is the one that ended the map, and a restart changes neither.
func TestAMapThatFailsKeepsWhatItsElementsReturned(t *testing.T) {
	onEachStoreInTime(t, func(t *testing.T, h host) {
		flow := workflow.MustDefine("failing", 1, func(b builder, in workflow.Ref[[]int]) workflow.Ref[[]int] {
			each := workflow.Map(b, in, fn("each", func(c ctx, seconds int) (int, error) {
				if err := take(c, time.Duration(seconds)*time.Second); err != nil || seconds != 3 {
					return seconds, err
				}
				return 0, errors.New("three")
			}))
			return workflow.Catch(b, each, fn("sorry", func(c ctx, f workflow.Failure) ([]int, error) {
				_, err := workflow.Ask[string, answer](c, "sure", f.Node+": "+f.Message, userinput.Title("Go on?"))
				return nil, err
			}))
		})
		e := h(t)
		run := start(t, register(t, e, flow), []int{9, 1, 3, 2, 8})
		until(t, run, runlog.RunWaiting, 1)
		const want = "each[0] aborted , each[1] succeeded 1, each[2] failed , each[3] succeeded 2, each[4] aborted "
		if got := kept(t, e, run.ID()); got != want {
			t.Errorf("got %s", got)
		}
		leave(t, e)
		e = h(t)
		register(t, e, flow)
		run = attach[[]int](t, e, run.ID())
		if q := asked(t, e, run); string(q.Payload) != `"each[2]: three"` {
			t.Errorf("the handler asked about %s", q.Payload)
		}
		if _, err := run.Answer(t.Context(), asked(t, e, run).ID, answer{true}, "ann"); err != nil {
			t.Fatal(err)
		}
		if got := result(t, run); got != nil { // asked again with another payload it would be a conflict
			t.Errorf("got %v", got)
		}
		if got := kept(t, e, run.ID()); got != want {
			t.Errorf("after a restart: %s", got)
		}
	})
}

// Elements that are stopped with their run did not fail by themselves: they are no result.
func TestAPartialMapThatIsStoppedHasNoResult(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := open(t, runlog.NewMemory())
		h := register(t, e, workflow.MustDefine("partial", 1, func(b builder, in workflow.Ref[[]int]) workflow.Ref[[]workflow.Element[int]] {
			return workflow.MapPartial(b, in, fn("each", func(c ctx, seconds int) (int, error) {
				return seconds, take(c, time.Duration(seconds)*time.Second)
			}))
		}))
		run := start(t, h, []int{1, 60, 60})
		<-time.After(10 * time.Second)
		if err := run.Cancel(t.Context(), "enough"); err != nil {
			t.Fatal(err)
		}
		if _, err := run.Result(t.Context()); !fault.Is(err, fault.ExecutionAborted) {
			t.Errorf("got %v", err)
		}
		if got, want := kept(t, e, run.ID()), "each[0] succeeded 1, each[1] aborted , each[2] aborted "; got != want {
			t.Errorf("got %s", got)
		}
		nodes, err := e.Nodes(run.ID())
		if err != nil || len(nodes) != 3 {
			t.Errorf("the map has a record of its own: %+v %v", nodes, err)
		}
	})
}

// A run that misses its deadline has expired, also when it is taken up once more while its cleanup is in work.
func TestARestartInACleanupKeepsTheReason(t *testing.T) {
	onEachStoreInTime(t, func(t *testing.T, h host) {
		flow := workflow.MustDefine("late", 1, func(b builder, in workflow.Ref[int]) workflow.Ref[int] {
			late := workflow.Then(b, in, fn("late", func(c ctx, n int) (int, error) { return n, take(c, time.Hour) }))
			return workflow.Finally(b, late, fn("tidy", func(c ctx, f workflow.Failure) (string, error) {
				return string(f.Kind), workflow.Sleep(c, "slowly", time.Hour)
			}))
		})
		e := h(t)
		run := start(t, register(t, e, flow), 1, executor.Deadline(time.Now().Add(time.Minute)))
		<-time.After(10 * time.Minute)
		leave(t, e)
		e = h(t)
		register(t, e, flow)
		record, err := e.Wait(t.Context(), run.ID())
		if err != nil || record.Status != runlog.Expired {
			t.Errorf("the run is %s, %+v, %v", record.Status, record.Failure, err)
		}
		nodes, err := e.Nodes(run.ID())
		if err != nil || len(nodes) != 2 || string(nodes[1].Output) != `"deadline_exceeded"` {
			raw, _ := json.Marshal(nodes)
			t.Errorf("%s %v", raw, err)
		}
	})
}
