package task

import (
	"bytes"
	"slices"
	"time"

	"github.com/workflowd/workflowd/agentcore/session"
)

// action is what the scheduler should do about one live task.
type action int

const (
	rest     action = iota // nothing: it waits, runs, sleeps, is parked or blocked
	start                  // run its phase
	stop                   // end its running phase: it is marked
	abort                  // run its abort phase, or end it without one
	finalize               // write its held outcome
	mark                   // its owner is going down, or its owner before died: commit the mark
	cull                   // its wait is decided: commit the marks of the tasks it no longer needs
	migrate                // bring its step to the version of its definition
	count                  // commit that it starts once more after an owner that died
)

// view is what the decision about a task depends on, beside its record.
type view struct {
	running   bool        // a phase of it runs in this process
	aborting  bool        // the one that runs is its abort phase
	parked    bool        // until somebody acts
	asleep    bool        // until a time
	known     bool        // its definition is installed, fits, and has its phase
	unfit     bool        // no definition fits it
	old       bool        // its definition fits once the task is migrated
	awaiting  bool        // its wait is not over
	decided   bool        // its wait may cancel tasks that are not marked yet
	ownsLive  bool        // ordinary work below it is live, through conversations too
	ownerDown bool        // the live owner it works for is going down
	abandoned bool        // an earlier owner left it, and it is not to outlive that one
	uncounted bool        // it runs for the first time here, an earlier owner may have died in it
	spent     bool        // it was restarted as often as its definition allows
	block     BlockReason // why it is not known
}

// decide is the scheduler's transition table: which action a live task needs. It is a pure function.
func decide(t session.Task, v view) action {
	switch {
	case t.Status == session.TaskTerminal:
		return rest
	case !t.Abort && (v.ownerDown && !t.Background || v.abandoned && t.Status != session.TaskCompleting):
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
		return decideMarked(t, v)
	case t.Status == session.TaskWaiting && v.decided:
		return cull
	case !v.known, v.parked, v.asleep:
		return rest
	case t.Status == session.TaskWaiting && v.awaiting:
		return rest
	case v.old:
		return migrate
	case v.spent:
		return rest
	case v.uncounted:
		return count
	}
	return start
}

// decideMarked is decide for a task that is marked and neither runs nor holds an outcome.
func decideMarked(t session.Task, v view) action {
	switch {
	case v.ownsLive:
		return rest
	case v.unfit && leftBehind(t):
		return rest // nobody asked for its end: it waits for the code that can clean up
	case v.old:
		return migrate
	}
	return abort
}

// ReasonRestart is the reason of the mark that a task with Abandon set gets when its session is opened again.
// Source: durable kernel 2.6.
const ReasonRestart = "restart"

// leftBehind reports whether the mark of t comes from a restart alone.
func leftBehind(t session.Task) bool {
	return t.Abandon && t.Abort && t.AbortReason == ReasonRestart
}

// BlockReason is why no installed code can run a task. It follows from the record and what is installed; it is never stored.
type BlockReason string

// The reasons.
const (
	NotInstalled    BlockReason = "notInstalled"    // there is no definition of its kind
	TooNew          BlockReason = "tooNew"          // a newer definition than the installed one wrote it
	NotMigratable   BlockReason = "notMigratable"   // the installed definition is newer and cannot migrate it
	MigrationFailed BlockReason = "migrationFailed" // the installed definition tried
	NoPhase         BlockReason = "noPhase"         // the installed definition has no phase of its name
)

// blocked returns why d cannot run t, "" when it can. d nil = none is installed. It is a pure function.
func blocked(t session.Task, d *Definition) BlockReason {
	switch {
	case d == nil:
		return NotInstalled
	case t.Version > d.Version:
		return TooNew
	case t.Version < d.Version && d.Migrate == nil:
		return NotMigratable
	case t.Version == d.Version && d.Phases[t.Phase] == nil:
		return NoPhase
	}
	return ""
}

// Standing is why a live task does not go on although nothing in its record holds it back: Sleeping, Parked, Blocked or
// Exhausted. It is a fact of this process.
type Standing interface{ isStanding() }

// Sleeping says that the task sleeps until a time.
type Sleeping struct{ Until time.Time }

// Parked says that a phase has returned ErrPark.
type Parked struct{}

// Blocked says that no installed definition can run the task. Detail is the error of a failed migration.
type Blocked struct {
	Reason BlockReason
	Detail string
}

// Exhausted says that the task was restarted as often as its definition allows. Scheduler.Release lets it go on.
type Exhausted struct{ Restarts int }

func (Sleeping) isStanding()  {}
func (Parked) isStanding()    {}
func (Blocked) isStanding()   {}
func (Exhausted) isStanding() {}

// standingOf returns what holds back a task for which decide said rest. until and detail belong to a sleep and to a failed
// migration. It is a pure function.
func standingOf(t session.Task, v view, until time.Time, detail string) Standing {
	switch {
	case v.running, t.Outcome != nil, t.Abort && !leftBehind(t):
		return nil
	case !v.known && (v.unfit || !t.Abort):
		return Blocked{v.block, detail}
	case t.Abort, t.Status == session.TaskWaiting && v.awaiting:
		return nil
	case v.parked:
		return Parked{}
	case v.asleep:
		return Sleeping{until}
	case v.spent:
		return Exhausted{t.Starts}
	}
	return nil
}

// goingDown reports whether the ordinary work that t owns has to end: t is marked, or holds an outcome other than
// completed. It is a pure function. Source: durable kernel 2.4, 2.5.
func goingDown(t session.Task) bool {
	return t.Abort || (t.Outcome != nil && t.Outcome.Status != session.Completed)
}

// downReason is what the marks below an owner that is going down say. It is a pure function.
func downReason(owner session.Task) string {
	if owner.Abort {
		return owner.AbortReason
	}
	return "its owner " + string(owner.Outcome.Status)
}

// sameStep reports whether two records of a task stand at the same step: neither the task's own progress nor somebody
// else's lies between. A mark, a memo and a count are no step. It is a pure function.
func sameStep(a, b session.Task) bool {
	return a.Status == b.Status && a.Phase == b.Phase && bytes.Equal(a.Checkpoint, b.Checkpoint) &&
		slices.Equal(a.On, b.On) && a.Policy == b.Policy
}
