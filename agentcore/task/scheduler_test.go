package task_test

import (
	"context"
	"errors"
	"runtime"
	"testing"
	"testing/synctest"

	"go.uber.org/goleak"

	"github.com/workflowd/workflowd/agentcore/session"
	"github.com/workflowd/workflowd/agentcore/task"
)

// Promise: P-207
func TestEachPhaseRunsOncePerCheckpoint(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := define(func(ctx context.Context, inv *task.Invocation) error {
			var n int
			if err := inv.Decode(&n); err != nil {
				return err
			}
			if n == 3 {
				return step(ctx, inv, "go 3", task.Continue{Phase: "last"})
			}
			return step(ctx, inv, "go "+string(number(n)), task.Continue{Phase: "go", Checkpoint: number(n + 1)})
		})
		d.Phases["last"] = finish
		r := newRig(t, d)
		id := r.add("work", func(t *session.Task) { t.Checkpoint = number(1) })
		r.status(id, session.TaskPending)
		r.run()
		r.ended(id, session.Completed)
		r.wantNotes("go 1", "go 2", "go 3", "work done")
		r.wantFailures()
	})
}

func TestATaskMadeWhileTheSchedulerRunsIsStarted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, define(finish))
		r.run()
		id := r.add("work")
		synctest.Wait()
		r.ended(id, session.Completed)
	})
}

// Promise: P-206
func TestAPhaseThatMakesNoProgressFaultsItsTask(t *testing.T) {
	settle := func(s session.OutcomeStatus) task.Phase {
		return func(ctx context.Context, inv *task.Invocation) error {
			return step(ctx, inv, "lost", task.Settle{Outcome: session.Outcome{Status: s}})
		}
	}
	cases := []struct {
		name  string
		phase task.Phase
		want  string // the outcome's error
	}{
		{"it returns without a commit", func(context.Context, *task.Invocation) error { return nil }, "go: the phase returned without committing progress"},
		{"it only writes", func(ctx context.Context, inv *task.Invocation) error {
			_, err := inv.Write(ctx, func(tx *session.Tx) error { tx.ReserveEntry(); return nil })
			return err
		}, "go: the phase returned without committing progress"},
		{"it returns an error", func(context.Context, *task.Invocation) error { return errTest }, "go: told by the test"},
		{"it returns an error out of its commit", func(ctx context.Context, inv *task.Invocation) error {
			_, err := inv.Commit(ctx, func(tx *session.Tx) (task.Next, error) { note(tx, "lost"); return nil, errTest })
			return err
		}, "go: told by the test"},
		{"it panics", func(context.Context, *task.Invocation) error { panic("a defect") }, "go: panic: a defect"},
		{"it panics inside its commit", func(ctx context.Context, inv *task.Invocation) error {
			_, err := inv.Commit(ctx, func(tx *session.Tx) (task.Next, error) { note(tx, "lost"); panic("a defect") })
			return err
		}, "go: panic: a defect"},
		{"it ends its goroutine", func(context.Context, *task.Invocation) error { runtime.Goexit(); return nil }, "go: the phase ended its goroutine"},
		{"it continues where it is", func(ctx context.Context, inv *task.Invocation) error {
			return step(ctx, inv, "lost", task.Continue{Phase: "go"})
		}, "go: task 2 go: task: not a next state: it is the present one, so the phase would run for ever"},
		{"it gives no next state", func(ctx context.Context, inv *task.Invocation) error { return step(ctx, inv, "lost", nil) },
			"go: task 2 go: task: not a next state: none was given"},
		{"it settles as faulted itself", settle(session.Faulted), `go: task 2 go: task: not a next state: a phase does not settle as "faulted"`},
		{"it settles as orphaned itself", settle(session.Orphaned), `go: task 2 go: task: not a next state: a phase does not settle as "orphaned"`},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, define(c.phase))
				id := r.add("work")
				r.run()
				if got := r.ended(id, session.Faulted); got.Error != c.want {
					t.Errorf("error %q, want %q", got.Error, c.want)
				}
				r.wantNotes("work cleaned up: faulted")
				if last := r.commits[len(r.commits)-1]; len(last.Batch.Tasks) != 1 || len(last.Batch.Entries) != 1 {
					t.Errorf("the last commit is %+v, want the outcome together with the cleanup", last.Batch)
				}
				r.wantFailures()
			})
		})
	}
}

func TestAnErrorBehindAStepFaultsTheTaskToo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := define(func(ctx context.Context, inv *task.Invocation) error {
			if err := step(ctx, inv, "moved on", task.Continue{Phase: "next"}); err != nil {
				return err
			}
			return errTest
		})
		d.Phases["next"] = finish
		r := newRig(t, d)
		id := r.add("work")
		r.run()
		r.ended(id, session.Faulted)
		r.wantNotes("moved on", "work cleaned up: faulted")
	})
}

func TestAnErrorBehindTheOutcomeDoesNotChangeIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, define(func(ctx context.Context, inv *task.Invocation) error { return errors.Join(finish(ctx, inv), errTest) }))
		id := r.add("work")
		r.run()
		r.ended(id, session.Completed)
		r.wantNotes("work done")
	})
}

func TestAFaultHarmsNoOtherTask(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, define(func(context.Context, *task.Invocation) error { panic("a defect") }), defineAs("fine", finish))
		bad, fine := r.add("work"), r.add("fine")
		r.run()
		r.ended(bad, session.Faulted)
		r.ended(fine, session.Completed)
	})
}

// Promise: P-208
// Promise: P-209
func TestAWaitResumesOnceAfterTheLastOfItsTasks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := map[string]chan struct{}{"a": make(chan struct{}), "b": make(chan struct{})}
		owner := defineAs("owner", func(ctx context.Context, inv *task.Invocation) error {
			_, err := inv.Commit(ctx, func(tx *session.Tx) (task.Next, error) {
				var on []session.TaskID
				for _, name := range []string{"a", "b"} {
					on = append(on, tx.CreateTask(pending(name, ownedBy(inv.Task().ID))))
				}
				return task.Wait{On: on, Phase: "after"}, nil
			})
			return err
		})
		owner.Phases["after"] = finish
		child := func(name string) task.Definition {
			return defineAs(name, func(ctx context.Context, inv *task.Invocation) error {
				<-release[name]
				return finish(ctx, inv)
			})
		}
		r := newRig(t, owner, child("a"), child("b"))
		id := r.add("owner")
		r.run()
		r.status(id, session.TaskWaiting)
		close(release["b"])
		synctest.Wait()
		r.status(id, session.TaskWaiting)
		close(release["a"])
		synctest.Wait()
		r.ended(id, session.Completed)
		r.wantNotes("b done", "a done", "owner done")
	})
}

func TestADependencyThatRollsBackIsNotThere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, define(func(ctx context.Context, inv *task.Invocation) error {
			_, err := inv.Commit(ctx, func(tx *session.Tx) (task.Next, error) {
				tx.CreateTask(pending("child", ownedBy(inv.Task().ID)))
				return nil, errTest
			})
			return err
		}), defineAs("child", finish))
		id := r.add("work")
		r.run()
		r.ended(id, session.Faulted)
		if list, err := r.memory.Tasks(session.TaskQuery{}); err != nil || len(list) != 1 {
			t.Errorf("tasks %+v, %v, want one", list, err)
		}
	})
}

func TestAWaitOnTasksThatAreOverResumesAtOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := define(finish)
		r := newRig(t, d)
		over := r.add("work")
		r.run()
		r.ended(over, session.Completed)
		r.reopen(d)
		id := r.add("work", func(t *session.Task) { t.Status, t.On = session.TaskWaiting, []session.TaskID{over} })
		r.run()
		r.ended(id, session.Completed)
	})
}

func TestATaskMayWaitForOneThatItDoesNotOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		r := newRig(t, define(finish), defineAs("slow", func(ctx context.Context, inv *task.Invocation) error {
			<-release
			return finish(ctx, inv)
		}))
		slow := r.add("slow")
		id := r.add("work", func(t *session.Task) { t.Status, t.On = session.TaskWaiting, []session.TaskID{slow} })
		r.run()
		r.status(id, session.TaskWaiting)
		close(release)
		synctest.Wait()
		r.ended(id, session.Completed)
		r.wantNotes("slow done", "work done")
	})
}

func TestATaskWithoutAFittingDefinitionIsBlockedAndGoesOnWithOne(t *testing.T) {
	d := define(finish)
	older := d
	older.Version = 0
	lacking := d
	lacking.Phases = map[string]task.Phase{"other": finish}
	cases := []struct {
		name string
		defs []task.Definition
	}{
		{"the kind is unknown", nil},
		{"the task is newer than the definition", []task.Definition{older}},
		{"the definition lacks the phase", []task.Definition{lacking}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, c.defs...)
				id := r.add("work")
				r.run()
				r.status(id, session.TaskPending) // Promise: P-219
				r.reopen(c.defs...)
				r.run()
				r.status(id, session.TaskPending)
				r.wantNotes()
				r.wantFailures()
				r.reopen(d)
				r.run()
				r.ended(id, session.Completed)
			})
		})
	}
}

func TestNothingRunsBeforeResumeAndAfterClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, define(finish))
		id := r.add("work")
		r.sched.Unpark()
		synctest.Wait()
		r.wantNotes()
		r.sched.Close()
		r.run()
		r.sched.Unpark()
		r.sched.Close()
		synctest.Wait()
		r.status(id, session.TaskPending)
		r.wantNotes()
	})
}

func TestResumingTwiceRunsOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, define(finish))
		r.add("work")
		for range 2 {
			r.run()
		}
		r.wantNotes("work done")
	})
}

// Invariant: INV-07
func TestNoGoroutineIsLeftWhileTasksOnlyWait(t *testing.T) {
	before := goleak.IgnoreCurrent()
	parked := make(chan struct{}, 1)
	r := newRig(t, define(func(context.Context, *task.Invocation) error {
		parked <- struct{}{}
		return task.ErrPark
	}))
	id := r.add("work")
	waiting := r.add("work", func(t *session.Task) { t.Status, t.On = session.TaskWaiting, []session.TaskID{id} })
	r.add("unknown")
	if err := r.sched.Resume(t.Context()); err != nil {
		t.Fatal(err)
	}
	<-parked
	if err := goleak.Find(before); err != nil { // it waits for those that are just ending
		t.Error(err)
	}
	r.status(waiting, session.TaskWaiting)
}
