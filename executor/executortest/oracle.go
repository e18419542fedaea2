package executortest

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/workflowd/workflowd/executor/runlog"
	"github.com/workflowd/workflowd/workflow"
)

// How many random batches one run of the suite compares; fewer where each costs a reopening.
const (
	oracleSteps      = 200
	oracleStepsEvery = 60
)

// everything is all that a store tells about all its runs.
type everything struct {
	Runs        []runlog.Run
	Nodes       map[runlog.RunID][]runlog.Node
	Events      map[runlog.RunID][]runlog.Event
	Requests    []runlog.Request
	Effects     map[runlog.RunID][]runlog.Effect
	Signals     map[runlog.RunID][]runlog.Signal
	Usage       map[runlog.RunID][]runlog.UsageRecord
	Definitions []runlog.Definition
	Cache       []runlog.Cached
}

// dump reads all runs, or one.
func dump(t *testing.T, s runlog.Store, only ...runlog.RunID) everything {
	t.Helper()
	all := everything{
		Nodes: map[runlog.RunID][]runlog.Node{}, Events: map[runlog.RunID][]runlog.Event{}, Effects: map[runlog.RunID][]runlog.Effect{},
		Signals: map[runlog.RunID][]runlog.Signal{}, Usage: map[runlog.RunID][]runlog.UsageRecord{},
	}
	var errs []error
	keep := func(err error) { errs = append(errs, err) }
	var err error
	var of runlog.RequestQuery
	if len(only) == 0 {
		all.Runs, err = s.Runs(runlog.RunQuery{})
		keep(err)
	}
	for _, id := range only {
		r, err := s.Run(id)
		if errors.Is(err, runlog.ErrNotFound) {
			return all
		}
		keep(err)
		all.Runs, of.Run = append(all.Runs, r), id
	}
	all.Requests, err = s.Requests(of)
	keep(err)
	all.Definitions, err = s.Definitions()
	keep(err)
	for _, c := range cacheKeys {
		found, err := s.Cached(c.Key, c.Version, c.Input)
		if errors.Is(err, runlog.ErrNotFound) {
			continue
		}
		keep(err)
		all.Cache = append(all.Cache, found)
	}
	for _, r := range all.Runs {
		all.Nodes[r.ID], err = s.Nodes(r.ID)
		keep(err)
		all.Events[r.ID], err = s.Events(r.ID, 0, 0)
		keep(err)
		all.Signals[r.ID], err = s.Signals(r.ID)
		keep(err)
		all.Usage[r.ID], err = s.Usage(r.ID)
		keep(err)
		for _, key := range keys {
			list, err := s.Effects(r.ID, key)
			keep(err)
			slices.SortFunc(list, func(a, b runlog.Effect) int { return int(a.Key[0]) - int(b.Key[0]) })
			all.Effects[r.ID] = append(all.Effects[r.ID], list...)
		}
	}
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	return all
}

// keys are the visits that random batches are about.
var keys = []runlog.NodeKey{{Path: "a", Visit: 1}, {Path: "a", Visit: 2}, {Path: "b[3]", Visit: 1}}

// cacheKeys are what random batches share.
var cacheKeys = []runlog.Cached{{Key: "k", Version: 1, Input: "i"}, {Key: "k", Version: 2, Input: "i"}, {Key: "l", Version: 1, Input: "j"}}

// oracle compares the store with runlog.Memory, batch by batch.
func oracle(t *testing.T, b *bench) {
	seed := uint64(time.Now().UnixNano())
	random := rand.New(rand.NewPCG(seed, 0))
	t.Logf("numbers from %d", seed)
	memory := runlog.NewMemory()
	if _, err := memory.Acquire(t.Context()); err != nil {
		t.Fatal(err)
	}
	steps := oracleSteps
	if b.h.Every {
		steps = oracleStepsEvery
	}
	for step := range steps {
		if random.IntN(8) == 0 {
			removeBoth(t, b, memory, random)
			continue
		}
		batch := randomBatch(random)
		twin := clone(batch)
		twin.Epoch = 1
		for i := range twin.Events {
			twin.Events[i].Epoch = 1
		}
		want, got := memory.Commit(twin), b.commit(batch)
		if !errors.Is(got, want) || (want == nil) != (got == nil) {
			t.Fatalf("step %d: the memory says %v, the store %v", step, want, got)
		}
		if want == nil {
			for i := range twin.Events {
				if batch.Events[i].Seq != twin.Events[i].Seq {
					t.Fatalf("step %d: event %d has number %d, want %d", step, i, batch.Events[i].Seq, twin.Events[i].Seq)
				}
			}
		}
		if diff := cmp.Diff(dump(t, memory, batch.Run), dump(t, b.Store, batch.Run), cmpopts.EquateEmpty()); diff != "" {
			t.Fatalf("step %d, %+v: -memory +store\n%s", step, batch, diff)
		}
	}
	if diff := cmp.Diff(dump(t, memory), dump(t, b.Store), cmpopts.EquateEmpty()); diff != "" {
		t.Fatalf("-memory +store\n%s", diff)
	}
}

// removeBoth removes random runs from both.
func removeBoth(t *testing.T, b *bench, memory *runlog.Memory, r *rand.Rand) {
	t.Helper()
	q := runlog.EndedQuery{Workflow: pick(r, "flow", "other"), Keep: r.IntN(3), Limit: r.IntN(3), Before: pick(r, time.Time{}, randomTime(r))}
	want, err := memory.Ended(q)
	if err != nil {
		t.Fatal(err)
	}
	got, err := b.Ended(q)
	check(t, want, got, err)
	ids := []runlog.RunID{randomRun(r), randomRun(r)}
	gone, err := memory.Remove(1, ids)
	if err != nil {
		t.Fatal(err)
	}
	too, err := b.remove(ids...)
	check(t, gone, too, err)
	for _, id := range ids {
		check(t, dump(t, memory, id), dump(t, b.Store, id), nil)
	}
}

func randomRun(r *rand.Rand) runlog.RunID { return runlog.RunID(fmt.Sprint("r", r.IntN(4))) }

func randomTime(r *rand.Rand) time.Time { return day.Add(time.Duration(r.IntN(1000)) * time.Second) }

func clone(b *runlog.Batch) *runlog.Batch {
	c := *b
	c.Events = slices.Clone(b.Events)
	return &c
}

func pick[T any](r *rand.Rand, list ...T) T { return list[r.IntN(len(list))] }

func randomBatch(r *rand.Rand) *runlog.Batch {
	id, at := randomRun(r), randomTime(r)
	b := &runlog.Batch{Run: id, Durability: runlog.Durability(r.IntN(2))}
	if r.IntN(6) == 0 {
		b.Create = newRun(string(id))
		b.Create.RequestID = fmt.Sprint("q", r.IntN(5))
		b.Create.Workflow = pick(r, "flow", "other")
		if r.IntN(3) == 0 {
			b.Create.ForkedFrom = &runlog.Fork{Run: randomRun(r), At: keys[:r.IntN(3)], Seq: runlog.Seq(r.IntN(9))}
		}
	}
	if r.IntN(3) == 0 {
		b.Change = &runlog.RunChange{
			Status: pick(r, runlog.RunStatuses()...), Reason: pick(r, "", "x"), WakeAt: pick(r, at, time.Time{}), StartedAt: at, FinishedAt: pick(r, at, time.Time{}),
			Version: 1, Fingerprint: "f1", CancelRequested: r.IntN(2) == 0, Result: pick(r, keys...),
		}
	}
	for range r.IntN(4) {
		key := pick(r, keys...)
		b.Events = append(b.Events, runlog.Event{
			At: at, Node: key.Path, Visit: key.Visit, Attempt: 1, Kind: pick(r, runlog.NodeChunk, runlog.ItemSet, runlog.NodeStarted, runlog.NodeRetracted),
			Data: json.RawMessage(fmt.Sprint(r.IntN(99))), Source: pick(r, "", "", "s1", "s2", "s3"),
		})
	}
	for _, key := range keys {
		if r.IntN(4) == 0 {
			b.Nodes = append(b.Nodes, runlog.Node{
				NodeKey: key, Attempt: r.IntN(3), Status: pick(r, runlog.NodeStatuses()...), FirstSeq: runlog.Seq(r.IntN(3)),
				Output: pick(r, nil, json.RawMessage(`{"x":1}`)), StartedAt: at, Waits: pick(r, nil, []string{"w"}),
				InputHash: pick(r, "", "h"), From: pick(r, "", runlog.RunID("r9")),
			})
		}
	}
	if r.IntN(3) == 0 {
		q := question(fmt.Sprint("q", r.IntN(6)), id, at)
		q.ID += string(id) // ids are derived from the run's
		b.Open = append(b.Open, q)
	}
	if r.IntN(3) == 0 {
		b.Resolve = append(b.Resolve, runlog.Resolution{
			RequestID: fmt.Sprint("q", r.IntN(6), id), Status: pick(r, runlog.RequestHasAnswer, runlog.RequestIsMoot), Answer: json.RawMessage(`1`), By: "ann", At: at,
		})
	}
	if r.IntN(3) == 0 {
		b.Effects = append(b.Effects, runlog.Effect{Node: pick(r, keys...), Key: pick(r, "a", "b"), Done: r.IntN(2) == 0, Forget: r.IntN(4) == 0})
	}
	if r.IntN(3) == 0 {
		b.Signals = append(b.Signals, runlog.Signal{ID: pick(r, "i", "j", "k"), Topic: "t", Payload: json.RawMessage(`1`)})
		b.Consume = append(b.Consume, pick(r, "i", "j"))
	}
	if r.IntN(3) == 0 {
		b.Usage = append(b.Usage, runlog.UsageRecord{RecordID: pick(r, "u", "v"), Node: keys[0], Usage: workflow.Usage{Input: r.Int64N(9)}})
	}
	if r.IntN(3) == 0 {
		c := pick(r, cacheKeys...)
		c.Output, c.At, c.Node = json.RawMessage(fmt.Sprint(r.IntN(99))), at, keys[1]
		b.Cache = append(b.Cache, c)
	}
	return b
}
