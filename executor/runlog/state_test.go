package runlog

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "rewrite golden files")

// The drawn table is read by people: a row per state, an x where the column's state may follow.
const runTable = `
           que rea run wai sle sus pau blo suc fai abo exp
queued      .   x   x   .   .   .   x   x   .   .   x   x
ready       .   .   x   .   .   .   x   x   .   .   x   x
running     .   .   x   x   x   x   x   x   x   x   x   x
waiting     .   x   x   .   .   .   x   x   .   .   x   x
sleeping    .   x   x   .   .   .   x   x   .   .   x   x
suspended   .   x   x   .   .   .   x   x   .   .   x   x
paused      .   x   x   .   .   .   .   x   .   .   x   x
blocked     .   x   x   .   .   .   .   .   .   .   x   x
succeeded   .   .   .   .   .   .   .   .   .   .   .   .
failed      .   .   .   .   .   .   .   .   .   .   .   .
aborted     .   .   .   .   .   .   .   .   .   .   .   .
expired     .   .   .   .   .   .   .   .   .   .   .   .
`

const nodeTable = `
           run wai sle sus suc fai abo
(none)      x   .   .   .   x   x   .
running     x   x   x   x   x   x   x
waiting     x   .   .   .   .   .   x
sleeping    x   .   .   .   .   .   x
suspended   x   .   .   .   .   .   x
succeeded   .   .   .   .   .   .   .
failed      .   .   .   .   .   .   .
aborted     .   .   .   .   .   .   .
`

// draw renders a transition table in the shape of the tables above.
func draw[S ~string](from, to []S, may func(S, S) bool) string {
	var b strings.Builder
	b.WriteString("\n          ")
	for _, s := range to {
		b.WriteString(" " + string(s[:3]))
	}
	for _, s := range from {
		name := string(s)
		if name == "" {
			name = "(none)"
		}
		b.WriteString("\n" + name + strings.Repeat(" ", 10-len(name)))
		for i, next := range to {
			mark := "   ."
			if may(s, next) {
				mark = "   x"
			}
			if i == 0 {
				mark = mark[1:]
			}
			b.WriteString(mark)
		}
	}
	return b.String() + "\n"
}

func TestTheRunTableIsTheDrawnOne(t *testing.T) {
	got := draw(RunStatuses(), RunStatuses(), RunStatus.CanBecome)
	if diff := cmp.Diff(strings.Fields(runTable), strings.Fields(got)); diff != "" {
		t.Errorf("-drawn +table:\n%s\n%s", diff, got)
	}
	for _, s := range RunStatuses() {
		if s.Terminal() != (len(runNext[s]) == 0) {
			t.Errorf("%s: terminal states are those that nothing follows", s)
		}
	}
}

func TestTheNodeTableIsTheDrawnOne(t *testing.T) {
	got := draw(append([]NodeStatus{""}, NodeStatuses()...), NodeStatuses(), NodeStatus.CanBecome)
	if diff := cmp.Diff(strings.Fields(nodeTable), strings.Fields(got)); diff != "" {
		t.Errorf("-drawn +table:\n%s\n%s", diff, got)
	}
	for _, s := range NodeStatuses() {
		if s.Terminal() != (len(nodeNext[s]) == 0) {
			t.Errorf("%s: terminal states are those that nothing follows", s)
		}
	}
}

func TestTheKindsOfEventsAreAClosedList(t *testing.T) {
	var b strings.Builder
	seen := map[EventKind]bool{}
	for _, k := range Kinds() {
		if seen[k] {
			t.Errorf("%s stands twice", k)
		}
		seen[k] = true
		b.WriteString(string(k))
		if k.Chunk() {
			b.WriteString(" chunk")
		}
		if k.Terminal() {
			b.WriteString(" terminal")
		}
		b.WriteString("\n")
	}
	golden := filepath.Join("testdata", "kinds.golden")
	if *update {
		if err := os.WriteFile(golden, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), b.String()); diff != "" {
		t.Errorf("clients know this list (-golden +code):\n%s", diff)
	}
	for _, s := range RunStatuses() {
		if !seen[s.Event()] {
			t.Errorf("the entry into %s has no kind", s)
		}
	}
}
