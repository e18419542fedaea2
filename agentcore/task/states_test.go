package task

import (
	"flag"
	"fmt"
	"testing"

	"github.com/workflowd/workflowd/agentcore/session"
	"github.com/workflowd/workflowd/internal/docblock"
)

var update = flag.Bool("update", false, "rewrite the tables of docs/states.md; review the difference")

const statesPage = "../../docs/states.md"

// names of the actions on the page.
var actionNames = map[action]string{
	rest: "-", start: "run its phase", stop: "stop its phase", abort: "abort it", finalize: "write its outcome", mark: "mark it",
	cull: "mark its losers", migrate: "migrate it", count: "count a restart",
}

// docs/states.md shows what decide says about one fact at a time.
func TestThePageShowsTheDecisions(t *testing.T) {
	columns := []struct {
		name string
		task session.Task
	}{
		{"pending", session.Task{Status: session.TaskPending}},
		{"pending, marked", session.Task{Status: session.TaskPending, Abort: true}},
		{"waiting", session.Task{Status: session.TaskWaiting}},
		{"waiting, marked", session.Task{Status: session.TaskWaiting, Abort: true}},
		{"completing", session.Task{Status: session.TaskCompleting}},
		{"completing, marked", session.Task{Status: session.TaskCompleting, Abort: true}},
		{"terminal", session.Task{Status: session.TaskTerminal}},
	}
	facts := []struct {
		name string
		view view
	}{
		{"nothing else", view{known: true}},
		{"its phase runs", view{known: true, running: true}},
		{"its abort runs", view{known: true, running: true, aborting: true}},
		{"its wait is not over", view{known: true, awaiting: true}},
		{"its wait may have losers", view{known: true, awaiting: true, decided: true}},
		{"it owns live work", view{known: true, ownsLive: true}},
		{"its owner goes down", view{known: true, ownerDown: true}},
		{"its owner before died, it is not to outlive it", view{known: true, abandoned: true}},
		{"it is parked", view{known: true, parked: true}},
		{"it sleeps", view{known: true, asleep: true}},
		{"no definition fits", view{unfit: true}},
		{"its phase has no code", view{}},
		{"it is of an older version", view{known: true, old: true}},
		{"an owner may have died in its step", view{known: true, uncounted: true}},
		{"too many did", view{known: true, uncounted: true, spent: true}},
	}
	head := []string{"fact"}
	for _, c := range columns {
		head = append(head, c.name)
	}
	var rows [][]string
	for _, f := range facts {
		row := []string{f.name}
		for _, c := range columns {
			row = append(row, actionNames[decide(c.task, f.view)])
		}
		rows = append(rows, row)
	}
	docblock.Check(t, statesPage, "task decisions", docblock.Table(head, rows), *update)
}

func TestThePageShowsTheSteps(t *testing.T) {
	one := []session.TaskID{1}
	var rows [][]string
	for _, n := range []struct {
		name string
		next Next
	}{
		{"Continue", Continue{Phase: "next"}}, {"Wait", Wait{On: one, Phase: "next"}}, {"Wait on nothing", Wait{Phase: "next"}},
		{"Settle", Settle{session.Outcome{Status: session.Completed}}},
	} {
		row := []string{n.name}
		for _, owns := range []bool{false, true} {
			after := After(session.Task{Status: session.TaskPending, Phase: "now"}, n.next, owns)
			row = append(row, fmt.Sprintf("%s, phase %s", after.Status, after.Phase))
		}
		rows = append(rows, row)
	}
	docblock.Check(t, statesPage, "task steps", docblock.Table([]string{"a phase commits", "without live owned work", "with live owned work"}, rows), *update)
}

func TestThePageShowsTheWaits(t *testing.T) {
	child := func(id session.TaskID, s session.TaskStatus, o session.OutcomeStatus) session.Task {
		t := session.Task{ID: id, Owner: 1, Status: s}
		if o != "" {
			t.Outcome = &session.Outcome{Status: o}
		}
		return t
	}
	ends := []struct {
		name string
		task session.Task
	}{
		{"completes", child(2, session.TaskTerminal, session.Completed)},
		{"fails", child(2, session.TaskTerminal, session.Failed)},
		{"fails, its work drains", child(2, session.TaskCompleting, session.Failed)},
	}
	head := []string{"policy"}
	for _, e := range ends {
		head = append(head, "one "+e.name)
	}
	var rows [][]string
	for _, p := range []Policy{AllSettled, FailFast, Any, AnyCancel} {
		name := string(p)
		if name == "" {
			name = "allSettled"
		}
		row := []string{name}
		for _, e := range ends {
			w := session.Task{ID: 1, Status: session.TaskWaiting, Policy: string(p), On: []session.TaskID{2, 3}}
			m := newMirror()
			other := child(3, session.TaskPending, "")
			m.put(news{tasks: []session.Task{w, child(2, session.TaskPending, ""), other}})
			m.put(news{tasks: []session.Task{e.task}})
			says := "waits on"
			if !m.look(w).awaiting {
				says = "goes on"
			}
			if lost, _ := losers(w, []session.Task{other, e.task}); len(lost) > 0 {
				says += ", others are cancelled"
			}
			row = append(row, says)
		}
		rows = append(rows, row)
	}
	docblock.Check(t, statesPage, "task waits", docblock.Table(head, rows), *update)
}

func TestEveryActionHasAName(t *testing.T) {
	for a := rest; a <= count; a++ {
		if actionNames[a] == "" {
			t.Errorf("action %d has no name on the page", a)
		}
	}
}
