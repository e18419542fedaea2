package sessiontest

import "github.com/workflowd/workflowd/agentcore/session"

// Faulty is a Storage whose commits fail where a test wants it. Its hooks run inside Commit, one call at a time; set them
// before the session is shared, or from within a hook. A nil hook does nothing.
type Faulty struct {
	session.Storage
	// Before runs ahead of the write. Its error is the commit's and nothing is written; wrap session.ErrNoEffect to say so.
	Before func(*session.Batch) error
	// After runs behind a write that happened. Its error is the commit's: the reply got lost.
	After func(*session.Batch) error
}

var _ session.Storage = (*Faulty)(nil)

// Commit writes b between the hooks.
func (f *Faulty) Commit(b *session.Batch) error {
	if f.Before != nil {
		if err := f.Before(b); err != nil {
			return err
		}
	}
	if err := f.Storage.Commit(b); err != nil {
		return err
	}
	if f.After != nil {
		return f.After(b)
	}
	return nil
}
