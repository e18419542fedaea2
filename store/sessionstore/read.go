package sessionstore

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/workflowd/workflowd/agentcore/session"
	"github.com/workflowd/workflowd/store/sqlite"
)

// The queries. plan_test.go asserts that each is served by an index.
const (
	selectConversation  = `SELECT id, parent, at, owner FROM conversations WHERE id=?`
	selectConversations = `SELECT id, parent, at, owner FROM conversations ORDER BY id`

	entryColumns  = `SELECT id, conversation, seq, kind, model, data, head, edits, by_task FROM entries `
	selectEntry   = entryColumns + `WHERE id=?`
	selectRoot    = entryColumns + `WHERE conversation=1 AND id>=? AND id<=? ORDER BY id DESC LIMIT ?`
	selectEntries = entryColumns + `WHERE conversation=? AND conversation<>1 AND id>=? AND id<=? ORDER BY id DESC LIMIT ?`
	selectHead    = entryColumns + `WHERE conversation=? AND head IS NOT NULL AND id<=? ORDER BY id DESC LIMIT 1`

	taskColumns = `SELECT id, conversation, kind, version, owner, background, status, phase, checkpoint, awaits, policy,
		outcome, abort, abort_reason, epoch, input, memos, starts, abandon FROM tasks `
	selectTask = taskColumns + `WHERE id=?`

	submissionColumns = `SELECT id, conversation, request_id, digest, status, payload, entry, answer, reason, detail FROM submissions `
	selectSubmission  = submissionColumns + `WHERE id=?`
	selectByRequest   = submissionColumns + `WHERE conversation=? AND request_id=?`
	selectSubmissions = submissionColumns + `WHERE conversation=? ORDER BY id`
	selectWithStatus  = submissionColumns + `WHERE conversation=? AND status=?`
	documentColumns   = `SELECT id, kind, key, rewindable, created, retired FROM documents `
	selectDocument    = documentColumns + `WHERE scope=? AND owner=? AND kind=? AND key=? AND created<=?5 AND(retired=0 OR retired>?5)`
	selectDocuments   = documentColumns + `WHERE scope=? AND owner=? AND created<=?3 AND(retired=0 OR retired>?3) ORDER BY id`
	selectRevisions   = `SELECT base, version, content FROM revisions WHERE document=? AND seq<=? ORDER BY seq DESC, n DESC`
	newest            = int64(math.MaxInt64)
)

// errEnough ends a query early.
var errEnough = errors.New("enough rows")

// query runs one statement. A store without any commit has no rows: preparing a statement costs more than most reads.
func (s *Store) query(sql string, args []any, each func(*sqlite.Row) error) error {
	if s.empty {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.fetch(); err != nil {
		return err
	}
	return s.db.Query(sql, args, each)
}

// one runs a query for a single record.
func one[T any](s *Store, what string, sql string, args []any, to func(*sqlite.Row) (T, error)) (T, error) {
	var v T
	found := false
	err := s.query(sql, args, func(r *sqlite.Row) (err error) {
		found = true
		v, err = to(r)
		return err
	})
	if err == nil && !found {
		err = session.ErrNotFound
	}
	if err != nil {
		var none T
		return none, fmt.Errorf("%s: %w", what, translate(err))
	}
	return v, nil
}

// list runs a query for many.
func list[T any](s *Store, what string, sql string, args []any, to func(*sqlite.Row) (T, error)) ([]T, error) {
	var all []T
	err := s.query(sql, args, func(r *sqlite.Row) error {
		v, err := to(r)
		all = append(all, v)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", what, translate(err))
	}
	return all, nil
}

// sure adapts a mapping that cannot fail.
func sure[T any](to func(*sqlite.Row) T) func(*sqlite.Row) (T, error) {
	return func(r *sqlite.Row) (T, error) { return to(r), nil }
}

// Conversation returns one conversation or session.ErrNotFound.
func (s *Store) Conversation(id session.ConversationID) (session.Conversation, error) {
	return one(s, fmt.Sprintf("conversation %d", id), selectConversation, []any{int64(id)}, sure(toConversation))
}

// Conversations returns all conversations in id order.
func (s *Store) Conversations() ([]session.Conversation, error) {
	return list(s, "conversations", selectConversations, nil, sure(toConversation))
}

// Entry returns one entry or session.ErrNotFound.
func (s *Store) Entry(id session.EntryID) (session.Entry, error) {
	return one(s, fmt.Sprintf("entry %d", id), selectEntry, []any{int64(id)}, toEntry)
}

// Entries returns the selected visible entries, newest first.
func (s *Store) Entries(q session.EntryQuery) ([]session.Entry, error) {
	var all []session.Entry
	err := s.levels(q.Conversation, q.To, func(c session.ConversationID, most int64) (bool, error) {
		limit := -1
		if q.Limit > 0 {
			limit = q.Limit - len(all)
		}
		sql, args := selectRoot, []any{int64(q.From), most, limit}
		if c != session.Root {
			sql, args = selectEntries, []any{int64(c), int64(q.From), most, limit}
		}
		level, err := list(s, fmt.Sprintf("entries of conversation %d", c), sql, args, toEntry)
		all = append(all, level...)
		return (q.Limit <= 0 || len(all) < q.Limit), err
	})
	if err != nil {
		return nil, err
	}
	return all, nil
}

// NewestHead returns the newest visible entry with a head at or before at, or session.ErrNotFound.
func (s *Store) NewestHead(c session.ConversationID, at session.EntryID) (session.Entry, error) {
	var head session.Entry
	err := s.levels(c, at, func(c session.ConversationID, most int64) (bool, error) {
		var err error
		head, err = one(s, fmt.Sprintf("head of conversation %d", c), selectHead, []any{int64(c), most}, toEntry)
		if errors.Is(err, session.ErrNotFound) {
			return true, nil
		}
		return false, err
	})
	if err == nil && head.ID == 0 {
		err = fmt.Errorf("head of conversation %d: %w", c, session.ErrNotFound)
	}
	return head, err
}

// levels visits c and its ancestors with the highest id that is visible in each, until visit says no.
func (s *Store) levels(c session.ConversationID, to session.EntryID, visit func(c session.ConversationID, most int64) (bool, error)) error {
	most := newest
	if to != 0 {
		most = int64(to)
	}
	for {
		more, err := visit(c, most)
		if err != nil || !more {
			return err
		}
		conversation, err := s.Conversation(c)
		if errors.Is(err, session.ErrNotFound) {
			return nil
		}
		if err != nil {
			return err
		}
		if conversation.Parent == nil || conversation.Parent.At == 0 {
			return nil
		}
		c, most = conversation.Parent.Conversation, min(most, int64(conversation.Parent.At))
	}
}

// Task returns one task or session.ErrNotFound.
func (s *Store) Task(id session.TaskID) (session.Task, error) {
	return one(s, fmt.Sprintf("task %d", id), selectTask, []any{int64(id)}, toTask)
}

// Tasks returns the selected tasks in id order.
func (s *Store) Tasks(q session.TaskQuery) ([]session.Task, error) {
	sql, args := taskQuery(q)
	tasks, err := list(s, "tasks", sql, args, toTask)
	if q.Limit > 0 {
		slices.Reverse(tasks)
	}
	return tasks, err
}

// taskQuery builds one of a fixed set of texts. With a limit the newest come first.
func taskQuery(q session.TaskQuery) (string, []any) {
	sql, args := taskColumns, []any(nil)
	if q.Live && q.Conversation == 0 && q.Owner == 0 {
		sql += `INDEXED BY tasks_live ` // without statistics SQLite would rather read every task in order
	}
	sql += `WHERE true`
	if q.Conversation != 0 {
		sql, args = sql+` AND conversation=?`, append(args, int64(q.Conversation))
		if !q.Live && q.Conversation != session.Root {
			sql += ` AND conversation<>1`
		}
	}
	if q.Owner != 0 { // a task is created under one that exists: its id is greater
		sql, args = sql+` AND owner=? AND id>?`, append(args, int64(q.Owner), int64(q.Owner))
	}
	if q.Live {
		sql += ` AND status<>'terminal'`
	}
	if q.Limit > 0 {
		return sql + ` ORDER BY id DESC LIMIT ?`, append(args, q.Limit)
	}
	return sql + ` ORDER BY id`, args
}

// Submission returns one submission or session.ErrNotFound.
func (s *Store) Submission(id session.SubmissionID) (session.Submission, error) {
	return one(s, fmt.Sprintf("submission %d", id), selectSubmission, []any{int64(id)}, sure(toSubmission))
}

// SubmissionByRequest returns the submission with that request id in the conversation, or session.ErrNotFound.
func (s *Store) SubmissionByRequest(c session.ConversationID, requestID string) (session.Submission, error) {
	return one(s, fmt.Sprintf("request %q of conversation %d", requestID, c), selectByRequest, []any{int64(c), requestID}, sure(toSubmission))
}

// Submissions returns those of a conversation in id order, with one of the states (none = all).
func (s *Store) Submissions(c session.ConversationID, status ...session.SubmissionStatus) ([]session.Submission, error) {
	what := fmt.Sprintf("submissions of conversation %d", c)
	if len(status) == 0 {
		return list(s, what, selectSubmissions, []any{int64(c)}, sure(toSubmission))
	}
	var all []session.Submission
	for i, st := range status {
		if slices.Contains(status[:i], st) {
			continue
		}
		some, err := list(s, what, selectWithStatus, []any{int64(c), string(st)}, sure(toSubmission))
		if err != nil {
			return nil, err
		}
		all = append(all, some...)
	}
	slices.SortFunc(all, func(a, b session.Submission) int { return int(a.ID - b.ID) })
	return all, nil
}

// Document returns the incarnation live at an address as of commit at, with its content then, or session.ErrNotFound.
func (s *Store) Document(a session.Address, at session.Seq) (session.Document, error) {
	what := fmt.Sprintf("document %+v at %d", a, at)
	scope, err := storeScope(a.Scope)
	if err != nil {
		return session.Document{}, fmt.Errorf("%s: %w: %w", what, session.ErrNotFound, err)
	}
	doc, err := one(s, what, selectDocument, []any{scope, a.Owner, a.Kind, a.Key, asOf(at)}, toDocument(a.Scope, a.Owner))
	if err == nil {
		err = s.content(&doc, at)
	}
	if err != nil {
		return session.Document{}, err
	}
	return doc, nil
}

// Documents returns the incarnations of one owner live as of commit at, in id order.
func (s *Store) Documents(scope session.Scope, owner int64, at session.Seq) ([]session.Document, error) {
	n, err := storeScope(scope)
	if err != nil {
		return nil, nil // nothing can be in a scope that no document has
	}
	docs, err := list(s, fmt.Sprintf("documents of %s %d", scope, owner), selectDocuments, []any{n, owner, asOf(at)}, toDocument(scope, owner))
	if err != nil {
		return nil, err
	}
	var live []session.Document
	for _, doc := range docs {
		switch err := s.content(&doc, at); {
		case err == nil:
			live = append(live, doc)
		case !errors.Is(err, session.ErrNotFound):
			return nil, err
		}
	}
	return live, nil
}

func toDocument(scope session.Scope, owner int64) func(*sqlite.Row) (session.Document, error) {
	return sure(func(r *sqlite.Row) session.Document {
		return session.Document{
			ID: session.DocumentID(r.Int64(0)), Address: session.Address{Scope: scope, Owner: owner, Kind: r.Text(1), Key: r.Text(2)},
			Rewindable: r.Bool(3), Created: session.Seq(r.Int64(4)), Retired: session.Seq(r.Int64(5)),
		}
	})
}

// content reads the newest base at or before a commit and what came behind it.
func (s *Store) content(doc *session.Document, at session.Seq) error {
	var base []byte
	var deltas [][]byte
	err := s.query(selectRevisions, []any{int64(doc.ID), asOf(at)}, func(r *sqlite.Row) error {
		if !r.Bool(0) {
			deltas = append(deltas, r.Bytes(2))
			return nil
		}
		base, doc.Version = r.Bytes(2), int(r.Int64(1))
		return errEnough
	})
	if err != nil && !errors.Is(err, errEnough) {
		return fmt.Errorf("document %d: %w", doc.ID, translate(err))
	}
	if base == nil && deltas == nil && at != 0 && !doc.Rewindable {
		return fmt.Errorf("document %d at %d: %w: only its newest content is kept", doc.ID, at, session.ErrNotFound)
	}
	slices.Reverse(deltas)
	if doc.Value, err = session.Replay(base, deltas); err != nil {
		return fmt.Errorf("document %d at %d: %w", doc.ID, at, err)
	}
	doc.Deltas = len(deltas)
	return nil
}

// asOf returns the upper bound of commits for a read at commit at; 0 is now.
func asOf(at session.Seq) int64 {
	if at == 0 {
		return newest
	}
	return int64(at)
}
