package task

import (
	"context"
	"errors"
	"fmt"

	"github.com/workflowd/workflowd/agentcore/session"
)

// The commits of the scheduler itself. Each decides again on the line: the mirror may lag behind it.

// ReasonStorage is the reason of a faulted outcome when the store refused, without effect, what the phase had to write, or
// held what cannot be read.
const ReasonStorage = "storage"

// fault settles a task whose phase broke the rules. It did not when the task was settled, marked, or moved by somebody
// else meanwhile.
func (s *Scheduler) fault(m ended) (concluded bool) {
	inv := m.inv
	if m.err == nil {
		m.err = errors.New("the phase returned without committing progress")
	}
	s.own(func(tx *session.Tx) error {
		t, live := tx.LiveTask(inv.began.ID)
		if !live || t.Outcome != nil || t.Abort != inv.aborting || !sameStep(t, inv.task) {
			return nil
		}
		concluded = true
		o := session.Outcome{Status: session.Faulted, Error: fmt.Sprintf("%s: %v", inv.began.Phase, m.err)}
		if errors.Is(m.err, session.ErrNoEffect) || errors.Is(m.err, session.ErrCorrupt) {
			o.Reason = ReasonStorage
		}
		return s.conclude(tx, t, o, inv.def)
	})
	return concluded
}

// abort ends a marked task whose owned work has drained: by its code, or without any.
func (s *Scheduler) abort(t session.Task, d *Definition, unfit bool) {
	if !unfit && d.Abort != nil {
		s.start(t, d, d.Abort, true)
		return
	}
	o := session.Outcome{Status: session.Aborted, Reason: t.AbortReason}
	if unfit {
		o.Status = session.Orphaned
	}
	s.own(func(tx *session.Tx) error {
		t, live := tx.LiveTask(t.ID)
		if !live || t.Outcome != nil || tx.OwnsLive(t.ID) { // new work in a conversation of its own: it ends first
			return nil
		}
		return s.conclude(tx, t, o, d)
	})
}

// finalize writes a held outcome.
func (s *Scheduler) finalize(t session.Task) {
	s.own(func(tx *session.Tx) error {
		t, live := tx.LiveTask(t.ID)
		if !live || t.Outcome == nil || tx.OwnsLive(t.ID) { // new work has prolonged the hold
			return nil
		}
		var cleanup *Definition
		if t.Outcome.Status == session.Faulted { // no phase settles so
			cleanup = s.defs.Definition(t.Kind)
		}
		return s.conclude(tx, t, *t.Outcome, cleanup)
	})
}

// conclude drafts an outcome. It is held while owned work is live; cleanup, by d unless it is nil, belongs to the commit
// that ends the task.
func (s *Scheduler) conclude(tx *session.Tx, t session.Task, o session.Outcome, d *Definition) error {
	held := tx.OwnsLive(t.ID)
	if d != nil && !held && d.Cleanup != nil {
		if err := d.Cleanup(tx, t, o); err != nil {
			return fmt.Errorf("clean up after task %d %s: %w", t.ID, t.Kind, err)
		}
	}
	tx.PutTask(After(t, Settle{o}, held))
	return nil
}

// own commits for the scheduler itself; the commit comes back through the listener.
func (s *Scheduler) own(fn func(*session.Tx) error) {
	if s.failed {
		return
	}
	if _, err := s.sess.Commit(context.Background(), fn); err != nil {
		s.giveUp(fmt.Errorf("scheduler: %w", err))
	}
}

// giveUp suspends everything. The next open finds the work as it was committed.
func (s *Scheduler) giveUp(err error) {
	if s.failed {
		return
	}
	s.failed = true
	s.suspend(fmt.Errorf("%w: %w", ErrSuspended, err))
	s.fail(err)
}
