package task_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/workflowd/workflowd/agentcore/session"
	"github.com/workflowd/workflowd/agentcore/task"
)

// household is one owner with a conversation, its turn and that one's tool, and what a cancel of the owner must spare: a background
// task with a conversation of its own, and a fork.
func household(s *story) {
	s.top("owner", "idle", "main")
	s.room("child", "owner")
	s.top("turn", "idle", "child")
	s.below("tool", "idle", "turn")
	s.room("grandchild", "tool")
	s.top("deep", "idle", "grandchild")
	s.top("side", "idle", "child", background)
	s.room("aside", "side")
	s.top("far", "idle", "aside")
	s.fork("fork", "child")
	s.top("free", "idle", "fork")
}

// Rows 28 and 29 of the crash matrix, through conversations.
// Promise: P-210
// Invariant: INV-45
func TestACancelGoesThroughOwnedConversations(t *testing.T) {
	cases := []struct {
		name  string
		tell  func(s *story)
		want  string
		order []string
	}{
		{"it goes down to the last one and up again, sparing background tasks and forks", func(s *story) {
			household(s)
			s.stop("owner")
			s.settle()
		}, "owner aborted, turn aborted, tool aborted, deep aborted, side pending, far pending, free pending",
			[]string{"deep aborted", "tool aborted", "turn aborted", "owner aborted"}},
		{"a running household is no other", func(s *story) {
			household(s)
			s.settle()
			s.stop("owner")
			s.settle()
		}, "owner aborted, turn aborted, tool aborted, deep aborted, side pending, far pending, free pending",
			[]string{"deep aborted", "tool aborted", "turn aborted", "owner aborted"}},
		{"from the middle it leaves alone what is above and beside", func(s *story) {
			household(s)
			s.stop("turn")
			s.settle()
		}, "owner pending, turn aborted, tool aborted, deep aborted, side pending, far pending, free pending", nil},
		{"a background task that is cancelled itself takes down what is below it", func(s *story) {
			household(s)
			s.stop("side")
			s.settle()
		}, "owner pending, turn pending, tool pending, deep pending, side aborted, far aborted, free pending",
			[]string{"far aborted", "side aborted"}},
		{"a background task that was cancelled too is no boundary", func(s *story) {
			household(s)
			s.stop("owner")
			s.stop("side")
			s.settle()
		}, "owner aborted, turn aborted, tool aborted, deep aborted, side aborted, far aborted, free pending", nil},
		{"a background task that failed and is held takes down what is below it", func(s *story) {
			s.top("owner", "idle", "main")
			s.below("side", "bad", "owner", background)
			s.room("aside", "side")
			s.top("far", "idle", "aside")
			s.settle()
		}, "owner pending, side failed, far aborted", []string{"side failed", "far aborted"}},
		{"new work in the conversation of a tool that is over is reached", func(s *story) {
			s.top("owner", "idle", "main")
			s.below("tool", "ok", "owner")
			s.room("child", "tool")
			s.settle()
			s.top("later", "idle", "child")
			s.settle()
			s.stop("owner")
			s.settle()
		}, "owner aborted, tool completed, later aborted", []string{"later aborted", "owner aborted"}},
		{"not so below a background task that is over", func(s *story) {
			s.top("owner", "idle", "main")
			s.below("side", "ok", "owner", background)
			s.room("aside", "side")
			s.settle()
			s.top("later", "idle", "aside")
			s.stop("owner")
			s.settle()
		}, "owner aborted, side completed, later pending", nil},
		{"work that comes a moment later is reached, and never begins", func(s *story) {
			s.top("owner", "idle", "main")
			s.room("child", "owner")
			s.top("turn", "idle", "child")
			s.stop("owner")
			s.top("later", "ok", "child")
			s.settle()
			s.neverSaid("later completed")
		}, "owner aborted, turn aborted, later aborted", nil},
		{"work that a background task makes a moment later is its own", func(s *story) {
			s.top("owner", "idle", "main")
			s.below("side", "idle", "owner", background)
			s.room("aside", "side")
			s.stop("owner")
			s.top("later", "ok", "aside")
			s.settle()
		}, "owner aborted, side pending, later completed", nil},
		{"an owner that is over cascades no more", func(s *story) {
			s.top("owner", "idle", "main")
			s.room("child", "owner")
			s.stop("owner")
			s.settle()
			s.top("later", "ok", "child")
			s.settle()
		}, "owner aborted, later completed", nil},
		{"a cancel without a reason is one", func(s *story) {
			household(s)
			if err := s.sched.Cancel(s.t.Context(), s.ids["owner"], ""); err != nil {
				s.t.Fatal(err)
			}
			s.settle()
		}, "owner aborted, turn aborted, tool aborted, deep aborted, side pending, far pending, free pending", nil},
		{"an owner without abort code ends last as well", func(s *story) {
			s.top("owner", "bare", "main")
			s.room("child", "owner")
			s.top("turn", "bare", "child")
			s.stop("owner")
			s.settle()
		}, "owner aborted, turn aborted", []string{"turn cleaned up: aborted", "owner cleaned up: aborted"}},
		{"a tree crosses the background, what is over too, and stops at forks", func(s *story) {
			household(s)
			s.below("gone", "ok", "far", background)
			s.room("left", "gone")
			s.top("other", "idle", "main")
			s.settle()
			s.top("lost", "idle", "left")
			s.settle()
			s.stopTree("owner")
			s.settle()
		}, "owner aborted, turn aborted, tool aborted, deep aborted, side aborted, far aborted, gone completed, lost aborted, " +
			"free pending, other pending", nil},
		{"a tree of a task that is over is what is left below it", func(s *story) {
			s.top("owner", "ok", "main")
			s.below("side", "idle", "owner", background)
			s.room("child", "owner")
			s.settle()
			s.top("later", "idle", "child")
			s.stopTree("owner")
			s.settle()
		}, "owner completed, side aborted, later aborted", nil},
		{"a tree of nothing is nothing", func(s *story) {
			household(s)
			for _, id := range []session.TaskID{0, 9999} {
				if err := s.sched.CancelTree(s.t.Context(), id, "all of it"); err != nil {
					s.t.Error(err)
				}
			}
			s.settle()
		}, "owner pending, turn pending, tool pending, deep pending, side pending, far pending, free pending", nil},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			told(t, func(s *story) {
				c.tell(s)
				s.are(c.want)
				s.said(c.order...)
			})
		})
	}
}

// Rows 26 and 27 of the crash matrix, through conversations.
// Invariant: INV-45
func TestAnOutcomeIsHeldByTheWorkInOwnedConversations(t *testing.T) {
	cases := []struct {
		name  string
		tell  func(s *story)
		want  string
		order []string
	}{
		{"it is held while a task there is at work", func(s *story) {
			s.top("owner", "ok", "main")
			s.room("child", "owner")
			s.top("turn", "slow", "child")
			s.settle()
		}, "owner completing, turn pending", []string{"owner completed"}},
		{"and written when that has ended by itself", func(s *story) {
			s.top("owner", "ok", "main")
			s.room("child", "owner")
			s.top("turn", "slow", "child")
			s.settle()
			s.letGo("turn")
			s.settle()
		}, "owner completed, turn completed", []string{"owner completed", "turn completed"}},
		{"one hold is held by another", func(s *story) {
			s.top("owner", "ok", "main")
			s.room("child", "owner")
			s.top("turn", "ok", "child")
			s.room("grandchild", "turn")
			s.top("deep", "slow", "grandchild")
			s.settle()
			s.are("owner completing, turn completing, deep pending")
			s.letGo("deep")
			s.settle()
		}, "owner completed, turn completed, deep completed", nil},
		{"who waits for it wakes when it is over", func(s *story) {
			s.top("owner", "ok", "main")
			s.room("child", "owner")
			s.top("turn", "slow", "child")
			s.top("waiter", "ok", "main", waitsFor(s.ids["owner"]))
			s.settle()
			s.are("owner completing, turn pending, waiter waiting")
			s.letGo("turn")
			s.settle()
		}, "owner completed, turn completed, waiter completed", []string{"turn completed", "waiter completed"}},
		{"a background task there does not hold it, nor what is below that", func(s *story) {
			s.top("owner", "ok", "main")
			s.room("child", "owner")
			s.top("side", "slow", "child", background)
			s.room("aside", "side")
			s.top("far", "slow", "aside")
			s.settle()
		}, "owner completed, side pending, far pending", nil},
		{"but the background task's own outcome is", func(s *story) {
			s.top("side", "ok", "main", background)
			s.room("aside", "side")
			s.top("far", "slow", "aside")
			s.settle()
		}, "side completing, far pending", nil},
		{"a fork does not hold it", func(s *story) {
			s.top("owner", "ok", "main")
			s.room("child", "owner")
			s.fork("fork", "child")
			s.top("free", "slow", "fork")
			s.settle()
		}, "owner completed, free pending", nil},
		{"new work in the conversation of a tool that is over holds it", func(s *story) {
			s.top("owner", "slow", "main")
			s.below("tool", "ok", "owner")
			s.room("child", "tool")
			s.settle()
			s.top("later", "slow", "child")
			s.letGo("owner")
			s.settle()
		}, "owner completing, tool completed, later pending", nil},
		{"new input there prolongs the hold", func(s *story) {
			s.top("owner", "ok", "main")
			s.room("child", "owner")
			s.top("turn", "slow", "child")
			s.settle()
			s.top("next", "slow", "child")
			s.letGo("turn")
			s.settle()
			s.are("owner completing, turn completed, next pending")
			s.letGo("next")
			s.settle()
		}, "owner completed, turn completed, next completed", []string{"turn completed", "next completed"}},
		{"a failure takes the work down and is told then", func(s *story) {
			s.top("owner", "bad", "main")
			s.room("child", "owner")
			s.top("turn", "idle", "child")
			s.below("tool", "idle", "turn")
			s.settle()
			for _, name := range []string{"turn", "tool"} {
				if got := s.task(s.ids[name]).AbortReason; got != "its owner failed" {
					s.t.Errorf("%s is cancelled because %q", name, got)
				}
			}
		}, "owner failed, turn aborted, tool aborted", []string{"owner failed", "tool aborted", "turn aborted"}},
		{"new input after a held failure is taken down too", func(s *story) {
			s.top("owner", "bad", "main")
			s.room("child", "owner")
			s.hold("owner", session.Failed)
			s.top("later", "ok", "child")
			s.settle()
			s.neverSaid("later completed")
		}, "owner failed, later aborted", nil},
		{"after a held success it ends by itself", func(s *story) {
			s.top("owner", "ok", "main")
			s.room("child", "owner")
			s.hold("owner", session.Completed)
			s.top("later", "ok", "child")
			s.settle()
		}, "owner completed, later completed", []string{"later completed"}},
		{"a hold whose work ended with the owner's process is written at open", func(s *story) {
			s.top("owner", "ok", "main")
			s.room("child", "owner")
			s.hold("owner", session.Completed)
			s.settle()
			s.neverSaid("owner completed") // what it wrote was written before
		}, "owner completed", nil},
		{"a fault takes the work down and is cleaned up at the very end", func(s *story) {
			s.top("owner", "broken", "main")
			s.room("child", "owner")
			s.top("turn", "idle", "child")
			s.settle()
		}, "owner faulted, turn aborted", []string{"turn aborted", "owner cleaned up: faulted"}},
		{"a cancel during the hold takes the work down and keeps the outcome", func(s *story) {
			s.top("owner", "ok", "main")
			s.room("child", "owner")
			s.top("turn", "idle", "child")
			s.settle()
			s.stop("owner")
			s.settle()
		}, "owner completed, turn aborted", []string{"owner completed", "turn aborted"}},
		{"a task that no definition fits is at work", func(s *story) {
			s.top("owner", "ok", "main")
			s.room("child", "owner")
			s.top("turn", "unknown", "child")
			s.settle()
		}, "owner completing, turn pending", nil},
		{"until it is cancelled", func(s *story) {
			s.top("owner", "ok", "main")
			s.room("child", "owner")
			s.top("turn", "unknown", "child")
			s.settle()
			s.stop("owner")
			s.settle()
		}, "owner completed, turn orphaned", nil},
		{"a held failure in a conversation is no failure of the owner's", func(s *story) {
			s.top("owner", "slow", "main")
			s.room("child", "owner")
			s.top("turn", "bad", "child")
			s.settle()
		}, "owner pending, turn failed", nil},
		{"work that a restart must not outlive ends, and its owner's hold with it", func(s *story) {
			s.top("owner", "ok", "main")
			s.room("child", "owner")
			s.top("turn", "slow", "child", abandon)
			s.die(s.defs()...)
			s.settle()
		}, "owner completed, turn aborted", nil},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			told(t, func(s *story) {
				c.tell(s)
				s.are(c.want)
				s.said(c.order...)
			})
		})
	}
}

func waitsFor(on ...session.TaskID) func(*session.Task) {
	return func(t *session.Task) { t.Status, t.On = session.TaskWaiting, on }
}

func TestWhatIsQueuedInReachedConversationsIsForTheLayerAbove(t *testing.T) {
	const ended, kept = "input unanswered (aborted: enough)", "write queued"
	cases := []struct {
		name string
		tell func(s *story)
	}{
		{"inputs end and writes stay, wherever the cancel comes", func(s *story) {
			household(s)
			for _, room := range []string{"child", "grandchild", "aside", "fork"} {
				s.queue(room, "input")
				s.queue(room, "write")
			}
			s.stop("owner")
			s.settle()
			s.queued("child", ended, kept)
			s.queued("grandchild", ended, kept)
			s.queued("aside", "input queued", kept) // behind a background task
			s.queued("fork", "input queued", kept)
		}},
		{"also in a conversation at rest", func(s *story) {
			s.top("owner", "idle", "main")
			s.room("child", "owner")
			s.queue("child", "input")
			s.stop("owner")
			s.settle()
			s.queued("child", ended)
		}},
		{"and when nothing but the record of the owner ends", func(s *story) {
			s.top("owner", "bare", "main")
			s.room("child", "owner")
			s.queue("child", "input")
			s.stop("owner")
			s.settle()
			s.are("owner aborted")
			s.queued("child", ended)
		}},
		{"also in one of a tool that is over", func(s *story) {
			s.top("owner", "idle", "main")
			s.below("tool", "ok", "owner")
			s.room("child", "tool")
			s.settle()
			s.queue("child", "input")
			s.stop("owner")
			s.settle()
			s.queued("child", ended)
		}},
		{"an input that is queued a moment later ends too", func(s *story) {
			s.top("owner", "ok", "main")
			s.room("child", "owner")
			s.top("turn", "slow", "child")
			s.settle()
			s.stop("owner")
			s.queue("child", "input")
			s.settle()
			s.queued("child", ended)
		}},
		{"a held failure reaches them", func(s *story) {
			s.top("owner", "bad", "main")
			s.room("child", "owner")
			s.queue("child", "input")
			s.top("turn", "idle", "child")
			s.settle()
			s.queued("child", "input unanswered (aborted: its owner failed)")
		}},
		{"a held success does not", func(s *story) {
			s.top("owner", "ok", "main")
			s.room("child", "owner")
			s.queue("child", "input")
			s.top("turn", "slow", "child")
			s.settle()
			s.queued("child", "input queued")
		}},
		{"an owner that is over does not", func(s *story) {
			s.top("owner", "bad", "main")
			s.room("child", "owner")
			s.settle()
			s.queue("child", "input")
			s.settle()
			s.queued("child", "input queued")
		}},
		{"a tree reaches all of them, behind background tasks and what is over too", func(s *story) {
			household(s)
			s.below("gone", "ok", "far", background)
			s.room("left", "gone")
			s.settle()
			for _, room := range []string{"main", "child", "grandchild", "aside", "left", "fork"} {
				s.queue(room, "input")
			}
			s.stopTree("owner")
			for _, room := range []string{"child", "grandchild", "aside", "left"} {
				s.queued(room, "input unanswered (aborted: all of it)") // with the marks
			}
			s.settle()
			s.queued("main", "input queued")
			s.queued("fork", "input queued")
		}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) { told(t, c.tell) })
	}
}

func TestMarksAndEndsOfInputsAreOneCommitPerLevel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStory(t)
		household(s)
		s.queue("child", "input")
		s.run()
		before := len(s.commits)
		s.cancel(s.ids["owner"], "enough")
		first := s.commits[before+1].Batch
		if len(first.Tasks) != 1 || first.Tasks[0].ID != s.ids["turn"] || !first.Tasks[0].Abort ||
			len(first.Submissions) != 1 || first.Submissions[0].Status != session.SubmissionUnanswered {
			t.Errorf("the commit behind the cancel is %+v, want the turn's mark and the input's end", first)
		}
	})
}

func newStory(t *testing.T) *story {
	s := &story{open: map[string]bool{}, ids: map[string]session.TaskID{}, rooms: map[string]session.ConversationID{"main": session.Root}}
	s.rig = newRig(t, s.defs()...)
	s.sched.OnReach(s.decide)
	return s
}

func TestALayerAboveThatCannotDecideStopsTheScheduler(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStory(t)
		household(s)
		s.sched.OnReach(func(*session.Tx, []task.Reached) error { return errTest })
		if err := s.sched.CancelTree(t.Context(), s.ids["owner"], "all of it"); !errors.Is(err, errTest) {
			t.Errorf("CancelTree = %v, want the layer's error", err)
		}
		s.run()
		s.are("owner pending, turn pending, tool pending, deep pending, side pending, far pending, free pending")
		s.wantFailures()
		s.cancel(s.ids["owner"], "enough")
		s.wantFailures(errTest)
		if s.task(s.ids["turn"]).Abort {
			t.Error("the turn is marked, its commit failed")
		}
		s.reopen(s.defs()...)
		s.run()
		s.are("owner aborted, turn aborted, tool aborted, deep aborted, side pending, far pending, free pending")
	})
}

// While the scheduler is about to end an owner, a client puts an input into its conversation.
func TestWorkThatArrivesAtTheLastMomentEndsFirst(t *testing.T) {
	cases := []struct {
		name  string
		owner string // how it would end
		order []string
	}{
		{"ahead of an end without code", "bare", []string{"late aborted", "owner cleaned up: aborted"}},
		{"ahead of an orphan's", "unknown", []string{"late aborted"}},
		{"ahead of a fault's cleanup", "broken", []string{"late aborted", "owner cleaned up: faulted"}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newStory(t)
				s.top("never", "idle", "main")
				s.top("owner", c.owner, "main", waitsFor(s.ids["never"]))
				s.room("child", "owner")
				s.run()
				s.backToBack(func(tx *session.Tx) {
					owner, _ := tx.LiveTask(s.ids["owner"])
					if owner.Abort, owner.AbortReason = true, "enough"; c.owner == "broken" {
						owner.Abort, owner.Status, owner.On = false, session.TaskPending, nil
					}
					tx.PutTask(owner)
				}, func(tx *session.Tx) {
					late := pending("idle", func(t *session.Task) { t.Conversation, t.Input = s.rooms["child"], mustJSON("late") })
					s.ids["late"] = tx.CreateTask(late)
				})
				synctest.Wait()
				want := map[string]string{"bare": "aborted", "unknown": "orphaned", "broken": "faulted"}[c.owner]
				s.are("owner " + want + ", late aborted, never pending")
				s.said(c.order...)
				for _, commit := range s.commits {
					for _, task := range commit.Batch.Tasks {
						if c.owner != "broken" && task.Status == session.TaskCompleting {
							t.Error("an end that nobody has reached yet was held: its cleanup would be lost")
						}
					}
				}
			})
		})
	}
}

// A tool ends while its owner goes down: its conversation comes to an owner that has told its conversations already.
func TestAConversationThatComesToAnOwnerGoingDownIsReached(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStory(t)
		s.top("owner", "bare", "main")
		s.below("tool", "idle", "owner")
		s.room("child", "tool")
		s.queue("child", "input")
		s.run()
		s.backToBack(func(tx *session.Tx) {
			owner, _ := tx.LiveTask(s.ids["owner"])
			owner.Abort, owner.AbortReason = true, "enough"
			tx.PutTask(owner)
		}, func(tx *session.Tx) {
			tool, _ := tx.LiveTask(s.ids["tool"])
			tx.PutTask(task.After(tool, completed(), false))
		})
		synctest.Wait()
		s.are("owner aborted, tool completed")
		s.queued("child", "input unanswered (aborted: enough)")
	})
}

func TestAHoldThatIsProlongedAtTheLastMomentIsNotWrittenAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStory(t)
		s.top("owner", "ok", "main")
		s.room("child", "owner")
		s.top("turn", "slow", "child")
		s.run()
		before := len(s.commits)
		s.backToBack(func(tx *session.Tx) {
			turn, _ := tx.LiveTask(s.ids["turn"])
			tx.PutTask(task.After(turn, completed(), false))
		}, func(tx *session.Tx) {
			next := pending("slow", func(t *session.Task) { t.Conversation, t.Input = s.rooms["child"], mustJSON("next") })
			s.ids["next"] = tx.CreateTask(next)
		})
		synctest.Wait()
		s.are("owner completing, turn completed, next pending")
		if got := len(s.commits) - before; got != 2 {
			t.Errorf("%d commits, want the two of the test", got)
		}
		s.letGo("next")
		s.sched.Unpark()
		synctest.Wait()
		s.are("owner completed, turn completed, next completed")
	})
}

// backToBack commits twice, and nobody in between: the scheduler decides on what the first commit says and comes too late.
func (s *story) backToBack(first, second func(tx *session.Tx)) {
	s.t.Helper()
	begun, done := make(chan struct{}), make(chan error)
	go func() {
		<-begun
		_, err := s.sess.Commit(context.Background(), func(tx *session.Tx) error {
			synctest.Wait() // the scheduler has decided and is behind this one
			second(tx)
			return nil
		})
		done <- err
	}()
	s.commit(func(tx *session.Tx) error {
		close(begun)
		synctest.Wait() // the second one is next on the line
		first(tx)
		return nil
	})
	if err := <-done; err != nil {
		s.t.Fatal(err)
	}
}

// hold is what the commit of an outcome leaves when its owner has live work.
func (s *story) hold(name string, o session.OutcomeStatus) {
	s.t.Helper()
	s.commit(func(tx *session.Tx) error {
		t, _ := tx.LiveTask(s.ids[name])
		tx.PutTask(task.After(t, task.Settle{Outcome: session.Outcome{Status: o}}, true))
		return nil
	})
}

func TestTheDocumentsOfAHeldTaskStayUntilItIsOver(t *testing.T) {
	said := session.Doc[string]{Kind: "app.said", Version: 1, Scope: session.ScopeTask}
	told(t, func(s *story) {
		s.top("owner", "ok", "main")
		s.room("child", "owner")
		s.top("turn", "slow", "child")
		at := said.At(int64(s.ids["owner"]), "")
		s.commit(func(tx *session.Tx) error { return said.Put(tx, at, "kept") })
		s.settle()
		s.are("owner completing, turn pending")
		s.document(said, at, "kept")
		s.letGo("turn")
		s.settle()
		s.are("owner completed, turn completed")
		s.document(said, at, "")
	})
}

func (s *story) document(d session.Doc[string], at session.Address, want string) {
	s.t.Helper()
	if err := s.sess.View(s.t.Context(), func(tx *session.Tx) error {
		if got, err := d.Get(tx, at); err != nil || got != want {
			s.t.Errorf("the document is %q, %v, want %q", got, err, want)
		}
		return nil
	}); err != nil {
		s.t.Fatal(err)
	}
}

func TestAHeldTaskIsNotMigrated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStory(t)
		s.top("owner", "ok", "main")
		s.room("child", "owner")
		s.top("turn", "unknown", "child")
		s.run()
		newer := s.defs()
		for i := range newer {
			newer[i].Version = 2
			newer[i].Migrate = func(session.Task) (task.Continue, error) {
				t.Error("migrated")
				return task.Continue{}, errTest
			}
		}
		s.reopen(newer...)
		s.run()
		s.are("owner completing, turn pending")
		s.stop("turn")
		synctest.Wait()
		s.are("owner completed, turn orphaned")
		if all := notesOf(t, s.memory); strings.Count(strings.Join(all, ","), "owner completed") != 1 {
			t.Errorf("notes %q", all)
		}
	})
}
