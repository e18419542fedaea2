package sessionstore

import (
	"encoding/json"
	"fmt"

	"github.com/workflowd/workflowd/agentcore/session"
	"github.com/workflowd/workflowd/store/sqlite"
)

// Absent values are NULL: they cost one byte and keep partial indexes small.

func number[T ~int64](v T) any {
	if v == 0 {
		return nil
	}
	return int64(v)
}

func text(s string) any {
	if s == "" {
		return nil
	}
	return s
}

func yes(set bool) any {
	if !set {
		return nil
	}
	return 1
}

func blob(raw json.RawMessage) any {
	if len(raw) == 0 {
		return nil
	}
	return []byte(raw)
}

// The stored forms below may only gain fields.

type storedEdit struct {
	Target int64           `json:"target"`
	Model  json.RawMessage `json:"model,omitempty"`
}

func storeEdits(edits []session.Edit) (any, error) {
	if len(edits) == 0 {
		return nil, nil
	}
	stored := make([]storedEdit, len(edits))
	for i, e := range edits {
		stored[i] = storedEdit{int64(e.Target), e.Model}
	}
	return json.Marshal(stored)
}

func loadEdits(raw []byte) ([]session.Edit, error) {
	if raw == nil {
		return nil, nil
	}
	var stored []storedEdit
	if err := json.Unmarshal(raw, &stored); err != nil {
		return nil, err
	}
	edits := make([]session.Edit, len(stored))
	for i, e := range stored {
		edits[i] = session.Edit{Target: session.EntryID(e.Target), Model: e.Model}
	}
	return edits, nil
}

type storedOutcome struct {
	Status string          `json:"status"`
	Result json.RawMessage `json:"result,omitempty"`
	Error  string          `json:"error,omitempty"`
	Reason string          `json:"reason,omitempty"`
}

func storeOutcome(o *session.Outcome) (any, error) {
	if o == nil {
		return nil, nil
	}
	return json.Marshal(storedOutcome{string(o.Status), o.Result, o.Error, o.Reason})
}

func loadOutcome(raw []byte) (*session.Outcome, error) {
	if raw == nil {
		return nil, nil
	}
	var o storedOutcome
	if err := json.Unmarshal(raw, &o); err != nil {
		return nil, err
	}
	return &session.Outcome{Status: session.OutcomeStatus(o.Status), Result: o.Result, Error: o.Error, Reason: o.Reason}, nil
}

// scopes are the stored numbers of the document scopes, which never change.
var scopes = map[session.Scope]int64{session.ScopeSession: 1, session.ScopeConversation: 2, session.ScopeTask: 3}

func storeScope(s session.Scope) (int64, error) {
	if n := scopes[s]; n != 0 {
		return n, nil
	}
	return 0, fmt.Errorf("unknown scope %q", s)
}

func toConversation(r *sqlite.Row) session.Conversation {
	c := session.Conversation{ID: session.ConversationID(r.Int64(0)), Owner: session.TaskID(r.Int64(3))}
	if !r.Null(1) {
		c.Parent = &session.Fork{Conversation: session.ConversationID(r.Int64(1)), At: session.EntryID(r.Int64(2))}
	}
	return c
}

func toEntry(r *sqlite.Row) (session.Entry, error) {
	e := session.Entry{
		ID: session.EntryID(r.Int64(0)), Conversation: session.ConversationID(r.Int64(1)), Seq: session.Seq(r.Int64(2)),
		Kind: r.Text(3), Model: r.Bytes(4), Data: r.Bytes(5), Head: session.EntryID(r.Int64(6)), ByTask: session.TaskID(r.Int64(8)),
	}
	var err error
	if e.Edits, err = loadEdits(r.Bytes(7)); err != nil {
		return e, fmt.Errorf("entry %d: %w: edits: %w", e.ID, session.ErrCorrupt, err)
	}
	return e, nil
}

func toTask(r *sqlite.Row) (session.Task, error) {
	t := session.Task{
		ID: session.TaskID(r.Int64(0)), Conversation: session.ConversationID(r.Int64(1)), Kind: r.Text(2), Version: int(r.Int64(3)),
		Owner: session.TaskID(r.Int64(4)), Background: r.Bool(5), Status: session.TaskStatus(r.Text(6)), Phase: r.Text(7),
		Checkpoint: r.Bytes(8), Policy: r.Text(10), Abort: r.Bool(12), AbortReason: r.Text(13), Epoch: r.Int64(14),
		Input: r.Bytes(15), Memos: r.Bytes(16), Starts: int(r.Int64(17)), Abandon: r.Bool(18),
	}
	if on := r.Bytes(9); on != nil {
		if err := json.Unmarshal(on, &t.On); err != nil {
			return t, fmt.Errorf("task %d: %w: awaited tasks: %w", t.ID, session.ErrCorrupt, err)
		}
	}
	var err error
	if t.Outcome, err = loadOutcome(r.Bytes(11)); err != nil {
		return t, fmt.Errorf("task %d: %w: outcome: %w", t.ID, session.ErrCorrupt, err)
	}
	return t, nil
}

func toSubmission(r *sqlite.Row) session.Submission {
	return session.Submission{
		ID: session.SubmissionID(r.Int64(0)), Conversation: session.ConversationID(r.Int64(1)), RequestID: r.Text(2),
		Digest: r.Text(3), Status: session.SubmissionStatus(r.Text(4)), Payload: r.Bytes(5), Entry: session.EntryID(r.Int64(6)),
		Answer: session.EntryID(r.Int64(7)), Reason: r.Text(8), Detail: r.Text(9),
	}
}
