package task

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/workflowd/workflowd/agentcore/session"
)

func TestDecide(t *testing.T) {
	pending := session.Task{Status: session.TaskPending}
	waiting := session.Task{Status: session.TaskWaiting, On: []session.TaskID{7}}
	marked := session.Task{Status: session.TaskPending, Abort: true}
	restarted := session.Task{Status: session.TaskPending, Abort: true, Abandon: true, AbortReason: ReasonRestart}
	held := session.Task{Status: session.TaskCompleting, Outcome: &session.Outcome{Status: session.Completed}}
	cases := []struct {
		name string
		task session.Task
		view view
		want action
	}{
		{"a pending task starts", pending, view{known: true}, start},
		{"a running task is left alone", pending, view{known: true, running: true}, rest},
		{"a task without its definition is blocked", pending, view{}, rest},
		{"a parked task rests", pending, view{known: true, parked: true}, rest},
		{"a waiting task rests while what it waits for is live", waiting, view{known: true, awaiting: true}, rest},
		{"a waiting task goes on once all has settled", waiting, view{known: true}, start},
		{"a marked task that runs is stopped", marked, view{known: true, running: true}, stop},
		{"an abort phase that runs is left alone", marked, view{known: true, running: true, aborting: true}, rest},
		{"a marked task waits for its owned work", marked, view{known: true, ownsLive: true}, rest},
		{"a marked task aborts once its owned work has drained", marked, view{known: true}, abort},
		{"a marked task is orphaned without its definition", marked, view{unfit: true}, abort},
		{"one that only a restart marked waits for its definition", restarted, view{unfit: true}, rest},
		{"and aborts with it", restarted, view{known: true}, abort},
		{"a task of an earlier owner that is not to outlive it is marked", pending, view{known: true, abandoned: true}, mark},
		{"also when its definition is gone", pending, view{unfit: true, abandoned: true}, mark},
		{"a decided wait cancels its losers, whatever it still waits for", waiting, view{known: true, awaiting: true, decided: true}, cull},
		{"also without its definition", waiting, view{unfit: true, decided: true}, cull},
		{"a marked task's wait decides nothing any more", session.Task{Status: session.TaskWaiting, Abort: true}, view{known: true, decided: true, ownsLive: true}, rest},
		{"a sleeping task rests", pending, view{known: true, asleep: true}, rest},
		{"a sleeping task can be stopped", marked, view{known: true, asleep: true}, abort},
		{"an older task is migrated first", pending, view{known: true, old: true}, migrate},
		{"an older marked task is migrated before its abort", marked, view{known: true, old: true}, migrate},
		{"an older task is not migrated while it waits", waiting, view{known: true, old: true, awaiting: true}, rest},
		{"a step that an earlier owner may have died in is counted before it starts", pending, view{known: true, uncounted: true}, count},
		{"a step that took down too many owners rests", pending, view{known: true, uncounted: true, spent: true}, rest},
		{"and can be stopped", marked, view{known: true, uncounted: true, spent: true}, abort},
		{"a parked task can be stopped", marked, view{known: true, parked: true}, abort},
		{"a task of an owner going down is marked", pending, view{known: true, ownerDown: true}, mark},
		{"a background task outlives its owner's stop", session.Task{Status: session.TaskPending, Background: true}, view{known: true, ownerDown: true}, start},
		{"a held outcome passes a mark on first", held, view{known: true, ownerDown: true}, mark},
		{"a held outcome waits for owned work", held, view{known: true, ownsLive: true}, rest},
		{"a held outcome is final once owned work has drained", held, view{known: true}, finalize},
		{"a held outcome is not migrated", held, view{known: true, old: true, ownsLive: true}, rest},
		{"a marked held outcome waits for owned work too", session.Task{Status: session.TaskCompleting, Abort: true, Outcome: held.Outcome}, view{known: true, ownsLive: true}, rest},
		{"a waiting task of an owner going down is marked before its wait ends", waiting, view{known: true, ownerDown: true}, mark},
		{"a running task of an owner going down is marked before it is stopped", pending, view{known: true, running: true, ownerDown: true}, mark},
		{"a terminal task is done", session.Task{Status: session.TaskTerminal}, view{known: true}, rest},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			if got := decide(c.task, c.view); got != c.want {
				t.Errorf("decide = %d, want %d", got, c.want)
			}
		})
	}
}

func TestAfter(t *testing.T) {
	from := session.Task{ID: 3, Status: session.TaskWaiting, On: []session.TaskID{4}, Policy: "any", Phase: "x", Epoch: 1, Starts: 2}
	cases := []struct {
		name  string
		next  Next
		owned bool
		want  session.TaskStatus
		phase string
	}{
		{"continue makes it pending", Continue{Phase: "y"}, false, session.TaskPending, "y"},
		{"wait makes it waiting", Wait{On: []session.TaskID{9}, Phase: "z"}, false, session.TaskWaiting, "z"},
		{"waiting for nothing is no wait, whatever the policy", Wait{Policy: FailFast, Phase: "z"}, false, session.TaskPending, "z"},
		{"waiting for nothing is no wait", Wait{Phase: "z"}, false, session.TaskPending, "z"},
		{"settle ends it", Settle{session.Outcome{Status: session.Completed}}, false, session.TaskTerminal, "x"},
		{"settle is held while owned work is live", Settle{session.Outcome{Status: session.Failed}}, true, session.TaskCompleting, "x"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			got := After(from, c.next, c.owned)
			if got.Status != c.want || got.Phase != c.phase || got.ID != from.ID || got.Policy != "" || got.Epoch != 0 || got.Starts != 0 {
				t.Errorf("After = %+v, want status %s phase %s", got, c.want, c.phase)
			}
		})
	}
}

func TestDownReason(t *testing.T) {
	failed := &session.Outcome{Status: session.Failed}
	cases := []struct {
		name  string
		owner session.Task
		down  bool
		want  string
	}{
		{"a mark is passed on with its reason", session.Task{Abort: true, AbortReason: "enough"}, true, "enough"},
		{"also without one", session.Task{Abort: true}, true, ""},
		{"a mark says more than a held failure", session.Task{Abort: true, AbortReason: "enough", Outcome: failed}, true, "enough"},
		{"a held failure names itself", session.Task{Outcome: failed}, true, "its owner failed"},
		{"so does a fault", session.Task{Outcome: &session.Outcome{Status: session.Faulted}}, true, "its owner faulted"},
		{"a held success takes nobody down", session.Task{Outcome: &session.Outcome{Status: session.Completed}}, false, ""},
		{"nor does a task at work", session.Task{Status: session.TaskWaiting}, false, ""},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			if got := goingDown(c.owner); got != c.down {
				t.Fatalf("goingDown = %v, want %v", got, c.down)
			}
			if !c.down {
				return
			}
			if got := downReason(c.owner); got != c.want {
				t.Errorf("reason %q, want %q", got, c.want)
			}
		})
	}
}

func TestSameStep(t *testing.T) {
	from := session.Task{Status: session.TaskWaiting, Phase: "x", Checkpoint: []byte("1"), On: []session.TaskID{4}}
	cases := []struct {
		name   string
		change func(*session.Task)
		want   bool
	}{
		{"a mark is no step", func(t *session.Task) { t.Abort, t.AbortReason = true, "why" }, true},
		{"another owner is no step", func(t *session.Task) { t.Epoch++ }, true},
		{"another status is a step", func(t *session.Task) { t.Status = session.TaskPending }, false},
		{"another phase is a step", func(t *session.Task) { t.Phase = "y" }, false},
		{"another checkpoint is a step", func(t *session.Task) { t.Checkpoint = []byte("2") }, false},
		{"another policy is a step", func(t *session.Task) { t.Policy = "any" }, false},
		{"a memo is no step", func(t *session.Task) { t.Memos = []byte("{}") }, true},
		{"a count is no step", func(t *session.Task) { t.Starts++ }, true},
		{"another wait is a step", func(t *session.Task) { t.On = []session.TaskID{5} }, false},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			to := from
			c.change(&to)
			if got := sameStep(from, to); got != c.want {
				t.Errorf("sameStep = %v, want %v", got, c.want)
			}
		})
	}
}

func TestLosers(t *testing.T) {
	const waiter = 1
	own := func(id session.TaskID, s session.TaskStatus, o ...session.OutcomeStatus) session.Task {
		t := session.Task{ID: id, Owner: waiter, Status: s}
		if len(o) > 0 {
			t.Outcome = &session.Outcome{Status: o[0]}
		}
		return t
	}
	foreign := func(t session.Task) session.Task { t.Owner = 9; return t }
	marked := func(t session.Task) session.Task { t.Abort = true; return t }
	done, failed := own(2, session.TaskTerminal, session.Completed), own(2, session.TaskTerminal, session.Failed)
	cases := []struct {
		name    string
		policy  Policy
		awaited []session.Task
		want    []session.TaskID
	}{
		{"allSettled never cancels", AllSettled, []session.Task{failed, own(3, session.TaskPending)}, nil},
		{"failFast leaves all alone while all is well", FailFast, []session.Task{done, own(3, session.TaskPending)}, nil},
		{"failFast cancels the others when one failed", FailFast, []session.Task{own(3, session.TaskPending), failed, own(4, session.TaskWaiting)}, []session.TaskID{3, 4}},
		{"an aborted one counts too", FailFast, []session.Task{own(2, session.TaskTerminal, session.Aborted), own(3, session.TaskPending)}, []session.TaskID{3}},
		{"a held failure counts, and its work ends", FailFast, []session.Task{own(2, session.TaskCompleting, session.Failed), own(3, session.TaskPending)}, []session.TaskID{2, 3}},
		{"a held success is cancelled like the others", FailFast, []session.Task{failed, own(3, session.TaskCompleting, session.Completed)}, []session.TaskID{3}},
		{"failFast neither heeds foreign tasks", FailFast, []session.Task{foreign(failed), own(3, session.TaskPending)}, nil},
		{"nor cancels them", FailFast, []session.Task{failed, foreign(own(3, session.TaskPending))}, nil},
		{"what is marked is not marked again", FailFast, []session.Task{failed, marked(own(3, session.TaskPending))}, nil},
		{"any leaves the losers alone", Any, []session.Task{done, own(3, session.TaskPending)}, nil},
		{"anyCancel cancels the losers", AnyCancel, []session.Task{own(3, session.TaskPending), done}, []session.TaskID{3}},
		{"a failure is first too", AnyCancel, []session.Task{failed, own(3, session.TaskPending)}, []session.TaskID{3}},
		{"a foreign task may be first", AnyCancel, []session.Task{foreign(done), own(3, session.TaskPending)}, []session.TaskID{3}},
		{"a held outcome is not yet first", AnyCancel, []session.Task{own(2, session.TaskCompleting, session.Completed), own(3, session.TaskPending)}, nil},
		{"nobody was first yet", AnyCancel, []session.Task{own(2, session.TaskPending), own(3, session.TaskPending)}, nil},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			w := session.Task{ID: waiter, Status: session.TaskWaiting, Policy: string(c.policy)}
			got, reason := losers(w, c.awaited)
			if !slices.Equal(got, c.want) || len(got) > 0 && reason == "" {
				t.Errorf("losers = %v %q, want %v", got, reason, c.want)
			}
			w.Status = session.TaskPending
			if got, _ := losers(w, c.awaited); got != nil {
				t.Errorf("a task that does not wait cancels %v", got)
			}
		})
	}
}

func TestBlocked(t *testing.T) {
	one := &Definition{Version: 1, Phases: map[string]Phase{"x": nil, "y": func(context.Context, *Invocation) error { return nil }}}
	movable := &Definition{Version: 2, Migrate: func(session.Task) (Continue, error) { return Continue{}, nil }}
	cases := []struct {
		name    string
		version int
		phase   string
		def     *Definition
		want    BlockReason
	}{
		{"a definition of its version with its phase runs it", 1, "y", one, ""},
		{"nothing is installed", 1, "y", nil, NotInstalled},
		{"a newer program wrote it", 2, "y", one, TooNew},
		{"the definition is newer and cannot migrate", 0, "y", one, NotMigratable},
		{"the definition is newer and migrates, whatever the phase", 1, "gone", movable, ""},
		{"its phase is no more", 1, "gone", one, NoPhase},
		{"its phase has no code", 1, "x", one, NoPhase},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			if got := blocked(session.Task{Version: c.version, Phase: c.phase}, c.def); got != c.want {
				t.Errorf("blocked = %q, want %q", got, c.want)
			}
		})
	}
}

func TestStandingOf(t *testing.T) {
	at := time.UnixMilli(5)
	pending := session.Task{Status: session.TaskPending, Starts: 3}
	waiting := session.Task{Status: session.TaskWaiting, On: []session.TaskID{7}}
	cases := []struct {
		name string
		task session.Task
		view view
		want Standing
	}{
		{"what runs is held back by nothing", pending, view{running: true, unfit: true}, nil},
		{"a wait is in the record", waiting, view{known: true, awaiting: true}, nil},
		{"a task without definition is blocked", pending, view{unfit: true, block: TooNew}, Blocked{TooNew, "d"}},
		{"while it waits as well", waiting, view{unfit: true, block: NotInstalled, awaiting: true}, Blocked{NotInstalled, "d"}},
		{"a marked one is not: it ends", session.Task{Status: session.TaskPending, Abort: true}, view{unfit: true, ownsLive: true}, nil},
		{"unless only a restart marked it", session.Task{Status: session.TaskPending, Abort: true, Abandon: true, AbortReason: ReasonRestart}, view{unfit: true, block: NotInstalled}, Blocked{NotInstalled, "d"}},
		{"a held outcome is not blocked", session.Task{Status: session.TaskCompleting, Outcome: &session.Outcome{}}, view{unfit: true}, nil},
		{"a parked task", pending, view{known: true, parked: true}, Parked{}},
		{"a sleeping task", pending, view{known: true, asleep: true}, Sleeping{at}},
		{"a task that took its process down too often", pending, view{known: true, spent: true, uncounted: true}, Exhausted{3}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			if got := standingOf(c.task, c.view, at, "d"); got != c.want {
				t.Errorf("standing = %#v, want %#v", got, c.want)
			}
		})
	}
}
