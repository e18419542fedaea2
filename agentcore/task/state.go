package task

import (
	"bytes"
	"slices"

	"github.com/workflowd/workflowd/agentcore/session"
)

// action is what the scheduler should do about one live task.
type action int

const (
	rest     action = iota // nothing: it waits, runs, is parked or blocked
	start                  // run its phase
	stop                   // end its running phase: it is marked
	abort                  // run its abort phase
	finalize               // write its held outcome
	mark                   // its owner is going down: commit the mark
)

// view is what the decision about a task depends on.
type view struct {
	running   bool // a phase of it runs in this process
	aborting  bool // the one that runs is its abort phase
	parked    bool
	known     bool // its definition is installed and fits
	awaiting  bool // a task of On is live
	ownsLive  bool // ordinary owned work is live
	ownerDown bool // its live owner is going down
}

// decide is the scheduler's transition table: which action a live task needs. It is a pure function.
func decide(t session.Task, v view) action {
	switch {
	case t.Status == session.TaskTerminal:
		return rest
	case v.ownerDown && !t.Abort && !t.Background:
		return mark
	case v.running && t.Abort && !v.aborting:
		return stop
	case v.running:
		return rest
	case t.Status == session.TaskCompleting:
		if v.ownsLive {
			return rest
		}
		return finalize
	case t.Abort:
		if v.ownsLive {
			return rest
		}
		return abort
	case !v.known || v.parked:
		return rest
	case t.Status == session.TaskWaiting && v.awaiting:
		return rest
	}
	return start
}

// goingDown reports whether the ordinary work that t owns has to end: t is marked, or holds an outcome other than
// completed. It is a pure function. Source: durable kernel 2.4, 2.5.
func goingDown(t session.Task) bool {
	return t.Abort || (t.Outcome != nil && t.Outcome.Status != session.Completed)
}

// sameStep reports whether two records of a task stand at the same step: neither the task's own progress nor somebody
// else's lies between. A mark is no step. It is a pure function.
func sameStep(a, b session.Task) bool {
	return a.Status == b.Status && a.Phase == b.Phase && bytes.Equal(a.Checkpoint, b.Checkpoint) && slices.Equal(a.On, b.On)
}
