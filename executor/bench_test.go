package executor_test

import (
	"fmt"
	"iter"
	"path/filepath"
	"sync"
	"testing"

	"github.com/workflowd/workflowd/executor"
	"github.com/workflowd/workflowd/executor/runlog"
	"github.com/workflowd/workflowd/store/runstore"
	"github.com/workflowd/workflowd/workflow"
)

// engines are the stores that the benchmarks compare.
func engines(b *testing.B, bench func(*testing.B, *executor.Engine)) {
	for _, dsn := range []string{"memory:", "sqlite:"} {
		b.Run(dsn[:len(dsn)-1], func(b *testing.B) {
			if dsn == "sqlite:" {
				dsn += filepath.Join(b.TempDir(), "runs.db")
			}
			e, err := executor.Open(b.Context(), dsn)
			if err != nil {
				b.Fatal(err)
			}
			defer func() {
				if err := e.Close(); err != nil {
					b.Error(err)
				}
			}()
			bench(b, e)
		})
	}
}

func benchHandle[In, Out any](b *testing.B, e *executor.Engine, w *workflow.Workflow[In, Out]) *executor.Handle[In, Out] {
	h, err := executor.Register(e, w)
	if err != nil {
		b.Fatal(err)
	}
	return h
}

func benchRun[In, Out any](b *testing.B, h *executor.Handle[In, Out], in In) {
	run, err := h.Start(b.Context(), in)
	if err != nil {
		b.Error(err)
		return
	}
	if _, err := run.Result(b.Context()); err != nil {
		b.Error(err)
	}
}

// Three trivial steps, 64 runs at a time: runs/s. Goal: at least 3 times DBOS Go (254/s) and a quarter of the batched floor.
func BenchmarkThreeStepsAt64(b *testing.B) {
	engines(b, func(b *testing.B, e *executor.Engine) {
		h := benchHandle(b, e, workflow.MustDefine("three", 1, func(b builder, in workflow.Ref[int]) workflow.Ref[int] {
			return workflow.Then(b, workflow.Then(b, workflow.Then(b, in, add("one", 1)), add("two", 1)), add("three", 1))
		}))
		b.ResetTimer()
		var wg sync.WaitGroup
		work := make(chan int)
		for range 64 {
			wg.Go(func() {
				for n := range work {
					benchRun(b, h, n)
				}
			})
		}
		for n := range b.N {
			work <- n
		}
		close(work)
		wg.Wait()
		b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "runs/s")
	})
}

// One run that delivers chunks as fast as they are taken: chunks/s. Goal: at least 20,000 durable.
func BenchmarkChunks(b *testing.B) {
	const chunks = 10_000
	engines(b, func(b *testing.B, e *executor.Engine) {
		h := benchHandle(b, e, workflow.MustDefine("chunks", 1, func(b builder, in workflow.Ref[int]) workflow.Ref[int] {
			return workflow.ThenStream(b, in, workflow.StreamFunc("stream",
				func(_ ctx, n int) iter.Seq2[string, error] {
					return func(yield func(string, error) bool) {
						for i := range n {
							if !yield(fmt.Sprintf("chunk number %06d of the benchmark", i), nil) {
								return
							}
						}
					}
				},
				func(_ ctx, _ int, all iter.Seq[string]) (int, error) {
					n := 0
					for range all {
						n++
					}
					return n, nil
				})).From()
		}))
		for b.Loop() {
			benchRun(b, h, chunks)
		}
		b.ReportMetric(chunks*float64(b.N)/b.Elapsed().Seconds(), "chunks/s")
	})
}

const graphNodes = 1000

// A chain of 1,000 trivial nodes: time per node. Goal: 5 us in memory, 2.5 bare commits durable.
func BenchmarkChain(b *testing.B) {
	for _, nodes := range []int{graphNodes / 4, graphNodes} {
		b.Run(fmt.Sprint(nodes), func(b *testing.B) {
			engines(b, func(b *testing.B, e *executor.Engine) {
				h := benchHandle(b, e, workflow.MustDefine(fmt.Sprint("chain", nodes), 1, func(b builder, in workflow.Ref[int]) workflow.Ref[int] {
					at := in
					for i := range nodes {
						at = workflow.Then(b, at, add(fmt.Sprint("n", i), 1))
					}
					return at
				}))
				for b.Loop() {
					benchRun(b, h, 0)
				}
				b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N*nodes), "us/node")
			})
		})
	}
}

// A fan of 1,000 trivial nodes that meet again: time per node. Goal: 5 us in memory, 1 bare commit durable.
func BenchmarkFan(b *testing.B) {
	engines(b, func(b *testing.B, e *executor.Engine) {
		h := benchHandle(b, e, workflow.MustDefine("fan", 1, func(b builder, in workflow.Ref[int]) workflow.Ref[int] {
			list := workflow.Apply(b, in, func(n int) []int { return make([]int, n) })
			return workflow.Apply(b, workflow.Map(b, list, add("each", 1)), func(all []int) int { return len(all) })
		}))
		for b.Loop() {
			benchRun(b, h, graphNodes)
		}
		b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N*graphNodes), "us/node")
	})
}

// The floor: one bare commit of one event at a time.
func BenchmarkBareCommit(b *testing.B) {
	for _, d := range []runlog.Durability{runlog.Fast, runlog.Synced} {
		b.Run([]string{"fast", "synced"}[d], func(b *testing.B) {
			s, err := runstore.Open(filepath.Join(b.TempDir(), "runs.db"))
			if err != nil {
				b.Fatal(err)
			}
			defer func() {
				if err := s.Close(); err != nil {
					b.Error(err)
				}
			}()
			state, err := s.Acquire(b.Context())
			if err != nil {
				b.Fatal(err)
			}
			if err := s.Commit(&runlog.Batch{Run: "r", Epoch: state.Epoch, Create: &runlog.Run{ID: "r"}}); err != nil {
				b.Fatal(err)
			}
			for b.Loop() {
				err := s.Commit(&runlog.Batch{Run: "r", Epoch: state.Epoch, Durability: d, Events: []runlog.Event{{Kind: runlog.NodeStarted}}})
				if err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
