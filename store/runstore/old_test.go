package runstore_test

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/workflowd/workflowd/executor/runlog"
	"github.com/workflowd/workflowd/store/runstore"
	"github.com/workflowd/workflowd/workflow"
)

// Files written by earlier versions are kept for ever and must open for ever. writeOld made the one of the first schema,
// before there was a second one; it does not change.
var writeOld = flag.Bool("write-old", false, "write testdata/v1.db instead of reading it")

const (
	oldFile = "testdata/v1.db"
	oldMost = 160 * 1024 // bytes
)

var (
	oldDay  = time.UnixMilli(1_780_000_000_000).UTC()
	oldKey  = runlog.NodeKey{Path: "each[2]", Visit: 1}
	oldLong = json.RawMessage(`"` + strings.Repeat("long ", 4000) + `"`)
	oldDone = runlog.Run{
		ID: "run_done", Workflow: "flow", Version: 3, Fingerprint: "f", RequestID: "r1", Digest: "d", Conversation: "chat", Project: "p",
		Labels: map[string]string{"a": "b"}, Input: oldLong, Deadline: oldDay.Add(time.Hour), CreatedAt: oldDay, Status: runlog.Succeeded,
		Result: oldKey, Output: oldLong, StartedAt: oldDay, FinishedAt: oldDay.Add(time.Minute), LastSeq: 3,
	}
	oldWaits = runlog.Run{
		ID: "run_waits", Workflow: "flow", Version: 3, Fingerprint: "f", RequestID: "r2", Digest: "d", Input: json.RawMessage(`{"n":1}`),
		CreatedAt: oldDay, Status: runlog.Waiting, StartedAt: oldDay, WakeAt: oldDay, LastSeq: 2,
	}
	oldNodes = []runlog.Node{
		{NodeKey: oldKey, Attempt: 2, Status: runlog.NodeIsDone, FirstSeq: 2, Output: oldLong, Failures: 1, StartedAt: oldDay, FinishedAt: oldDay},
		{NodeKey: runlog.NodeKey{Path: "bad", Visit: 4}, Attempt: 1, Status: runlog.NodeHasFailed, FirstSeq: 1,
			Failure: &workflow.Failure{Node: "bad", Visit: 4, Attempt: 1, Kind: "node_failed", Message: "no"}},
	}
	oldParked = []runlog.Node{
		{NodeKey: runlog.NodeKey{Path: "ask", Visit: 1}, Attempt: 1, Status: runlog.NodeIsWaiting, FirstSeq: 2, WakeAt: oldDay, Waits: []string{"req_1", "signal:x"}, StartedAt: oldDay},
	}
	oldRequest = runlog.Request{
		ID: "req_1", Run: oldWaits.ID, Workflow: "flow", Node: runlog.NodeKey{Path: "ask", Visit: 1}, Key: "sure", Kind: "question", Title: "Sure?",
		Payload: json.RawMessage(`1`), Schema: json.RawMessage(`true`), Status: runlog.RequestOpen, OpenedAt: oldDay,
	}
	oldEffect     = runlog.Effect{Node: oldKey, Key: "once:a", Done: true, Result: json.RawMessage(`7`)}
	oldSignal     = runlog.Signal{ID: "s1", Topic: "x", Payload: json.RawMessage(`"hi"`)}
	oldUsage      = runlog.UsageRecord{RecordID: "u1", Node: oldKey, Usage: workflow.Usage{Model: "m", Input: 5}}
	oldDefinition = runlog.Definition{Name: "flow", Version: 3, Fingerprint: "f", Graph: json.RawMessage(`{"name":"flow"}`), CreatedAt: oldDay}
)

func createOld(t *testing.T) {
	path := filepath.Join(t.TempDir(), "v1.db")
	s := at(t, path)
	state, err := s.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	event := func(kind runlog.EventKind, key runlog.NodeKey, data json.RawMessage) runlog.Event {
		return runlog.Event{At: oldDay, Epoch: state.Epoch, Kind: kind, Node: key.Path, Visit: key.Visit, Data: data}
	}
	done, waits := oldDone, oldWaits
	chunk := event(runlog.NodeChunk, oldKey, oldLong)
	chunk.Source, chunk.Attempt = "store/1.0", 2
	for _, b := range []*runlog.Batch{
		{Run: done.ID, Create: &done, Events: []runlog.Event{event(runlog.RunQueued, runlog.NodeKey{}, nil)}},
		{Run: done.ID, Events: []runlog.Event{chunk, event(runlog.RunSucceeded, runlog.NodeKey{}, nil)}, Nodes: oldNodes, Effects: []runlog.Effect{oldEffect},
			Usage: []runlog.UsageRecord{oldUsage}, Change: &runlog.RunChange{Status: done.Status, Result: done.Result, StartedAt: done.StartedAt,
				FinishedAt: done.FinishedAt, Version: 3, Fingerprint: "f"}},
		{Run: waits.ID, Create: &waits, Events: []runlog.Event{event(runlog.RunQueued, runlog.NodeKey{}, nil)}},
		{Run: waits.ID, Events: []runlog.Event{event(runlog.NodeStarted, oldParked[0].NodeKey, nil)}, Nodes: oldParked, Open: []runlog.Request{oldRequest},
			Signals: []runlog.Signal{oldSignal}, Change: &runlog.RunChange{Status: waits.Status, StartedAt: waits.StartedAt, WakeAt: waits.WakeAt,
				Version: 3, Fingerprint: "f"}},
	} {
		b.Epoch = state.Epoch
		if err := s.Commit(b); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.PutDefinition(oldDefinition, false); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(oldFile, text, 0o644); err != nil {
		t.Fatal(err)
	}
}

// openOld returns an open copy of the old file.
func openOld(t *testing.T) (runlog.Store, runlog.State) {
	t.Helper()
	text, err := os.ReadFile(oldFile)
	if err != nil {
		t.Fatal(err)
	}
	if len(text) > oldMost {
		t.Errorf("%d bytes, at most %d", len(text), oldMost)
	}
	path := filepath.Join(t.TempDir(), "runs.db")
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	s := at(t, path)
	t.Cleanup(func() {
		if err := s.(*runstore.Store).Close(); err != nil {
			t.Error(err)
		}
	})
	state, err := s.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return s, state
}

func TestTheFileOfTheFirstSchemaOpensForEver(t *testing.T) {
	if *writeOld {
		createOld(t)
	}
	s, state := openOld(t)
	if state.Epoch != 2 || state.StoreID == "" {
		t.Errorf("state %+v", state)
	}
	is := func(what string, want, got any, err error) {
		t.Helper()
		if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); err != nil || diff != "" {
			t.Errorf("%s: %v (-want +got):\n%s", what, err, diff)
		}
	}
	runs, err := s.Runs(runlog.RunQuery{})
	is("runs", []runlog.Run{oldWaits, oldDone}, runs, err)
	nodes, err := s.Nodes(oldDone.ID)
	is("nodes", oldNodes, nodes, err)
	nodes, err = s.Nodes(oldWaits.ID)
	is("parked nodes", oldParked, nodes, err)
	chunks, err := s.Chunks(oldDone.ID, oldKey, 0, 0)
	is("chunks", 1, len(chunks), err)
	is("chunk", string(oldLong), string(chunks[0].Data), nil)
	is("its source", "store/1.0", chunks[0].Source, nil)
	requests, err := s.Requests(runlog.RequestQuery{Status: []runlog.RequestStatus{runlog.RequestOpen}})
	is("requests", []runlog.Request{oldRequest}, requests, err)
	effects, err := s.Effects(oldDone.ID, oldKey)
	is("effects", []runlog.Effect{oldEffect}, effects, err)
	signals, err := s.Signals(oldWaits.ID)
	is("signals", []runlog.Signal{oldSignal}, signals, err)
	usage, err := s.Usage(oldDone.ID)
	is("usage", []runlog.UsageRecord{oldUsage}, usage, err)
	definitions, err := s.Definitions()
	is("definitions", []runlog.Definition{oldDefinition}, definitions, err)
	more := &runlog.Batch{Run: oldWaits.ID, Epoch: state.Epoch, Events: []runlog.Event{{At: oldDay, Kind: runlog.RunRunning}}}
	if err := s.Commit(more); err != nil || more.Events[0].Seq != oldWaits.LastSeq+1 {
		t.Errorf("it goes on at %d: %v", more.Events[0].Seq, err)
	}
}

// What earlier versions wrote is removed like the rest, and can be forked.
func TestRunsOfTheFirstSchemaCanBeForkedAndRemoved(t *testing.T) {
	s, state := openOld(t)
	child := &runlog.Run{ID: "run_child", Workflow: "flow", RequestID: "r3", Status: runlog.Queued, ForkedFrom: &runlog.Fork{Run: oldDone.ID}}
	b := &runlog.Batch{Run: child.ID, Epoch: state.Epoch, Create: child}
	if err := s.Commit(b); err != nil {
		t.Fatal(err)
	}
	if ended, err := s.Ended(runlog.EndedQuery{Workflow: "flow"}); err != nil || len(ended) != 0 {
		t.Errorf("needed by its fork: %v %v", ended, err)
	}
	b = &runlog.Batch{Run: child.ID, Epoch: state.Epoch, Change: &runlog.RunChange{Status: runlog.Aborted, FinishedAt: oldDay}}
	if err := s.Commit(b); err != nil {
		t.Fatal(err)
	}
	gone, err := s.Remove(state.Epoch, []runlog.RunID{oldDone.ID, oldWaits.ID, child.ID})
	if diff := cmp.Diff([]runlog.RunID{oldDone.ID, child.ID}, gone); err != nil || diff != "" {
		t.Errorf("%v %s", err, diff)
	}
	if runs, err := s.Runs(runlog.RunQuery{}); err != nil || len(runs) != 1 || runs[0].ID != oldWaits.ID {
		t.Errorf("%+v %v", runs, err)
	}
}
