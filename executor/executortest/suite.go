package executortest

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/workflowd/workflowd/executor/runlog"
	"github.com/workflowd/workflowd/workflow"
)

// Harness opens stores of one kind.
type Harness struct {
	// Open returns a new, empty store. The test closes it.
	Open func(t *testing.T) runlog.Store
	// Reopen closes the store and opens what it kept; nil when the kind cannot be reopened.
	Reopen func(t *testing.T, s runlog.Store) runlog.Store
	// Every reopens the store after every commit.
	Every bool
	// Tx says that the kind has transactions for the effects of nodes.
	Tx bool
}

// Run runs the suite as subtests.
func Run(t *testing.T, h Harness) {
	for name, test := range map[string]func(*testing.T, *bench){
		"events are numbered from 1 without gaps":                   dense,
		"a batch that fails leaves nothing behind":                  atomic,
		"a stale owner writes nothing":                              stale,
		"a request id begins one run":                               startOnce,
		"a change replaces the run's record":                        changes,
		"a node's record is replaced and keeps its place":           nodes,
		"chunks begin where the node began":                         firstSeq,
		"a source counts once until its chunks are retracted":       sources,
		"the first end of a request stays":                          requests,
		"a journal entry is replaced or forgotten":                  effects,
		"an effect and its record are one commit":                   inTx,
		"a signal is read once":                                     signals,
		"usage counts once per record":                              usage,
		"a shared result is found by what it is the result of":      cache,
		"runs are found by what they are":                           queries,
		"a fork names its source, which has to be there":            forks,
		"runs that ended are found by their end":                    ended,
		"a removed run leaves nothing behind":                       removals,
		"what is live or needed is not removed":                     needed,
		"a version has one graph unless it is replaced":             definitions,
		"long JSON comes back whole":                                long,
		"commits of many runs at once do not mix":                   parallel,
		"what is not there is not found":                            missing,
		"a closed store says so":                                    closed,
		"random operations leave what the specification would have": oracle,
	} {
		t.Run(name, func(t *testing.T) { test(t, start(t, h)) })
	}
}

// bench is a store under test with its owner.
type bench struct {
	t *testing.T
	h Harness
	runlog.Store
	epoch int64
}

func start(t *testing.T, h Harness) *bench {
	b := &bench{t: t, h: h, Store: h.Open(t)}
	b.acquire()
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return b
}

func (b *bench) acquire() {
	b.t.Helper()
	state, err := b.Acquire(b.t.Context())
	if err != nil {
		b.t.Fatal(err)
	}
	if state.Epoch <= b.epoch || state.StoreID == "" {
		b.t.Fatalf("state %+v after epoch %d", state, b.epoch)
	}
	b.epoch = state.Epoch
}

// reopen opens what the store kept.
func (b *bench) reopen() {
	b.t.Helper()
	if b.h.Reopen != nil {
		b.Store = b.h.Reopen(b.t, b.Store)
		b.acquire()
	}
}

// must commits the batch.
func (b *bench) must(batch *runlog.Batch) {
	b.t.Helper()
	if err := b.commit(batch); err != nil {
		b.t.Fatal(err)
	}
}

func (b *bench) commit(batch *runlog.Batch) error {
	b.t.Helper()
	batch.Epoch = b.epoch
	for i := range batch.Events {
		batch.Events[i].Epoch = 1 // the same in a store that was reopened
	}
	err := b.Commit(batch)
	if b.h.Every {
		b.reopen()
	}
	return err
}

var day = time.UnixMilli(1_790_000_000_000).UTC()

func newRun(id string) *runlog.Run {
	return &runlog.Run{
		ID: runlog.RunID(id), Workflow: "flow", Version: 1, Fingerprint: "f1", RequestID: "request-" + id, Digest: "d",
		Input: json.RawMessage(`{"n":1}`), CreatedAt: day, Status: runlog.Queued,
	}
}

// begin creates a run with one event.
func (b *bench) begin(id string) runlog.RunID {
	b.t.Helper()
	r := newRun(id)
	b.must(&runlog.Batch{Run: r.ID, Create: r, Events: []runlog.Event{{At: day, Kind: runlog.RunQueued}}})
	return r.ID
}

func events(kind runlog.EventKind, data ...string) []runlog.Event {
	list := make([]runlog.Event, len(data))
	for i, d := range data {
		list[i] = runlog.Event{At: day, Node: "n", Visit: 1, Attempt: 1, Kind: kind, Data: json.RawMessage(d)}
	}
	return list
}

func check[T any](t *testing.T, want, got T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func dense(t *testing.T, b *bench) {
	id := b.begin("r1")
	other := b.begin("r2")
	batch := &runlog.Batch{Run: id, Events: events(runlog.NodeChunk, "1", "2")}
	b.must(batch)
	if batch.Events[0].Seq != 2 || batch.Events[1].Seq != 3 {
		t.Errorf("numbers %d and %d", batch.Events[0].Seq, batch.Events[1].Seq)
	}
	b.must(&runlog.Batch{Run: other, Events: events(runlog.NodeChunk, "9")})
	b.must(&runlog.Batch{Run: id, Durability: runlog.Synced, Events: events(runlog.NodeChunk, "3")})
	list, err := b.Events(id, 1, 2)
	want := events(runlog.NodeChunk, "1", "2")
	for i := range want {
		want[i].Seq, want[i].Epoch = runlog.Seq(i+2), 1
	}
	check(t, want, list, err)
	if list, err = b.Events(id, 3, 0); err != nil || len(list) != 1 || list[0].Seq != 4 {
		t.Errorf("%v %v", list, err)
	}
	if r, err := b.Run(id); err != nil || r.LastSeq != 4 {
		t.Errorf("last number %d, %v", r.LastSeq, err)
	}
	if list, err = b.Events(id, 4, 0); err != nil || len(list) != 0 {
		t.Errorf("behind the end: %v %v", list, err)
	}
}

func atomic(t *testing.T, b *bench) {
	id := b.begin("r1")
	before := dump(t, b.Store)
	second := newRun("r2")
	second.RequestID = "request-r1"
	err := b.commit(&runlog.Batch{
		Run: second.ID, Create: second, Events: events(runlog.NodeChunk, "1"),
		Nodes: []runlog.Node{{NodeKey: runlog.NodeKey{Path: "n", Visit: 1}, Status: runlog.NodeIsRunning}},
	})
	if !errors.Is(err, runlog.ErrExists) {
		t.Errorf("got %v", err)
	}
	if err := b.commit(&runlog.Batch{Run: "nobody", Events: events(runlog.NodeChunk, "1")}); !errors.Is(err, runlog.ErrNotFound) {
		t.Errorf("got %v", err)
	}
	if diff := cmp.Diff(before, dump(t, b.Store)); diff != "" {
		t.Errorf("left behind:\n%s", diff)
	}
	b.must(&runlog.Batch{Run: id, Events: events(runlog.NodeChunk, "1")})
}

func stale(t *testing.T, b *bench) {
	id := b.begin("r1")
	old := b.epoch
	b.acquire()
	before := dump(t, b.Store)
	r := newRun("r2")
	for _, batch := range []*runlog.Batch{
		{Run: id, Epoch: old, Events: events(runlog.NodeChunk, "1")},
		{Run: r.ID, Epoch: old, Create: r},
		{Run: id, Epoch: old + 2, Usage: []runlog.UsageRecord{{RecordID: "u"}}},
	} {
		if err := b.Commit(batch); !errors.Is(err, runlog.ErrStale) {
			t.Errorf("got %v", err)
		}
	}
	b.must(&runlog.Batch{Run: id, Change: &runlog.RunChange{Status: runlog.Aborted}})
	before = dump(t, b.Store)
	if gone, err := b.Remove(old, []runlog.RunID{id}); !errors.Is(err, runlog.ErrStale) || len(gone) != 0 {
		t.Errorf("removed %v, %v", gone, err)
	}
	if diff := cmp.Diff(before, dump(t, b.Store)); diff != "" {
		t.Errorf("a stale owner wrote:\n%s", diff)
	}
}

func startOnce(t *testing.T, b *bench) {
	id := b.begin("r1")
	again := newRun("r9")
	again.RequestID = "request-r1"
	if err := b.commit(&runlog.Batch{Run: again.ID, Create: again}); !errors.Is(err, runlog.ErrExists) {
		t.Errorf("got %v", err)
	}
	first, err := b.RunByRequest("flow", "request-r1")
	if err != nil || first.ID != id {
		t.Errorf("%s %v", first.ID, err)
	}
	again.Workflow = "other"
	b.must(&runlog.Batch{Run: again.ID, Create: again})
}

func changes(t *testing.T, b *bench) {
	r := newRun("r1")
	r.Labels, r.Conversation, r.Project, r.Deadline = map[string]string{"a": "b"}, "c", "p", day.Add(time.Hour)
	b.must(&runlog.Batch{Run: r.ID, Create: r})
	got, err := b.Run(r.ID)
	check(t, *r, got, err)
	c := &runlog.RunChange{
		Status: runlog.Failed, Reason: "why", CancelRequested: true, WakeAt: day, StartedAt: day, FinishedAt: day, Version: 2,
		Fingerprint: "f2", Failure: &workflow.Failure{Node: "n", Visit: 1, Attempt: 2, Kind: "k", Message: "m"},
	}
	b.must(&runlog.Batch{Run: r.ID, Change: c})
	want := *r
	want.Status, want.Reason, want.CancelRequested, want.WakeAt, want.StartedAt, want.FinishedAt = c.Status, c.Reason, true, day, day, day
	want.Version, want.Fingerprint, want.Failure = 2, "f2", c.Failure
	got, err = b.Run(r.ID)
	check(t, want, got, err)
	key := runlog.NodeKey{Path: "n", Visit: 3}
	b.must(&runlog.Batch{
		Run: r.ID, Change: &runlog.RunChange{Status: runlog.Succeeded, Result: key},
		Nodes: []runlog.Node{{NodeKey: key, Status: runlog.NodeIsDone, Output: json.RawMessage(`"out"`)}},
	})
	if got, err = b.Run(r.ID); err != nil || string(got.Output) != `"out"` || got.Failure != nil || got.Reason != "" {
		t.Errorf("%+v %v", got, err)
	}
	b.must(&runlog.Batch{Run: r.ID, Change: &runlog.RunChange{Status: runlog.Succeeded}})
	if got, err = b.Run(r.ID); err != nil || string(got.Output) != string(r.Input) {
		t.Errorf("without a node the result is the input: %s %v", got.Output, err)
	}
}

func nodes(t *testing.T, b *bench) {
	id := b.begin("r1")
	one := runlog.Node{
		NodeKey: runlog.NodeKey{Path: "one", Visit: 1}, Attempt: 1, Status: runlog.NodeIsWaiting, FirstSeq: 1, WakeAt: day,
		Waits: []string{"req_1", "signal:x"}, StartedAt: day, Failures: 2, Failure: &workflow.Failure{Kind: "k"},
	}
	two := runlog.Node{NodeKey: runlog.NodeKey{Path: "two", Visit: 1}, Status: runlog.NodeIsDone, FirstSeq: 1, Inline: true, Output: json.RawMessage(`1`)}
	two.InputHash, two.From = "h", "r0"
	b.must(&runlog.Batch{Run: id, Nodes: []runlog.Node{one}})
	b.must(&runlog.Batch{Run: id, Nodes: []runlog.Node{two}, Events: events(runlog.NodeKept, "1")})
	one.LastSeq, two.LastSeq = 1, 2
	list, err := b.Nodes(id)
	check(t, []runlog.Node{one, two}, list, err)
	one = runlog.Node{NodeKey: one.NodeKey, Attempt: 2, Status: runlog.NodeIsAborted, FirstSeq: 1, Reason: "stop", FinishedAt: day}
	again := two
	again.Visit = 2
	b.must(&runlog.Batch{Run: id, Nodes: []runlog.Node{again, one}})
	one.LastSeq, again.LastSeq = 2, 2
	list, err = b.Nodes(id)
	check(t, []runlog.Node{one, two, again}, list, err)
}

func firstSeq(t *testing.T, b *bench) {
	id := b.begin("r1")
	key := runlog.NodeKey{Path: "n", Visit: 1}
	mixed := append(events(runlog.RunRunning, "0"), events(runlog.NodeStarted, "1")...)
	mixed[0].Node, mixed[0].Visit = "", 0
	b.must(&runlog.Batch{Run: id, Nodes: []runlog.Node{{NodeKey: key}}, Events: mixed})
	aux := events(runlog.ItemOpen, "9")
	aux[0].Aux = true
	b.must(&runlog.Batch{Run: id, Events: append(events(runlog.NodeChunk, "1", "2"), aux...)})
	b.must(&runlog.Batch{Run: id, Events: events(runlog.NodeWaiting, "1")})
	list, err := b.Nodes(id)
	if err != nil || list[0].FirstSeq != 3 {
		t.Errorf("first number %d, %v", list[0].FirstSeq, err)
	}
	chunks, err := b.Chunks(id, key, 3, 0)
	if err != nil || len(chunks) != 3 || string(chunks[1].Data) != "2" || !chunks[2].Aux || chunks[0].Aux {
		t.Errorf("%v %v", chunks, err)
	}
	if chunks, err = b.Chunks(id, key, 4, 1); err != nil || len(chunks) != 1 || chunks[0].Seq != 5 {
		t.Errorf("%v %v", chunks, err)
	}
	if chunks, err = b.Chunks(id, runlog.NodeKey{Path: "n", Visit: 2}, 0, 0); err != nil || len(chunks) != 0 {
		t.Errorf("of another visit: %v %v", chunks, err)
	}
}

func sources(t *testing.T, b *bench) {
	id := b.begin("r1")
	sourced := func(data, source string) runlog.Event {
		e := events(runlog.NodeChunk, data)[0]
		e.Source = source
		return e
	}
	batch := &runlog.Batch{Run: id, Events: []runlog.Event{sourced("1", "s:1"), sourced("2", "s:1"), sourced("3", ""), sourced("4", "s:2")}}
	b.must(batch)
	var seqs []runlog.Seq
	for _, e := range batch.Events {
		seqs = append(seqs, e.Seq)
	}
	check(t, []runlog.Seq{2, 0, 3, 4}, seqs, nil)
	again := &runlog.Batch{Run: id, Events: []runlog.Event{sourced("5", "s:2")}}
	b.must(again)
	if again.Events[0].Seq != 0 {
		t.Error("a repeat was kept")
	}
	retract := events(runlog.NodeRetracted, "0")
	retract[0].Retract = 2
	b.must(&runlog.Batch{Run: id, Events: append(retract, sourced("6", "s:2"))})
	list, err := b.Events(id, 0, 0)
	if err != nil || len(list) != 6 || string(list[5].Data) != "6" || list[5].Source != "s:2" || list[4].Retract != 2 {
		t.Errorf("%+v %v", list, err)
	}
	other := b.begin("r2")
	b.must(&runlog.Batch{Run: other, Events: []runlog.Event{sourced("1", "s:1")}})
	if r, err := b.Run(other); err != nil || r.LastSeq != 2 {
		t.Errorf("a source of another run: %d %v", r.LastSeq, err)
	}
}

func queries(t *testing.T, b *bench) {
	for i, edit := range []func(*runlog.Run){
		func(*runlog.Run) {},
		func(r *runlog.Run) { r.Workflow = "other" },
		func(r *runlog.Run) { r.Version = 2 },
		func(r *runlog.Run) { r.Conversation = "c" },
		func(r *runlog.Run) { r.Project = "p" },
		func(r *runlog.Run) { r.Status = runlog.Aborted },
		func(r *runlog.Run) { r.Status = runlog.Waiting },
	} {
		r := newRun(fmt.Sprint("r", i))
		edit(r)
		b.must(&runlog.Batch{Run: r.ID, Create: r})
	}
	for _, test := range []struct {
		q    runlog.RunQuery
		want string
	}{
		{runlog.RunQuery{}, "r6 r5 r4 r3 r2 r1 r0"},
		{runlog.RunQuery{Limit: 2}, "r6 r5"},
		{runlog.RunQuery{Before: "r3"}, "r2 r1 r0"},
		{runlog.RunQuery{Workflow: "other"}, "r1"},
		{runlog.RunQuery{Workflow: "flow", Version: 2}, "r2"},
		{runlog.RunQuery{Conversation: "c"}, "r3"},
		{runlog.RunQuery{Project: "p", Limit: 9}, "r4"},
		{runlog.RunQuery{Status: []runlog.RunStatus{runlog.Aborted, runlog.Waiting}}, "r6 r5"},
		{runlog.RunQuery{Status: []runlog.RunStatus{runlog.Waiting, runlog.Queued}, Workflow: "flow", Version: 1}, "r6 r4 r3 r0"},
	} {
		list, err := b.Runs(test.q)
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

func definitions(t *testing.T, b *bench) {
	d := runlog.Definition{Name: "b", Version: 2, Fingerprint: "f", Graph: json.RawMessage(`{}`), CreatedAt: day}
	other := d
	other.Fingerprint = "g"
	first := d
	first.Name, first.Version = "a", 9
	for _, step := range []struct {
		d       runlog.Definition
		replace bool
		want    error
	}{{d, false, nil}, {d, false, nil}, {other, false, runlog.ErrDefinition}, {first, false, nil}, {other, true, nil}} {
		if err := b.PutDefinition(step.d, step.replace); !errors.Is(err, step.want) {
			t.Errorf("%+v: %v", step, err)
		}
	}
	b.reopen()
	list, err := b.Definitions()
	check(t, []runlog.Definition{first, other}, list, err)
}

func long(t *testing.T, b *bench) {
	text := json.RawMessage(`"` + strings.Repeat("0123456789", 5000) + `"`)
	r := newRun("r1")
	r.Input = text
	key := runlog.NodeKey{Path: "n", Visit: 1}
	b.must(&runlog.Batch{
		Run: r.ID, Create: r, Events: events(runlog.NodeChunk, string(text), "1"), Nodes: []runlog.Node{{NodeKey: key, Output: text}},
		Change: &runlog.RunChange{Status: runlog.Succeeded, Result: key},
	})
	b.reopen()
	got, err := b.Run(r.ID)
	check(t, string(text), string(got.Input), err)
	check(t, string(text), string(got.Output), nil)
	list, err := b.Events(r.ID, 0, 0)
	check(t, string(text), string(list[0].Data), err)
}
