package runlog

import (
	"encoding/json"
	"time"

	"github.com/workflowd/workflowd/workflow"
	"github.com/workflowd/workflowd/workflow/userinput"
)

// NodeKey names one visit of a node. Visits count from 1. The value that a fork gave a loop instead of its own is recorded
// at minus the loop's visit.
type NodeKey struct {
	Path  string `json:"path"`
	Visit int    `json:"visit"`
}

// Run is one run. What stands above Status never changes after the start.
type Run struct {
	ID           RunID             `json:"id"`
	Workflow     string            `json:"workflow"`
	Version      int               `json:"version"`
	Fingerprint  string            `json:"fingerprint"` // of the graph it is pinned to
	RequestID    string            `json:"requestId"`   // unique in the workflow; repeats return this run
	Digest       string            `json:"-"`           // of the start's payload
	Conversation string            `json:"conversationId,omitempty"`
	Project      string            `json:"project,omitempty"`
	Labels       map[string]string `json:"labels,omitempty"`
	Input        json.RawMessage   `json:"input"`
	ForkedFrom   *Fork             `json:"forkedFrom,omitempty"`
	Deadline     time.Time         `json:"deadline,omitzero"`
	CreatedAt    time.Time         `json:"createdAt"`

	Status          RunStatus         `json:"status"`
	Reason          string            `json:"reason,omitempty"` // of blocked, paused, aborted
	CancelRequested bool              `json:"cancelRequested,omitempty"`
	Failure         *workflow.Failure `json:"failure,omitempty"`
	Result          NodeKey           `json:"-"`                // where the output is recorded; zero in a success = the input
	Output          json.RawMessage   `json:"output,omitempty"` // of a success; filled in by the store from Result
	WakeAt          time.Time         `json:"wakeAt,omitzero"`
	StartedAt       time.Time         `json:"startedAt,omitzero"`
	FinishedAt      time.Time         `json:"finishedAt,omitzero"`
	LastSeq         Seq               `json:"lastSeq"` // of its newest event
}

// Fork says which run another one was made from, and in what it differs. A visit that computes from the same input as in the
// source keeps the source's result.
type Fork struct {
	Run RunID `json:"runId"`
	// At are the visits that run again whatever they compute from. The path "$input" is the run's input, which was edited.
	At []NodeKey `json:"at"`
	// Seq is the newest event of the source that counts; what happened there later is nothing to the fork.
	Seq Seq `json:"seq"`
	// Edits are inputs that take the place of what the edges carry: the fork's own, and those of the source that still hold.
	Edits []Edit `json:"edits,omitempty"`
}

// Edit is the input that a visit gets instead of its own.
type Edit struct {
	NodeKey
	Input json.RawMessage `json:"input"`
}

// RunChange is the part of a Run that an owner writes; a write replaces all of it.
type RunChange struct {
	Status          RunStatus
	Reason          string
	CancelRequested bool
	Failure         *workflow.Failure
	Result          NodeKey
	WakeAt          time.Time
	StartedAt       time.Time
	FinishedAt      time.Time
	Version         int    // of the definition it is pinned to from now on
	Fingerprint     string // likewise
}

// Node is the record of one visit. A write replaces it.
type Node struct {
	NodeKey
	Attempt int        `json:"attempt"`
	Status  NodeStatus `json:"status"`
	// FirstSeq is where the visit's chunks that count begin. Written as 0 it becomes the number of the batch's first event
	// of this node.
	FirstSeq   Seq               `json:"firstSeq,omitempty"`
	Output     json.RawMessage   `json:"output,omitempty"`
	Failure    *workflow.Failure `json:"failure,omitempty"`
	Failures   int               `json:"failures,omitempty"` // attempts that failed
	Reason     string            `json:"reason,omitempty"`   // of aborted
	WakeAt     time.Time         `json:"wakeAt,omitzero"`
	StartedAt  time.Time         `json:"startedAt,omitzero"` // of the first attempt
	FinishedAt time.Time         `json:"finishedAt,omitzero"`
	// Waits names what a waiting visit waits for: request ids, and topics as "signal:" and the topic.
	Waits []string `json:"waits,omitempty"`
	// Inline marks a recorded decision (apply, switch, loop turn), which is no node to people.
	Inline bool `json:"inline,omitempty"`
	// InputHash names what the visit computes from, "" in records from before there were hashes.
	InputHash string `json:"inputHash,omitempty"`
	// From is the run that computed the result, "" = this one: a fork keeps what did not change.
	From RunID `json:"keptFrom,omitempty"`
	// LastSeq is the number of the run's newest event when the record was last written. The store sets it.
	LastSeq Seq `json:"lastSeq,omitempty"`
}

// RequestStatus is the state of a request: open, then one of the others.
type RequestStatus string

// The request states.
const (
	RequestOpen      RequestStatus = "open"
	RequestHasAnswer RequestStatus = "answered"
	RequestIsExpired RequestStatus = "expired"
	RequestIsMoot    RequestStatus = "withdrawn" // its node or run ended first
)

// Request is a question to a person. Its id derives from run, node, visit and key.
type Request struct {
	ID           string          `json:"id"`
	Run          RunID           `json:"runId"`
	Workflow     string          `json:"workflow"`
	Conversation string          `json:"conversationId,omitempty"`
	Node         NodeKey         `json:"node"`
	Key          string          `json:"key"`
	Kind         userinput.Kind  `json:"kind"`
	Title        string          `json:"title,omitempty"`
	Payload      json.RawMessage `json:"payload,omitempty"`
	Schema       json.RawMessage `json:"schema,omitempty"`
	Status       RequestStatus   `json:"status"`
	Answer       json.RawMessage `json:"answer,omitempty"`
	AnsweredBy   string          `json:"answeredBy,omitempty"`
	OpenedAt     time.Time       `json:"openedAt"`
	ResolvedAt   time.Time       `json:"resolvedAt,omitzero"`
	ExpiresAt    time.Time       `json:"expiresAt,omitzero"`
}

// Resolution ends an open request.
type Resolution struct {
	RequestID string
	Status    RequestStatus
	Answer    json.RawMessage
	By        string
	At        time.Time
}

// Effect is an entry of a node's journal.
type Effect struct {
	Node   NodeKey
	Key    string
	Done   bool            // false: the intent only
	Result json.RawMessage // when done
	WakeAt time.Time       // of a sleep
	Forget bool            // removes the entry
}

// Cached is the value of a success, for visits of any run that would compute the same.
type Cached struct {
	Key     string // as nodes declare it
	Version int    // of the node
	Input   string // digest of the input and of the value's type
	Output  json.RawMessage
	At      time.Time
	Run     RunID // where it was computed; the run may be gone
	Node    NodeKey
}

// Signal is a message to a run. Consumer is the node that received it.
type Signal struct {
	ID       string // unique in the run
	Topic    string
	Payload  json.RawMessage
	Consumed bool
}

// UsageRecord is what one model response consumed. A later report of the same record replaces it.
type UsageRecord struct {
	RecordID string         `json:"recordId"`
	Node     NodeKey        `json:"node"`
	Usage    workflow.Usage `json:"usage"`
}

// Definition is a registered graph.
type Definition struct {
	Name        string          `json:"name"`
	Version     int             `json:"version"`
	Fingerprint string          `json:"fingerprint"`
	Graph       json.RawMessage `json:"graph"`
	CreatedAt   time.Time       `json:"createdAt"`
}
