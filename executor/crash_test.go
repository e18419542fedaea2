package executor_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/workflowd/workflowd/executor"
	"github.com/workflowd/workflowd/executor/runlog"
	"github.com/workflowd/workflowd/internal/faultpoint"
	"github.com/workflowd/workflowd/store/sqlite"
	"github.com/workflowd/workflowd/workflow"
)

// The child of a crash test is this test binary with the directory it works in and the name of its workflow.
const (
	childDir  = "WORKFLOWD_TEST_CRASH_DIR"
	childFlow = "WORKFLOWD_TEST_CRASH_FLOW"
)

// crashing is the workflow that is killed at every durable edge: a stream that resumes, one that starts over, a question,
// an effect that must not repeat, one inside the store, usage, a map and a mapping, a result that is taken from a node
// before.
func crashing(dir string) *workflow.Workflow[int, string] {
	upTo := func(name string, options ...workflow.NodeOption) workflow.StreamNode[int, int, []int] {
		return workflow.StreamFunc(name, func(c ctx, n int) iter.Seq2[int, error] {
			return func(yield func(int, error) bool) {
				next := 0
				for range workflow.Committed[int](c) {
					next++
				}
				for ; next < n; next++ {
					if !yield(next, nil) {
						return
					}
				}
			}
		}, collect[int], options...)
	}
	effect := fn("effect", func(c ctx, n []int) (string, error) {
		if err := c.TokenUsage().Report("record", workflow.Usage{Input: 7}); err != nil {
			return "", err
		}
		a, err := workflow.Ask[string, answer](c, "sure", "really?")
		if err != nil {
			return "", err
		}
		if err := pay(c); err != nil {
			return "", err
		}
		_, err = workflow.Once(c, "append", func(context.Context) (bool, error) {
			f, err := os.OpenFile(filepath.Join(dir, "effects"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
			if err != nil {
				return false, err
			}
			_, err = f.WriteString("x")
			return true, errors.Join(err, f.Close())
		})
		if err != nil {
			return "", err
		}
		return fmt.Sprint(len(n), a.Yes), nil
	})
	sorry := fn("sorry", func(_ ctx, f workflow.Failure) (string, error) { return string(f.Kind), nil })
	return workflow.MustDefine("crashing", 1, func(b builder, in workflow.Ref[int]) workflow.Ref[string] {
		kept := workflow.ThenStream(b, in, upTo("kept", workflow.ResumeAfterCrash()))
		again := workflow.ThenStream(b, in, upTo("again"))
		each := workflow.Map(b, kept, add("each", 1))
		computed := workflow.Then(b, in, add("computed", 1), workflow.Cache("plus one", 0))
		later := workflow.Join2(b, in, computed, func(n, _ int) int { return n })
		taken := workflow.Then(b, later, add("taken", 1), workflow.Cache("plus one", 0))
		both := workflow.Join3(b, each, again, taken, func(x, y []int, _ int) []int { return append(x, y...) })
		return workflow.Catch(b, workflow.Then(b, both, effect), sorry)
	})
}

// pay is an effect of two rows inside the store.
func pay(c ctx) error {
	paid, err := workflow.InTx(c, "pay", func(_ context.Context, tx workflow.Tx) (int64, error) {
		for _, sql := range []string{
			`CREATE TABLE IF NOT EXISTS app_ledger (account TEXT, amount INTEGER) STRICT`,
			`INSERT INTO app_ledger VALUES ('from', -7)`, `INSERT INTO app_ledger VALUES ('to', 7)`,
		} {
			if _, err := tx.Exec(sql); err != nil {
				return 0, err
			}
		}
		return 7, nil
	})
	if err == nil && paid != 7 {
		return fmt.Errorf("paid %d", paid)
	}
	return err
}

// paying does that and nothing else: its commits are the same each time.
func paying() *workflow.Workflow[int, string] {
	return workflow.MustDefine("paying", 1, func(b builder, in workflow.Ref[int]) workflow.Ref[string] {
		return workflow.Then(b, in, fn("pay", func(c ctx, _ int) (string, error) { return "paid", pay(c) }))
	})
}

// crashingChunks is how many chunks each of its streams has: several flushes.
const crashingChunks = 45

// finish opens the engine in dir, starts or finds the run and drives it to its end.
func finish(dir string, flow *workflow.Workflow[int, string]) (out string, err error) {
	ctx := context.Background()
	e, err := executor.Open(ctx, "sqlite:"+filepath.Join(dir, "runs.db"))
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, e.Close()) }()
	h, err := executor.Register(e, flow)
	if err != nil {
		return "", err
	}
	run, err := h.Start(ctx, crashingChunks, executor.RequestID("r"))
	if err != nil {
		return "", err
	}
	for event, err := range run.Events(ctx, 0) {
		if err != nil {
			return "", err
		}
		if event.Kind != runlog.RequestOpened {
			continue
		}
		var q runlog.Request
		if err := json.Unmarshal(event.Data, &q); err != nil {
			return "", err
		}
		if _, err := run.Answer(ctx, q.ID, answer{true}, "ann"); err != nil {
			return "", err
		}
	}
	if out, err = run.Result(ctx); err != nil {
		return "", err
	}
	return out, forkAndPrune(ctx, e)
}

// chained is the workflow that is forked, passing one that is removed.
func chained(name string) *workflow.Workflow[int, int] {
	return workflow.MustDefine(name, 1, func(b builder, in workflow.Ref[int]) workflow.Ref[int] {
		return workflow.Then(b, workflow.Then(b, workflow.Then(b, in, add("one", 1)), add("two", 10)), add("three", 100))
	})
}

// forkAndPrune forks a run in its middle and removes another one.
func forkAndPrune(ctx context.Context, e *executor.Engine) error {
	chain, err := executor.Register(e, chained("chain"))
	if err != nil {
		return err
	}
	passing, err := executor.Register(e, chained("passing"))
	if err != nil {
		return err
	}
	source, err := chain.Start(ctx, 1, executor.RequestID("s"))
	if err != nil {
		return err
	}
	gone, err := passing.Start(ctx, 1, executor.RequestID("p"))
	if err != nil {
		return err
	}
	for _, run := range []*executor.Run[int]{source, gone} {
		if _, err := run.Result(ctx); err != nil {
			return err
		}
	}
	forked, err := source.Fork(ctx, "two", executor.Edit(5), executor.ForkRequestID("f"))
	if err != nil {
		return err
	}
	if out, err := forked.Result(ctx); err != nil || out != 115 {
		return errors.Join(err, fmt.Errorf("the fork gives %d", out))
	}
	_, err = e.Prune(ctx, executor.Retention{Workflow: "passing"}, nil)
	return err
}

func TestMain(m *testing.M) {
	if dir := os.Getenv(childDir); dir != "" {
		flow := crashing(dir)
		if os.Getenv(childFlow) == "paying" {
			flow = paying()
		}
		if _, err := finish(dir, flow); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	leakTestMain(m)
}

// kill runs the child until it is killed at the point, and reports whether it was.
func kill(t *testing.T, dir, point string, flow ...string) bool {
	t.Helper()
	child := exec.Command(os.Args[0])
	child.Env = append(os.Environ(), childDir+"="+dir, faultpoint.Env+"="+point, childFlow+"="+strings.Join(flow, ""))
	out, err := child.CombinedOutput()
	if exit, died := errors.AsType[*exec.ExitError](err); died && exit.ExitCode() == -1 {
		return true
	}
	if err != nil {
		t.Fatalf("the child ended by itself: %v\n%s", err, out)
	}
	return false
}

// A run that is killed at any durable edge, and again at the same one, ends as if nothing had happened.
func TestARunSurvivesAKillAtEveryDurableEdge(t *testing.T) {
	for _, name := range faultpoint.Names() {
		if !strings.HasPrefix(name, "executor.") && !strings.HasPrefix(name, "runstore.") {
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			if !kill(t, dir, name) {
				t.Fatal("the scenario never comes to this edge")
			}
			checkLedger(t, dir, false)
			kill(t, dir, name+":2")
			checkLedger(t, dir, false)
			checkCrash(t, dir)
		})
	}
}

// The same, killed after the first commit of the file, after the second, and so on to the last.
func TestARunSurvivesAKillAfterEachOfItsCommits(t *testing.T) {
	for n := 1; ; n++ {
		dir := t.TempDir()
		if !kill(t, dir, fmt.Sprint("sqlite.commit.after:", n)) {
			if n < 10 {
				t.Errorf("the run has only %d commits", n-1)
			}
			return
		}
		checkLedger(t, dir, false)
		checkCrash(t, dir)
	}
}

// Never twice, never half: killed before and behind each commit of the file.
// Invariant: INV-38
func TestAnEffectInsideTheStoreIsThereOnceAndWhole(t *testing.T) {
	for _, point := range []string{"sqlite.commit.before", "sqlite.commit.after", "executor.tx.ran", "executor.tx.recorded"} {
		for n := 1; ; n++ {
			dir := t.TempDir()
			if !kill(t, dir, fmt.Sprint(point, ":", n), "paying") {
				if n == 1 {
					t.Errorf("the run never comes to %s", point)
				}
				break
			}
			checkLedger(t, dir, false)
			if out, err := finish(dir, paying()); err != nil || out != "paid" {
				t.Errorf("killed at %s:%d, it came to %q, %v", point, n, out, err)
			}
			checkLedger(t, dir, true)
		}
	}
}

// checkLedger reads what the effect inside the store left: both its rows or none, and in the end both, once.
func checkLedger(t *testing.T, dir string, ended bool) {
	t.Helper()
	r, err := sqlite.OpenReader(filepath.Join(dir, "runs.db"))
	if errors.Is(err, os.ErrNotExist) && !ended {
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	}()
	rows, recorded := int64(0), int64(0)
	err = r.View(func(tx *sqlite.Tx) error {
		for sql, n := range map[string]*int64{
			`SELECT count(*) FROM sqlite_schema WHERE name = 'app_ledger'`:                        &rows,
			`SELECT count(*) FROM wf_effect WHERE key = 'tx:pay' AND done AND result IS NOT NULL`: &recorded,
		} {
			if err := tx.Query(sql, nil, func(r *sqlite.Row) error { *n = r.Int64(0); return nil }); err != nil {
				return err
			}
		}
		if rows == 0 {
			return nil
		}
		return tx.Query(`SELECT count(*) FROM app_ledger`, nil, func(r *sqlite.Row) error { rows = r.Int64(0); return nil })
	})
	if err != nil && (ended || !strings.Contains(err.Error(), "no such table")) { // killed before the store had its tables
		t.Fatal(err)
	}
	if rows != 2*recorded || recorded > 1 || ended && recorded != 1 {
		t.Errorf("%d rows and %d records of the effect", rows, recorded)
	}
}

func checkCrash(t *testing.T, dir string) {
	t.Helper()
	out, err := finish(dir, crashing(dir))
	checkLedger(t, dir, true)
	if err != nil {
		t.Fatal(err)
	}
	effects, err := os.ReadFile(filepath.Join(dir, "effects"))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	switch {
	case out == fmt.Sprint(2*crashingChunks, true) && string(effects) == "x":
	case out == "interrupted" && len(effects) <= 1: // killed between intent and result: reported, not repeated
	default:
		t.Errorf("result %q, the effect ran %d times", out, len(effects))
	}
	e, err := executor.Open(t.Context(), "sqlite:"+filepath.Join(dir, "runs.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	}()
	checkFork(t, e)
	runs, err := e.Runs(runlog.RunQuery{Workflow: "crashing"})
	if err != nil || len(runs) != 1 {
		t.Fatalf("%d runs, %v", len(runs), err)
	}
	usage, err := e.Usage(runs[0].ID)
	if err != nil || len(usage) != 1 || usage[0].Usage.Input != 7 {
		t.Errorf("usage %+v, %v", usage, err)
	}
	checkLog(t, e, &runs[0])
}

// checkFork checks that there is one fork, which kept what it had to and repeated the rest, and nothing of the removed run.
func checkFork(t *testing.T, e *executor.Engine) {
	t.Helper()
	if runs, err := e.Runs(runlog.RunQuery{Workflow: "passing"}); err != nil || len(runs) != 0 {
		t.Errorf("%d runs were not removed, %v", len(runs), err)
	}
	runs, err := e.Runs(runlog.RunQuery{Workflow: "chain"})
	if err != nil || len(runs) != 2 {
		t.Fatalf("%d runs, %v", len(runs), err)
	}
	forked, source := runs[0], runs[1]
	if forked.ForkedFrom == nil || forked.ForkedFrom.Run != source.ID {
		t.Errorf("the lineage is %+v", forked.ForkedFrom)
	}
	nodes, err := e.Nodes(forked.ID)
	if err != nil || len(nodes) != 3 || nodes[0].From != source.ID || nodes[1].From != "" || nodes[2].From != "" {
		t.Errorf("%+v, %v", nodes, err)
	}
	for i := range runs {
		checkLog(t, e, &runs[i])
	}
	if attached := attach[int](t, e, forked.ID); keptIn(t, attached) != "one#1" {
		t.Errorf("kept %s", keptIn(t, attached))
	}
}

// checkLog checks that the log is dense, that it folds to the records, and that what counts of each stream is whole.
func checkLog(t *testing.T, e *executor.Engine, run *runlog.Run) {
	t.Helper()
	type state struct {
		Status string
		Chunks int
	}
	kinds := map[runlog.EventKind]string{
		runlog.NodeStarted: "running", runlog.NodeWaiting: "waiting", runlog.NodeSleeping: "sleeping", runlog.NodeSuspended: "suspended",
		runlog.NodeSucceeded: "succeeded", runlog.NodeFailed: "failed", runlog.NodeAborted: "aborted",
	}
	folded, ends := map[runlog.NodeKey]*state{}, map[string]int{}
	status, last := "", runlog.Seq(0)
	for event, err := range e.Events(t.Context(), run.ID, 0) {
		if err != nil {
			t.Fatal(err)
		}
		if event.Seq != last+1 {
			t.Fatalf("event %d follows %d", event.Seq, last)
		}
		last = event.Seq
		key := runlog.NodeKey{Path: event.Node, Visit: event.Visit}
		if folded[key] == nil {
			folded[key] = &state{}
		}
		switch {
		case event.Kind == runlog.NodeRetracted:
			folded[key].Chunks = 0
		case event.Kind.Chunk():
			folded[key].Chunks++
		case event.Kind == runlog.NodeKept:
			folded[key].Status = "succeeded"
		case kinds[event.Kind] != "":
			folded[key].Status = kinds[event.Kind]
		}
		if event.Kind == runlog.NodeSucceeded {
			ends[event.Node]++
		}
		if s := strings.TrimPrefix(string(event.Kind), "run."); s != string(event.Kind) {
			status = s
		}
	}
	if status != string(run.Status) {
		t.Errorf("the log says %s, the record %s", status, run.Status)
	}
	nodes, err := e.Nodes(run.ID)
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range nodes {
		if n.Inline {
			continue
		}
		if n.Path == "taken" && n.Attempt > 0 {
			t.Error("what was computed before was computed again")
		}
		want := state{Status: string(n.Status)}
		if n.Path == "kept" || n.Path == "again" {
			want.Chunks = crashingChunks
		}
		if diff := cmp.Diff(&want, folded[n.NodeKey]); diff != "" {
			t.Errorf("%v: -record +log\n%s", n.NodeKey, diff)
		}
	}
	for node, n := range ends {
		if n > 1 {
			t.Errorf("node %q ended %d times", node, n)
		}
	}
}
