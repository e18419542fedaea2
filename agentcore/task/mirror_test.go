package task

import (
	"context"
	"errors"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/workflowd/workflowd/agentcore/session"
)

// plain computes what look says from the records alone.
func plain(tx *session.Tx, t session.Task) view {
	var v view
	over := 0
	for _, on := range t.On {
		if _, ok := tx.LiveTask(on); ok {
			v.awaiting = true
		} else {
			over++
		}
	}
	if over > 0 && Policy(t.Policy).first() {
		v.awaiting = false
	}
	v.ownsLive = tx.OwnsLive(t.ID)
	owner, ok := tx.LiveTask(session.WorksFor(t, tx.Keeper))
	v.ownerDown = ok && goingDown(owner)
	return v
}

// down returns the conversations whose keeper goes down.
func down(tx *session.Tx) map[session.ConversationID]session.TaskID {
	list := map[session.ConversationID]session.TaskID{}
	for c, keeper := range tx.Keepers() {
		if t, live := tx.LiveTask(keeper); live && goingDown(t) {
			list[c] = keeper
		}
	}
	return list
}

// someWork is a store that random commits change.
type someWork struct {
	conversations []session.ConversationID
	tasks         []session.TaskID
}

// commit drafts up to three changes. What the session refuses changes nothing.
func (w *someWork) commit(t *rapid.T, tx *session.Tx) error {
	live := tx.LiveTasks()
	for range rapid.IntRange(1, 3).Draw(t, "changes") {
		c := rapid.SampledFrom(w.conversations).Draw(t, "conversation")
		var on []session.TaskID
		policy := ""
		if len(w.tasks) > 0 {
			on = rapid.SliceOfN(rapid.SampledFrom(w.tasks), 0, 3).Draw(t, "on")
			policy = string(rapid.SampledFrom([]Policy{AllSettled, FailFast, Any, AnyCancel}).Draw(t, "policy"))
		}
		status := session.TaskPending
		if len(on) > 0 {
			status = session.TaskWaiting
		}
		what := rapid.SampledFrom([]string{"top", "child", "conversation", "put", "end", "end", "queue"}).Draw(t, "what")
		if len(live) == 0 && what != "queue" {
			what = "top"
		}
		task := session.Task{Conversation: c, Status: status, On: on, Policy: policy, Background: rapid.IntRange(0, 3).Draw(t, "background") == 0}
		if what == "top" {
			w.tasks = append(w.tasks, tx.CreateTask(task))
			continue
		}
		if what == "queue" {
			tx.CreateSubmission(session.Submission{Conversation: c, Status: session.SubmissionQueued})
			continue
		}
		old := live[rapid.IntRange(0, len(live)-1).Draw(t, "task")]
		switch what {
		case "child":
			task.Owner, task.Conversation = old.ID, old.Conversation
			w.tasks = append(w.tasks, tx.CreateTask(task))
		case "conversation":
			w.conversations = append(w.conversations, tx.CreateConversation(nil, old.ID))
		case "put":
			old.Status, old.On, old.Policy, old.Background = status, on, policy, task.Background
			old.Abort = old.Abort || rapid.Bool().Draw(t, "abort")
			tx.PutTask(old)
		case "end":
			outcome := session.Outcome{Status: rapid.SampledFrom([]session.OutcomeStatus{session.Completed, session.Failed}).Draw(t, "outcome")}
			tx.PutTask(After(old, Settle{outcome}, tx.OwnsLive(old.ID)))
		}
	}
	return nil
}

// Whatever is committed: the mirror says what the records say, a task whose view became another one is due, and a
// conversation is looked at when it is reached and when something is queued in it then.
func TestTheMirrorSaysWhatTheRecordsSay(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		sess, err := session.Open(context.Background(), session.NewMemory())
		if err != nil {
			t.Fatal(err)
		}
		m := newMirror()
		var last news
		sess.Watch(func(c session.Commit) { last = newsOf(c); m.put(last) })
		w := someWork{conversations: []session.ConversationID{session.Root}}
		if _, err := sess.Commit(context.Background(), func(tx *session.Tx) error { return tx.EnsureRoot() }); err != nil {
			t.Fatal(err)
		}
		before, downBefore := map[session.TaskID]view{}, map[session.ConversationID]session.TaskID{}
		for range rapid.IntRange(1, 20).Draw(t, "commits") {
			last = news{}
			undo := w
			if _, err := sess.Commit(context.Background(), func(tx *session.Tx) error { return w.commit(t, tx) }); err != nil {
				for _, known := range []error{session.ErrOwnerDown, session.ErrOwnsWork, session.ErrWaitCycle} {
					if errors.Is(err, known) {
						err = nil
					}
				}
				if err != nil {
					t.Fatal(err)
				}
				w = undo
			}
			due, reached := m.take(), m.takeReached()
			if err := sess.View(context.Background(), func(tx *session.Tx) error {
				now := map[session.TaskID]view{}
				for _, task := range tx.LiveTasks() {
					got, want := m.look(m.live[task.ID]), plain(tx, task)
					got.decided = false // depends on who has looked
					if got != want {
						t.Fatalf("task %d: the mirror says %+v, the records %+v", task.ID, got, want)
					}
					if old, ok := before[task.ID]; ok && loosened(old, want) && !slices.Contains(due, task.ID) {
						t.Fatalf("task %d went from %+v to %+v and is not due", task.ID, old, want)
					}
					now[task.ID] = want
				}
				if len(m.live) != len(now) {
					t.Fatalf("%d tasks in the mirror, %d live", len(m.live), len(now))
				}
				downNow := down(tx)
				for c := range downNow {
					if fresh := downBefore[c] != downNow[c] || slices.Contains(last.queued, c); fresh && !slices.Contains(reached, c) {
						t.Fatalf("conversation %d is reached and nobody looks at it", c)
					}
				}
				for _, c := range reached {
					if downNow[c] == 0 {
						t.Fatalf("conversation %d is looked at, its keeper does not go down", c)
					}
				}
				before, downBefore = now, downNow
				return nil
			}); err != nil {
				t.Fatal(err)
			}
		}
		if err := sess.Close(); err != nil {
			t.Fatal(err)
		}
	})
}

// loosened reports a change that lets a resting task do something.
func loosened(old, now view) bool {
	return old.awaiting && !now.awaiting || old.ownsLive && !now.ownsLive || !old.ownerDown && now.ownerDown
}

func TestAnEmptyMirrorHoldsNothing(t *testing.T) {
	m := newMirror()
	m.put(news{tasks: []session.Task{
		{ID: 2, Status: session.TaskWaiting, Policy: "failFast", On: []session.TaskID{3, 3, 4, 9}},
		{ID: 3, Owner: 2, Status: session.TaskPending},
		{ID: 4, Owner: 2, Background: true, Status: session.TaskPending},
		{ID: 6, Conversation: 5, Status: session.TaskPending},
	}, keepers: map[session.ConversationID]session.TaskID{5: 2, 7: 3}, queued: []session.ConversationID{5}})
	m.put(news{tasks: []session.Task{{ID: 6, Conversation: 5, Status: session.TaskTerminal}}})
	m.put(news{tasks: []session.Task{{ID: 3, Status: session.TaskTerminal}}, keepers: map[session.ConversationID]session.TaskID{7: 2}})
	m.put(news{tasks: []session.Task{{ID: 2, Status: session.TaskTerminal}}, keepers: map[session.ConversationID]session.TaskID{5: 0, 7: 0}})
	m.put(news{tasks: []session.Task{{ID: 4, Status: session.TaskTerminal}}})
	m.take()
	n := len(m.live) + len(m.owned) + len(m.keeper) + len(m.keeps) + len(m.waiters) + len(m.awaits) + len(m.suspect) + len(m.culled) +
		len(m.due) + len(m.reached)
	if n != 0 {
		t.Errorf("%d things are left: %+v", n, m)
	}
}

// A round costs what changed, not what lives.
func TestOneChangeAmongAThousandTasksConcernsFew(t *testing.T) {
	const many = 1000
	cases := []struct {
		name string
		made func(*session.Task)
	}{
		{"children", func(t *session.Task) { t.Owner = 1 }},
		{"work in a conversation", func(t *session.Task) { t.Conversation = 7 }},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			m := newMirror()
			n := news{tasks: []session.Task{{ID: 1, Status: session.TaskWaiting}}, keepers: map[session.ConversationID]session.TaskID{7: 1}}
			work := func(id session.TaskID, s session.TaskStatus) session.Task {
				t := session.Task{ID: id, Status: s}
				c.made(&t)
				return t
			}
			for id := session.TaskID(2); id <= many; id++ {
				n.tasks = append(n.tasks, work(id, session.TaskPending))
				n.tasks[0].On = append(n.tasks[0].On, id)
			}
			m.put(n)
			if got := len(m.take()); got != many {
				t.Errorf("%d tasks are due at open, want all %d", got, many)
			}
			for id := session.TaskID(2); id < many; id++ {
				m.put(news{tasks: []session.Task{work(id, session.TaskTerminal)}})
				if due := m.take(); len(due) != 0 {
					t.Fatalf("the end of task %d concerns %v, want nobody", id, due)
				}
			}
			m.put(news{tasks: []session.Task{work(many, session.TaskWaiting)}})
			if due := m.take(); !slices.Equal(due, []session.TaskID{many}) {
				t.Errorf("a step of the last one concerns %v, want only it", due)
			}
			m.put(news{tasks: []session.Task{work(many, session.TaskTerminal)}})
			if due := m.take(); !slices.Equal(due, []session.TaskID{1}) {
				t.Errorf("the end of the last one concerns %v, want its owner", due)
			}
		})
	}
}
