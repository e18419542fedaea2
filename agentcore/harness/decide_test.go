package harness

import (
	"slices"
	"testing"
	"time"

	"github.com/workflowd/workflowd/agentcore/fault"
	"github.com/workflowd/workflowd/agentcore/llm"
	"github.com/workflowd/workflowd/agentcore/session"
)

func TestNext(t *testing.T) {
	dropped := &llm.Error{Class: llm.Connection, Message: "reset"}
	cases := []struct {
		name   string
		budget Budget
		resp   response
		want   action
		kind   RetryKind
		after  Budget
	}{
		{"text and a normal end answer the turn", Budget{Connection: 4}, response{stop: llm.StopEnd, spoke: true, produced: true}, answer, "", Budget{}},
		{"calls run, whatever reason the server names", Budget{}, response{stop: llm.StopEnd, calls: 1, produced: true}, round, "", Budget{}},
		{"a call beside the output limit never runs", Budget{}, response{stop: llm.StopLength, calls: 1, spoke: true, produced: true}, carryOn, Length, Budget{Length: 1}},
		{"a call beside a refusal never runs", Budget{}, response{stop: llm.StopRefusal, calls: 1}, fail, "", Budget{}},
		{"a refusal with words is the answer", Budget{}, response{stop: llm.StopRefusal, spoke: true}, answer, "", Budget{}},
		{"a drop without output sends the same request again", Budget{}, response{err: dropped}, resend, Dropped, Budget{Connection: 1}},
		{"a drop with output is carried on", Budget{Connection: 3}, response{err: dropped, produced: true}, carryOn, Dropped, Budget{Connection: 4}},
		{"the tenth attempt is allowed", Budget{Connection: 9}, response{err: dropped}, resend, Dropped, Budget{Connection: 10}},
		{"an eleventh is not", Budget{Connection: 10}, response{err: dropped}, fail, "", Budget{}},
		{"an eleventh continuation is not", Budget{Connection: 10}, response{err: dropped, produced: true}, fail, "", Budget{}},
		{"a second output-limit continuation is allowed", Budget{Length: 1}, response{stop: llm.StopLength, spoke: true}, carryOn, Length, Budget{Length: 2}},
		{"a third is not", Budget{Length: 2}, response{stop: llm.StopLength, spoke: true}, fail, "", Budget{}},
		{"the output limit does not use the connection budget", Budget{Connection: 10}, response{stop: llm.StopLength}, carryOn, Length, Budget{Connection: 10, Length: 1}},
		{"a call that never came is asked for again", Budget{}, response{stop: llm.StopToolUse, spoke: true}, carryOn, LostCall, Budget{Connection: 1, LostCalls: 1}},
		{"lost calls share the connection budget", Budget{Connection: 10, LostCalls: 3}, response{stop: llm.StopToolUse}, fail, "", Budget{}},
		{"a lost name is a lost call even at a normal end", Budget{}, response{stop: llm.StopEnd, spoke: true, lost: 2}, carryOn, LostCall, Budget{Connection: 1, LostCalls: 2}},
		{"an empty end is asked once for an answer", Budget{}, response{stop: llm.StopEnd}, carryOn, "", Budget{Empty: 1}},
		{"a second empty end fails", Budget{Empty: 1}, response{stop: llm.StopEnd}, fail, "", Budget{}},
		{"an empty end behind an interrupted piece completes it", Budget{Connection: 1}, response{stop: llm.StopEnd, before: true}, answer, "", Budget{}},
		{"auth is final", Budget{}, response{err: &llm.Error{Class: llm.Auth, Status: 401}}, fail, "", Budget{}},
		{"a quota is final", Budget{}, response{err: &llm.Error{Class: llm.Quota, Status: 429}, produced: true}, fail, "", Budget{}},
		{"a wait beyond a minute is final", Budget{}, response{err: &llm.Error{Class: llm.RateLimit, RetryAfter: 61 * time.Second}}, fail, "", Budget{}},
		{"our own stop leaves the turn to the abort phase", Budget{}, response{err: &llm.Error{Class: llm.Canceled}}, abandon, "", Budget{}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			// Promise: P-552, P-563, P-566, P-581, P-584, P-586, P-589
			d := next(c.budget, c.resp)
			if d.act != c.want || d.kind != c.kind || d.budget != c.after {
				t.Errorf("next(%+v, %+v) = %+v, want action %d kind %q budget %+v", c.budget, c.resp, d, c.want, c.kind, c.after)
			}
			if d.act == fail && (d.reason == "" || d.failure == "") {
				t.Errorf("a failure without reason or kind: %+v", d)
			}
		})
	}
	if d := next(Budget{Empty: 1}, response{stop: llm.StopEnd}); d.failure != fault.EmptyAnswer {
		t.Errorf("second empty end = %q, want %q", d.failure, fault.EmptyAnswer)
	}
}

// Promise: P-556, P-567
func TestBackoffDoublesUpToItsCapAndHonoursTheServer(t *testing.T) {
	for _, c := range []struct {
		attempt int
		after   time.Duration
		want    time.Duration
	}{{1, 0, BaseBackoff}, {2, 0, 2 * BaseBackoff}, {6, 0, MaxBackoff}, {10, 0, MaxBackoff}, {1, 2 * time.Second, 2 * time.Second}, {1, time.Minute, MaxBackoff}} {
		if got := backoff(c.attempt, c.after); got != c.want {
			t.Errorf("backoff(%d, %v) = %v, want %v", c.attempt, c.after, got, c.want)
		}
	}
}

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
		return queued{sub: session.Submission{ID: id}, input: submitted{Mode: Steer}}
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
