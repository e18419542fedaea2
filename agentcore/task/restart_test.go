package task_test

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/workflowd/workflowd/agentcore/session"
	"github.com/workflowd/workflowd/agentcore/task"
)

// die is a process that ends without a word: what it runs commits nothing more, nothing is taken back.
func (r *rig) die(defs ...task.Definition) {
	r.t.Helper()
	r.faulty.Before = func(*session.Batch) error { return errKilled }
	r.sched.Close()
	if err := r.sess.Close(); err != nil {
		r.t.Error(err)
	}
	r.memory = r.memory.Reopen()
	r.open(defs...)
}

func abandon(t *session.Task) { t.Abandon = true }

func TestATaskThatIsNotToOutliveItsOwnerIsCancelledAtOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		defs := []task.Definition{define(idle), defineAs("other", idle)}
		r := newRig(t, defs...)
		id := r.add("work", abandon)
		child := r.add("other", ownedBy(id))
		other := r.add("other")
		r.run()
		r.status(id, session.TaskPending) // its own process is no restart
		r.reopen(defs...)
		fresh := r.add("work", abandon) // created before Resume, by this owner
		r.run()
		if got := r.ended(id, session.Aborted); got.Reason != task.ReasonRestart {
			t.Errorf("reason %q, want %q", got.Reason, task.ReasonRestart)
		}
		r.ended(child, session.Aborted)
		r.status(other, session.TaskPending)
		r.status(fresh, session.TaskPending)
		r.wantNotes("other aborted", "work aborted")
	})
}

func TestAnAbandonedTaskWithoutDefinitionWaitsForItUnlessSomebodyCancelsIt(t *testing.T) {
	for _, cancelled := range []bool{false, true} {
		t.Run(fmt.Sprint("cancelled ", cancelled), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t)
				id := r.add("work", abandon)
				r.reopen()
				r.run()
				r.status(id, session.TaskPending)
				if got := r.sched.Standing(id); got != (task.Blocked{Reason: task.NotInstalled}) {
					t.Errorf("standing %#v, want blocked", got)
				}
				if cancelled {
					r.cancel(id, "enough")
					r.ended(id, session.Orphaned)
					return
				}
				r.reopen(define(idle))
				r.run()
				r.ended(id, session.Aborted)
				r.wantNotes("work aborted")
			})
		})
	}
}

// Row 42 of the crash matrix.
func TestATaskThatTakesItsProcessDownTooOftenRests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		runs := 0
		d := define(func(ctx context.Context, _ *task.Invocation) error {
			runs++
			<-ctx.Done() // here the process dies
			return context.Cause(ctx)
		})
		d.MaxRestarts = 3
		other := defineAs("other", finish)
		r := newRig(t, d, other)
		id := r.add("work")
		r.run()
		for range 5 {
			r.die(d, other)
			r.run()
		}
		if runs != 1+d.MaxRestarts {
			t.Errorf("the step ran %d times, want the first time and %d more", runs, d.MaxRestarts)
		}
		r.status(id, session.TaskPending)
		if got := r.sched.Standing(id); got != (task.Exhausted{Restarts: d.MaxRestarts}) {
			t.Errorf("standing %#v, want exhausted", got)
		}
		fine := r.add("other") // the session goes on beside it
		synctest.Wait()
		r.ended(fine, session.Completed)
		if err := r.sched.Release(t.Context(), id); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if runs != 2+d.MaxRestarts || r.task(id).Starts != 1 {
			t.Errorf("after Release %d runs and a count of %d", runs, r.task(id).Starts)
		}
		r.cancel(id, "enough")
		r.ended(id, session.Aborted)
	})
}

func TestOnlyDeathsWithoutProgressCount(t *testing.T) {
	cases := map[string]struct {
		phase task.Phase
		end   func(*rig, ...task.Definition)
	}{
		"an orderly close is no death":        {idle, (*rig).reopen},
		"nor is one while the task sleeps":    {func(_ context.Context, inv *task.Invocation) error { return inv.SleepMillis(1 << 42) }, (*rig).die},
		"nor is one while the task is parked": {func(context.Context, *task.Invocation) error { return task.ErrPark }, (*rig).die},
		"progress starts the count anew": {func(ctx context.Context, inv *task.Invocation) error {
			var n int
			if err := json.Unmarshal(inv.Task().Checkpoint, &n); err != nil {
				return err
			}
			if inv.Recovered() {
				return step(ctx, inv, "on", task.Continue{Phase: "go", Checkpoint: number(n + 1)})
			}
			return idle(ctx, inv)
		}, (*rig).die},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := define(c.phase)
				d.MaxRestarts = 1
				r := newRig(t, d)
				id := r.add("work", func(t *session.Task) { t.Checkpoint = number(0) })
				r.run()
				for range 4 {
					c.end(r, d)
					r.run()
					if got, is := r.sched.Standing(id).(task.Exhausted); is {
						t.Errorf("standing %#v", got)
					}
				}
				r.status(id, session.TaskPending)
			})
		})
	}
}

// A step that is not bounded writes nothing when it starts again.
func TestWithoutABoundARestartIsNotCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := define(idle)
		r := newRig(t, d)
		r.add("work")
		r.run()
		r.die(d)
		before := len(r.commits)
		r.run()
		if got := len(r.commits) - before; got != 0 {
			t.Errorf("%d commits at the open, want none", got)
		}
	})
}

func TestAnOlderTaskIsMigratedWhenItIsItsTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		next := defineAs("work", finish)
		next.Version = 3
		next.Phases["moved"] = func(ctx context.Context, inv *task.Invocation) error {
			return step(ctx, inv, fmt.Sprintf("v%d %s", inv.Task().Version, inv.Task().Checkpoint), completed())
		}
		next.Migrate = func(t session.Task) (task.Continue, error) {
			return task.Continue{Phase: "moved", Checkpoint: mustJSON(fmt.Sprintf("%s of v%d", t.Phase, t.Version))}, nil
		}
		r := newRig(t, next, defineAs("other", idle))
		other := r.add("other")
		id := r.add("work")
		waits := r.add("work", func(t *session.Task) { t.Status, t.On = session.TaskWaiting, []session.TaskID{other} })
		r.run()
		r.ended(id, session.Completed)
		if got := r.task(waits); got.Version != 1 || got.Status != session.TaskWaiting {
			t.Errorf("a waiting task became %+v", got)
		}
		r.cancel(other, "enough")
		r.ended(waits, session.Completed)
		r.wantNotes(`v3 "go of v1"`, "other aborted", `v3 "go of v1"`)
	})
}

// Promise: P-219
func TestATaskThatNoDefinitionFitsIsBlockedWithAReason(t *testing.T) {
	older, newer, failing, panicking := defineAs("work", finish), defineAs("work", finish), defineAs("work", finish), defineAs("work", finish)
	older.Version, newer.Version, failing.Version, panicking.Version = 0, 2, 2, 2
	failing.Migrate = func(session.Task) (task.Continue, error) { return task.Continue{}, errTest }
	panicking.Migrate = func(session.Task) (task.Continue, error) { panic("broken") }
	lost := defineAs("work", finish)
	lost.Phases = map[string]task.Phase{"other": finish}
	cases := []struct {
		name string
		defs []task.Definition
		want task.Blocked
	}{
		{"none is installed", nil, task.Blocked{Reason: task.NotInstalled}},
		{"it is too new", []task.Definition{older}, task.Blocked{Reason: task.TooNew}},
		{"it is too old", []task.Definition{newer}, task.Blocked{Reason: task.NotMigratable}},
		{"its migration failed", []task.Definition{failing}, task.Blocked{Reason: task.MigrationFailed, Detail: errTest.Error()}},
		{"its migration panicked", []task.Definition{panicking}, task.Blocked{Reason: task.MigrationFailed, Detail: "panic: broken"}},
		{"its phase is gone", []task.Definition{lost}, task.Blocked{Reason: task.NoPhase}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, c.defs...)
				id := r.add("work")
				r.run()
				stored := r.task(id)
				r.sched.Unpark()
				synctest.Wait()
				if got := r.sched.Standing(id); got != c.want {
					t.Errorf("standing %#v, want %#v", got, c.want)
				}
				if got := r.task(id); got.Status != session.TaskPending || got.Version != stored.Version || got.Phase != stored.Phase {
					t.Errorf("the record became %+v", got)
				}
				r.reopen(define(finish))
				r.run()
				r.ended(id, session.Completed) // the reason was not stored
				r.wantFailures()
			})
		})
	}
}

func TestACountIsWrittenOnceForAllThatStartAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := define(idle)
		d.MaxRestarts = task.MaxRestarts
		r := newRig(t, d)
		for range 20 {
			r.add("work")
		}
		r.run()
		r.die(d)
		before, start := len(r.commits), time.Now()
		r.run()
		if got := len(r.commits) - before; got != 1 {
			t.Errorf("%d commits at the open, want one", got)
		}
		if time.Since(start) != 0 {
			t.Error("starting again took time")
		}
	})
}
