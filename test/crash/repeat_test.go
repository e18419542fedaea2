//go:build unix

package crash

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/workflowd/workflowd/executor/runlog"
)

// The commands that repeat and remove runs have edges that no story passes: they are about runs that are there already.
var repeating = []string{"executor.fork.", "executor.prune.", "runstore.remove."}

// repeated tells of a run that is forked behind its agent and then removed, with a kill at each of those edges, and returns
// the points it passed. The fork is one run, which asked no model; the removed run is gone whole, with its session.
//
// Invariant: INV-35, INV-36
func repeated(t *testing.T, names []string) map[string]bool {
	t.Helper()
	passed := map[string]bool{}
	for _, name := range names {
		if !slices.ContainsFunc(repeating, func(prefix string) bool { return strings.HasPrefix(name, prefix) }) {
			continue
		}
		passed[name] = true
		t.Run("repeating/"+name, func(t *testing.T) { killRepeated(t, name) })
	}
	return passed
}

func killRepeated(t *testing.T, point string) {
	s := scenarios[0]
	p := newPlace(t)
	well := func(args []string) ended {
		t.Helper()
		e := p.start(t, args, "").wait(t)
		if e.code != 0 {
			t.Fatalf("%v: %s", args, e)
		}
		return e
	}
	kills := 0
	twice := func(args ...string) { // with a kill, when the command has the edge
		t.Helper()
		args = append(args, "--data-dir", p.data)
		e := p.start(t, args, point).wait(t)
		switch {
		case e.killed:
			kills++
			tally.killed()
			well(args)
		case e.code != 0:
			t.Fatalf("%v: %s", args, e)
		}
	}
	well(s.command(p, pace))
	before := look(t, s, p)
	source := before.runs[0]
	twice("runs", "fork", string(source.ID), "--at", "output", "--request-id", "f1")
	forked := look(t, s, p)
	if len(forked.runs) != 2 {
		t.Fatalf("%d runs", len(forked.runs))
	}
	if diff := cmp.Diff(source.events, forked.runs[0].events); diff != "" {
		t.Errorf("the source changed: %s", diff)
	}
	if len(forked.sessions) != len(before.sessions) {
		t.Errorf("%d sessions, %d before the fork: an agent was asked again", len(forked.sessions), len(before.sessions))
	}
	checkForked(t, source, forked.runs[1])

	twice("runs", "prune", "--keep", "1")
	end := look(t, s, p)
	if len(end.runs) != 1 || end.runs[0].ID != forked.runs[1].ID || len(end.sessions) != 0 {
		t.Errorf("%d runs and %d sessions are left", len(end.runs), len(end.sessions))
	}
	if diff := cmp.Diff(forked.runs[1].events, end.runs[0].events); diff != "" {
		t.Errorf("the fork changed: %s", diff)
	}
	left, err := os.ReadDir(filepath.Join(p.data, "agents", "default"))
	must(t, err)
	if len(left) != 0 {
		t.Errorf("sessions of no run: %v", left)
	}
	if kills != 1 {
		t.Errorf("%d kills, want one at %s", kills, point)
	}
}

// checkForked: the fork kept all before its point and computed what its source did.
func checkForked(t *testing.T, source, fork runState) {
	t.Helper()
	checkLog(t, fork)
	if fork.ForkedFrom == nil || fork.ForkedFrom.Run != source.ID {
		t.Errorf("the lineage is %+v", fork.ForkedFrom)
	}
	var story []string
	for _, e := range fork.events {
		if e.Node != "" {
			story = append(story, fmt.Sprintf("%s %s", e.Kind, e.Node))
		}
	}
	want := []string{"node.kept input", "node.kept agent", "node.started output", "node.succeeded output"}
	if i := slices.Index(story, "node.started output"); i >= 0 { // a kill may have cut off the first attempt
		story = append(story[:i], slices.Compact(story[i:])...)
	}
	if diff := cmp.Diff(want, story); diff != "" {
		t.Errorf("the fork's story: %s", diff)
	}
	if string(fork.Output) != string(source.Output) || len(fork.usage) != 0 {
		t.Errorf("it came to another end, or asked a model: %d bills", len(fork.usage))
	}
	for _, n := range fork.nodes {
		if kept := n.Path != "output"; n.Status != runlog.NodeIsDone || kept != (n.From == source.ID) {
			t.Errorf("node %s is %s, kept from %q", n.Path, n.Status, n.From)
		}
	}
}
