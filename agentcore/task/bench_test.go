package task_test

import (
	"context"
	"fmt"
	"runtime/metrics"
	"testing"

	"github.com/workflowd/workflowd/agentcore/session"
	"github.com/workflowd/workflowd/agentcore/task"
)

// benchRig runs definitions and tells when tasks of kind "work" have ended.
func benchRig(b *testing.B, defs ...task.Definition) (*session.Session, *task.Scheduler, chan struct{}) {
	b.Helper()
	sess, err := session.Open(b.Context(), session.NewMemory())
	if err != nil {
		b.Fatal(err)
	}
	over := make(chan struct{}, 1)
	sess.Watch(func(c session.Commit) {
		for _, t := range c.Batch.Tasks {
			if t.Kind == "work" && t.Status == session.TaskTerminal {
				over <- struct{}{}
			}
		}
	})
	sched := task.NewScheduler(sess, func(err error) { b.Error(err) }, defs...)
	if err := sched.Resume(b.Context()); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		sched.Close()
		if err := sess.Close(); err != nil {
			b.Error(err)
		}
	})
	return sess, sched, over
}

func create(b *testing.B, sess *session.Session, t session.Task) {
	b.Helper()
	if _, err := sess.Commit(b.Context(), func(tx *session.Tx) error { tx.CreateTask(t); return nil }); err != nil {
		b.Fatal(err)
	}
}

func advance(next task.Next) task.Phase {
	return func(ctx context.Context, inv *task.Invocation) error {
		_, err := inv.Commit(ctx, func(*session.Tx) (task.Next, error) { return next, nil })
		return err
	}
}

// started counts the goroutines that this process has ever started.
func started() uint64 {
	sample := []metrics.Sample{{Name: "/sched/goroutines-created:goroutines"}}
	metrics.Read(sample)
	if sample[0].Value.Kind() != metrics.KindUint64 {
		return 0
	}
	return sample[0].Value.Uint64()
}

// BenchmarkRound is one task of two phases from its creation to its end: three commits. Two of the goroutines are the
// phases, the others are loops that ended in between.
func BenchmarkRound(b *testing.B) {
	d := define(advance(task.Continue{Phase: "end"}))
	d.Phases["end"] = advance(completed())
	sess, _, over := benchRig(b, d)
	b.ReportAllocs()
	before, rounds := started(), 0
	for b.Loop() {
		create(b, sess, pending("work"))
		<-over
		rounds++
	}
	b.ReportMetric(float64(started()-before)/float64(rounds), "goroutines/op")
}

// BenchmarkFan is an owner that waits for n children of one phase each. The time is per child: it must not grow with n.
func BenchmarkFan(b *testing.B) {
	for _, n := range []int{10, 100, 1000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			owner := define(func(ctx context.Context, inv *task.Invocation) error {
				_, err := inv.Commit(ctx, func(tx *session.Tx) (task.Next, error) {
					var on []session.TaskID
					for range n {
						on = append(on, tx.CreateTask(pending("child", ownedBy(inv.Task().ID))))
					}
					return task.Wait{On: on, Phase: "end"}, nil
				})
				return err
			})
			owner.Phases["end"] = advance(completed())
			sess, _, over := benchRig(b, owner, defineAs("child", advance(completed())))
			rounds := 0
			for b.Loop() {
				create(b, sess, pending("work"))
				<-over
				rounds++
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(rounds*n), "ns/child")
		})
	}
}
