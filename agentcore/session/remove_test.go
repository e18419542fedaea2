package session_test

import (
	"errors"
	"testing"

	"github.com/workflowd/workflowd/agentcore/session"
)

func remove(list ...session.ConversationID) func(*session.Tx) error {
	return func(tx *session.Tx) error {
		for _, c := range list {
			if err := tx.Remove(c); err != nil {
				return err
			}
		}
		return nil
	}
}

// Promise: P-137
func TestTheMainConversationIsNotRemoved(t *testing.T) {
	s := open(t, session.NewMemory())
	say(t, s, session.Root, "r1")
	if _, err := s.Commit(t.Context(), remove(session.Root)); !errors.Is(err, session.ErrMain) {
		t.Errorf("got %v, want ErrMain", err)
	}
	wantKinds(t, s, session.Root, "r1")
}

func TestARemovedConversationIsGoneForEveryReader(t *testing.T) {
	memory := session.NewMemory()
	s := open(t, memory)
	r1 := say(t, s, session.Root, "r1")
	child := fork(t, s, session.Root, r1, agent.ForkRule())
	say(t, s, child, "c1")
	feed, late := follow(t, t.Context(), s, child), follow(t, t.Context(), s, child)
	feed.snapshot()
	commit(t, s, func(tx *session.Tx) error {
		tx.Append(session.Entry{Conversation: child, Kind: "last words"})
		return remove(child, child)(tx)
	})
	feed.change()
	feed.ends(session.ErrRemoved)
	late.ends(session.ErrNotFound)
	for _, s := range []*session.Session{s, open(t, memory.Reopen())} {
		wantDoc(t, s, agent, child, "", counts{})
		wantKinds(t, s, child)
		wantKinds(t, s, session.Root, "r1")
		if _, err := s.Commit(t.Context(), remove(child)); !errors.Is(err, session.ErrNotFound) {
			t.Errorf("a second removal: %v, want ErrNotFound", err)
		}
	}
}

func TestARemovalThatIsRolledBackRemovesNothing(t *testing.T) {
	s := open(t, session.NewMemory())
	child := fork(t, s, session.Root, say(t, s, session.Root, "r1"), agent.ForkRule())
	say(t, s, child, "c1")
	_, err := s.Commit(t.Context(), func(tx *session.Tx) error { return errors.Join(remove(child)(tx), errTest) })
	if !errors.Is(err, errTest) {
		t.Fatal(err)
	}
	wantKinds(t, s, child, "r1", "c1")
	wantDoc(t, s, agent, child, "", counts{Text: "c1"})
}

// Invariant: INV-42
func TestAConversationInUseIsNotRemoved(t *testing.T) {
	s := open(t, session.NewMemory())
	r1 := say(t, s, session.Root, "r1")
	side, other := fork(t, s, session.Root, r1), fork(t, s, session.Root, r1)
	c1 := say(t, s, side, "c1")
	task := func(c session.ConversationID, change func(*session.Task)) session.TaskID {
		var id session.TaskID
		commit(t, s, func(tx *session.Tx) error {
			task := session.Task{Conversation: c, Kind: "app.job", Status: session.TaskPending}
			if change != nil {
				change(&task)
			}
			id = tx.CreateTask(task)
			return nil
		})
		return id
	}
	end := func(id session.TaskID) func(*session.Tx) error {
		return func(tx *session.Tx) error {
			task, ok := tx.LiveTask(id)
			if !ok {
				return errTest
			}
			task.Status, task.Outcome = session.TaskTerminal, &session.Outcome{Status: session.Aborted}
			tx.PutTask(task)
			return nil
		}
	}
	refused := func(why string, steps ...func(*session.Tx) error) {
		t.Helper()
		_, err := s.Commit(t.Context(), func(tx *session.Tx) error {
			for _, step := range steps {
				if err := step(tx); err != nil {
					return err
				}
			}
			return nil
		})
		if !errors.Is(err, session.ErrInUse) {
			t.Errorf("%s: %v, want ErrInUse", why, err)
		}
	}
	busy := task(side, nil)
	refused("a live task", remove(side))
	refused("a task that the same commit starts", end(busy), remove(side), func(tx *session.Tx) error {
		tx.CreateTask(session.Task{Conversation: side, Kind: "app.job", Status: session.TaskPending})
		return nil
	})
	waiting := task(other, func(t *session.Task) { t.Status, t.On = session.TaskWaiting, []session.TaskID{busy} })
	refused("a task elsewhere that waits for one that ends here", end(busy), remove(side))
	commit(t, s, end(busy))
	refused("a task elsewhere that has not yet seen what it waits for", remove(side))
	commit(t, s, end(waiting))
	grandchild := fork(t, s, side, c1)
	refused("a fork", remove(side))
	commit(t, s, remove(grandchild))
	refused("a fork of the same commit", remove(side), func(tx *session.Tx) error { _, err := tx.Fork(side, r1); return err })
	wantKinds(t, s, side, "r1", "c1")
	last := task(side, nil)
	commit(t, s, func(tx *session.Tx) error { return errors.Join(end(last)(tx), remove(side)(tx)) })
	if _, err := s.Commit(t.Context(), func(tx *session.Tx) error { _, err := tx.Fork(side, r1); return err }); !errors.Is(err, session.ErrForkPoint) {
		t.Errorf("a fork of what is gone: %v", err)
	}
}

func TestAConversationIsOwnedOnlyByATaskThatTakesWork(t *testing.T) {
	s := open(t, session.NewMemory())
	say(t, s, session.Root, "r1")
	for _, test := range []struct {
		name string
		task session.Task
		fits bool
	}{
		{"a live task", session.Task{Status: session.TaskPending}, true},
		{"one that is being cancelled", session.Task{Status: session.TaskPending, Abort: true}, false},
		{"one that completes", session.Task{Status: session.TaskCompleting}, false},
		{"one that is over", session.Task{Status: session.TaskTerminal, Outcome: &session.Outcome{Status: session.Completed}}, false},
	} {
		_, err := s.Commit(t.Context(), func(tx *session.Tx) error {
			test.task.Conversation, test.task.Kind = session.Root, "app.job"
			tx.CreateConversation(nil, tx.CreateTask(test.task))
			return nil
		})
		if test.fits && err != nil || !test.fits && !errors.Is(err, session.ErrOwnerDown) {
			t.Errorf("%s: %v", test.name, err)
		}
	}
	if _, err := s.Commit(t.Context(), func(tx *session.Tx) error { tx.CreateConversation(nil, 98); return nil }); !errors.Is(err, session.ErrOwnerDown) {
		t.Errorf("no task: %v", err)
	}
}
