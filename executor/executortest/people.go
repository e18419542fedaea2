package executortest

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/workflowd/workflowd/executor/runlog"
	"github.com/workflowd/workflowd/workflow"
	"github.com/workflowd/workflowd/workflow/userinput"
)

func question(id string, run runlog.RunID, at time.Time) runlog.Request {
	return runlog.Request{
		ID: id, Run: run, Workflow: "flow", Node: runlog.NodeKey{Path: "n", Visit: 1}, Key: "k" + id, Kind: userinput.Question,
		Title: "t", Payload: json.RawMessage(`{"q":1}`), Schema: json.RawMessage(`true`), Status: runlog.RequestOpen, OpenedAt: at,
		ExpiresAt: at.Add(time.Hour),
	}
}

func requests(t *testing.T, b *bench) {
	id := b.begin("r1")
	late, early := question("q1", id, day.Add(time.Second)), question("q2", id, day)
	b.must(&runlog.Batch{Run: id, Open: []runlog.Request{late, early}})
	changed := late
	changed.Title = "other"
	b.must(&runlog.Batch{Run: id, Open: []runlog.Request{changed}})
	list, err := b.Requests(runlog.RequestQuery{Run: id})
	check(t, []runlog.Request{early, late}, list, err)
	answer := runlog.Resolution{RequestID: "q1", Status: runlog.RequestHasAnswer, Answer: json.RawMessage(`1`), By: "ann", At: day}
	b.must(&runlog.Batch{Run: id, Resolve: []runlog.Resolution{answer}})
	b.must(&runlog.Batch{Run: id, Resolve: []runlog.Resolution{{RequestID: "q1", Status: runlog.RequestIsMoot, At: day}, {RequestID: "none"}}})
	late.Status, late.Answer, late.AnsweredBy, late.ResolvedAt = answer.Status, answer.Answer, answer.By, answer.At
	got, err := b.Request("q1")
	check(t, late, got, err)
	list, err = b.Requests(runlog.RequestQuery{Status: []runlog.RequestStatus{runlog.RequestOpen, runlog.RequestIsMoot}, Limit: 5})
	check(t, []runlog.Request{early}, list, err)
}

func effects(t *testing.T, b *bench) {
	id := b.begin("r1")
	key := runlog.NodeKey{Path: "n", Visit: 1}
	a, z := runlog.Effect{Node: key, Key: "a"}, runlog.Effect{Node: key, Key: "z", WakeAt: day}
	b.must(&runlog.Batch{Run: id, Effects: []runlog.Effect{a, z}})
	a.Done, a.Result = true, json.RawMessage(`"r"`)
	b.must(&runlog.Batch{Run: id, Effects: []runlog.Effect{a}})
	list, err := b.Effects(id, key)
	check(t, []runlog.Effect{a, z}, list, err)
	z.Forget = true
	b.must(&runlog.Batch{Run: id, Effects: []runlog.Effect{z, {Node: key, Key: "never", Forget: true}}})
	list, err = b.Effects(id, key)
	check(t, []runlog.Effect{a}, list, err)
	list, err = b.Effects(id, runlog.NodeKey{Path: "n", Visit: 2})
	check(t, nil, list, err)
}

func signals(t *testing.T, b *bench) {
	id := b.begin("r1")
	one := runlog.Signal{ID: "z", Topic: "x", Payload: json.RawMessage(`1`)}
	two := runlog.Signal{ID: "a", Topic: "x", Payload: json.RawMessage(`2`)}
	b.must(&runlog.Batch{Run: id, Signals: []runlog.Signal{one, {ID: "z", Topic: "y"}, two}})
	list, err := b.Signals(id)
	check(t, []runlog.Signal{one, two}, list, err)
	b.must(&runlog.Batch{Run: id, Consume: []string{"z"}})
	b.must(&runlog.Batch{Run: id, Signals: []runlog.Signal{one}})
	list, err = b.Signals(id)
	check(t, []runlog.Signal{two}, list, err)
	for signal, want := range map[string]bool{"z": true, "a": true, "b": false} {
		if known, err := b.HasSignal(id, signal); err != nil || known != want {
			t.Errorf("signal %q known: %v %v", signal, known, err)
		}
	}
}

func cache(t *testing.T, b *bench) {
	id, other := b.begin("r1"), b.begin("r2")
	node := runlog.NodeKey{Path: "n", Visit: 3}
	want := runlog.Cached{Key: "k", Version: 2, Input: "i", Output: json.RawMessage(`"old"`), At: day, Run: id, Node: node}
	long := want
	long.Input, long.Output = "long", json.RawMessage(`"`+strings.Repeat("0123456789", 5000)+`"`)
	b.must(&runlog.Batch{Run: id, Cache: []runlog.Cached{want, long}})
	got, err := b.Cached("k", 2, "i")
	check(t, want, got, err)
	got, err = b.Cached("k", 2, "long")
	check(t, long, got, err)
	for _, absent := range []runlog.Cached{{Key: "k", Version: 1, Input: "i"}, {Key: "k", Version: 2, Input: "j"}, {Key: "l", Version: 2, Input: "i"}} {
		if _, err := b.Cached(absent.Key, absent.Version, absent.Input); !errors.Is(err, runlog.ErrNotFound) {
			t.Errorf("%+v: %v", absent, err)
		}
	}
	newer := want
	newer.Output, newer.At, newer.Run = json.RawMessage(`"new"`), day.Add(time.Hour), other
	b.must(&runlog.Batch{Run: other, Cache: []runlog.Cached{newer}})
	got, err = b.Cached("k", 2, "i")
	check(t, newer, got, err)
	if err := b.commit(&runlog.Batch{Run: "nobody", Cache: []runlog.Cached{want}}); !errors.Is(err, runlog.ErrNotFound) {
		t.Errorf("of no run: %v", err)
	}
	got, err = b.Cached("k", 2, "i")
	check(t, newer, got, err)
}

func usage(t *testing.T, b *bench) {
	id := b.begin("r1")
	key := runlog.NodeKey{Path: "n", Visit: 1}
	b.must(&runlog.Batch{Run: id, Usage: []runlog.UsageRecord{
		{RecordID: "z", Node: key, Usage: workflow.Usage{Input: 1}}, {RecordID: "a", Node: key, Usage: workflow.Usage{Input: 5}},
	}})
	again := runlog.UsageRecord{RecordID: "z", Node: key, Usage: workflow.Usage{Input: 2, Output: 3, Model: "m"}}
	b.must(&runlog.Batch{Run: id, Usage: []runlog.UsageRecord{again}})
	list, err := b.Usage(id)
	check(t, []runlog.UsageRecord{again, {RecordID: "a", Node: key, Usage: workflow.Usage{Input: 5}}}, list, err)
}
