package session_test

import (
	"errors"
	"testing"

	"github.com/workflowd/workflowd/agentcore/session"
)

// Invariant: INV-11
func TestASubmissionOnlyMovesForward(t *testing.T) {
	const (
		queued, placed       = session.SubmissionQueued, session.SubmissionPlaced
		answered, unanswered = session.SubmissionAnswered, session.SubmissionUnanswered
		withdrawn            = session.SubmissionWithdrawn
	)
	all := []session.SubmissionStatus{queued, placed, answered, unanswered, withdrawn}
	may := map[session.SubmissionStatus][]session.SubmissionStatus{
		queued: all,
		placed: {placed, answered, unanswered},
	}
	s := open(t, session.NewMemory())
	for _, from := range all {
		for _, to := range all {
			var sub session.Submission
			commit(t, s, func(tx *session.Tx) error {
				sub = session.Submission{Conversation: session.Root, Status: from}
				sub.ID = tx.CreateSubmission(sub)
				return nil
			})
			fits := false
			for _, next := range may[from] {
				fits = fits || next == to
			}
			_, err := s.Commit(t.Context(), func(tx *session.Tx) error {
				sub.Status, sub.Detail = to, "again"
				tx.PutSubmission(sub)
				return nil
			})
			if fits && err != nil || !fits && !errors.Is(err, session.ErrSettled) {
				t.Errorf("%s to %s: %v", from, to, err)
			}
			view(t, s, func(tx *session.Tx) error {
				got, err := tx.Submission(sub.ID)
				if want := from; err != nil || !fits && (got.Status != want || got.Detail != "") {
					t.Errorf("%s to %s was refused and left %+v, %v", from, to, got, err)
				}
				return nil
			})
		}
	}
	_, err := s.Commit(t.Context(), func(tx *session.Tx) error {
		tx.PutSubmission(session.Submission{ID: 1, Conversation: session.Root, Status: queued})
		return nil
	})
	if !errors.Is(err, session.ErrNotFound) {
		t.Errorf("a submission that was never created: %v", err)
	}
}
