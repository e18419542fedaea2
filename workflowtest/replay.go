package workflowtest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/workflowd/workflowd/executor"
	"github.com/workflowd/workflowd/executor/runlog"
	"github.com/workflowd/workflowd/internal/strictjson"
	"github.com/workflowd/workflowd/workflow"
	"github.com/workflowd/workflowd/workflow/graph"
)

// Replay checks that runs which began under an older workflow would go on under w: each file, or pattern of files, holds
// one that Run.Record or Record wrote. No node runs. The test fails, naming the node, where
//
//   - the type of the input or the result changed;
//   - something that had begun is gone, or has another kind, version, type, input or case;
//   - a pure step (apply, join, switch, the end of a loop) computes another value from the recorded ones;
//   - the graph changed and the version did not: engines that hold the old one refuse it.
//
// What had not begun may change freely. Replay needs no bubble.
func Replay[In, Out any](t testing.TB, w *workflow.Workflow[In, Out], files ...string) {
	t.Helper()
	for _, pattern := range files {
		list, err := filepath.Glob(pattern)
		if err != nil || len(list) == 0 {
			t.Errorf("replay: no recording %s; Run.Record writes one (%v)", pattern, err)
		}
		for _, file := range list {
			replay(t, w, file)
		}
	}
}

func replay[In, Out any](t testing.TB, w *workflow.Workflow[In, Out], file string) {
	t.Helper()
	rec, err := readRecording(file)
	if err != nil {
		t.Errorf("replay: %v", err)
		return
	}
	found, err := misfits(t.Context(), rec, w)
	if err != nil {
		t.Errorf("replay %s: %v", file, err)
	}
	if len(found) > 0 {
		t.Errorf("replay %s: a run of workflow %q version %d (%s) does not fit the workflow as it is now:\n\t%s\nrestore what it needs; or, when no such run is left, record it again with -%s or remove the file",
			file, rec.Workflow, rec.Version, rec.Status, strings.Join(found, "\n\t"), flagName())
	}
}

func flagName() string {
	_, name := updating()
	return name
}

// misfits says what of a recorded run does not fit w, in the order of the recorded graph.
func misfits[In, Out any](ctx context.Context, rec *recording, w *workflow.Workflow[In, Out]) ([]string, error) {
	next := w.Definition().Graph()
	if rec.Workflow != next.Name {
		return []string{fmt.Sprintf("the workflow is %q", next.Name)}, nil
	}
	found := compareGraphs(rec, next)
	if rec.Version == next.Version && rec.Graph.Fingerprint != next.Fingerprint {
		found = append(found, fmt.Sprintf("the graph is another one under the same version: give it version %d", next.Version+1))
	}
	end, err := rerun(ctx, rec, w)
	if err != nil {
		return found, err
	}
	if end.run.Status == runlog.Blocked {
		if len(found) == 0 {
			found = append(found, end.run.Reason)
		}
		return found, nil
	}
	return append(found, compareValues(rec, end)...), nil
}

// compareGraphs looks at what had begun: it must be there as it was.
func compareGraphs(rec *recording, next *graph.Graph) (found []string) {
	old := &rec.Graph
	if old.Input != next.Input {
		found = append(found, "the type of the input "+changedType(old, old.Input, next, next.Input))
	}
	if old.Output != next.Output {
		found = append(found, "the type of the result "+changedType(old, old.Output, next, next.Output))
	}
	begun := map[string]bool{}
	for _, v := range rec.Visits {
		path, _ := element(v.Path)
		begun[path] = true
	}
	after := map[string]*graph.Node{}
	for i := range next.Nodes {
		after[next.Nodes[i].Path] = &next.Nodes[i]
	}
	for i := range old.Nodes {
		was := &old.Nodes[i]
		if !begun[was.Path] {
			continue
		}
		is := after[was.Path]
		if is == nil {
			found = append(found, fmt.Sprintf("node %q is gone", was.Path))
			continue
		}
		for _, what := range compareNodes(old, was, next, is) {
			found = append(found, fmt.Sprintf("node %q %s", was.Path, what))
		}
	}
	return found
}

// compareNodes says how a node changed.
func compareNodes(old *graph.Graph, was *graph.Node, next *graph.Graph, is *graph.Node) (found []string) {
	add := func(format string, args ...any) { found = append(found, fmt.Sprintf(format, args...)) }
	if was.Kind != is.Kind || was.Scope != is.Scope {
		add("was a %s, is a %s", kindIn(was), kindIn(is))
	}
	if was.Version != is.Version {
		add("changed from version %d to %d", was.Version, is.Version)
	}
	if was.In != is.In {
		add("takes another type: it %s", changedType(old, was.In, next, is.In))
	}
	if was.Out != is.Out {
		add("gives another type: it %s", changedType(old, was.Out, next, is.Out))
	}
	if was.Chunk != is.Chunk {
		add("has other chunks: their type %s", changedType(old, was.Chunk, next, is.Chunk))
	}
	if a, b := inputs(old, was.Path), inputs(next, is.Path); a != b {
		add("takes its input from %s, it was %s; what it gave then would be kept", b, a)
	}
	if a, b := caseOf(was), caseOf(is); a != b {
		add("belongs to %s, it was %s", b, a)
	}
	return found
}

func kindIn(n *graph.Node) string {
	if n.Scope == "" {
		return string(n.Kind)
	}
	return fmt.Sprintf("%s of loop %q", n.Kind, n.Scope)
}

func caseOf(n *graph.Node) string {
	if n.When == nil {
		return "no case"
	}
	return fmt.Sprintf("case %q of %q", n.When.Case, n.When.Switch)
}

// inputs names where a node's input comes from.
func inputs(g *graph.Graph, path string) string {
	var from []string
	for _, e := range g.Edges {
		if e.To == path {
			from = append(from, e.From)
		}
	}
	return strings.Join(from, " and ")
}

func changedType(old *graph.Graph, was graph.TypeID, next *graph.Graph, is graph.TypeID) string {
	schema := func(g *graph.Graph, id graph.TypeID) string {
		return g.Types[id].Name + " " + cut(canonical(g.Types[id].Schema), shownSchema)
	}
	return fmt.Sprintf("was %s and is %s", schema(old, was), schema(next, is))
}

// ending is what an engine makes of a recorded run.
type ending struct {
	run   runlog.Run
	nodes []runlog.Node
}

// The run that a recording becomes in a store of its own. Its version is one that nobody registers, so that the engine has
// to decide whether the run fits.
const (
	recordedRun     = "recorded"
	recordedVersion = 0
)

// rerun lets an engine go on with the recorded run under w: it takes the ended visits from the recording, decides the pure
// steps anew, and parks where a node would be entered.
func rerun[In, Out any](ctx context.Context, rec *recording, w *workflow.Workflow[In, Out]) (end ending, err error) {
	for i, n := range w.Definition().Graph().Nodes {
		if hasCode(n.Kind) {
			w = w.Replace(i, func(ctx workflow.NodeContext, _ json.RawMessage) (json.RawMessage, error) {
				return ctx.Journal().Receive("the end of the replay", 0)
			})
		}
	}
	store := runlog.NewMemory()
	if err := rec.store(ctx, store); err != nil {
		return end, err
	}
	engine, err := executor.New(ctx, store)
	if err != nil {
		return end, err
	}
	defer func() { err = errors.Join(err, engine.Close()) }()
	if _, err := executor.Register(engine, w); err != nil {
		return end, err
	}
	if err := engine.Recover(ctx); err != nil {
		return end, err
	}
	for e, err := range engine.Events(ctx, recordedRun, 0) {
		if err != nil {
			return end, err
		}
		if e.Kind == runlog.RunWaiting || e.Kind == runlog.RunBlocked {
			break
		}
	}
	if end.run, err = engine.Run(recordedRun); err != nil {
		return end, err
	}
	end.nodes, err = engine.Nodes(recordedRun)
	return end, err
}

// store puts the recorded run into a store, as a process that ended left it. Pure steps are left out.
func (r *recording) store(ctx context.Context, s runlog.Store) error {
	state, err := s.Acquire(ctx)
	if err != nil {
		return err
	}
	raw, err := json.Marshal(r.Graph)
	if err != nil {
		return err
	}
	now := time.Now().UTC()
	definition := runlog.Definition{Name: r.Workflow, Version: recordedVersion, Fingerprint: r.Graph.Fingerprint, Graph: raw, CreatedAt: now}
	if err := s.PutDefinition(definition, false); err != nil {
		return err
	}
	run := runlog.Run{
		ID: recordedRun, Workflow: r.Workflow, Version: recordedVersion, Fingerprint: r.Graph.Fingerprint, RequestID: recordedRun,
		Input: r.Input, CreatedAt: now, StartedAt: now, Status: runlog.Running,
	}
	b := runlog.Batch{Run: run.ID, Epoch: state.Epoch, Create: &run, Events: []runlog.Event{{Kind: runlog.RunQueued}, {Kind: runlog.RunRunning}}}
	for _, v := range r.Visits {
		if v.Status.Terminal() && !v.Inline {
			b.Nodes = append(b.Nodes, runlog.Node{NodeKey: v.key(), Attempt: 1, Status: v.Status, Output: v.Output, Failure: v.Failure})
		}
	}
	return s.Commit(&b)
}

// compareValues looks at what the pure steps compute now, and at the end of the run.
func compareValues(rec *recording, end ending) (found []string) {
	now := map[runlog.NodeKey]runlog.Node{}
	for _, n := range end.nodes {
		now[n.NodeKey] = n
	}
	for _, v := range rec.Visits {
		n, decided := now[v.key()]
		if !v.Inline || !decided {
			continue
		}
		if was, is := outcome(v.Output, v.Failure), outcome(n.Output, n.Failure); was != is {
			found = append(found, fmt.Sprintf("step %q (visit %d) comes to %s now, in the recording to %s", v.Path, v.Visit, is, was))
		}
	}
	if !endedItself(end.run.Status) || !endedItself(rec.Status) || len(found) > 0 {
		return found
	}
	was, is := outcome(rec.Output, rec.Failure), outcome(end.run.Output, end.run.Failure)
	if was != is || rec.Status != end.run.Status {
		found = append(found, fmt.Sprintf("the run has %s with %s now, in the recording %s with %s", end.run.Status, is, rec.Status, was))
	}
	return found
}

// outcome is a value or a failure as text that can be compared.
func outcome(output json.RawMessage, failure *workflow.Failure) string {
	if failure != nil {
		return told(failure)
	}
	return canonical(output)
}

// endedItself reports whether nobody and no deadline stopped a run.
func endedItself(s runlog.RunStatus) bool { return s == runlog.Succeeded || s == runlog.Failed }

// canonical is JSON in its one spelling.
func canonical(raw json.RawMessage) string {
	text, err := strictjson.Canonical(raw)
	if err != nil {
		return string(raw)
	}
	return string(text)
}
