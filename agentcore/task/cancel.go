package task

import (
	"context"

	"github.com/workflowd/workflowd/agentcore/session"
)

// Cancel marks a task; its owned work goes down first, through the conversations it owns, then its abort phase runs. It
// returns after the mark is committed, synced. A terminal task stays as it is. Background tasks below it go on, with all
// that is below them.
func (s *Scheduler) Cancel(ctx context.Context, id session.TaskID, reason string) error {
	_, err := s.sess.Commit(ctx, func(tx *session.Tx) error {
		if t, live := tx.LiveTask(id); live {
			cancel(tx, t, reason)
		}
		return nil
	})
	return err
}

// cancel drafts a mark. It overrides the one of a restart.
func cancel(tx *session.Tx, t session.Task, reason string) {
	if t.Abort && !leftBehind(t) {
		return
	}
	t.Abort, t.AbortReason = true, reason
	tx.PutTask(t)
	tx.Sync()
}

// Release lets a task that was restarted too often start once more, with a count of zero.
func (s *Scheduler) Release(ctx context.Context, id session.TaskID) error {
	_, err := s.sess.Commit(ctx, func(tx *session.Tx) error {
		if t, live := tx.LiveTask(id); live && t.Starts > 0 {
			t.Starts = 0
			tx.PutTask(t)
		}
		return nil
	})
	return err
}
