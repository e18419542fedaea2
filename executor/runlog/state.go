package runlog

import "slices"

// RunStatus is the stored state of a run.
type RunStatus string

// The run states.
const (
	Queued    RunStatus = "queued"    // accepted, never advanced
	Ready     RunStatus = "ready"     // can advance again, nobody has taken it yet
	Running   RunStatus = "running"   // an owner advances it
	Waiting   RunStatus = "waiting"   // for a person or a signal
	Sleeping  RunStatus = "sleeping"  // until a time
	Suspended RunStatus = "suspended" // its host left; work is kept
	Paused    RunStatus = "paused"    // an operator stopped it for now
	Blocked   RunStatus = "blocked"   // its definition is missing or no longer fits
	Succeeded RunStatus = "succeeded"
	Failed    RunStatus = "failed"
	Aborted   RunStatus = "aborted"
	Expired   RunStatus = "expired"
)

// RunStatuses lists the run states, live ones first.
func RunStatuses() []RunStatus {
	return []RunStatus{
		Queued, Ready, Running, Waiting, Sleeping, Suspended, Paused, Blocked, Succeeded, Failed, Aborted, Expired,
	}
}

// runNext says what may follow each live state. "running" may follow itself: a new owner takes the run over.
var runNext = map[RunStatus][]RunStatus{
	Queued:    {Ready, Running, Paused, Blocked, Aborted, Expired},
	Ready:     {Running, Paused, Blocked, Aborted, Expired},
	Running:   {Running, Waiting, Sleeping, Suspended, Paused, Blocked, Succeeded, Failed, Aborted, Expired},
	Waiting:   {Ready, Running, Paused, Blocked, Aborted, Expired},
	Sleeping:  {Ready, Running, Paused, Blocked, Aborted, Expired},
	Suspended: {Ready, Running, Paused, Blocked, Aborted, Expired},
	Paused:    {Ready, Running, Blocked, Aborted, Expired},
	Blocked:   {Ready, Running, Aborted, Expired},
}

// Terminal reports whether the run has ended.
func (s RunStatus) Terminal() bool {
	return s == Succeeded || s == Failed || s == Aborted || s == Expired
}

// CanBecome reports whether to may follow s.
func (s RunStatus) CanBecome(to RunStatus) bool { return slices.Contains(runNext[s], to) }

// Event returns the kind that records the entry into s.
func (s RunStatus) Event() EventKind { return EventKind("run." + string(s)) }

// NodeStatus is the stored state of one visit of a node. A node that has not begun has no record.
type NodeStatus string

// The node states.
const (
	NodeIsRunning   NodeStatus = "running"
	NodeIsWaiting   NodeStatus = "waiting"   // for a person or a signal
	NodeIsSleeping  NodeStatus = "sleeping"  // until a time, also between attempts
	NodeIsSuspended NodeStatus = "suspended" // its host left
	NodeIsDone      NodeStatus = "succeeded"
	NodeHasFailed   NodeStatus = "failed"
	NodeIsAborted   NodeStatus = "aborted"
)

// NodeStatuses lists the node states, live ones first.
func NodeStatuses() []NodeStatus {
	return []NodeStatus{
		NodeIsRunning, NodeIsWaiting, NodeIsSleeping, NodeIsSuspended, NodeIsDone, NodeHasFailed, NodeIsAborted,
	}
}

// nodeNext says what may follow; "" is a node without a record. "running" may follow itself: a crash or a new owner.
var nodeNext = map[NodeStatus][]NodeStatus{
	"":              {NodeIsRunning, NodeIsDone, NodeHasFailed},
	NodeIsRunning:   {NodeIsRunning, NodeIsWaiting, NodeIsSleeping, NodeIsSuspended, NodeIsDone, NodeHasFailed, NodeIsAborted},
	NodeIsWaiting:   {NodeIsRunning, NodeIsAborted},
	NodeIsSleeping:  {NodeIsRunning, NodeIsAborted},
	NodeIsSuspended: {NodeIsRunning, NodeIsAborted},
}

// Terminal reports whether the visit has ended.
func (s NodeStatus) Terminal() bool {
	return s == NodeIsDone || s == NodeHasFailed || s == NodeIsAborted
}

// CanBecome reports whether to may follow s.
func (s NodeStatus) CanBecome(to NodeStatus) bool { return slices.Contains(nodeNext[s], to) }
