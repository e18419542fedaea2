package task_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/workflowd/workflowd/agentcore/session"
	"github.com/workflowd/workflowd/agentcore/task"
)

func (r *rig) cancel(id session.TaskID, reason string) {
	r.t.Helper()
	if err := r.sched.Cancel(r.t.Context(), id, reason); err != nil {
		r.t.Fatal(err)
	}
	synctest.Wait()
}

// Promise: P-210
// Promise: P-211
func TestACancelGoesDownFromTheBottomAndSparesTheBackground(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, defineAs("owner", idle), defineAs("child", idle), defineAs("grandchild", idle), defineAs("background", idle), defineAs("below", idle))
		owner := r.add("owner")
		child := r.add("child", ownedBy(owner))
		grandchild := r.add("grandchild", ownedBy(child))
		side := r.add("background", ownedBy(owner), background)
		below := r.add("below", ownedBy(side))
		r.run()
		before := len(r.commits)
		r.cancel(owner, "enough")
		r.wantNotes("grandchild aborted", "child aborted", "owner aborted")
		for _, id := range []session.TaskID{owner, child, grandchild} {
			if got := r.ended(id, session.Aborted); got.Reason != "enough" {
				t.Errorf("task %d: reason %q, want the owner's", id, got.Reason)
			}
		}
		if mark := r.commits[before]; mark.Batch.Durability != session.Synced || !mark.Batch.Tasks[0].Abort {
			t.Errorf("the first commit of a cancel is %+v, want the synced mark", mark.Batch)
		}
		r.status(side, session.TaskPending)
		r.status(below, session.TaskPending)
		r.cancel(side, "now this")
		r.ended(side, session.Aborted)
		r.ended(below, session.Aborted)
		r.wantFailures()
	})
}

func TestTheMarksOfOneLevelAreOneCommit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, defineAs("owner", idle), defineAs("child", idle))
		owner := r.add("owner")
		const many = 50
		for range many {
			r.add("child", ownedBy(owner))
		}
		r.run()
		before := len(r.commits)
		r.cancel(owner, "enough")
		if got := len(r.commits[before+1].Batch.Tasks); got != many {
			t.Errorf("the second commit marks %d tasks, want all %d", got, many)
		}
		if got, want := len(r.commits)-before, 2+many+1; got != want {
			t.Errorf("%d commits, want %d: two of marks, one outcome each", got, want)
		}
	})
}

func TestAStoppedPhaseIsToldWhyAndItsErrorIsNoFault(t *testing.T) {
	for _, end := range []struct {
		name string
		err  func(context.Context) error
	}{
		{"it returns the cause", context.Cause},
		{"it returns another error", func(context.Context) error { return errTest }},
		{"it returns nothing", func(context.Context) error { return nil }},
		{"it parks", func(context.Context) error { return task.ErrPark }},
		{"it panics", func(context.Context) error { panic("too late") }},
	} {
		t.Run(end.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, define(func(ctx context.Context, _ *task.Invocation) error {
					<-ctx.Done()
					if !errors.Is(context.Cause(ctx), task.ErrStopped) {
						t.Errorf("cause %v, want ErrStopped", context.Cause(ctx))
					}
					return end.err(ctx)
				}))
				id := r.add("work")
				r.run()
				r.cancel(id, "enough")
				r.ended(id, session.Aborted)
				r.wantNotes("work aborted")
			})
		})
	}
}

// Other work going on must not stop an abort phase half-way.
func TestAnAbortPhaseRunsUndisturbed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		d := define(idle)
		runs := 0
		d.Abort = func(ctx context.Context, inv *task.Invocation) error {
			runs++
			<-release
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			return step(ctx, inv, "work aborted", task.Settle{Outcome: session.Outcome{Status: session.Aborted}})
		}
		r := newRig(t, d, defineAs("other", finish))
		id := r.add("work")
		r.run()
		r.cancel(id, "enough")
		r.add("other")
		r.sched.Unpark()
		r.cancel(id, "again")
		synctest.Wait()
		close(release)
		synctest.Wait()
		r.ended(id, session.Aborted)
		r.wantNotes("other done", "work aborted")
		if runs != 1 {
			t.Errorf("the abort phase ran %d times, want once", runs)
		}
	})
}

func asItIs(*session.Task) {}

func TestAnAbortPhaseThatDoesNotSettleFaultsItsTask(t *testing.T) {
	cases := map[string]task.Phase{
		"it returns": func(context.Context, *task.Invocation) error { return nil },
		"it parks":   func(context.Context, *task.Invocation) error { return task.ErrPark },
		"it fails":   func(context.Context, *task.Invocation) error { return errTest },
		"it continues": func(ctx context.Context, inv *task.Invocation) error {
			return step(ctx, inv, "lost", task.Continue{Phase: "x"})
		},
		"it waits": func(ctx context.Context, inv *task.Invocation) error {
			return step(ctx, inv, "lost", task.Wait{On: []session.TaskID{99}, Phase: "x"})
		},
		"it makes work": func(ctx context.Context, inv *task.Invocation) error {
			_, err := inv.Commit(ctx, func(tx *session.Tx) (task.Next, error) {
				tx.CreateTask(pending("work", ownedBy(inv.Task().ID)))
				return completed(), nil
			})
			return err
		},
	}
	for name, code := range cases {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := define(idle)
				d.Abort = code
				r := newRig(t, d)
				id := r.add("work")
				r.run()
				r.cancel(id, "enough")
				r.ended(id, session.Faulted)
				r.wantNotes("work cleaned up: faulted")
				r.wantFailures()
			})
		})
	}
}

func TestATaskIsCancelledWhateverItsState(t *testing.T) {
	older := defineAs("newer", idle)
	older.Version = 0
	bare := task.Definition{Kind: "bare", Version: 1, Phases: map[string]task.Phase{"go": idle}}
	cases := []struct {
		name string
		kind string
		task func(*session.Task)
		want session.OutcomeStatus
		note []string
	}{
		{"running", "work", asItIs, session.Aborted, []string{"work aborted"}},
		{"parked", "parks", asItIs, session.Aborted, []string{"parks aborted"}},
		{"waiting", "work", func(t *session.Task) { t.Status, t.On = session.TaskWaiting, []session.TaskID{2} }, session.Aborted, []string{"work aborted"}},
		{"without abort code", "bare", asItIs, session.Aborted, nil},
		{"without a definition", "unknown", asItIs, session.Orphaned, nil},
		{"with a definition that is too old", "newer", asItIs, session.Orphaned, []string{"newer cleaned up: orphaned"}},
		{"in a phase that is no more", "work", func(t *session.Task) { t.Phase = "gone" }, session.Aborted, []string{"work aborted"}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, defineAs("work", idle), older, bare, defineAs("parks", func(context.Context, *task.Invocation) error { return task.ErrPark }))
				r.add("work") // task 2 stays live
				id := r.add(c.kind, c.task)
				r.run()
				r.cancel(id, "enough")
				if got := r.ended(id, c.want); got.Reason != "enough" && got.Reason != "" {
					t.Errorf("reason %q", got.Reason)
				}
				r.wantNotes(c.note...)
			})
		})
	}
}

func TestCancellingWhatIsOverOrUnknownDoesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, define(finish))
		id := r.add("work")
		r.run()
		r.cancel(id, "late")
		r.cancel(99, "unknown")
		r.ended(id, session.Completed)
		r.wantNotes("work done")
	})
}

// Invariant: INV-24
func TestAMarkFoundAtOpenGoesOnDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		defs := []task.Definition{defineAs("owner", finish), defineAs("child", finish)}
		r := newRig(t, defs...)
		owner := r.add("owner")
		child := r.add("child", ownedBy(owner))
		r.cancel(owner, "enough") // nothing runs yet: only the mark is there
		r.reopen(defs...)
		r.run()
		r.ended(child, session.Aborted)
		r.ended(owner, session.Aborted)
		r.wantNotes("child aborted", "owner aborted")
	})
}

func TestAnOutcomeIsHeldUntilOwnedWorkHasDrained(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		owner := defineAs("owner", func(ctx context.Context, inv *task.Invocation) error {
			_, err := inv.Commit(ctx, func(tx *session.Tx) (task.Next, error) {
				tx.CreateTask(pending("child", ownedBy(inv.Task().ID)))
				tx.CreateTask(pending("background", ownedBy(inv.Task().ID), background))
				return task.Continue{Phase: "end"}, nil
			})
			return err
		})
		owner.Phases["end"] = func(ctx context.Context, inv *task.Invocation) error {
			return step(ctx, inv, "owner's result", task.Settle{Outcome: session.Outcome{Status: session.Completed, Result: number(7)}})
		}
		defs := []task.Definition{owner, defineAs("waiter", finish), defineAs("background", idle),
			defineAs("child", func(ctx context.Context, inv *task.Invocation) error {
				select {
				case <-release:
					return finish(ctx, inv)
				case <-ctx.Done():
					return context.Cause(ctx)
				}
			})}
		r := newRig(t, defs...)
		id := r.add("owner")
		waiter := r.add("waiter", func(t *session.Task) { t.Status, t.On = session.TaskWaiting, []session.TaskID{id} })
		r.run()
		r.status(id, session.TaskCompleting)
		r.status(waiter, session.TaskWaiting)
		r.wantNotes("owner's result") // what was written with the outcome is there now
		if _, err := r.sess.Commit(t.Context(), func(tx *session.Tx) error {
			tx.CreateTask(pending("child", ownedBy(id)))
			return nil
		}); !errors.Is(err, session.ErrOwnerDown) {
			t.Errorf("new work under a completing task: %v, want ErrOwnerDown", err)
		}
		r.reopen(defs...)
		r.run()
		r.status(id, session.TaskCompleting)
		close(release)
		synctest.Wait()
		if got := r.ended(id, session.Completed); string(got.Result) != "7" {
			t.Errorf("result %s, want 7", got.Result)
		}
		r.wantNotes("owner's result", "child done", "waiter done")
	})
}

func TestAHeldOutcomeWhoseWorkIsOverIsWrittenAtOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		id := r.add("work", func(t *session.Task) {
			t.Status, t.Outcome = session.TaskCompleting, &session.Outcome{Status: session.Failed, Error: "kept"}
		})
		r.run()
		if got := r.ended(id, session.Failed); got.Error != "kept" {
			t.Errorf("error %q, want that of the held outcome", got.Error)
		}
	})
}

func TestATaskThatSettlesWithFreshWorkIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, define(func(ctx context.Context, inv *task.Invocation) error {
			_, err := inv.Commit(ctx, func(tx *session.Tx) (task.Next, error) {
				tx.CreateTask(pending("child", ownedBy(inv.Task().ID)))
				return completed(), nil
			})
			if !errors.Is(err, session.ErrOwnerDown) {
				return fmt.Errorf("want ErrOwnerDown: %w", err)
			}
			return finish(ctx, inv)
		}))
		id := r.add("work")
		r.run()
		r.ended(id, session.Completed)
	})
}

func TestABadOutcomeTakesOwnedWorkDown(t *testing.T) {
	cases := []struct {
		name  string
		phase task.Phase
		want  session.OutcomeStatus
		notes []string
	}{
		{"it failed", func(ctx context.Context, inv *task.Invocation) error {
			return step(ctx, inv, "owner failed", task.Settle{Outcome: session.Outcome{Status: session.Failed}})
		}, session.Failed, []string{"owner failed", "child aborted"}},
		// The cleanup of a fault comes with the final commit.
		{"it faulted", func(context.Context, *task.Invocation) error { return errTest }, session.Faulted, []string{"child aborted", "owner cleaned up: faulted"}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, defineAs("owner", c.phase), defineAs("child", idle))
				owner := r.add("owner")
				child := r.add("child", ownedBy(owner))
				r.run()
				r.ended(owner, c.want)
				if got := r.ended(child, session.Aborted); got.Reason != "its owner "+string(c.want) {
					t.Errorf("reason %q", got.Reason)
				}
				r.wantNotes(c.notes...)
			})
		})
	}
}

func TestACancelDuringTheHoldTakesOwnedWorkDownAndKeepsTheOutcome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, defineAs("owner", finish), defineAs("child", idle))
		owner := r.add("owner")
		child := r.add("child", ownedBy(owner))
		r.run()
		r.status(owner, session.TaskCompleting)
		r.cancel(owner, "enough")
		r.ended(child, session.Aborted)
		r.ended(owner, session.Completed)
		r.wantNotes("owner done", "child aborted")
	})
}
