package runlog

import (
	"encoding/json"
	"time"
)

// RunID is the public id of a run.
type RunID string

// Seq numbers the events of a run from 1, dense, in commit order. 0 stands for "before the first".
type Seq int64

// EventKind is the closed list of what can happen in a run; testdata/kinds.golden holds it.
type EventKind string

// The kinds. Data is an object; its fields are named where they are not plain from the kind.
const (
	RunQueued     EventKind = "run.queued"     // workflow, version, requestId, forkedFrom
	RunReady      EventKind = "run.ready"      // it can advance again
	RunRunning    EventKind = "run.running"    //
	RunWaiting    EventKind = "run.waiting"    // for requests or signals
	RunSleeping   EventKind = "run.sleeping"   // until
	RunSuspended  EventKind = "run.suspended"  // the host left, work is kept
	RunPaused     EventKind = "run.paused"     // by an operator
	RunBlocked    EventKind = "run.blocked"    // reason, with the command that resolves it
	RunCancelling EventKind = "run.cancelling" // reason; cleanup has still to drain
	RunSucceeded  EventKind = "run.succeeded"  //
	RunFailed     EventKind = "run.failed"     // failure
	RunAborted    EventKind = "run.aborted"    // reason
	RunExpired    EventKind = "run.expired"    //

	NodeStarted   EventKind = "node.started"   //
	NodeChunk     EventKind = "node.chunk"     // the chunk itself
	NodeRetracted EventKind = "node.retracted" // chunks and items of path and visit from seq Retract on are void
	NodeWaiting   EventKind = "node.waiting"   //
	NodeSleeping  EventKind = "node.sleeping"  // until
	NodeSuspended EventKind = "node.suspended" //
	NodeSucceeded EventKind = "node.succeeded" // cached: whose result it took, when it did not run
	NodeFailed    EventKind = "node.failed"    // failure
	NodeAborted   EventKind = "node.aborted"   // reason
	NodeKept      EventKind = "node.kept"      // from, the run that computed it; status; failure

	ItemOpen   EventKind = "item.open" // an output item chunk, as package outputitems encodes it
	ItemAppend EventKind = "item.append"
	ItemSet    EventKind = "item.set"
	ItemDone   EventKind = "item.done"

	RequestOpened    EventKind = "request.opened"    // the request
	RequestAnswered  EventKind = "request.answered"  // requestId, answer, by
	RequestExpired   EventKind = "request.expired"   // requestId
	RequestWithdrawn EventKind = "request.withdrawn" // requestId

	RunSignalled  EventKind = "run.signalled"  // topic
	UsageRecorded EventKind = "usage.recorded" // recordId, usage
)

// Kinds lists every kind, in the order of their declaration.
func Kinds() []EventKind {
	return []EventKind{
		RunQueued, RunReady, RunRunning, RunWaiting, RunSleeping, RunSuspended, RunPaused, RunBlocked, RunCancelling,
		RunSucceeded, RunFailed, RunAborted, RunExpired,
		NodeStarted, NodeChunk, NodeRetracted, NodeWaiting, NodeSleeping, NodeSuspended, NodeSucceeded, NodeFailed, NodeAborted,
		NodeKept,
		ItemOpen, ItemAppend, ItemSet, ItemDone,
		RequestOpened, RequestAnswered, RequestExpired, RequestWithdrawn,
		RunSignalled, UsageRecorded,
	}
}

// Chunk reports whether events of the kind are chunks of a node: they are written fast, can be retracted and count for
// Finalize.
func (k EventKind) Chunk() bool {
	switch k {
	case NodeChunk, ItemOpen, ItemAppend, ItemSet, ItemDone:
		return true
	default:
		return false
	}
}

// Terminal reports whether the kind ends a run's log.
func (k EventKind) Terminal() bool {
	switch k {
	case RunSucceeded, RunFailed, RunAborted, RunExpired:
		return true
	default:
		return false
	}
}

// Event is one line of a run's log. Node, Visit and Attempt are empty for events of the whole run.
type Event struct {
	Seq     Seq             `json:"seq"`
	At      time.Time       `json:"at"` // UTC, milliseconds
	Epoch   int64           `json:"epoch"`
	Node    string          `json:"path,omitempty"`
	Visit   int             `json:"visit,omitempty"`
	Attempt int             `json:"attempt,omitempty"`
	Kind    EventKind       `json:"kind"`
	Data    json.RawMessage `json:"data,omitempty"`
	Retract Seq             `json:"retract,omitempty"`

	// Source is unique among the chunks of a run that count, "" = none: a repeat is dropped by the store.
	Source string `json:"-"`
	// Aux marks a chunk that a node emitted beside its stream; Finalize does not see it.
	Aux bool `json:"-"`
}
