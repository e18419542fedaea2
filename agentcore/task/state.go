package task

import "github.com/workflowd/workflowd/agentcore/session"

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
	parked    bool
	known     bool // its definition is installed and fits
	awaiting  bool // a task of On is live
	ownsLive  bool // ordinary owned work is live
	ownerDown bool // its live owner is marked, or holds an outcome other than completed
}

// decide is the scheduler's transition table: which action a live task needs. It is a pure function.
func decide(t session.Task, v view) action {
	switch {
	case t.Status == session.TaskTerminal:
		return rest
	case v.ownerDown && !t.Abort && !t.Background:
		return mark
	case t.Abort && v.running:
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
