package session_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"github.com/workflowd/workflowd/agentcore/session"
)

// family is a store whose tasks and conversations own each other.
type family struct {
	t      *testing.T
	memory *session.Memory
	s      *session.Session
}

func newFamily(t *testing.T) *family {
	f := &family{t: t, memory: session.NewMemory()}
	f.s = open(t, f.memory)
	commit(t, f.s, func(tx *session.Tx) error { return tx.EnsureRoot() })
	return f
}

func (f *family) reopen() {
	f.memory = f.memory.Reopen()
	f.s = open(f.t, f.memory)
}

// work is a pending task in a conversation.
func work(c session.ConversationID, changes ...func(*session.Task)) session.Task {
	t := session.Task{Conversation: c, Kind: "k", Status: session.TaskPending}
	for _, change := range changes {
		change(&t)
	}
	return t
}

func ownedBy(id session.TaskID) func(*session.Task) { return func(t *session.Task) { t.Owner = id } }
func background(t *session.Task)                    { t.Background = true }

func waitsFor(on ...session.TaskID) func(*session.Task) {
	return func(t *session.Task) { t.Status, t.On = session.TaskWaiting, on }
}

func (f *family) task(c session.ConversationID, changes ...func(*session.Task)) (id session.TaskID) {
	f.t.Helper()
	commit(f.t, f.s, func(tx *session.Tx) error { id = tx.CreateTask(work(c, changes...)); return nil })
	return id
}

func (f *family) conversation(owner session.TaskID) (c session.ConversationID) {
	f.t.Helper()
	commit(f.t, f.s, func(tx *session.Tx) error { c = tx.CreateConversation(nil, owner); return nil })
	return c
}

func over(tx *session.Tx, list ...session.TaskID) {
	for _, id := range list {
		t, _ := tx.LiveTask(id)
		t.Status, t.On, t.Outcome = session.TaskTerminal, nil, &session.Outcome{Status: session.Completed}
		tx.PutTask(t)
	}
}

func (f *family) end(list ...session.TaskID) {
	f.t.Helper()
	commit(f.t, f.s, func(tx *session.Tx) error { over(tx, list...); return nil })
}

func TestWorksFor(t *testing.T) {
	keeper := func(c session.ConversationID) session.TaskID {
		return map[session.ConversationID]session.TaskID{7: 3}[c]
	}
	cases := []struct {
		name string
		task session.Task
		want session.TaskID
	}{
		{"a child works for its owner", work(session.Root, ownedBy(2)), 2},
		{"a child in a kept conversation does too", work(7, ownedBy(5)), 5},
		{"a task at the top of a conversation works for its keeper", work(7), 3},
		{"a task in a conversation without one works for nobody", work(session.Root), 0},
		{"a background child works for nobody", work(session.Root, ownedBy(2), background), 0},
		{"nor does a background task at the top", work(7, background), 0},
		{"nor one that is over", work(7, func(t *session.Task) { t.Status = session.TaskTerminal }), 0},
		{"one that completes does", work(7, func(t *session.Task) { t.Status = session.TaskCompleting }), 3},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			if got := session.WorksFor(c.task, keeper); got != c.want {
				t.Errorf("it works for %d, want %d", got, c.want)
			}
		})
	}
}

func TestAConversationBelongsToTheNearestLiveTaskAboveIt(t *testing.T) {
	cases := []struct {
		name string
		make func(f *family) (session.ConversationID, session.TaskID)
	}{
		{"to its owner while that is live", func(f *family) (session.ConversationID, session.TaskID) {
			a := f.task(session.Root)
			return f.conversation(a), a
		}},
		{"to its owner in the background too", func(f *family) (session.ConversationID, session.TaskID) {
			a := f.task(session.Root, background)
			return f.conversation(a), a
		}},
		{"to the owner of its owner once that is over", func(f *family) (session.ConversationID, session.TaskID) {
			a := f.task(session.Root)
			tool := f.task(session.Root, ownedBy(a))
			c := f.conversation(tool)
			f.end(tool)
			return c, a
		}},
		{"to the keeper of the conversation that its owner was in", func(f *family) (session.ConversationID, session.TaskID) {
			a := f.task(session.Root)
			turn := f.task(f.conversation(a))
			c := f.conversation(turn)
			f.end(turn)
			return c, a
		}},
		{"to the next one when two end in one commit", func(f *family) (session.ConversationID, session.TaskID) {
			a := f.task(session.Root)
			turn := f.task(f.conversation(a))
			tool := f.task(f.conversation(a)) // not below the turn: one commit may end both
			c, d := f.conversation(turn), f.conversation(tool)
			f.end(turn, tool)
			if got := f.keeper(d); got != a {
				f.t.Errorf("the other one belongs to %d, want %d", got, a)
			}
			return c, a
		}},
		{"to nobody once all above it are over", func(f *family) (session.ConversationID, session.TaskID) {
			a := f.task(session.Root)
			tool := f.task(session.Root, ownedBy(a))
			c := f.conversation(tool)
			f.end(tool)
			f.task(session.Root) // unrelated and live
			f.end(a)
			return c, 0
		}},
		{"to nobody once a background owner is over", func(f *family) (session.ConversationID, session.TaskID) {
			a := f.task(session.Root)
			side := f.task(session.Root, ownedBy(a), background)
			c := f.conversation(side)
			f.end(side)
			return c, 0
		}},
		{"to nobody when it is a fork", func(f *family) (session.ConversationID, session.TaskID) {
			a := f.task(session.Root)
			c := f.conversation(a)
			return fork(f.t, f.s, c, say(f.t, f.s, c, "c1")), 0
		}},
		{"to nobody once it is removed", func(f *family) (session.ConversationID, session.TaskID) {
			c := f.conversation(f.task(session.Root))
			commit(f.t, f.s, remove(c))
			return c, 0
		}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			f := newFamily(t)
			conversation, want := c.make(f)
			if got := f.keeper(conversation); got != want {
				t.Errorf("it belongs to %d, want %d", got, want)
			}
			f.reopen()
			if got := f.keeper(conversation); got != want {
				t.Errorf("after reopening it belongs to %d, want %d", got, want)
			}
		})
	}
}

func (f *family) keeper(c session.ConversationID) (keeper session.TaskID) {
	view(f.t, f.s, func(tx *session.Tx) error { keeper = tx.Keeper(c); return nil })
	return keeper
}

func TestWhatHoldsAnOwnerUp(t *testing.T) {
	cases := []struct {
		name  string
		make  func(f *family, a session.TaskID)
		draft func(tx *session.Tx, a session.TaskID)
		want  bool
	}{
		{"a task in a conversation it owns", func(f *family, a session.TaskID) { f.task(f.conversation(a)) }, nil, true},
		{"a background task there does not", func(f *family, a session.TaskID) { f.task(f.conversation(a), background) }, nil, false},
		{"a conversation at rest does not", func(f *family, a session.TaskID) { f.end(f.task(f.conversation(a))) }, nil, false},
		{"work below a background task does not", func(f *family, a session.TaskID) {
			side := f.task(session.Root, ownedBy(a), background)
			f.task(f.conversation(side))
		}, nil, false},
		{"work in a fork of its conversation does not", func(f *family, a session.TaskID) {
			c := f.conversation(a)
			f.task(fork(f.t, f.s, c, say(f.t, f.s, c, "c1")))
		}, nil, false},
		{"new work in the conversation of a tool that is over", func(f *family, a session.TaskID) {
			tool := f.task(session.Root, ownedBy(a))
			c := f.conversation(tool)
			f.end(tool)
			f.task(c)
		}, nil, true},
		{"work that the draft makes in a conversation that the draft makes", nil, func(tx *session.Tx, a session.TaskID) {
			tx.CreateTask(work(tx.CreateConversation(nil, a)))
		}, true},
		{"work that ends in the draft does not", func(f *family, a session.TaskID) { f.task(f.conversation(a)) }, func(tx *session.Tx, a session.TaskID) {
			over(tx, tx.LiveTasks()[1].ID)
		}, false},
		{"work below a tool that ends in the draft", func(f *family, a session.TaskID) { f.conversation(f.task(session.Root, ownedBy(a))) }, func(tx *session.Tx, a session.TaskID) {
			tool := tx.LiveTasks()[1].ID
			over(tx, tool)
			for c := range tx.Keepers() {
				tx.CreateTask(work(c))
			}
		}, true},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			f := newFamily(t)
			a := f.task(session.Root)
			if c.make != nil {
				c.make(f, a)
			}
			for range 2 {
				if c.draft != nil {
					if _, err := f.s.Commit(t.Context(), func(tx *session.Tx) error {
						c.draft(tx, a)
						if got := tx.OwnsLive(a); got != c.want {
							t.Errorf("the draft says %v, want %v", got, c.want)
						}
						return errTest // twice from the same state
					}); !errors.Is(err, errTest) {
						t.Fatal(err)
					}
				} else {
					view(t, f.s, func(tx *session.Tx) error {
						if got := tx.OwnsLive(a); got != c.want {
							t.Errorf("the records say %v, want %v", got, c.want)
						}
						return nil
					})
				}
				f.reopen()
			}
		})
	}
}

// a is live in the main conversation, c is a conversation of its own, g is at work there.
func TestOwnersInConversationsCommitOnlyWhatTheRulesAllow(t *testing.T) {
	type ids struct {
		a, g session.TaskID
		c    session.ConversationID
	}
	put := func(tx *session.Tx, id session.TaskID, change func(*session.Task)) {
		t, _ := tx.LiveTask(id)
		change(&t)
		tx.PutTask(t)
	}
	hold := func(t *session.Task) {
		t.Status, t.Outcome = session.TaskCompleting, &session.Outcome{Status: session.Completed}
	}
	cases := []struct {
		name  string
		draft func(tx *session.Tx, f ids)
		want  error
	}{
		{"a task is not over before the work in its conversation", func(tx *session.Tx, f ids) { over(tx, f.a) }, session.ErrOwnsWork},
		{"with that work it is", func(tx *session.Tx, f ids) { over(tx, f.g, f.a) }, nil},
		{"a task is not over before its child", func(tx *session.Tx, f ids) {
			id := tx.CreateTask(work(session.Root))
			tx.CreateTask(work(session.Root, ownedBy(id)))
			t := work(session.Root)
			t.ID, t.Status = id, session.TaskTerminal
			tx.PutTask(t)
		}, session.ErrOwnerDown},
		{"its outcome may be held", func(tx *session.Tx, f ids) { put(tx, f.a, hold) }, nil},
		{"a held outcome allows new work in the conversation", func(tx *session.Tx, f ids) {
			put(tx, f.a, hold)
			tx.CreateTask(work(f.c))
		}, nil},
		{"but none of the task's own", func(tx *session.Tx, f ids) {
			put(tx, f.a, hold)
			tx.CreateTask(work(session.Root, ownedBy(f.a)))
		}, session.ErrOwnerDown},
		{"and no conversation", func(tx *session.Tx, f ids) {
			put(tx, f.a, hold)
			tx.CreateConversation(nil, f.a)
		}, session.ErrOwnerDown},
		{"a mark allows new work in the conversation: it is reached later", func(tx *session.Tx, f ids) {
			put(tx, f.a, func(t *session.Task) { t.Abort = true })
			tx.CreateTask(work(f.c))
		}, nil},
		{"a child lives in its owner's conversation", func(tx *session.Tx, f ids) { tx.CreateTask(work(f.c, ownedBy(f.a))) }, session.ErrElsewhere},
		{"work in a conversation does not wait for the owner of that", func(tx *session.Tx, f ids) {
			put(tx, f.g, waitsFor(f.a))
		}, session.ErrWaitCycle},
		{"nor does a child of it", func(tx *session.Tx, f ids) { tx.CreateTask(work(f.c, ownedBy(f.g), waitsFor(f.a))) }, session.ErrWaitCycle},
		{"nor does it wait for somebody who waits for the owner", func(tx *session.Tx, f ids) {
			put(tx, f.g, waitsFor(tx.CreateTask(work(session.Root, waitsFor(f.a)))))
		}, session.ErrWaitCycle},
		{"nor does new work in a conversation of the same draft", func(tx *session.Tx, f ids) {
			tx.CreateTask(work(tx.CreateConversation(nil, f.a), waitsFor(f.a)))
		}, session.ErrWaitCycle},
		{"a background task there may", func(tx *session.Tx, f ids) { tx.CreateTask(work(f.c, background, waitsFor(f.a))) }, nil},
		{"and so may what works for that one", func(tx *session.Tx, f ids) {
			side := tx.CreateTask(work(f.c, background))
			tx.CreateTask(work(tx.CreateConversation(nil, side), waitsFor(f.a)))
		}, nil},
		{"the owner may wait for the work", func(tx *session.Tx, f ids) { put(tx, f.a, waitsFor(f.g)) }, nil},
		{"a task in a fork may wait for the owner", func(tx *session.Tx, f ids) {
			tx.CreateTask(work(tx.CreateConversation(&session.Fork{Conversation: f.c}, 0), waitsFor(f.a)))
		}, nil},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			f := newFamily(t)
			var at ids
			at.a = f.task(session.Root)
			at.c = f.conversation(at.a)
			at.g = f.task(at.c)
			_, err := f.s.Commit(t.Context(), func(tx *session.Tx) error {
				c.draft(tx, at)
				return nil
			})
			if !errors.Is(err, c.want) || (err == nil) != (c.want == nil) {
				t.Errorf("Commit = %v, want %v", err, c.want)
			}
		})
	}
}

// Invariant: INV-42
func TestARemovalTakesNoConversationFromItsKeeper(t *testing.T) {
	f := newFamily(t)
	a := f.task(session.Root)
	outer := f.conversation(a)
	turn := f.task(outer)
	inner := f.conversation(turn)
	f.end(turn)
	refused := func(why string, list ...session.ConversationID) {
		t.Helper()
		if _, err := f.s.Commit(t.Context(), remove(list...)); !errors.Is(err, session.ErrInUse) {
			t.Errorf("%s: %v, want ErrInUse", why, err)
		}
	}
	refused("a conversation over which another one belongs to a live task", outer)
	busy := f.task(inner)
	refused("the inner one at work", outer, inner)
	f.end(busy)
	commit(t, f.s, remove(outer, inner))
	outer = f.conversation(a)
	turn = f.task(outer)
	inner = f.conversation(turn)
	f.end(turn, a)
	commit(t, f.s, remove(outer)) // nobody above is live: the inner one stays, as nobody's
	f.reopen()
	view(t, f.s, func(tx *session.Tx) error {
		if list, err := tx.Conversations(); err != nil || len(list) != 2 || list[1].ID != inner || list[1].Owner != turn {
			t.Errorf("conversations %+v, %v, want the main one and the inner one with its owner", list, err)
		}
		return nil
	})
}

// brute answers from the stored records alone, from owners downwards.
type brute struct {
	tasks map[session.TaskID]session.Task
	convs map[session.ConversationID]session.Conversation
}

func newBrute(t *rapid.T, storage session.Storage) brute {
	b := brute{map[session.TaskID]session.Task{}, map[session.ConversationID]session.Conversation{}}
	tasks, err := storage.Tasks(session.TaskQuery{})
	if err != nil {
		t.Fatal(err)
	}
	for _, task := range tasks {
		b.tasks[task.ID] = task
	}
	convs, err := storage.Conversations()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range convs {
		b.convs[c.ID] = c
	}
	return b
}

func (b brute) live(id session.TaskID) bool {
	t, ok := b.tasks[id]
	return ok && t.Status != session.TaskTerminal
}

// holds reports whether live ordinary work is below a task.
func (b brute) holds(id session.TaskID) bool {
	for _, t := range b.tasks {
		owner := t.Owner
		if owner == 0 {
			owner = b.convs[t.Conversation].Owner
		}
		if owner == id && !t.Background && (b.live(t.ID) || b.holds(t.ID)) {
			return true
		}
	}
	return false
}

// keeps returns the conversations below a live task that no other live task, and no background one, stands between.
func (b brute) keeps(id session.TaskID, into map[session.ConversationID]session.TaskID, keeper session.TaskID) {
	for _, c := range b.convs {
		if c.Owner != id {
			continue
		}
		into[c.ID] = keeper
		for _, t := range b.tasks {
			if t.Conversation == c.ID && t.Owner == 0 {
				b.down(t, into, keeper)
			}
		}
	}
	for _, t := range b.tasks {
		if t.Owner == id {
			b.down(t, into, keeper)
		}
	}
}

func (b brute) down(t session.Task, into map[session.ConversationID]session.TaskID, keeper session.TaskID) {
	if !t.Background && !b.live(t.ID) {
		b.keeps(t.ID, into, keeper)
	}
}

// Whatever is committed: who keeps a conversation and who holds whom up follows from the records, so it is the same after
// reopening, and a conversation changes its keeper only when that is over.
func TestOwnersAreWhatTheRecordsSay(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		memory := session.NewMemory()
		s := opened(t, memory)
		heard := map[session.ConversationID]session.TaskID{}
		listen := func() {
			s.Watch(func(c session.Commit) {
				for c, keeper := range c.Keepers {
					if heard[c] = keeper; keeper == 0 {
						delete(heard, c)
					}
				}
			})
		}
		listen()
		if _, err := s.Commit(context.Background(), func(tx *session.Tx) error { return tx.EnsureRoot() }); err != nil {
			t.Fatal(err)
		}
		last := map[session.ConversationID]session.TaskID{}
		for range rapid.IntRange(1, 25).Draw(t, "commits") {
			_, err := s.Commit(context.Background(), func(tx *session.Tx) error { return act(t, tx) })
			for _, known := range []error{session.ErrOwnerDown, session.ErrOwnsWork, session.ErrInUse} {
				if errors.Is(err, known) {
					err = nil
				}
			}
			if err != nil {
				t.Fatal(err)
			}
			if rapid.IntRange(0, 3).Draw(t, "reopen") == 0 {
				if err := s.Close(); err != nil {
					t.Fatal(err)
				}
				memory = memory.Reopen()
				s = opened(t, memory)
				listen()
			}
			b := newBrute(t, memory)
			want := map[session.ConversationID]session.TaskID{}
			for id := range b.tasks {
				if b.live(id) {
					b.keeps(id, want, id)
				}
			}
			if err := s.View(context.Background(), func(tx *session.Tx) error {
				if got := tx.Keepers(); fmt.Sprint(got) != fmt.Sprint(want) || fmt.Sprint(heard) != fmt.Sprint(want) {
					t.Fatalf("keepers %v, heard of %v, want %v", got, heard, want)
				}
				for id := range b.tasks {
					if got, want := tx.OwnsLive(id), b.live(id) && b.holds(id); got != want {
						t.Fatalf("task %d owns live work: %v, want %v", id, got, want)
					}
				}
				return nil
			}); err != nil {
				t.Fatal(err)
			}
			for c, keeper := range last {
				if _, there := b.convs[c]; there && b.live(keeper) && want[c] != keeper {
					t.Fatalf("conversation %d went from %d, which is live, to %d", c, keeper, want[c])
				}
			}
			last = want
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	})
}

func opened(t *rapid.T, storage session.Storage) *session.Session {
	s, err := session.Open(context.Background(), storage)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// act drafts up to three random changes.
func act(t *rapid.T, tx *session.Tx) error {
	list, err := tx.Conversations()
	if err != nil {
		return err
	}
	var conversations []session.ConversationID
	for _, c := range list {
		conversations = append(conversations, c.ID)
	}
	live := tx.LiveTasks()
	for range rapid.IntRange(1, 3).Draw(t, "changes") {
		c := rapid.SampledFrom(conversations).Draw(t, "conversation")
		what := rapid.SampledFrom([]string{"top", "top", "child", "child", "conversation", "conversation", "end", "end", "end", "mark", "hold", "remove"}).Draw(t, "what")
		if what == "top" {
			task := work(c)
			task.Background = rapid.IntRange(0, 3).Draw(t, "background") == 0
			live = append(live, withID(task, tx.CreateTask(task)))
			continue
		}
		if what == "remove" {
			if c == session.Root || rapid.IntRange(0, 2).Draw(t, "really") > 0 {
				continue
			}
			if err := tx.Remove(c); err != nil && !errors.Is(err, session.ErrNotFound) {
				return err
			}
			continue
		}
		if len(live) == 0 {
			continue
		}
		i := rapid.IntRange(0, len(live)-1).Draw(t, "task")
		switch what {
		case "child":
			task := work(live[i].Conversation, ownedBy(live[i].ID))
			task.Background = rapid.IntRange(0, 3).Draw(t, "background") == 0
			live = append(live, withID(task, tx.CreateTask(task)))
		case "conversation":
			conversations = append(conversations, tx.CreateConversation(nil, live[i].ID))
		case "end":
			live[i].Status = session.TaskTerminal
			tx.PutTask(live[i])
		case "mark":
			live[i].Abort = true
			tx.PutTask(live[i])
		case "hold":
			if live[i].Status != session.TaskTerminal {
				live[i].Status = session.TaskCompleting
				tx.PutTask(live[i])
			}
		}
	}
	return nil
}

func withID(t session.Task, id session.TaskID) session.Task { t.ID = id; return t }
