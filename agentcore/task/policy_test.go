package task_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/workflowd/workflowd/agentcore/session"
	"github.com/workflowd/workflowd/agentcore/task"
)

// fan is a task that creates one child per kind and waits for them by a policy.
func fan(policy task.Policy, kinds ...string) task.Definition {
	d := defineAs("owner", func(ctx context.Context, inv *task.Invocation) error {
		_, err := inv.Commit(ctx, func(tx *session.Tx) (task.Next, error) {
			var on []session.TaskID
			for _, kind := range kinds {
				on = append(on, tx.CreateTask(pending(kind, ownedBy(inv.Task().ID))))
			}
			return task.Wait{On: on, Policy: policy, Phase: "end"}, nil
		})
		return err
	})
	d.Phases["end"] = finish
	return d
}

// ends returns kinds of work that end in known ways: "ok" and "bad" at once, "slow" when it is told to.
func ends(slow <-chan struct{}) []task.Definition {
	return []task.Definition{
		defineAs("ok", finish),
		defineAs("bad", func(ctx context.Context, inv *task.Invocation) error {
			return step(ctx, inv, "bad failed", task.Settle{Outcome: session.Outcome{Status: session.Failed}})
		}),
		defineAs("slow", func(ctx context.Context, inv *task.Invocation) error {
			select {
			case <-slow:
				return finish(ctx, inv)
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}),
	}
}

// Promise: P-209
func TestAWaitEndsAsItsPolicySays(t *testing.T) {
	cases := []struct {
		name   string
		policy task.Policy
		kinds  []string
		before []string // what is said while slow is still at work
		after  []string // what is said in the end
	}{
		{"allSettled waits for the slow one, also behind a failure", task.AllSettled, []string{"slow", "bad"},
			[]string{"bad failed"}, []string{"bad failed", "slow done", "owner done"}},
		{"failFast waits as long as nothing fails", task.FailFast, []string{"slow", "ok"},
			[]string{"ok done"}, []string{"ok done", "slow done", "owner done"}},
		{"failFast cancels the slow one once one has failed", task.FailFast, []string{"slow", "bad"},
			[]string{"bad failed", "slow aborted", "owner done"}, []string{"bad failed", "slow aborted", "owner done"}},
		{"any goes on at once and leaves the slow one at work", task.Any, []string{"slow", "ok"},
			[]string{"ok done", "owner done"}, []string{"ok done", "owner done", "slow done"}},
		{"a failure is an end too", task.Any, []string{"slow", "bad"},
			[]string{"bad failed", "owner done"}, []string{"bad failed", "owner done", "slow done"}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				slow := make(chan struct{})
				r := newRig(t, append(ends(slow), fan(c.policy, c.kinds...))...)
				owner := r.add("owner")
				r.run()
				r.wantNotes(c.before...)
				close(slow)
				synctest.Wait()
				r.wantNotes(c.after...)
				r.ended(owner, session.Completed)
				r.wantFailures()
			})
		})
	}
}

// The order of "slow aborted" and "owner done" is open: the winner is known at once, the loser drains in its own time.
func TestAnyCancelGoesOnAtOnceAndItsLosersDrain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, append(ends(nil), fan(task.AnyCancel, "slow", "ok"))...)
		owner := r.add("owner")
		r.run()
		r.ended(owner, session.Completed)
		if got := r.ended(owner+1, session.Aborted); got.Reason != "another task was first" {
			t.Errorf("reason %q", got.Reason)
		}
		r.ended(owner+2, session.Completed)
	})
}

func TestAPolicyThatDoesNotExistIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, define(func(ctx context.Context, inv *task.Invocation) error {
			err := step(ctx, inv, "lost", task.Wait{On: []session.TaskID{99}, Policy: "most", Phase: "end"})
			if !errors.Is(err, task.ErrNext) {
				t.Errorf("Commit = %v, want ErrNext", err)
			}
			return finish(ctx, inv)
		}))
		id := r.add("work")
		r.run()
		r.ended(id, session.Completed)
		r.wantNotes("work done")
	})
}

// deadGroup is a store whose owner died right after a child had ended, before anything else was committed.
func deadGroup(r *rig, policy task.Policy, child session.OutcomeStatus) (waiter, sibling, stranger session.TaskID) {
	waiter = r.add("owner")
	ended := r.add("ok", ownedBy(waiter))
	sibling = r.add("slow", ownedBy(waiter))
	stranger = r.add("slow")
	r.commit(func(tx *session.Tx) error {
		w, _ := tx.LiveTask(waiter)
		tx.PutTask(task.After(w, task.Wait{On: []session.TaskID{ended, sibling, stranger}, Policy: policy, Phase: "end"}, true))
		c, _ := tx.LiveTask(ended)
		tx.PutTask(task.After(c, task.Settle{Outcome: session.Outcome{Status: child}}, false))
		return nil
	})
	return waiter, sibling, stranger
}

// Row 25 of the crash matrix.
// Invariant: INV-19
func TestSiblingsThatACrashLeftUnmarkedAreMarkedInTheFirstRound(t *testing.T) {
	cases := []struct {
		name   string
		policy task.Policy
		child  session.OutcomeStatus
		want   session.TaskStatus // of the sibling
	}{
		{"failFast and a failure", task.FailFast, session.Failed, session.TaskTerminal},
		{"failFast and a fault", task.FailFast, session.Faulted, session.TaskTerminal},
		{"failFast and a success", task.FailFast, session.Completed, session.TaskPending},
		{"anyCancel and a success", task.AnyCancel, session.Completed, session.TaskTerminal},
		{"any and a success", task.Any, session.Completed, session.TaskPending},
		{"allSettled and a failure", task.AllSettled, session.Failed, session.TaskPending},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				defs := append(ends(nil), fan(c.policy))
				r := newRig(t, defs...)
				waiter, sibling, stranger := deadGroup(r, c.policy, c.child)
				r.reopen(defs...)
				before := len(r.commits)
				r.run()
				r.status(sibling, c.want)
				r.status(stranger, session.TaskPending) // nobody else's task is touched
				if c.want != session.TaskTerminal {
					return
				}
				r.ended(sibling, session.Aborted)
				if len(r.commits) == before {
					t.Fatal("nothing was committed after the open")
				}
				first := r.commits[before].Batch.Tasks
				if len(first) != 1 || first[0].ID != sibling || !first[0].Abort {
					t.Errorf("the first commit after the open is %+v, want the sibling's mark", first)
				}
				if c.policy == task.FailFast {
					r.status(waiter, session.TaskWaiting) // the stranger is still at work
				}
				for _, n := range notesOf(t, r.memory) {
					if n == "slow done" {
						t.Error("a phase of the cancelled sibling ran to its end")
					}
				}
			})
		})
	}
}

// The first look, at the open, finds that nothing is decided; a later end decides.
func TestAWaitThatWasLookedAtInVainIsDecidedLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fail := make(chan struct{})
		bad := defineAs("bad", func(ctx context.Context, inv *task.Invocation) error {
			select {
			case <-fail:
				return step(ctx, inv, "bad failed", task.Settle{Outcome: session.Outcome{Status: session.Failed}})
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		})
		defs := append(ends(nil)[:1:1], ends(nil)[2], bad, fan(task.FailFast, "ok", "slow", "bad"))
		r := newRig(t, defs...)
		owner := r.add("owner")
		r.run()
		r.reopen(defs...)
		r.run()
		r.status(owner+2, session.TaskPending)
		close(fail)
		synctest.Wait()
		r.ended(owner+2, session.Aborted)
		r.ended(owner, session.Completed)
		r.wantNotes("ok done", "bad failed", "slow aborted", "owner done")
	})
}

func TestAHeldFailureCancelsItsSiblingsAlready(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		parent := defineAs("parent", func(ctx context.Context, inv *task.Invocation) error {
			_, err := inv.Commit(ctx, func(tx *session.Tx) (task.Next, error) {
				tx.CreateTask(pending("stubborn", ownedBy(inv.Task().ID)))
				return task.Continue{Phase: "fail"}, nil
			})
			return err
		})
		parent.Phases["fail"] = func(ctx context.Context, inv *task.Invocation) error {
			return step(ctx, inv, "parent failed", task.Settle{Outcome: session.Outcome{Status: session.Failed}})
		}
		stubborn := defineAs("stubborn", func(ctx context.Context, _ *task.Invocation) error {
			<-release
			return context.Cause(ctx)
		})
		r := newRig(t, append(ends(nil), fan(task.FailFast, "parent", "slow"), parent, stubborn)...)
		owner := r.add("owner")
		r.run()
		r.status(owner+1, session.TaskCompleting)
		r.ended(owner+2, session.Aborted)
		r.status(owner, session.TaskWaiting)
		close(release)
		synctest.Wait()
		r.ended(owner, session.Completed)
	})
}

func TestACancelOfTheTreeCrossesTheBackground(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, defineAs("owner", idle), defineAs("child", idle), defineAs("background", idle), defineAs("below", idle), defineAs("other", idle))
		owner := r.add("owner")
		child := r.add("child", ownedBy(owner))
		side := r.add("background", ownedBy(child), background)
		below := r.add("below", ownedBy(side))
		other := r.add("other")
		r.run()
		if err := r.sched.CancelTree(t.Context(), owner, "all of it"); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		for _, id := range []session.TaskID{owner, child, side, below} {
			if got := r.ended(id, session.Aborted); got.Reason != "all of it" {
				t.Errorf("task %d: reason %q", id, got.Reason)
			}
		}
		r.status(other, session.TaskPending)
	})
}
