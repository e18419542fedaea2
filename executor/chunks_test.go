package executor_test

import (
	"errors"
	"fmt"
	"iter"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/workflowd/workflowd/agentcore/fault"
	"github.com/workflowd/workflowd/executor"
	"github.com/workflowd/workflowd/executor/runlog"
	"github.com/workflowd/workflowd/outputitems"
	"github.com/workflowd/workflowd/workflow"
)

func TestChunksOfAnotherLedgerCountOnce(t *testing.T) {
	onEachStore(t, func(t *testing.T, h host) {
		ledger := []string{"a", "b", "c", "d"}
		flow := workflow.MustDefine("project", 1, func(b builder, in workflow.Ref[int]) workflow.Ref[[]string] {
			return workflow.ThenStream(b, in, workflow.StreamFunc("project", func(c ctx, n int) iter.Seq2[string, error] {
				return func(yield func(string, error) bool) {
					if c.Run().Attempt == 2 && c.Journal().LastSource() != "ledger:1" {
						yield("", fmt.Errorf("the last source is %q", c.Journal().LastSource()))
						return
					}
					for i, entry := range ledger { // from the start each time: what is known is dropped
						if c.Run().Attempt == 1 && i == 2 {
							<-c.Done()
							return
						}
						c.Journal().Source(fmt.Sprint("ledger:", i))
						if !yield(entry, nil) {
							return
						}
					}
				}
			}, collect[string], workflow.ResumeAfterCrash())).From()
		})
		e := h(t)
		run := start(t, register(t, e, flow), 0)
		until(t, run, runlog.NodeChunk, 2)
		leave(t, e)
		e = h(t)
		register(t, e, flow)
		if diff := cmp.Diff(ledger, result(t, attach[[]string](t, e, run.ID()))); diff != "" {
			t.Error(diff)
		}
	})
}

func TestOutputItemsAreLoggedByTheirOperation(t *testing.T) {
	e := open(t, runlog.NewMemory())
	run := start(t, register(t, e, workflow.MustDefine("items", 1, func(b builder, in workflow.Ref[int]) workflow.Ref[int] {
		return workflow.ThenStream(b, in, workflow.StreamFunc("items", func(c ctx, n int) iter.Seq2[outputitems.Chunk, error] {
			return func(yield func(outputitems.Chunk, error) bool) {
				if err := c.Output().Emit(outputitems.OpenNotice("note", "beside")); err != nil {
					yield(outputitems.Chunk{}, err)
					return
				}
				_ = yield(outputitems.OpenText("text"), nil) && yield(outputitems.AppendText("text", 0, "hi"), nil) &&
					yield(outputitems.Done("text", outputitems.StatusCompleted), nil)
			}
		}, func(_ ctx, _ int, chunks iter.Seq[outputitems.Chunk]) (int, error) {
			n := 0
			for range chunks {
				n++
			}
			return n, nil
		})).From()
	})), 0)
	if got := result(t, run); got != 3 {
		t.Errorf("the fold saw %d chunks, the auxiliary item among them", got)
	}
	var kinds []string
	for e, err := range run.Events(t.Context(), 0) {
		if err != nil {
			t.Fatal(err)
		}
		if e.Kind.Chunk() {
			kinds = append(kinds, string(e.Kind))
		}
	}
	if diff := cmp.Diff("item.open item.open item.append item.done", strings.Join(kinds, " ")); diff != "" {
		t.Error(diff)
	}
}

func TestUsageCountsOncePerRecord(t *testing.T) {
	onEachStore(t, func(t *testing.T, h host) {
		e := h(t)
		run := start(t, register(t, e, workflow.MustDefine("usage", 1, func(b builder, in workflow.Ref[int]) workflow.Ref[int] {
			return workflow.Then(b, in, fn("model", func(c ctx, n int) (int, error) {
				for i := range int64(3) {
					if err := c.TokenUsage().Report("entry-1", workflow.Usage{Model: "m", Input: i}); err != nil {
						return 0, err
					}
				}
				return 0, nil
			}))
		})), 0)
		result(t, run)
		records, err := e.Usage(run.ID())
		want := []runlog.UsageRecord{{RecordID: "entry-1", Node: runlog.NodeKey{Path: "model", Visit: 1}, Usage: workflow.Usage{Model: "m", Input: 2}}}
		if diff := cmp.Diff(want, records); err != nil || diff != "" {
			t.Errorf("%v\n%s", err, diff)
		}
	})
}

func TestChunksStandBeforeWhatEndedTheirNode(t *testing.T) {
	e := open(t, runlog.NewMemory())
	run := start(t, register(t, e, workflow.MustDefine("cut", 1, func(b builder, in workflow.Ref[int]) workflow.Ref[[]int] {
		return workflow.ThenStream(b, in, workflow.StreamFunc("cut", func(ctx, int) iter.Seq2[int, error] {
			return func(yield func(int, error) bool) {
				for i := range 3 {
					if !yield(i, nil) {
						return
					}
				}
				yield(0, errors.New("cut off"))
			}
		}, collect[int])).From()
	})), 0)
	if _, err := run.Result(t.Context()); !fault.Is(err, executor.NodeFailed) {
		t.Errorf("got %v", err)
	}
	want := `run.queued
run.running
node.started cut#1.1
node.chunk cut#1.1 0
node.chunk cut#1.1 1
node.chunk cut#1.1 2
node.failed cut#1.1
run.failed`
	if diff := cmp.Diff(want, wholeStory(t, run)); diff != "" {
		t.Error(diff)
	}
}
