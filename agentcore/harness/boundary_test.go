package harness

import (
	"slices"
	"testing"
	"time"

	"github.com/workflowd/workflowd/agentcore/control"
	"github.com/workflowd/workflowd/agentcore/session"
)

func TestTheCommitIntervalStretchesUnderLoad(t *testing.T) {
	for _, c := range []struct{ took, want time.Duration }{
		{0, PartialInterval}, {time.Millisecond, PartialInterval}, {10 * time.Millisecond, 40 * time.Millisecond}, {time.Second, PartialStretch},
	} {
		if got := interval(c.took); got != c.want {
			t.Errorf("interval(%v) = %v, want %v", c.took, got, c.want)
		}
	}
}

func TestABoundaryPlacesResetsAndOneInput(t *testing.T) {
	follow := func(id session.SubmissionID) queued { return queued{sub: session.Submission{ID: id}} }
	steer := func(id session.SubmissionID) queued {
		return queued{sub: session.Submission{ID: id}, input: submitted{Mode: control.Steer}}
	}
	reset := func(id session.SubmissionID) queued {
		return queued{sub: session.Submission{ID: id}, input: submitted{Reset: &resetData{}}}
	}
	for _, c := range []struct {
		name   string
		at     boundary
		queue  []queued
		resets []int
		input  int
	}{
		{"nothing waits", atEnd, nil, nil, -1},
		{"the oldest steer joins behind a round", afterTools, []queued{follow(1), steer(2), steer(3)}, nil, 1},
		{"no follow-up joins behind a round", afterTools, []queued{follow(1)}, nil, -1},
		{"a steer comes before an older follow-up at a turn's end", atEnd, []queued{follow(1), steer(2)}, nil, 1},
		{"without a steer the oldest follow-up has its turn", atEnd, []queued{follow(1), follow(2)}, nil, 0},
		{"a held queue goes on with its oldest input", atRest, []queued{follow(1), steer(2)}, nil, 0},
		{"all resets are placed, and the input behind them", atEnd, []queued{reset(1), follow(2), reset(3)}, []int{0, 2}, 1},
		{"resets need no input", atRest, []queued{reset(1)}, []int{0}, -1},
	} {
		t.Run(c.name, func(t *testing.T) {
			resets, input := selectAt(c.at, c.queue)
			if !slices.Equal(resets, c.resets) || input != c.input {
				t.Errorf("got resets %v and input %d, want %v and %d", resets, input, c.resets, c.input)
			}
		})
	}
}
