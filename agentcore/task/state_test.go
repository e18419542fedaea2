package task

import (
	"testing"

	"github.com/workflowd/workflowd/agentcore/session"
)

func TestDecide(t *testing.T) {
	pending := session.Task{Status: session.TaskPending}
	waiting := session.Task{Status: session.TaskWaiting, On: []session.TaskID{7}}
	marked := session.Task{Status: session.TaskPending, Abort: true}
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
		{"a marked task is orphaned without its definition", marked, view{}, abort},
		{"a parked task can be stopped", marked, view{known: true, parked: true}, abort},
		{"a task of an owner going down is marked", pending, view{known: true, ownerDown: true}, mark},
		{"a background task outlives its owner's stop", session.Task{Status: session.TaskPending, Background: true}, view{known: true, ownerDown: true}, start},
		{"a held outcome passes a mark on first", held, view{known: true, ownerDown: true}, mark},
		{"a held outcome waits for owned work", held, view{known: true, ownsLive: true}, rest},
		{"a held outcome is final once owned work has drained", held, view{known: true}, finalize},
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
	from := session.Task{ID: 3, Status: session.TaskWaiting, On: []session.TaskID{4}, Policy: "any", Phase: "x", Epoch: 1}
	cases := []struct {
		name  string
		next  Next
		owned bool
		want  session.TaskStatus
		phase string
	}{
		{"continue makes it pending", Continue{Phase: "y"}, false, session.TaskPending, "y"},
		{"wait makes it waiting", Wait{On: []session.TaskID{9}, Phase: "z"}, false, session.TaskWaiting, "z"},
		{"waiting for nothing is no wait", Wait{Phase: "z"}, false, session.TaskPending, "z"},
		{"settle ends it", Settle{session.Outcome{Status: session.Completed}}, false, session.TaskTerminal, "x"},
		{"settle is held while owned work is live", Settle{session.Outcome{Status: session.Failed}}, true, session.TaskCompleting, "x"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			got := After(from, c.next, c.owned)
			if got.Status != c.want || got.Phase != c.phase || got.ID != from.ID || got.Policy != "" || got.Epoch != 0 {
				t.Errorf("After = %+v, want status %s phase %s", got, c.want, c.phase)
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
