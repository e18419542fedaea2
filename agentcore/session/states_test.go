package session

import (
	"flag"
	"strings"
	"testing"

	"github.com/workflowd/workflowd/internal/docblock"
)

var update = flag.Bool("update", false, "rewrite the table of docs/states.md; review the difference")

func TestThePageShowsTheStatesOfSubmissions(t *testing.T) {
	all := []SubmissionStatus{SubmissionQueued, SubmissionPlaced, SubmissionAnswered, SubmissionUnanswered, SubmissionWithdrawn}
	var rows [][]string
	for _, s := range all {
		var next []string
		for _, to := range all {
			if to != s && s.leadsTo(to) {
				next = append(next, string(to))
			}
		}
		if len(next) == 0 {
			next = []string{"final"}
		}
		rows = append(rows, []string{string(s), strings.Join(next, ", ")})
	}
	docblock.Check(t, "../../docs/states.md", "submission states", docblock.Table([]string{"state", "may become"}, rows), *update)
}
