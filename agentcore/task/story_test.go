package task_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/workflowd/workflowd/agentcore/session"
	"github.com/workflowd/workflowd/agentcore/task"
)

// story is a rig whose tasks and conversations have names. It is told twice: in one life, and with a store that is
// reopened after every commit of the scheduler. The end must be the same.
type story struct {
	*rig
	reopening bool
	open      map[string]bool // "slow" tasks that may go on
	ids       map[string]session.TaskID
	rooms     map[string]session.ConversationID
}

// told runs tell both ways.
func told(t *testing.T, tell func(s *story)) {
	for _, how := range []struct {
		name      string
		reopening bool
	}{{"in one life", false}, {"reopened after every commit", true}} {
		t.Run(how.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &story{reopening: how.reopening, open: map[string]bool{}, ids: map[string]session.TaskID{},
					rooms: map[string]session.ConversationID{"main": session.Root}}
				s.rig = newRig(t, s.defs()...)
				s.sched.OnReach(s.decide)
				tell(s)
			})
		})
	}
}

// defs are kinds of work named by how they go: at once to an end, until they are stopped, or until they are let go.
func (s *story) defs() []task.Definition {
	name := func(inv *task.Invocation) string { return strings.Trim(string(inv.Task().Input), `"`) }
	ends := func(o session.OutcomeStatus) task.Phase {
		return func(ctx context.Context, inv *task.Invocation) error {
			return step(ctx, inv, name(inv)+" "+string(o), task.Settle{Outcome: session.Outcome{Status: o}})
		}
	}
	defs := []task.Definition{
		defineAs("idle", idle),
		defineAs("ok", ends(session.Completed)),
		defineAs("bad", ends(session.Failed)),
		defineAs("broken", func(context.Context, *task.Invocation) error { return errTest }),
		defineAs("slow", func(ctx context.Context, inv *task.Invocation) error {
			if !s.open[name(inv)] {
				return task.ErrPark
			}
			return ends(session.Completed)(ctx, inv)
		}),
		defineAs("bare", idle),
	}
	for i := range defs {
		defs[i].Abort = ends(session.Aborted)
		defs[i].Cleanup = func(tx *session.Tx, t session.Task, o session.Outcome) error {
			note(tx, "%s cleaned up: %s", strings.Trim(string(t.Input), `"`), o.Status)
			return nil
		}
	}
	defs[len(defs)-1].Abort = nil
	return defs
}

// settle lets the scheduler work until nothing moves.
func (s *story) settle() {
	s.t.Helper()
	if !s.reopening {
		s.run()
		s.sched.Unpark()
		synctest.Wait()
		return
	}
	for range 1000 {
		died := false
		s.faulty.After = func(*session.Batch) error { // nobody hears of it
			died = true
			s.faulty.Before = func(*session.Batch) error { return errKilled }
			return errKilled
		}
		s.run()
		s.die(s.defs()...)
		s.sched.OnReach(s.decide)
		if !died {
			return
		}
	}
	s.t.Fatal("it never comes to rest")
}

// room makes a conversation; owner "" = nobody's.
func (s *story) room(name, owner string) {
	s.t.Helper()
	s.commit(func(tx *session.Tx) error {
		s.rooms[name] = tx.CreateConversation(nil, s.ids[owner])
		return nil
	})
}

// fork makes a conversation that branches off another one.
func (s *story) fork(name, source string) {
	s.t.Helper()
	var at session.EntryID
	s.commit(func(tx *session.Tx) error {
		at = tx.Append(session.Entry{Conversation: s.rooms[source], Kind: "said"})
		return nil
	})
	s.commit(func(tx *session.Tx) (err error) {
		s.rooms[name], err = tx.Fork(s.rooms[source], at)
		return err
	})
}

// top puts a task at the top of a conversation, below one under another task.
func (s *story) top(name, kind, room string, changes ...func(*session.Task)) {
	s.t.Helper()
	s.ids[name] = s.add(kind, append(changes, func(t *session.Task) { t.Conversation, t.Input = s.rooms[room], mustJSON(name) })...)
}

func (s *story) below(name, kind, owner string, changes ...func(*session.Task)) {
	s.t.Helper()
	o := s.task(s.ids[owner])
	s.ids[name] = s.add(kind, append(changes, func(t *session.Task) {
		t.Owner, t.Conversation, t.Input = o.ID, o.Conversation, mustJSON(name)
	})...)
}

func (s *story) stop(name string) {
	s.t.Helper()
	if err := s.sched.Cancel(s.t.Context(), s.ids[name], "enough"); err != nil {
		s.t.Fatal(err)
	}
}

func (s *story) stopTree(name string) {
	s.t.Helper()
	if err := s.sched.CancelTree(s.t.Context(), s.ids[name], "all of it"); err != nil {
		s.t.Fatal(err)
	}
}

// letGo lets a slow task end.
func (s *story) letGo(name string) { s.open[name] = true }

// are checks where all named tasks stand: "name state, …" with a stored state, or how a terminal one ended.
func (s *story) are(want string) {
	s.t.Helper()
	var got []string
	for _, name := range slices.Sorted(maps.Keys(s.ids)) {
		t := s.task(s.ids[name])
		state := string(t.Status)
		if t.Status == session.TaskTerminal {
			state = string(t.Outcome.Status)
		}
		got = append(got, name+" "+state)
	}
	list := strings.Split(want, ", ")
	slices.Sort(list)
	if diff := cmp.Diff(list, got); diff != "" {
		s.t.Errorf("tasks (-want +got):\n%s", diff)
	}
}

// said checks that these notes were committed in this order; others may lie between.
func (s *story) said(want ...string) {
	s.t.Helper()
	all := notesOf(s.t, s.memory)
	rest := all
	for _, w := range want {
		i := slices.Index(rest, w)
		if i < 0 {
			s.t.Errorf("%q is not said in its place: %q", w, all)
			return
		}
		rest = rest[i+1:]
	}
}

// neverSaid checks that a note does not exist.
func (s *story) neverSaid(what string) {
	s.t.Helper()
	if slices.Contains(notesOf(s.t, s.memory), what) {
		s.t.Errorf("%q was said", what)
	}
}

// queue leaves a submission in a conversation. Its payload says what it is: an input or a write.
func (s *story) queue(room, what string) {
	s.t.Helper()
	s.commit(func(tx *session.Tx) error {
		tx.CreateSubmission(session.Submission{Conversation: s.rooms[room], Status: session.SubmissionQueued, Payload: mustJSON(what)})
		return nil
	})
}

// decide is a layer above: inputs of reached conversations end, writes stay.
func (s *story) decide(tx *session.Tx, list []task.Reached) error {
	var ended []session.Submission
	for _, reached := range list {
		subs, err := tx.Submissions(reached.Conversation, session.SubmissionQueued)
		if err != nil {
			return err
		}
		for _, sub := range subs {
			if string(sub.Payload) == `"input"` {
				sub.Status, sub.Reason, sub.Detail = session.SubmissionUnanswered, "aborted", reached.Reason
				ended = append(ended, sub)
			}
		}
	}
	for _, sub := range ended {
		tx.PutSubmission(sub)
	}
	return nil
}

// queued checks what became of the submissions of a conversation, oldest first.
func (s *story) queued(room string, want ...string) {
	s.t.Helper()
	subs, err := s.memory.Submissions(s.rooms[room])
	if err != nil {
		s.t.Fatal(err)
	}
	var got []string
	for _, sub := range subs {
		text := fmt.Sprintf("%s %s", strings.Trim(string(sub.Payload), `"`), sub.Status)
		if sub.Reason != "" {
			text += fmt.Sprintf(" (%s: %s)", sub.Reason, sub.Detail)
		}
		got = append(got, text)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		s.t.Errorf("submissions of %s (-want +got):\n%s", room, diff)
	}
}
