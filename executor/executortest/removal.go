package executortest

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/workflowd/workflowd/executor/runlog"
)

func (b *bench) remove(ids ...runlog.RunID) ([]runlog.RunID, error) {
	b.t.Helper()
	gone, err := b.Remove(b.epoch, ids)
	if b.h.Every {
		b.reopen()
	}
	return gone, err
}

// end ends a run so many minutes after the day began.
func (b *bench) end(id runlog.RunID, status runlog.RunStatus, minutes int) {
	b.t.Helper()
	b.must(&runlog.Batch{Run: id, Change: &runlog.RunChange{Status: status, FinishedAt: day.Add(time.Duration(minutes) * time.Minute)}})
}

// fork begins a run that was forked from another one.
func (b *bench) fork(id string, source runlog.RunID) runlog.RunID {
	b.t.Helper()
	r := newRun(id)
	r.ForkedFrom = &runlog.Fork{Run: source, At: []runlog.NodeKey{{Path: "n", Visit: 2}}, Seq: 3}
	b.must(&runlog.Batch{Run: r.ID, Create: r, Events: []runlog.Event{{At: day, Kind: runlog.RunQueued}}})
	return r.ID
}

func forks(t *testing.T, b *bench) {
	source := b.begin("r1")
	r := newRun("r2")
	r.ForkedFrom = &runlog.Fork{
		Run: source, At: []runlog.NodeKey{{Path: "a", Visit: 1}, {Path: "b[3]", Visit: 2}}, Seq: 7,
		Edits: []runlog.Edit{{NodeKey: runlog.NodeKey{Path: "a", Visit: 1}, Input: json.RawMessage(`"` + strings.Repeat("long", 4200) + `"`)}},
	}
	b.must(&runlog.Batch{Run: r.ID, Create: r})
	b.reopen()
	got, err := b.Run(r.ID)
	check(t, *r, got, err)
	orphan := newRun("r3")
	orphan.ForkedFrom = &runlog.Fork{Run: "nobody"}
	before := dump(t, b.Store)
	if err := b.commit(&runlog.Batch{Run: orphan.ID, Create: orphan, Events: events(runlog.NodeChunk, "1")}); !errors.Is(err, runlog.ErrNotFound) {
		t.Errorf("a fork of nothing: %v", err)
	}
	if diff := cmp.Diff(before, dump(t, b.Store)); diff != "" {
		t.Errorf("left behind:\n%s", diff)
	}
	again := newRun("r4")
	again.RequestID, again.ForkedFrom = r.RequestID, &runlog.Fork{Run: "nobody"}
	if err := b.commit(&runlog.Batch{Run: again.ID, Create: again}); !errors.Is(err, runlog.ErrExists) {
		t.Errorf("a taken request id counts before the source: %v", err)
	}
}

func ended(t *testing.T, b *bench) {
	for i, minutes := range []int{5, 1, 1, 9, 3} {
		id := b.begin(fmt.Sprint("r", i))
		b.end(id, []runlog.RunStatus{runlog.Succeeded, runlog.Failed, runlog.Aborted, runlog.Expired, runlog.Succeeded}[i], minutes)
	}
	b.begin("live")
	other := newRun("other")
	other.Workflow = "other"
	b.must(&runlog.Batch{Run: other.ID, Create: other})
	b.end(other.ID, runlog.Succeeded, 0)
	b.fork("child", "r4")
	at := func(minutes int) time.Time { return day.Add(time.Duration(minutes) * time.Minute) }
	for _, test := range []struct {
		q    runlog.EndedQuery
		want string
	}{
		{runlog.EndedQuery{Workflow: "flow"}, "r1 r2 r0 r3"}, // r4 is needed
		{runlog.EndedQuery{Workflow: "other"}, "other"},
		{runlog.EndedQuery{Workflow: "flow", Before: at(5)}, "r1 r2"},
		{runlog.EndedQuery{Workflow: "flow", Keep: 1}, "r1 r2 r0"},
		{runlog.EndedQuery{Workflow: "flow", Keep: 2, Limit: 1}, "r1"},
		{runlog.EndedQuery{Workflow: "flow", Keep: 4}, "r1"},
		{runlog.EndedQuery{Workflow: "flow", Keep: 5}, ""},
		{runlog.EndedQuery{Workflow: "flow", Keep: 9}, ""},
		{runlog.EndedQuery{Workflow: "flow", Keep: 2, Before: at(1)}, ""},
		{runlog.EndedQuery{}, ""},
	} {
		list, err := b.Ended(test.q)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, r := range list {
			got = append(got, string(r.ID))
		}
		if diff := cmp.Diff(test.want, strings.Join(got, " ")); diff != "" {
			t.Errorf("%+v: %s", test.q, diff)
		}
	}
}

func removals(t *testing.T, b *bench) {
	id, stays := b.begin("r1"), b.begin("r2")
	long := json.RawMessage(`"` + strings.Repeat("0123456789", 1700) + `"`)
	key := runlog.NodeKey{Path: "n", Visit: 1}
	fill := func(id runlog.RunID) {
		sourced := events(runlog.NodeChunk, string(long), "1")
		sourced[1].Source = "s"
		q := question("q"+string(id), id, day)
		b.must(&runlog.Batch{
			Run: id, Events: sourced, Nodes: []runlog.Node{{NodeKey: key, Status: runlog.NodeIsDone, Output: long}}, Open: []runlog.Request{q},
			Effects: []runlog.Effect{{Node: key, Key: "e"}}, Signals: []runlog.Signal{{ID: "s", Topic: "t"}}, Usage: []runlog.UsageRecord{{RecordID: "u", Node: key}},
		})
	}
	fill(stays)
	before := dump(t, b.Store, stays)
	fill(id)
	b.end(id, runlog.Succeeded, 1)
	gone, err := b.remove(id, id, "nobody")
	check(t, []runlog.RunID{id}, gone, err)
	_, err = b.Run(id)
	errs := []error{err}
	_, err = b.RunByRequest("flow", "request-r1")
	errs = append(errs, err)
	_, err = b.Request("qr1")
	errs = append(errs, err)
	_, err = b.Events(id, 0, 0)
	errs = append(errs, err)
	_, err = b.Nodes(id)
	for i, err := range append(errs, err, b.commit(&runlog.Batch{Run: id, Events: events(runlog.NodeChunk, "1")})) {
		if !errors.Is(err, runlog.ErrNotFound) {
			t.Errorf("question %d: %v", i, err)
		}
	}
	check(t, before, dump(t, b.Store, stays), nil) // the long JSON that both had is still there
	runs, err := b.Runs(runlog.RunQuery{})
	if err != nil || len(runs) != 1 {
		t.Errorf("%d runs, %v", len(runs), err)
	}
	requests, err := b.Requests(runlog.RequestQuery{})
	if err != nil || len(requests) != 1 {
		t.Errorf("%d requests, %v", len(requests), err)
	}
	b.must(&runlog.Batch{Run: "r1", Create: newRun("r1")}) // the request id is free again
}

func needed(t *testing.T, b *bench) {
	source, live := b.begin("r1"), b.begin("r2")
	b.end(source, runlog.Failed, 1)
	child := b.fork("r3", source)
	grandchild := b.fork("r4", child)
	gone, err := b.remove(source, live, child)
	check(t, nil, gone, err)
	b.end(child, runlog.Succeeded, 2)
	gone, err = b.remove(source, child) // the fork has what it kept, but its own fork is live
	check(t, []runlog.RunID{source}, gone, err)
	if r, err := b.Run(child); err != nil || r.ForkedFrom == nil || r.ForkedFrom.Run != source {
		t.Errorf("the lineage of a fork stays: %+v %v", r.ForkedFrom, err)
	}
	b.end(grandchild, runlog.Aborted, 3)
	gone, err = b.remove(child, grandchild)
	check(t, []runlog.RunID{child, grandchild}, gone, err)
}
