package task

import (
	"context"
	"encoding/json"

	"github.com/workflowd/workflowd/agentcore/session"
)

// Definition is what a kind of task does. It is a value; the scheduler never changes it.
type Definition struct {
	Kind    string
	Version int
	// Phases maps the phase names of checkpoints to code.
	Phases map[string]Phase
	// Abort settles a cancelled task whose owned work has drained. It must settle: it can neither continue, wait nor park.
	// Nil settles it as aborted without more ado.
	Abort Phase
	// Cleanup writes what must accompany an outcome that the scheduler sets itself (a phase that failed to progress, an
	// abort without code, a cancelled task whose definition is too old). It runs inside the commit that makes the task
	// terminal, before the outcome is drafted. Its error fails the scheduler.
	Cleanup func(tx *session.Tx, t session.Task, o session.Outcome) error
}

// Phase is one step. It must commit progress through inv.Commit, or return an error. What a phase returns after its task
// was marked, moved on by somebody else, or suspended is no failure; any other error, a panic, and no progress fault the
// task. ErrPark leaves the task as it is until Unpark. A phase runs on a goroutine of its own and must end soon after ctx.
type Phase func(ctx context.Context, inv *Invocation) error

// Next is what a phase commits for its own task: Continue, Wait or Settle.
type Next interface{ isNext() }

// Continue makes the task eligible for Phase with Checkpoint.
type Continue struct {
	Phase      string
	Checkpoint json.RawMessage
}

// Wait makes the task eligible for Phase once every task of On is terminal; what is not live counts as terminal. An empty
// On is Continue. A wait that closes a cycle is refused with session.ErrWaitCycle.
type Wait struct {
	On         []session.TaskID
	Phase      string
	Checkpoint json.RawMessage
}

// Settle ends the task.
type Settle struct{ Outcome session.Outcome }

func (Continue) isNext() {}
func (Wait) isNext()     {}
func (Settle) isNext()   {}

// After returns the record of t once n is committed. hasLiveWork says whether t still owns live ordinary tasks: its
// outcome is then held. It is a pure function.
func After(t session.Task, n Next, hasLiveWork bool) session.Task {
	t.On, t.Policy, t.Epoch = nil, "", 0 // the session writes its own epoch
	switch n := n.(type) {
	case Continue:
		t.Status, t.Phase, t.Checkpoint = session.TaskPending, n.Phase, n.Checkpoint
	case Wait:
		t.Status, t.Phase, t.Checkpoint, t.On = session.TaskWaiting, n.Phase, n.Checkpoint, n.On
		if len(n.On) == 0 {
			t.Status = session.TaskPending
		}
	case Settle:
		o := n.Outcome
		t.Outcome, t.Memos = &o, nil
		t.Status = session.TaskTerminal
		if hasLiveWork {
			t.Status = session.TaskCompleting
		}
	}
	return t
}
