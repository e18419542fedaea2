package task_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/workflowd/workflowd/agentcore/session"
	"github.com/workflowd/workflowd/agentcore/task"
)

// Promise: P-212
// Invariant: INV-23
func TestCloseSuspendsAndTheNextOpenGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := false
		d := define(func(ctx context.Context, inv *task.Invocation) error {
			if !release {
				<-ctx.Done()
				if !errors.Is(context.Cause(ctx), task.ErrSuspended) {
					t.Errorf("cause %v, want ErrSuspended", context.Cause(ctx))
				}
				return context.Cause(ctx)
			}
			return step(ctx, inv, fmt.Sprint("recovered ", inv.Recovered()), task.Continue{Phase: "next"})
		})
		d.Phases["next"] = func(ctx context.Context, inv *task.Invocation) error {
			return step(ctx, inv, fmt.Sprint("recovered ", inv.Recovered()), completed())
		}
		r := newRig(t, d)
		id := r.add("work")
		r.run()
		r.sched.Close()
		got := r.task(id)
		if got.Status != session.TaskPending || got.Outcome != nil || got.Abort {
			t.Errorf("after Close the task is %+v, want it as it was", got)
		}
		r.wantNotes()
		r.reopen(d)
		release = true
		r.run()
		r.ended(id, session.Completed)
		r.wantNotes("recovered true", "recovered false")
		r.wantFailures()
	})
}

func TestAnErrorOfASuspendedPhaseIsNoFault(t *testing.T) {
	for name, err := range map[string]error{"an error": errTest, "nothing": nil, "a park": task.ErrPark} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, define(func(ctx context.Context, _ *task.Invocation) error {
					<-ctx.Done()
					return err
				}))
				id := r.add("work")
				r.run()
				r.sched.Close()
				r.status(id, session.TaskPending)
				r.wantNotes()
				r.wantFailures()
			})
		})
	}
}

func TestAPhaseThatIgnoresItsContextKeepsCloseWaitingButCommitsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		r := newRig(t, define(func(ctx context.Context, inv *task.Invocation) error {
			<-release
			if _, err := inv.Write(context.WithoutCancel(ctx), func(tx *session.Tx) error { note(tx, "lost"); return nil }); !errors.Is(err, task.ErrStaleInvocation) {
				t.Errorf("Write = %v, want ErrStaleInvocation", err)
			}
			return finish(context.WithoutCancel(ctx), inv)
		}))
		id := r.add("work")
		r.run()
		closed := 0
		var mu sync.Mutex
		var group sync.WaitGroup
		for range 2 {
			group.Go(func() {
				r.sched.Close()
				mu.Lock()
				defer mu.Unlock()
				closed++
			})
		}
		synctest.Wait()
		if closed != 0 {
			t.Error("Close returned while a phase was running")
		}
		close(release)
		group.Wait()
		r.status(id, session.TaskPending)
		r.wantNotes()
	})
}

func TestTheLastOwnersMarkDoesNotHideThatAPhaseMayHaveRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := define(idle)
		recovered := false
		d.Abort = func(ctx context.Context, inv *task.Invocation) error {
			recovered = inv.Recovered()
			return step(ctx, inv, "aborted", task.Settle{Outcome: session.Outcome{Status: session.Aborted}})
		}
		r := newRig(t, d)
		id := r.add("work")
		r.run()
		r.reopen(d)
		r.cancel(id, "enough")
		r.run()
		r.ended(id, session.Aborted)
		if !recovered {
			t.Error("the abort of a task that an earlier owner ran says that it is not recovered")
		}
	})
}

func TestAStaleInvocationWritesNothing(t *testing.T) {
	move := func(t session.Task) session.Task {
		return task.After(t, task.Continue{Phase: "elsewhere"}, false)
	}
	cases := []struct {
		name string
		make func(r *rig, id session.TaskID)
	}{
		{"somebody else moved its task", func(r *rig, id session.TaskID) {
			r.commit(func(tx *session.Tx) error { t, _ := tx.LiveTask(id); tx.PutTask(move(t)); return nil })
		}},
		{"somebody else settled its task", func(r *rig, id session.TaskID) {
			r.commit(func(tx *session.Tx) error {
				t, _ := tx.LiveTask(id)
				tx.PutTask(task.After(t, completed(), false))
				return nil
			})
		}},
		{"its task is marked", func(r *rig, id session.TaskID) {
			r.commit(func(tx *session.Tx) error { t, _ := tx.LiveTask(id); t.Abort = true; tx.PutTask(t); return nil })
		}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				release := make(chan struct{})
				d := define(func(ctx context.Context, inv *task.Invocation) error {
					<-release
					ctx = context.WithoutCancel(ctx)
					if _, err := inv.Write(ctx, func(tx *session.Tx) error { note(tx, "lost"); return nil }); !errors.Is(err, task.ErrStaleInvocation) {
						t.Errorf("Write = %v, want ErrStaleInvocation", err)
					}
					err := finish(ctx, inv)
					if !errors.Is(err, task.ErrStaleInvocation) {
						t.Errorf("Commit = %v, want ErrStaleInvocation", err)
					}
					return err
				})
				d.Phases["elsewhere"] = idle
				d.Abort = idle
				r := newRig(t, d)
				id := r.add("work")
				r.run()
				c.make(r, id)
				synctest.Wait()
				close(release)
				synctest.Wait()
				r.wantNotes()
				if got := r.task(id); got.Outcome != nil && got.Outcome.Status == session.Faulted {
					t.Errorf("the task ended as %+v: being overtaken is no fault", got.Outcome)
				}
			})
		})
	}
}

func TestAnInvocationIsOverWithItsStepAndWithItsPhase(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var kept *task.Invocation
		d := define(func(ctx context.Context, inv *task.Invocation) error {
			if err := step(ctx, inv, "step", task.Continue{Phase: "next"}); err != nil {
				return err
			}
			if err := step(ctx, inv, "lost", completed()); !errors.Is(err, task.ErrStaleInvocation) {
				t.Errorf("a second step: %v, want ErrStaleInvocation", err)
			}
			return nil
		})
		d.Phases["next"] = func(_ context.Context, inv *task.Invocation) error { kept = inv; return task.ErrPark }
		r := newRig(t, d)
		id := r.add("work")
		r.run()
		if err := step(t.Context(), kept, "lost", completed()); !errors.Is(err, task.ErrStaleInvocation) {
			t.Errorf("a step behind the phase: %v, want ErrStaleInvocation", err)
		}
		r.status(id, session.TaskPending)
		r.wantNotes("step")
	})
}

func TestAWriteLeavesTheTaskWhereItIs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, define(func(ctx context.Context, inv *task.Invocation) error {
			var group sync.WaitGroup
			for range 3 { // also from helpers that the phase has started
				group.Go(func() {
					if _, err := inv.Write(ctx, func(tx *session.Tx) error { note(tx, "progress"); return nil }); err != nil {
						t.Error(err)
					}
				})
			}
			group.Wait()
			return finish(ctx, inv)
		}))
		id := r.add("work")
		r.run()
		r.ended(id, session.Completed)
		r.wantNotes("progress", "progress", "progress", "work done")
	})
}

func TestAParkedTaskRestsUntilItIsUnparked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		answered, asked := false, 0
		d := define(func(ctx context.Context, inv *task.Invocation) error {
			asked++
			if !answered {
				return task.ErrPark
			}
			return finish(ctx, inv)
		})
		r := newRig(t, d, defineAs("other", finish))
		id := r.add("work")
		r.run()
		r.add("other")
		synctest.Wait()
		if asked != 1 {
			t.Errorf("the phase ran %d times before Unpark, want once", asked)
		}
		r.sched.Unpark()
		synctest.Wait()
		if asked != 2 {
			t.Errorf("the phase ran %d times after Unpark, want twice", asked)
		}
		r.reopen(d)
		r.run()
		if asked != 3 {
			t.Errorf("the phase ran %d times after reopening, want three times", asked)
		}
		r.status(id, session.TaskPending)
		answered = true
		r.sched.Unpark()
		synctest.Wait()
		r.ended(id, session.Completed)
		r.wantNotes("other done", "work done")
	})
}

// The answer comes after the phase has looked for it and before it has given up.
func TestAnUnparkWhileThePhaseGivesUpIsNotLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		looked, giveUp := make(chan struct{}), make(chan struct{})
		answered := false
		r := newRig(t, define(func(ctx context.Context, inv *task.Invocation) error {
			if answered {
				return finish(ctx, inv)
			}
			close(looked)
			<-giveUp
			return task.ErrPark
		}))
		id := r.add("work")
		r.run()
		<-looked
		answered = true
		r.sched.Unpark()
		synctest.Wait()
		close(giveUp)
		synctest.Wait()
		r.ended(id, session.Completed)
	})
}

// Whatever refuses the scheduler's own commit, it is told once, nothing spins, and the next open finds the work.
func TestASchedulerThatCannotCommitStops(t *testing.T) {
	fault := func(context.Context, *task.Invocation) error { return errTest }
	broken := define(fault)
	broken.Cleanup = func(*session.Tx, session.Task, session.Outcome) error { return errTest }
	refused := func(r *rig) {
		r.faulty.Before = func(*session.Batch) error { return fmt.Errorf("disk full: %w", session.ErrNoEffect) }
	}
	cases := []struct {
		name string
		def  task.Definition
		arm  func(*rig)
		want error
	}{
		{"the store refuses the outcome", define(fault), refused, session.ErrNoEffect},
		{"the cleanup fails", broken, func(*rig) {}, errTest},
		{"a commit of a phase poisons the session", define(finish), func(r *rig) {
			r.faulty.Before = func(*session.Batch) error { return errTest }
		}, session.ErrPoisoned},
		{"another owner took over", define(finish), func(r *rig) {
			if _, err := r.memory.Reopen().Acquire(r.t.Context()); err != nil {
				r.t.Error(err)
			}
		}, session.ErrStale},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				runs := 0
				d := c.def
				phase := d.Phases["go"]
				d.Phases = map[string]task.Phase{"go": func(ctx context.Context, inv *task.Invocation) error {
					runs++
					return phase(ctx, inv)
				}}
				var cause error
				long := defineAs("long", func(ctx context.Context, _ *task.Invocation) error {
					<-ctx.Done()
					cause = context.Cause(ctx)
					return cause
				})
				r := newRig(t, d, long)
				r.add("long")
				id := r.add("work")
				c.arm(r)
				r.run()
				r.sched.Unpark()
				synctest.Wait()
				r.wantFailures(c.want)
				if runs != 1 {
					t.Errorf("the phase ran %d times, want once", runs)
				}
				if !errors.Is(cause, task.ErrSuspended) || !errors.Is(cause, c.want) {
					t.Errorf("the other phase was stopped by %v, want ErrSuspended and why", cause)
				}
				r.status(id, session.TaskPending)
				r.reopen(define(finish))
				r.run()
				r.ended(id, session.Completed)
				r.wantNotes("work done")
			})
		})
	}
}

func TestAnAbortThatMeetsADeadSessionStopsToo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := define(idle)
		abort, runs := d.Abort, 0
		d.Abort = func(ctx context.Context, inv *task.Invocation) error {
			runs++
			return abort(ctx, inv)
		}
		r := newRig(t, d)
		id := r.add("work")
		r.run()
		r.faulty.After = func(*session.Batch) error {
			r.faulty.Before = func(*session.Batch) error { return errTest } // behind the mark
			return nil
		}
		r.cancel(id, "enough")
		r.wantFailures(session.ErrPoisoned)
		if runs != 1 {
			t.Errorf("the abort phase ran %d times, want once", runs)
		}
		r.reopen(d)
		r.run()
		r.ended(id, session.Aborted)
	})
}

func TestAPhaseWhoseCommitHadNoEffectFaultsItsTaskOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, define(finish), defineAs("other", finish))
		id := r.add("work")
		r.faulty.Before = func(*session.Batch) error {
			r.faulty.Before = nil
			return session.ErrNoEffect
		}
		r.run()
		r.ended(id, session.Faulted)
		other := r.add("other")
		synctest.Wait()
		r.ended(other, session.Completed)
		r.wantFailures()
	})
}
