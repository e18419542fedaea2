package task

import (
	"encoding/json"
	"slices"

	"github.com/workflowd/workflowd/agentcore/session"
)

// Policy says when a wait is over, and what it does to tasks that it no longer needs.
type Policy string

// The policies. Only tasks that the waiting one owns are ever cancelled; a cancelled one drains and aborts as always.
const (
	// AllSettled waits until every task is terminal, whatever its outcome.
	AllSettled Policy = ""
	// FailFast waits like AllSettled, but the first own task that ends other than completed cancels the others.
	FailFast Policy = "failFast"
	// Any waits until one task is terminal, whatever its outcome. The others go on.
	Any Policy = "any"
	// AnyCancel waits like Any and cancels the others.
	AnyCancel Policy = "anyCancel"
)

// known reports whether p is a policy of this program.
func (p Policy) known() bool {
	return slices.Contains([]Policy{AllSettled, FailFast, Any, AnyCancel}, p)
}

// first reports whether one terminal task is enough.
func (p Policy) first() bool { return p == Any || p == AnyCancel }

// Next is what a phase commits for its own task: Continue, Wait or Settle.
type Next interface{ isNext() }

// Continue makes the task eligible for Phase with Checkpoint.
type Continue struct {
	Phase      string
	Checkpoint json.RawMessage
}

// Wait makes the task eligible for Phase once the tasks of On are as Policy wants them; what is not live counts as
// terminal. An empty On is Continue. A wait that closes a cycle is refused with session.ErrWaitCycle.
type Wait struct {
	On         []session.TaskID
	Policy     Policy
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
	t.On, t.Policy, t.Epoch, t.Starts = nil, "", 0, 0 // the session writes its own epoch
	switch n := n.(type) {
	case Continue:
		t.Status, t.Phase, t.Checkpoint = session.TaskPending, n.Phase, n.Checkpoint
	case Wait:
		t.Status, t.Phase, t.Checkpoint = session.TaskWaiting, n.Phase, n.Checkpoint
		if t.On, t.Policy = n.On, string(n.Policy); len(n.On) == 0 {
			t.Status, t.Policy = session.TaskPending, ""
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

// Reasons of the marks that a wait sets.
const (
	reasonFailFast = "a task beside it did not complete"
	reasonAny      = "another task was first"
)

// decides reports whether the end of t, a task that w waits for, lets the wait of w cancel others. A held outcome is an end
// for FailFast. It is a pure function. Source: durable kernel 2.3.
func decides(w, t session.Task) bool {
	switch Policy(w.Policy) {
	case FailFast:
		return t.Owner == w.ID && t.Outcome != nil && t.Outcome.Status != session.Completed
	case AnyCancel:
		return t.Status == session.TaskTerminal
	case AllSettled, Any:
	}
	return false
}

// losers returns which of the awaited tasks the wait of w cancels now, and why; "" when it is not decided yet. awaited holds their records, terminal ones
// included. It is a pure function.
func losers(w session.Task, awaited []session.Task) (ids []session.TaskID, reason string) {
	if w.Status != session.TaskWaiting || !slices.ContainsFunc(awaited, func(t session.Task) bool { return decides(w, t) }) {
		return nil, ""
	}
	for _, t := range awaited {
		if t.Owner == w.ID && t.Status != session.TaskTerminal && !t.Abort {
			ids = append(ids, t.ID)
		}
	}
	if Policy(w.Policy) == FailFast {
		return ids, reasonFailFast
	}
	return ids, reasonAny
}
