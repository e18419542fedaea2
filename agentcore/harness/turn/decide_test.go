package turn

import (
	"testing"
	"time"

	"github.com/workflowd/workflowd/agentcore/fault"
	"github.com/workflowd/workflowd/agentcore/llm"
)

func TestNext(t *testing.T) {
	dropped := &llm.Error{Class: llm.Connection, Message: "reset"}
	cases := []struct {
		name   string
		budget Budget
		resp   Response
		want   Action
		kind   RetryKind
		after  Budget
	}{
		{"text and a normal end answer the turn", Budget{Connection: 4}, Response{Stop: llm.StopEnd, Spoke: true, Produced: true}, Answer, "", Budget{}},
		{"calls run, whatever reason the server names", Budget{}, Response{Stop: llm.StopEnd, Calls: 1, Produced: true}, Round, "", Budget{}},
		{"a call beside the output limit never runs", Budget{}, Response{Stop: llm.StopLength, Calls: 1, Spoke: true, Produced: true}, CarryOn, Length, Budget{Length: 1}},
		{"a call beside a refusal never runs", Budget{}, Response{Stop: llm.StopRefusal, Calls: 1}, Fail, "", Budget{}},
		{"a refusal with words is the answer", Budget{}, Response{Stop: llm.StopRefusal, Spoke: true}, Answer, "", Budget{}},
		{"a drop without output sends the same request again", Budget{}, Response{Err: dropped}, Resend, Dropped, Budget{Connection: 1}},
		{"a drop with output is carried on", Budget{Connection: 3}, Response{Err: dropped, Produced: true}, CarryOn, Dropped, Budget{Connection: 4}},
		{"the tenth attempt is allowed", Budget{Connection: 9}, Response{Err: dropped}, Resend, Dropped, Budget{Connection: 10}},
		{"an eleventh is not", Budget{Connection: 10}, Response{Err: dropped}, Fail, "", Budget{}},
		{"an eleventh continuation is not", Budget{Connection: 10}, Response{Err: dropped, Produced: true}, Fail, "", Budget{}},
		{"a second output-limit continuation is allowed", Budget{Length: 1}, Response{Stop: llm.StopLength, Spoke: true}, CarryOn, Length, Budget{Length: 2}},
		{"a third is not", Budget{Length: 2}, Response{Stop: llm.StopLength, Spoke: true}, Fail, "", Budget{}},
		{"the output limit does not use the connection budget", Budget{Connection: 10}, Response{Stop: llm.StopLength}, CarryOn, Length, Budget{Connection: 10, Length: 1}},
		{"a call that never came is asked for again", Budget{}, Response{Stop: llm.StopToolUse, Spoke: true}, CarryOn, LostCall, Budget{Connection: 1, LostCalls: 1}},
		{"lost calls share the connection budget", Budget{Connection: 10, LostCalls: 3}, Response{Stop: llm.StopToolUse}, Fail, "", Budget{}},
		{"a lost name is a lost call even at a normal end", Budget{}, Response{Stop: llm.StopEnd, Spoke: true, Lost: 2}, CarryOn, LostCall, Budget{Connection: 1, LostCalls: 2}},
		{"an empty end is asked once for an answer", Budget{}, Response{Stop: llm.StopEnd}, CarryOn, "", Budget{Empty: 1}},
		{"a second empty end fails", Budget{Empty: 1}, Response{Stop: llm.StopEnd}, Fail, "", Budget{}},
		{"an empty end behind an interrupted piece completes it", Budget{Connection: 1}, Response{Stop: llm.StopEnd, Before: true}, Answer, "", Budget{}},
		{"auth is final", Budget{}, Response{Err: &llm.Error{Class: llm.Auth, Status: 401}}, Fail, "", Budget{}},
		{"a quota is final", Budget{}, Response{Err: &llm.Error{Class: llm.Quota, Status: 429}, Produced: true}, Fail, "", Budget{}},
		{"a wait beyond a minute is final", Budget{}, Response{Err: &llm.Error{Class: llm.RateLimit, RetryAfter: 61 * time.Second}}, Fail, "", Budget{}},
		{"our own stop leaves the turn to the abort phase", Budget{}, Response{Err: &llm.Error{Class: llm.Canceled}}, Abandon, "", Budget{}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			// Promise: P-552, P-563, P-566, P-581, P-584, P-586, P-589
			d := Next(c.budget, c.resp)
			if d.Act != c.want || d.Kind != c.kind || d.Budget != c.after {
				t.Errorf("Next(%+v, %+v) = %+v, want action %d kind %q budget %+v", c.budget, c.resp, d, c.want, c.kind, c.after)
			}
			if d.Act == Fail && (d.Reason == "" || d.Failure == "") {
				t.Errorf("a failure without reason or kind: %+v", d)
			}
		})
	}
	if d := Next(Budget{}, Response{Stop: llm.StopRefusal, StopWhy: "too risky"}); d.Act != Fail || d.Reason != "the provider withheld the answer: too risky" {
		t.Errorf("a refusal without an answer = %+v", d)
	}
	if d := Next(Budget{Empty: 1}, Response{Stop: llm.StopEnd}); d.Failure != fault.EmptyAnswer {
		t.Errorf("second empty end = %q, want %q", d.Failure, fault.EmptyAnswer)
	}
}

// Promise: P-556, P-567
func TestBackoffDoublesUpToItsCapAndHonoursTheServer(t *testing.T) {
	for _, c := range []struct {
		attempt int
		after   time.Duration
		want    time.Duration
	}{{1, 0, BaseBackoff}, {2, 0, 2 * BaseBackoff}, {6, 0, MaxBackoff}, {10, 0, MaxBackoff}, {1, 2 * time.Second, 2 * time.Second}, {1, time.Minute, MaxBackoff}} {
		if got := Backoff(c.attempt, c.after); got != c.want {
			t.Errorf("Backoff(%d, %v) = %v, want %v", c.attempt, c.after, got, c.want)
		}
	}
}
