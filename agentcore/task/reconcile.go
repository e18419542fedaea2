package task

import (
	"errors"
	"fmt"
	"time"

	"github.com/workflowd/workflowd/agentcore/session"
)

// What the scheduler commits between phases: marks, migrations and counts. Like its outcomes, each is decided again on
// the line.

// mark marks, in one commit, the tasks whose owner is going down or died, and the losers of decided waits. The layer above
// decides about what is queued in reached conversations.
func (s *Scheduler) mark(ids, waiters []session.TaskID, reached []session.ConversationID) {
	over := map[session.TaskID]bool{} // waiters whose wait is decided
	s.own(func(tx *session.Tx) error {
		reasons := map[session.TaskID]string{}
		for _, waiter := range waiters { // records are read before the first write
			w, live := tx.LiveTask(waiter)
			if !live {
				continue
			}
			awaited, err := outcomesOf(tx, w)
			if err != nil {
				return err
			}
			lost, reason := losers(w, awaited)
			over[waiter] = reason != ""
			for _, id := range lost {
				ids = append(ids, id)
				reasons[id] = reason
			}
		}
		if err := s.reach(tx, stillReached(tx, reached)); err != nil {
			return err
		}
		for _, id := range ids {
			t, live := tx.LiveTask(id)
			if !live || t.Abort {
				continue
			}
			if reason, speaks := s.reason(tx, t, reasons[id]); speaks {
				t.Abort, t.AbortReason = true, reason
				tx.PutTask(t)
			}
		}
		return nil
	})
	for _, id := range waiters {
		s.mirror.looked(id, over[id])
	}
}

// outcomesOf returns the records of the tasks that w waits for. One that never was counts as completed.
func outcomesOf(tx *session.Tx, w session.Task) ([]session.Task, error) {
	list := make([]session.Task, 0, len(w.On))
	for _, id := range w.On {
		t, err := tx.Task(id)
		switch {
		case errors.Is(err, session.ErrNotFound):
			t = session.Task{ID: id, Status: session.TaskTerminal}
		case err != nil:
			return nil, fmt.Errorf("task %d waits for task %d: %w", w.ID, id, err)
		}
		list = append(list, t)
	}
	return list, nil
}

// reason says why t is marked now; speaks = false when nothing speaks for it any more.
func (s *Scheduler) reason(tx *session.Tx, t session.Task, lost string) (reason string, speaks bool) {
	owner, live := tx.LiveTask(session.WorksFor(t, tx.Keeper))
	switch {
	case live && goingDown(owner):
		return downReason(owner), true
	case lost != "":
		return lost, true
	case t.Abandon && t.Outcome == nil && t.Epoch != s.sess.Epoch():
		return ReasonRestart, true
	}
	return "", false
}

// migrate commits the step of an older task as its definition now wants it.
func (s *Scheduler) migrate(t session.Task, d *Definition) {
	next, err := migrated(t, d)
	if err != nil {
		s.unmoved[t.ID] = migration{d, err}
		s.mirror.touch(t.ID)
		return
	}
	s.own(func(tx *session.Tx) error {
		now, live := tx.LiveTask(t.ID)
		if !live || now.Outcome != nil || now.Version != t.Version || !sameStep(now, t) {
			return nil
		}
		now = After(now, next, false)
		now.Version = d.Version
		tx.PutTask(now)
		return nil
	})
}

// migrated turns a panic of the definition into its error.
func migrated(t session.Task, d *Definition) (next Continue, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v", p)
		}
	}()
	return d.Migrate(t)
}

// recount commits that tasks start once more in a step in which an earlier owner may have died.
func (s *Scheduler) recount(ids []session.TaskID) {
	if len(ids) == 0 {
		return
	}
	for _, id := range ids {
		s.counted[id] = struct{}{}
		s.mirror.touch(id)
	}
	var counted []session.Task
	s.own(func(tx *session.Tx) error {
		for _, id := range ids {
			if t, live := tx.LiveTask(id); live && t.Outcome == nil && t.Epoch != s.sess.Epoch() {
				t.Starts++
				tx.PutTask(t)
				counted = append(counted, t)
			}
		}
		return nil
	})
	s.mirror.put(news{tasks: counted}) // the step that starts now sees its count
}

// relax remembers that a phase whose start was counted has ended by itself: nobody died.
func (s *Scheduler) relax(inv *Invocation) {
	if _, counted := s.counted[inv.began.ID]; counted {
		s.calm[inv.began.ID] = inv.began
	}
}

// soothe commits what relax has gathered.
func (s *Scheduler) soothe() {
	if len(s.calm) == 0 {
		return
	}
	s.own(func(tx *session.Tx) error {
		for id, began := range s.calm {
			if t, live := tx.LiveTask(id); live && t.Starts > 0 && sameStep(t, began) {
				t.Starts = 0
				tx.PutTask(t)
			}
		}
		return nil
	})
	for id := range s.calm {
		delete(s.counted, id)
	}
	clear(s.calm)
}

// uncount takes the counts back of what is suspended in an orderly way.
func (s *Scheduler) uncount() {
	if len(s.counted) == 0 {
		return
	}
	s.own(func(tx *session.Tx) error {
		for id := range s.counted {
			if t, live := tx.LiveTask(id); live && t.Starts > 0 && t.Epoch != s.sess.Epoch() {
				t.Starts = 0
				tx.PutTask(t)
			}
		}
		return nil
	})
}

// Standing returns why a live task does not go on in this process although nothing in its record holds it back: Sleeping,
// Parked, Blocked or Exhausted. nil = it goes on, waits, or is over.
func (s *Scheduler) Standing(id session.TaskID) Standing {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.standing[id]
}

// tell keeps the standing of a task up to date.
func (s *Scheduler) tell(t session.Task, v view, todo action) {
	if todo != rest {
		s.stand(t.ID, nil)
		return
	}
	var until time.Time
	if v.asleep {
		until, _ = s.sleepers.asleep(t)
	}
	detail := ""
	if v.block == MigrationFailed {
		detail = s.unmoved[t.ID].err.Error()
	}
	s.stand(t.ID, standingOf(t, v, until, detail))
}

func (s *Scheduler) stand(id session.TaskID, st Standing) {
	if s.standing[id] == st {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if st == nil {
		delete(s.standing, id)
		return
	}
	s.standing[id] = st
}
