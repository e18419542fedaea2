package executor_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/workflowd/workflowd/agentcore/fault"
	"github.com/workflowd/workflowd/executor"
	"github.com/workflowd/workflowd/executor/runlog"
	"github.com/workflowd/workflowd/workflow"
	"github.com/workflowd/workflowd/workflow/userinput"
)

// onEachStoreInTime is onEachStore on a clock that jumps to the next time at which something happens.
func onEachStoreInTime(t *testing.T, test func(*testing.T, host)) {
	t.Helper()
	for _, kind := range []string{"memory", "file"} {
		t.Run(kind, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { onStore(t, kind, test) })
		})
	}
}

// asked returns the run's only request.
func asked[Out any](t *testing.T, e *executor.Engine, run *executor.Run[Out]) runlog.Request {
	t.Helper()
	list, err := e.Requests(runlog.RequestQuery{Run: run.ID()})
	if err != nil || len(list) != 1 {
		t.Fatalf("%d requests, %v", len(list), err)
	}
	return list[0]
}

// hasty gives people an hour.
func hasty() *workflow.Workflow[int, string] {
	return workflow.MustDefine("hasty", 1, func(b builder, in workflow.Ref[int]) workflow.Ref[string] {
		return workflow.Then(b, in, fn("ask", func(c ctx, n int) (string, error) {
			a, err := workflow.Ask[int, answer](c, "sure", n, userinput.Expires(time.Hour), userinput.Title("Sure?"))
			return fmt.Sprint("answered ", a.Yes), err
		}))
	})
}

func TestARequestThatNobodyAnswersInTimeEnds(t *testing.T) {
	onEachStoreInTime(t, func(t *testing.T, h host) {
		begin := time.Now()
		e := h(t)
		run := start(t, register(t, e, hasty()), 1)
		until(t, run, runlog.RunWaiting, 1)
		q := asked(t, e, run)
		if q.Title != "Sure?" || !q.ExpiresAt.Equal(begin.Add(time.Hour)) {
			t.Errorf("%q expires at %v, asked at %v", q.Title, q.ExpiresAt, begin)
		}
		<-time.After(50 * time.Minute)
		leave(t, e) // the time goes on while nobody is there
		e = h(t)
		register(t, e, hasty())
		run = attach[string](t, e, run.ID())
		_, err := run.Result(t.Context())
		if !fault.Is(err, workflow.DeadlineExceeded) || !strings.Contains(err.Error(), q.ID) {
			t.Errorf("got %v", err)
		}
		if passed := time.Since(begin).Round(time.Second); passed != time.Hour {
			t.Errorf("it ended after %v", passed)
		}
		if q := asked(t, e, run); q.Status != runlog.RequestIsExpired {
			t.Errorf("the request is %s", q.Status)
		}
		if _, err := run.Answer(t.Context(), q.ID, answer{true}, "ann"); !fault.Is(err, fault.Conflict) {
			t.Errorf("an answer after the end: %v", err)
		}
		want := `run.queued
run.running
node.started ask#1.1
request.opened ask#1.1
node.waiting ask#1.1
run.waiting
request.expired ask#1.0
run.running
node.started ask#1.2
node.failed ask#1.2
run.failed`
		if diff := cmp.Diff(want, wholeStory(t, run)); diff != "" {
			t.Error(diff)
		}
	})
}

func TestAnAnswerInTimeCounts(t *testing.T) {
	onEachStoreInTime(t, func(t *testing.T, h host) {
		e := h(t)
		run := start(t, register(t, e, hasty()), 1)
		until(t, run, runlog.RunWaiting, 1)
		<-time.After(59 * time.Minute)
		if _, err := run.Answer(t.Context(), asked(t, e, run).ID, answer{true}, "ann"); err != nil {
			t.Fatal(err)
		}
		if got := result(t, run); got != "answered true" {
			t.Errorf("got %q", got)
		}
	})
}

// A run that nobody advances does not see its time pass; the answer is late all the same.
func TestAnAnswerAfterTheTimeIsLateAlsoWhenNobodyWatched(t *testing.T) {
	onEachStoreInTime(t, func(t *testing.T, h host) {
		e := h(t)
		run := start(t, register(t, e, hasty()), 1)
		until(t, run, runlog.RunWaiting, 1)
		leave(t, e)
		<-time.After(2 * time.Hour)
		e = h(t, executor.Foreground()) // takes nothing up by itself
		q := asked(t, e, run)
		if q.Status != runlog.RequestOpen {
			t.Fatalf("the request is %s already", q.Status)
		}
		if _, err := e.Answer(t.Context(), q.ID, json.RawMessage(`{"yes":true}`), "ann"); !fault.Is(err, fault.Conflict) || !strings.Contains(err.Error(), "expired") {
			t.Errorf("got %v", err)
		}
		register(t, e, hasty())
		if _, err := attach[string](t, e, run.ID()).Result(t.Context()); !fault.Is(err, workflow.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
	})
}

func TestARequestThatNobodyCouldAnswerIsRefused(t *testing.T) {
	for name, request := range map[string]userinput.Request{
		"no key":           {Kind: userinput.Question},
		"no kind":          {Key: "k"},
		"unknown kind":     {Key: "k", Kind: "guess"},
		"expired before":   {Key: "k", Kind: userinput.Question, Expires: -time.Second},
		"a broken schema":  {Key: "k", Kind: userinput.Question, Schema: json.RawMessage(`{"type":7}`)},
		"a schema in text": {Key: "k", Kind: userinput.Question, Schema: json.RawMessage(`{`)},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { // which ends when everybody waits
				e := open(t, runlog.NewMemory())
				run := start(t, register(t, e, workflow.MustDefine("bad", 1, func(b builder, in workflow.Ref[int]) workflow.Ref[string] {
					return workflow.Then(b, in, fn("ask", func(c ctx, _ int) (string, error) {
						raw, err := c.UserInput().Request(request)
						return string(raw), err
					}))
				})), 1)
				if _, err := run.Result(t.Context()); !fault.Is(err, fault.InputValidation) {
					t.Errorf("got %v", err)
				}
			})
		})
	}
}
