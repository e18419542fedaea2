package sessionstore

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/workflowd/workflowd/agentcore/session"
	"github.com/workflowd/workflowd/store/sqlite"
)

// The statements of a commit.
const (
	insertConversation = `INSERT INTO conversations VALUES(?,?,?,?)`
	insertEntry        = `INSERT INTO entries VALUES(?,?,?,?,?,?,?,?,?)`
	putTask            = `INSERT INTO tasks VALUES(?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)
		ON CONFLICT(id) DO UPDATE SET conversation=excluded.conversation, kind=excluded.kind, version=excluded.version,
		owner=excluded.owner, background=excluded.background, status=excluded.status, phase=excluded.phase,
		checkpoint=excluded.checkpoint, awaits=excluded.awaits, policy=excluded.policy, outcome=excluded.outcome,
		abort=excluded.abort, abort_reason=excluded.abort_reason, epoch=excluded.epoch, input=excluded.input,
		memos=excluded.memos, starts=excluded.starts, abandon=excluded.abandon`
	putSubmission = `INSERT INTO submissions VALUES(?,?,?,?,?,?,?,?,?,?)
		ON CONFLICT(id) DO UPDATE SET digest=excluded.digest, status=excluded.status, payload=excluded.payload,
		entry=excluded.entry, answer=excluded.answer, reason=excluded.reason, detail=excluded.detail
		WHERE conversation=excluded.conversation AND request_id IS excluded.request_id`
	insertDocument = `INSERT INTO documents VALUES(?,?,?,?,?,?,?,0)`
	insertRevision = `INSERT INTO revisions SELECT ?1,?2,?3,?4,?5,?6 FROM documents WHERE id=?1 AND retired=0`
	dropRevisions  = `DELETE FROM revisions WHERE document=?1 AND EXISTS(SELECT 1 FROM documents WHERE id=?1 AND rewindable=0)`
	// A document that no commit can show any more goes: one that is not rewindable, or that was born in this commit.
	dropRetiredRevisions = `DELETE FROM revisions WHERE document=?1
		AND EXISTS(SELECT 1 FROM documents WHERE id=?1 AND retired=0 AND(rewindable=0 OR created=?2))`
	dropRetired = `DELETE FROM documents WHERE id=?1 AND retired=0 AND(rewindable=0 OR created=?2)`
	retire      = `UPDATE documents SET retired=?2 WHERE id=?1 AND retired=0`
)

// The removal of a conversation, in order; ?1 is its number. retention_test.go asserts that each is served by an index;
// the main conversation has none, and stays.
var removal = []string{
	`DELETE FROM revisions WHERE document IN(SELECT id FROM documents WHERE scope=2 AND owner=?1)`,
	`DELETE FROM documents WHERE scope=2 AND owner=?1`,
	`DELETE FROM revisions WHERE document IN(SELECT id FROM documents WHERE scope=3 AND owner IN(SELECT id FROM tasks WHERE conversation=?1 AND conversation<>1))`,
	`DELETE FROM documents WHERE scope=3 AND owner IN(SELECT id FROM tasks WHERE conversation=?1 AND conversation<>1)`,
	`DELETE FROM submissions WHERE conversation=?1`,
	`DELETE FROM tasks WHERE conversation=?1 AND conversation<>1`,
	`DELETE FROM entries WHERE conversation=?1 AND conversation<>1`,
}

const (
	selectLive         = `SELECT id FROM tasks WHERE conversation=? AND status<>'terminal' LIMIT 1`
	selectForks        = `SELECT id FROM conversations WHERE parent=?` // conversations are few: no index
	removeConversation = `DELETE FROM conversations WHERE id=?`        // its references are checked by one scan of the entries
)

func writeBatch(tx *sqlite.Tx, b *session.Batch) error {
	for i := range b.Conversations {
		if err := writeConversation(tx, &b.Conversations[i]); err != nil {
			return err
		}
	}
	for i := range b.Entries {
		if err := writeEntry(tx, &b.Entries[i], b.Seq); err != nil {
			return err
		}
	}
	for i := range b.Tasks {
		if err := writeTask(tx, &b.Tasks[i]); err != nil {
			return err
		}
	}
	for i := range b.Submissions {
		if err := writeSubmission(tx, &b.Submissions[i]); err != nil {
			return err
		}
	}
	for i := range b.Documents {
		if err := writeDocument(tx, &b.Documents[i], b.Seq, i); err != nil {
			return fmt.Errorf("document %d: %w", b.Documents[i].ID, err)
		}
	}
	if len(b.Removals) == 0 {
		return nil
	}
	for _, c := range slices.Backward(slices.Sorted(slices.Values(b.Removals))) { // a fork's number is above its parent's
		if err := removeWhole(tx, int64(c)); err != nil {
			return fmt.Errorf("remove conversation %d: %w", c, err)
		}
	}
	return nil
}

// removeWhole deletes a conversation with everything in it, unless something that stays needs it.
func removeWhole(tx *sqlite.Tx, c int64) error {
	for _, check := range []struct{ sql, why string }{{selectLive, "task %d is live"}, {selectForks, "%d is its fork"}} {
		user := int64(0)
		if err := tx.Query(check.sql, []any{c}, func(r *sqlite.Row) error { user = r.Int64(0); return nil }); err != nil {
			return err
		}
		if user != 0 {
			return fmt.Errorf("%w: "+check.why, session.ErrInUse, user)
		}
	}
	for _, sql := range removal {
		if _, err := tx.Exec(sql, c); err != nil {
			return err
		}
	}
	changed, err := tx.Exec(removeConversation, c)
	if err == nil && changed != 1 {
		err = fmt.Errorf("it does not exist")
	}
	return err
}

func writeConversation(tx *sqlite.Tx, c *session.Conversation) error {
	var parent, at any
	if c.Parent != nil {
		parent, at = int64(c.Parent.Conversation), int64(c.Parent.At)
	}
	if _, err := tx.Exec(insertConversation, int64(c.ID), parent, at, number(c.Owner)); err != nil {
		return fmt.Errorf("conversation %d: %w", c.ID, err)
	}
	return nil
}

func writeEntry(tx *sqlite.Tx, e *session.Entry, seq session.Seq) error {
	edits, err := storeEdits(e.Edits)
	if err == nil {
		_, err = tx.Exec(insertEntry, int64(e.ID), int64(e.Conversation), int64(seq), e.Kind, blob(e.Model), blob(e.Data),
			number(e.Head), edits, number(e.ByTask))
	}
	if err != nil {
		return fmt.Errorf("entry %d: %w", e.ID, err)
	}
	return nil
}

func writeTask(tx *sqlite.Tx, t *session.Task) error {
	var awaits any
	if len(t.On) > 0 {
		list, err := json.Marshal(t.On)
		if err != nil {
			return fmt.Errorf("task %d: %w", t.ID, err)
		}
		awaits = list
	}
	outcome, err := storeOutcome(t.Outcome)
	if err == nil {
		_, err = tx.Exec(putTask, int64(t.ID), int64(t.Conversation), t.Kind, t.Version, number(t.Owner), t.Background,
			string(t.Status), text(t.Phase), blob(t.Checkpoint), awaits, text(t.Policy), outcome, t.Abort, text(t.AbortReason),
			t.Epoch, blob(t.Input), blob(t.Memos), number(int64(t.Starts)), yes(t.Abandon))
	}
	if err != nil {
		return fmt.Errorf("task %d: %w", t.ID, err)
	}
	return nil
}

func writeSubmission(tx *sqlite.Tx, s *session.Submission) error {
	changed, err := tx.Exec(putSubmission, int64(s.ID), int64(s.Conversation), text(s.RequestID), s.Digest, string(s.Status),
		blob(s.Payload), number(s.Entry), number(s.Answer), text(s.Reason), text(s.Detail))
	if err == nil && changed != 1 {
		err = fmt.Errorf("its conversation and request id are fixed")
	}
	if err != nil {
		return fmt.Errorf("submission %d: %w", s.ID, err)
	}
	return nil
}

func writeDocument(tx *sqlite.Tx, w *session.DocumentWrite, seq session.Seq, n int) error {
	id := int64(w.ID)
	if w.Retire {
		return retireDocument(tx, id, int64(seq))
	}
	content, isBase := w.Delta, false
	if len(w.Base) > 0 {
		content, isBase = w.Base, true
	}
	switch {
	case w.Create:
		scope, err := storeScope(w.Address.Scope)
		if err != nil {
			return err
		}
		if _, err := tx.Exec(insertDocument, id, scope, w.Address.Owner, w.Address.Kind, w.Address.Key, w.Rewindable, int64(seq)); err != nil {
			return err
		}
	case isBase && !w.Rewindable:
		if _, err := tx.Exec(dropRevisions, id); err != nil {
			return err
		}
	}
	return oneRow(tx.Exec(insertRevision, id, int64(seq), n, isBase, w.Version, content))
}

func retireDocument(tx *sqlite.Tx, id, seq int64) error {
	if _, err := tx.Exec(dropRetiredRevisions, id, seq); err != nil {
		return err
	}
	gone, err := tx.Exec(dropRetired, id, seq)
	if err != nil || gone == 1 {
		return err
	}
	return oneRow(tx.Exec(retire, id, seq))
}

func oneRow(changed int64, err error) error {
	if err == nil && changed != 1 {
		return fmt.Errorf("it is not live")
	}
	return err
}
