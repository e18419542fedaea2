package sessionstore

import (
	"path/filepath"
	"testing"

	"github.com/workflowd/workflowd/agentcore/session"
	"github.com/workflowd/workflowd/agentcore/session/sessiontest"
)

// evicted puts its file away before every use, as if the limit of open files were one.
type evicted struct{ *Store }

func (e evicted) Commit(b *session.Batch) error {
	e.makeRoom()
	return e.Store.Commit(b)
}

func (e evicted) Conversation(id session.ConversationID) (session.Conversation, error) {
	e.makeRoom()
	return e.Store.Conversation(id)
}

func (e evicted) Conversations() ([]session.Conversation, error) {
	e.makeRoom()
	return e.Store.Conversations()
}

func (e evicted) Entry(id session.EntryID) (session.Entry, error) {
	e.makeRoom()
	return e.Store.Entry(id)
}

func (e evicted) Entries(q session.EntryQuery) ([]session.Entry, error) {
	e.makeRoom()
	return e.Store.Entries(q)
}

func (e evicted) NewestHead(c session.ConversationID, at session.EntryID) (session.Entry, error) {
	e.makeRoom()
	return e.Store.NewestHead(c, at)
}

func (e evicted) Task(id session.TaskID) (session.Task, error) {
	e.makeRoom()
	return e.Store.Task(id)
}

func (e evicted) Tasks(q session.TaskQuery) ([]session.Task, error) {
	e.makeRoom()
	return e.Store.Tasks(q)
}

func (e evicted) Submission(id session.SubmissionID) (session.Submission, error) {
	e.makeRoom()
	return e.Store.Submission(id)
}

func (e evicted) SubmissionByRequest(c session.ConversationID, requestID string) (session.Submission, error) {
	e.makeRoom()
	return e.Store.SubmissionByRequest(c, requestID)
}

func (e evicted) Submissions(c session.ConversationID, status ...session.SubmissionStatus) ([]session.Submission, error) {
	e.makeRoom()
	return e.Store.Submissions(c, status...)
}

func (e evicted) Document(a session.Address, at session.Seq) (session.Document, error) {
	e.makeRoom()
	return e.Store.Document(a, at)
}

func (e evicted) Documents(scope session.Scope, owner int64, at session.Seq) ([]session.Document, error) {
	e.makeRoom()
	return e.Store.Documents(scope, owner, at)
}

// The whole contract holds for a store that is evicted before every single use.
func TestAStoreThatIsAlwaysEvictedKeepsTheContract(t *testing.T) {
	sessiontest.Run(t, func(t *testing.T) (session.Storage, func() session.Storage) {
		path := filepath.Join(t.TempDir(), "x.db")
		reopen := func() session.Storage { return evicted{store(t, path)} }
		return reopen(), reopen
	})
}
