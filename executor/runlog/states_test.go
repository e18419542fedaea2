package runlog

import (
	"strings"
	"testing"

	"github.com/workflowd/workflowd/internal/docblock"
)

const statesPage = "../../docs/states.md"

// row renders one state and what may follow it.
func row[S ~string](s S, all []S, becomes func(S) bool) []string {
	var next []string
	for _, to := range all {
		if becomes(to) {
			next = append(next, string(to))
		}
	}
	name := string(s)
	if name == "" {
		name = "(no record)"
	}
	if len(next) == 0 {
		next = []string{"final"}
	}
	return []string{name, strings.Join(next, ", ")}
}

func TestThePageShowsTheStatesOfRunsAndNodes(t *testing.T) {
	head := []string{"state", "may become"}
	var runs, nodes [][]string
	for _, s := range RunStatuses() {
		runs = append(runs, row(s, RunStatuses(), s.CanBecome))
	}
	for _, s := range append([]NodeStatus{""}, NodeStatuses()...) {
		nodes = append(nodes, row(s, NodeStatuses(), s.CanBecome))
	}
	docblock.Check(t, statesPage, "run states", docblock.Table(head, runs), *update)
	docblock.Check(t, statesPage, "node states", docblock.Table(head, nodes), *update)
}
