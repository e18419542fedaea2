package session

import (
	"bytes"
	"encoding/json"
	"slices"
)

// The identifiers of a store come from one counter, grow in commit order and are never reused. Zero means none.
type (
	ConversationID int64
	EntryID        int64
	TaskID         int64
	SubmissionID   int64
	DocumentID     int64
)

// Seq numbers the commits of a store from 1. It grows strictly; a rolled-back commit takes none.
type Seq int64

// Root is the main conversation of every store.
const Root ConversationID = 1

// Conversation is a transcript with its documents and inbox. It never changes after creation.
type Conversation struct {
	ID     ConversationID `json:"id"`
	Parent *Fork          `json:"parent,omitempty"` // transcript inheritance
	Owner  TaskID         `json:"owner,omitempty"`  // cancellation: the task it belongs to, 0 = none; stays when that is over
}

// Fork says where a conversation branched off.
type Fork struct {
	Conversation ConversationID `json:"conversation"`
	At           EntryID        `json:"at"`
}

// Entry is one immutable item of a transcript.
type Entry struct {
	ID           EntryID         `json:"id"`
	Conversation ConversationID  `json:"conversation"`
	Seq          Seq             `json:"seq"` // commit that wrote it; set by the session
	Kind         string          `json:"kind"`
	Model        json.RawMessage `json:"model,omitempty"` // content for the model; nil = none
	Data         json.RawMessage `json:"data,omitempty"`  // facts for people and recovery
	Head         EntryID         `json:"head,omitempty"`  // where the active context starts; its own ID = here
	Edits        []Edit          `json:"edits,omitempty"`
	ByTask       TaskID          `json:"byTask,omitempty"`
}

// Edit replaces or omits an earlier entry in the model's context. Model nil omits it.
type Edit struct {
	Target EntryID         `json:"target"`
	Model  json.RawMessage `json:"model,omitempty"`
}

// TaskStatus is the stored state of a task. "running" is never stored.
type TaskStatus string

// The stored states.
const (
	TaskPending    TaskStatus = "pending"    // eligible to run
	TaskWaiting    TaskStatus = "waiting"    // resumes when On has settled
	TaskCompleting TaskStatus = "completing" // outcome held until owned work has drained
	TaskTerminal   TaskStatus = "terminal"
)

// Task is a durable state machine's record. A write replaces the whole record.
type Task struct {
	ID           TaskID          `json:"id"`
	Conversation ConversationID  `json:"conversation"`
	Kind         string          `json:"kind"`
	Version      int             `json:"version"`
	Owner        TaskID          `json:"owner,omitempty"` // a task of the same conversation, 0 = at its top
	Background   bool            `json:"background,omitempty"`
	Status       TaskStatus      `json:"status"`
	Phase        string          `json:"phase,omitempty"`
	Checkpoint   json.RawMessage `json:"checkpoint,omitempty"`
	On           []TaskID        `json:"on,omitempty"`
	Policy       string          `json:"policy,omitempty"` // how On settles: task.Policy; "" = allSettled
	Outcome      *Outcome        `json:"outcome,omitempty"`
	Abort        bool            `json:"abort,omitempty"` // cancellation is requested
	AbortReason  string          `json:"abortReason,omitempty"`
	Epoch        int64           `json:"epoch"` // owner that wrote Checkpoint; 0 in a draft is this one
	Input        json.RawMessage `json:"input,omitempty"`
	Memos        json.RawMessage `json:"memos,omitempty"`
	Starts       int             `json:"starts,omitempty"`           // restarts of this step after an owner that died in it
	Abandon      bool            `json:"abandonOnRestart,omitempty"` // the next owner cancels it
}

// OutcomeStatus is how a task ended.
type OutcomeStatus string

// The outcomes. Failed was expected, Faulted is a defect, Orphaned ended without its definition.
const (
	Completed OutcomeStatus = "completed"
	Failed    OutcomeStatus = "failed"
	Aborted   OutcomeStatus = "aborted"
	Faulted   OutcomeStatus = "faulted"
	Orphaned  OutcomeStatus = "orphaned"
)

// Outcome is the end of a task.
type Outcome struct {
	Status OutcomeStatus   `json:"status"`
	Result json.RawMessage `json:"result,omitempty"`
	Error  string          `json:"error,omitempty"`
	Reason string          `json:"reason,omitempty"`
}

// SubmissionStatus moves forward only: queued, placed, then answered or unanswered; or queued, withdrawn.
type SubmissionStatus string

// The submission states.
const (
	SubmissionQueued     SubmissionStatus = "queued"
	SubmissionPlaced     SubmissionStatus = "placed"
	SubmissionAnswered   SubmissionStatus = "answered"
	SubmissionUnanswered SubmissionStatus = "unanswered"
	SubmissionWithdrawn  SubmissionStatus = "withdrawn"
)

// leadsTo reports whether a stored submission may become to. An unsettled one may keep its state.
func (s SubmissionStatus) leadsTo(to SubmissionStatus) bool {
	switch s {
	case SubmissionQueued:
		return true
	case SubmissionPlaced:
		return to != SubmissionQueued && to != SubmissionWithdrawn
	default:
		return false
	}
}

// Submission is a client's durable request. RequestID is unique in its conversation; Digest is the payload's, so that a
// repeat with other content is refused.
type Submission struct {
	ID           SubmissionID     `json:"id"`
	Conversation ConversationID   `json:"conversation"`
	RequestID    string           `json:"requestId"`
	Digest       string           `json:"digest"`
	Status       SubmissionStatus `json:"status"`
	Payload      json.RawMessage  `json:"payload,omitempty"`
	Entry        EntryID          `json:"entry,omitempty"`  // where it was placed
	Answer       EntryID          `json:"answer,omitempty"` // entry that answered it
	Reason       string           `json:"reason,omitempty"` // why unanswered
	Detail       string           `json:"detail,omitempty"`
}

// Scope says what a document belongs to.
type Scope string

// The scopes.
const (
	ScopeSession      Scope = "session"
	ScopeConversation Scope = "conversation"
	ScopeTask         Scope = "task"
)

// Address names a document: a kind in a scope, with a key for families. Owner is the conversation or task number, 0 for
// the session scope.
type Address struct {
	Scope Scope  `json:"scope"`
	Owner int64  `json:"owner"`
	Kind  string `json:"kind"`
	Key   string `json:"key,omitempty"`
}

// Document is one incarnation at an address, with its content at some commit.
type Document struct {
	ID         DocumentID      `json:"id"`
	Address    Address         `json:"address"`
	Version    int             `json:"version"` // of the definition that wrote it
	Rewindable bool            `json:"rewindable,omitempty"`
	Created    Seq             `json:"created"`
	Retired    Seq             `json:"retired,omitempty"` // visible in [Created, Retired)
	Value      json.RawMessage `json:"value"`
	Deltas     int             `json:"deltas"` // revisions behind the newest base
}

// The clones below share no memory with their original. Absent and empty become the same: nil.

func cloneRaw(raw json.RawMessage) json.RawMessage {
	if len(raw) == 0 {
		return nil
	}
	return bytes.Clone(raw)
}

func (c Conversation) clone() Conversation {
	if c.Parent != nil {
		parent := *c.Parent
		c.Parent = &parent
	}
	return c
}

func (e Entry) clone() Entry {
	e.Model, e.Data = cloneRaw(e.Model), cloneRaw(e.Data)
	if len(e.Edits) == 0 {
		e.Edits = nil
		return e
	}
	e.Edits = slices.Clone(e.Edits)
	for i := range e.Edits {
		e.Edits[i].Model = cloneRaw(e.Edits[i].Model)
	}
	return e
}

func (t Task) clone() Task {
	t.Checkpoint, t.Input, t.Memos = cloneRaw(t.Checkpoint), cloneRaw(t.Input), cloneRaw(t.Memos)
	if len(t.On) == 0 {
		t.On = nil
	} else {
		t.On = slices.Clone(t.On)
	}
	if t.Outcome != nil {
		outcome := *t.Outcome
		outcome.Result = cloneRaw(outcome.Result)
		t.Outcome = &outcome
	}
	return t
}

func (s Submission) clone() Submission {
	s.Payload = cloneRaw(s.Payload)
	return s
}
