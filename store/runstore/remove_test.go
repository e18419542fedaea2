package runstore

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/workflowd/workflowd/executor/runlog"
	"github.com/workflowd/workflowd/store/sqlite"
)

// How much more than in proportion a larger file may take. The trees of the file grow a level now and then.
const growthSlack = 1.05

// filled is a store with an owner that writes runs.
type filled struct {
	t testing.TB
	*Store
	epoch int64
	begun int // runs, numbered in order
}

var theDay = time.UnixMilli(1_790_000_000_000).UTC()

func newFilled(t testing.TB) *filled {
	t.Helper()
	s, err := Open(filepath.Join(t.TempDir(), "runs.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	state, err := s.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return &filled{t: t, Store: s, epoch: state.Epoch}
}

// must commits the batches in one transaction.
func (f *filled) must(list ...*runlog.Batch) {
	f.t.Helper()
	err := f.writer.Submit(sqlite.Fast, func(tx *sqlite.Tx) error {
		for _, b := range list {
			b.Epoch = f.epoch
			if err := commit(tx, b); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		f.t.Fatal(err)
	}
}

func (f *filled) id(n int) runlog.RunID { return runlog.RunID(fmt.Sprintf("run_%06d", n)) }

// add writes runs as they are: chunks, nodes, a question, an effect, usage; every tenth has a long input, each its own, and a
// long output, which they share.
func (f *filled) add(runs int) {
	f.t.Helper()
	key := runlog.NodeKey{Path: "agent", Visit: 1}
	var batches []*runlog.Batch
	for range runs {
		id := f.id(f.begun)
		at := theDay.Add(time.Duration(f.begun) * time.Second)
		r := &runlog.Run{ID: id, Workflow: "flow", Version: 1, Fingerprint: "f", RequestID: string(id), Digest: "d", CreatedAt: at, Status: runlog.Queued,
			Input: json.RawMessage(fmt.Sprintf(`{"prompt":"number %06d"}`, f.begun))}
		output := json.RawMessage(fmt.Sprintf(`{"answer":%q}`, strings.Repeat("word ", 40)))
		if f.begun%10 == 0 {
			r.Input = json.RawMessage(fmt.Sprintf(`"%06d %s"`, f.begun, strings.Repeat("in ", BlobBytes/3)))
			output = json.RawMessage(fmt.Sprintf(`"%s"`, strings.Repeat("out ", BlobBytes/4)))
		}
		b := &runlog.Batch{
			Run: id, Create: r, Nodes: []runlog.Node{{NodeKey: key, Attempt: 1, Status: runlog.NodeIsDone, Output: output, InputHash: "h", StartedAt: at, FinishedAt: at}},
			Change:  &runlog.RunChange{Status: runlog.Succeeded, Version: 1, Fingerprint: "f", Result: key, StartedAt: at, FinishedAt: at},
			Open:    []runlog.Request{{ID: "req_" + string(id), Run: id, Workflow: "flow", Node: key, Key: "k", Kind: "plan", Status: runlog.RequestHasAnswer, OpenedAt: at}},
			Effects: []runlog.Effect{{Node: key, Key: "once:a", Done: true}}, Usage: []runlog.UsageRecord{{RecordID: "u", Node: key}},
			Signals: []runlog.Signal{{ID: "s", Topic: "t"}},
		}
		for i := range 4 {
			b.Events = append(b.Events, runlog.Event{At: at, Epoch: f.epoch, Node: key.Path, Visit: 1, Attempt: 1, Kind: runlog.ItemAppend,
				Data: json.RawMessage(`{"text":"a few words of an answer"}`), Source: fmt.Sprint("store/1.", i)})
		}
		f.begun++
		if batches = append(batches, b); len(batches) == 100 {
			f.must(batches...)
			batches = nil
		}
	}
	f.must(batches...)
}

// removeOldest removes runs as retention does.
func (f *filled) removeOldest(runs int) {
	f.t.Helper()
	for runs > 0 {
		list, err := f.Ended(runlog.EndedQuery{Workflow: "flow", Limit: min(runs, 64)})
		if err != nil {
			f.t.Fatal(err)
		}
		var ids []runlog.RunID
		for _, r := range list {
			ids = append(ids, r.ID)
		}
		gone, err := f.Remove(f.epoch, ids)
		if err != nil || len(gone) == 0 {
			f.t.Fatalf("removed %d of %d: %v", len(gone), len(ids), err)
		}
		runs -= len(gone)
	}
}

func (f *filled) number(sql string) (n int64) {
	f.t.Helper()
	if err := f.query(sql, nil, func(r *sqlite.Row) error { n = r.Int64(0); return nil }); err != nil {
		f.t.Fatal(err)
	}
	return n
}

// rows counts the rows of every table that is about runs.
func (f *filled) rows() map[string]int64 {
	f.t.Helper()
	n := map[string]int64{}
	for _, table := range []string{"run", "node", "event", "source", "request", "effect", "signal", "usage", "blob"} {
		n[table] = f.number("SELECT count(*) FROM wf_" + table)
	}
	return n
}

func (f *filled) sound() {
	f.t.Helper()
	said := ""
	if err := f.query("PRAGMA integrity_check", nil, func(r *sqlite.Row) error { said += r.Text(0); return nil }); err != nil || said != "ok" {
		f.t.Errorf("the file is damaged: %s %v", said, err)
	}
	if n := f.number("SELECT count(*) FROM pragma_foreign_key_check"); n != 0 {
		f.t.Errorf("%d rows belong to nothing", n)
	}
}

// Invariant: INV-08
func TestAFileGrowsInProportionToItsRunsAndNotWhenTheyGoAsTheyCome(t *testing.T) {
	first := 0.0
	for _, runs := range []int{1_000, 10_000} {
		f := newFilled(t)
		f.add(runs)
		pages := f.number("PRAGMA page_count")
		each := float64(pages*sqlite.DefaultPageSize) / float64(runs)
		if first == 0 {
			first = each
		}
		if each > first*growthSlack {
			t.Errorf("one of %d runs takes %.0f bytes, one of 1000 took %.0f", runs, each, first)
		}
		rows := f.rows()
		const rounds, come = 4, 500
		f.removeOldest(come)
		for round := range rounds {
			f.add(come)
			if got := f.number("PRAGMA page_count"); got > pages+pages/50 { // indexes of names without order get looser, up to a point
				t.Fatalf("round %d: the file of %d runs grew from %d to %d pages", round, runs, pages, got)
			}
			if diff := cmp.Diff(rows, f.rows()); diff != "" {
				t.Errorf("round %d: %s", round, diff)
			}
			f.removeOldest(come)
		}
		t.Logf("%d runs: %.0f bytes each, %d pages before %d runs came and went, %d after", runs, each, pages, rounds*come, f.number("PRAGMA page_count"))
		f.sound()
	}
}

// JSON kept by hash stays while anything needs it, whatever that is: an input, an output, an event, a fork.
//
// Invariant: INV-36
func TestLongJSONGoesWithTheLastThatNeedsIt(t *testing.T) {
	long := json.RawMessage(`"` + strings.Repeat("long ", BlobBytes) + `"`)
	key := runlog.NodeKey{Path: "n", Visit: 1}
	lineage := &runlog.Fork{Run: "source", Edits: []runlog.Edit{{NodeKey: key, Input: long}}}
	edits, err := json.Marshal(lineage)
	if err != nil {
		t.Fatal(err)
	}
	f := newFilled(t)
	begin := func(id runlog.RunID, edit func(*runlog.Run), b runlog.Batch) {
		t.Helper()
		r := &runlog.Run{ID: id, Workflow: "flow", RequestID: string(id), Status: runlog.Queued}
		edit(r)
		b.Run, b.Create, b.Change = id, r, &runlog.RunChange{Status: runlog.Succeeded, FinishedAt: theDay}
		f.must(&b)
	}
	none := func(*runlog.Run) {}
	begin("source", none, runlog.Batch{})
	for text, users := range map[*json.RawMessage]map[runlog.RunID]func(runlog.RunID){
		&long: {
			"input": func(id runlog.RunID) { begin(id, func(r *runlog.Run) { r.Input = long }, runlog.Batch{}) },
			"output": func(id runlog.RunID) {
				begin(id, none, runlog.Batch{Nodes: []runlog.Node{{NodeKey: key, Output: long}, {NodeKey: runlog.NodeKey{Path: "m"}, Output: long}}})
			},
			"event": func(id runlog.RunID) {
				begin(id, none, runlog.Batch{Events: []runlog.Event{{Kind: runlog.NodeChunk, Data: long}, {Kind: runlog.NodeChunk, Data: long}}})
			},
		},
		(*json.RawMessage)(&edits): {
			"fork": func(id runlog.RunID) { begin(id, func(r *runlog.Run) { r.ForkedFrom = lineage }, runlog.Batch{}) },
			"its output": func(id runlog.RunID) {
				begin(id, none, runlog.Batch{Nodes: []runlog.Node{{NodeKey: key, Output: edits}}})
			},
		},
	} {
		for last := range users {
			remove := func(id runlog.RunID) {
				t.Helper()
				if gone, err := f.Remove(f.epoch, []runlog.RunID{id}); err != nil || len(gone) != 1 {
					t.Fatalf("%v %v", gone, err)
				}
			}
			for id, make := range users {
				make(id)
			}
			for id := range users {
				if id != last {
					remove(id)
				}
			}
			if n := f.number("SELECT count(*) FROM wf_blob"); n != 1 {
				t.Errorf("%d texts while the %s needs one of %d bytes", n, last, len(*text))
			}
			remove(last)
			if n := f.number("SELECT count(*) FROM wf_blob"); n != 0 {
				t.Errorf("%d texts that nothing needs, the last was the %s", n, last)
			}
		}
	}
	f.sound()
}

// A removal works in commits of bounded size. Whatever happens between two of them, its runs are out of sight, and the next
// removal goes on.
//
// Invariant: INV-36
func TestARemovalThatWasCutShortIsFinishedByTheNext(t *testing.T) {
	f := newFilled(t)
	f.add(20)
	before := f.rows()
	f.add(1)
	huge := f.id(20)
	for range 5 {
		b := &runlog.Batch{Run: huge}
		for i := range RemoveRows {
			b.Events = append(b.Events, runlog.Event{Kind: runlog.NodeChunk, Node: "n", Visit: 1, Data: json.RawMessage(fmt.Sprint(i))})
		}
		f.must(b)
	}
	// As Remove does, up to the third of its commits.
	for step := range 3 {
		err := f.writer.Submit(sqlite.Fast, func(tx *sqlite.Tx) error {
			if step == 0 {
				n, err := tx.Exec(hide, string(huge))
				if n != 1 {
					t.Errorf("%d runs are hidden", n)
				}
				return err
			}
			rows := f.number("SELECT count(*) FROM wf_event")
			more, err := sweep(tx, RemoveRows)
			if !more {
				t.Errorf("after %d rows nothing is left", rows)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		if runs, err := f.Runs(runlog.RunQuery{}); err != nil || len(runs) != 20 {
			t.Fatalf("step %d: %d runs, %v", step, len(runs), err)
		}
		if events := f.number("SELECT count(*) FROM wf_event"); events < before["event"]+2*RemoveRows {
			t.Errorf("step %d deleted more than its share: %d events", step, events)
		}
	}
	if gone, err := f.Remove(f.epoch, nil); err != nil || len(gone) != 0 {
		t.Errorf("%v %v", gone, err)
	}
	if diff := cmp.Diff(before, f.rows()); diff != "" {
		t.Error(diff)
	}
	f.sound()
}

func TestRetentionLooksThroughIndexes(t *testing.T) {
	f := newFilled(t)
	for _, test := range []struct {
		sql  string
		args []any
		want []string
	}{
		{selectNewest, []any{"w", 1}, []string{"SEARCH r USING INDEX wf_run_ended (workflow=?)"}},
		{hide, []any{"r"}, []string{
			"SEARCH r USING INDEX sqlite_autoindex_wf_run_1 (id=?)", "CORRELATED SCALAR SUBQUERY 1", "SEARCH f USING INDEX wf_run_fork (forked_from=?)",
		}},
		{selectHidden, nil, []string{"SEARCH wf_run USING COVERING INDEX wf_run_live (status=?)"}},
		{runColumns + ` WHERE r.status IN (?) AND r.status NOT IN ('succeeded', 'failed', 'aborted', 'expired') AND r.workflow = ? ORDER BY r.id DESC LIMIT ?`,
			[]any{"queued", "w", 1}, []string{"SEARCH r USING INDEX wf_run_live (status=? AND workflow=?)"}},
		{selectEnded, []any{"w", 1, "r", 1, 1}, []string{
			"SEARCH r USING INDEX wf_run_ended (workflow=? AND (finished_at,id)<(?,?))", "SEARCH f USING INDEX wf_run_fork (forked_from=?)",
		}},
	} {
		got := f.plan(test.sql, test.args...)
		for _, want := range test.want {
			if !slices.Contains(got, want) {
				t.Errorf("%s: want %q in\n%s", test.sql, want, strings.Join(got, "\n"))
			}
		}
		noScan(t, test.sql, got)
	}
	for _, p := range parts {
		noScan(t, p.drop, f.plan(p.drop, 1, 1))
		if p.refs != "" {
			noScan(t, p.refs, f.plan(p.refs, 1, 1))
		}
	}
	noScan(t, dropRun, f.plan(dropRun, 1))
	noScan(t, runRefs, f.plan(runRefs, 1))
	noScan(t, dropBlob, f.plan(dropBlob, []byte("x")))
}

// Whatever refers to long JSON keeps it: each column for it, of any table, is asked before a text is deleted.
func TestEveryReferenceToLongJSONIsAskedBeforeItGoes(t *testing.T) {
	f := newFilled(t)
	const columns = `SELECT t.name, c.name FROM sqlite_schema t, pragma_table_info(t.name) c WHERE t.type = 'table' AND c.name LIKE '%\_ref' ESCAPE '\'`
	found := 0
	err := f.query(columns, nil, func(r *sqlite.Row) error {
		if found++; !strings.Contains(dropBlob, fmt.Sprintf("FROM %s WHERE %s = ?1", r.Text(0), r.Text(1))) {
			t.Errorf("a text that only %s.%s refers to would be deleted", r.Text(0), r.Text(1))
		}
		return nil
	})
	if err != nil || found < 4 {
		t.Errorf("%d columns, %v", found, err)
	}
}

// Each table with rows of runs is emptied in parts of bounded size, before the run goes and would take the rest at once.
func TestEveryTableOfRunsIsEmptiedInParts(t *testing.T) {
	f := newFilled(t)
	const tables = `SELECT t.name FROM sqlite_schema t, pragma_foreign_key_list(t.name) k WHERE t.type = 'table' AND k."table" = 'wf_run'`
	found := 0
	err := f.query(tables, nil, func(r *sqlite.Row) error {
		found++
		if !slices.ContainsFunc(parts, func(p part) bool { return strings.HasPrefix(p.drop, "DELETE FROM "+r.Text(0)+" ") }) {
			t.Errorf("rows of %s go with their run, all at once", r.Text(0))
		}
		return nil
	})
	if err != nil || found != len(parts) {
		t.Errorf("%d tables, %d parts, %v", found, len(parts), err)
	}
}

// noScan refuses a plan that reads a whole table of runs.
func noScan(t *testing.T, sql string, plan []string) {
	t.Helper()
	for _, step := range plan {
		if strings.HasPrefix(step, "SCAN wf_") || strings.HasPrefix(step, "SCAN r") || strings.HasPrefix(step, "SCAN f") {
			t.Errorf("%s: %s", sql, step)
		}
	}
}

func (f *filled) plan(sql string, args ...any) (steps []string) {
	f.t.Helper()
	err := f.writer.Submit(sqlite.Fast, func(tx *sqlite.Tx) error {
		return tx.Query("EXPLAIN QUERY PLAN "+sql, args, func(r *sqlite.Row) error { steps = append(steps, strings.TrimSpace(r.Text(3))); return nil })
	})
	if err != nil {
		f.t.Fatalf("%s: %v", sql, err)
	}
	return steps
}
