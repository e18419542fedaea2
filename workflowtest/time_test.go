package workflowtest_test

import (
	"encoding/json"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/workflowd/workflowd/agentcore/fault"
	"github.com/workflowd/workflowd/executor"
	"github.com/workflowd/workflowd/executor/runlog"
	"github.com/workflowd/workflowd/workflow"
	"github.com/workflowd/workflowd/workflow/userinput"
	"github.com/workflowd/workflowd/workflowtest"
)

// Whatever a run waits for, a test does not.
func TestWaitingTakesTheRunsTimeAndNoneOfTheTests(t *testing.T) {
	for _, test := range []struct {
		name  string
		node  func(ctx, int) (int, error)
		retry workflow.NodeOption
		takes time.Duration
		want  int
		fails fault.Kind
	}{
		{
			name: "a sleep", takes: 90 * 24 * time.Hour, want: 1,
			node: func(c ctx, n int) (int, error) { return n, workflow.Sleep(c, "quarter", 90*24*time.Hour) },
		},
		{
			name: "the wait between attempts", takes: 30 * time.Minute, want: 3, retry: workflow.Retry(3, 10*time.Minute),
			node: func(c ctx, n int) (int, error) {
				if c.Run().Attempt < 3 {
					return 0, errors.New("the bank is closed")
				}
				return c.Run().Attempt, nil
			},
		},
		{
			name: "a question that expires", takes: 48 * time.Hour, want: -1,
			node: func(c ctx, n int) (int, error) {
				_, err := c.UserInput().Request(userinput.Request{Key: "sure", Kind: userinput.Question, Expires: 48 * time.Hour})
				if fault.Is(err, workflow.DeadlineExceeded) {
					return -1, nil
				}
				return n, err
			},
		},
		{
			name: "a signal that does not come", takes: time.Hour, fails: workflow.DeadlineExceeded,
			node: func(c ctx, n int) (int, error) { return workflow.Recv[int](c, "go", time.Hour) },
		},
		{
			name: "a node's own timer", takes: time.Minute, want: 1,
			node: func(c ctx, n int) (int, error) {
				select {
				case <-time.After(time.Minute):
					return n, nil
				case <-c.Done():
					return 0, c.Err()
				}
			},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			onEachStore(t, func(t *testing.T, options ...workflowtest.Option) {
				var retry []workflow.NodeOption
				if test.retry != nil {
					retry = append(retry, test.retry)
				}
				began := time.Now()
				run := workflowtest.New(t, chain("waits", node("wait", test.node, retry...)), options...).Start(1)
				if test.fails != "" {
					if f := run.Failure(); f.Kind != test.fails {
						t.Errorf("failed with %s: %s", f.Kind, f.Message)
					}
				} else if got := run.Result(); got != test.want {
					t.Errorf("got %d, want %d", got, test.want)
				}
				if took := time.Since(began); took != test.takes {
					t.Errorf("took %v, want %v\n%s", took, test.takes, run.Log())
				}
			})
		})
	}
}

func TestARunExpiresAtItsDeadline(t *testing.T) {
	onEachStore(t, func(t *testing.T, options ...workflowtest.Option) {
		asking := node("ask", func(c ctx, n int) (int, error) { return workflow.Ask[int, int](c, "how many", n) })
		env := workflowtest.New(t, chain("late", asking), options...)
		run := env.Start(1, executor.Deadline(time.Now().Add(time.Hour)))
		run.Question() // does not wait for the deadline
		if got := run.Rest(); got != runlog.Waiting {
			t.Errorf("it is %s", got)
		}
		if f := run.Failure(); f.Kind != workflow.DeadlineExceeded {
			t.Errorf("failed with %s: %s", f.Kind, f.Message)
		}
		run.WantLog("request.opened ask", "request.withdrawn ask", "run.expired")
	})
}

func TestAQuestionIsWaitedForAcrossASleepAndAnswered(t *testing.T) {
	type sure struct {
		Yes bool `json:"yes"`
	}
	onEachStore(t, func(t *testing.T, options ...workflowtest.Option) {
		slow := node("slow", func(c ctx, n int) (int, error) { return n, workflow.Sleep(c, "a week", 7*24*time.Hour) })
		asking := node("ask", func(c ctx, n int) (int, error) {
			a, err := workflow.Ask[int, sure](c, "sure", n)
			if a.Yes {
				return n + 1, err
			}
			return 0, err
		})
		run := workflowtest.New(t, chain("asks", slow, asking, add("one", 1)), options...).Start(5)
		if got := run.Questions(); len(got) != 0 {
			t.Errorf("%d questions are open while it sleeps", len(got))
		}
		q := run.Question()
		if q.Key != "sure" || q.Node.Path != "ask" || string(q.Payload) != "5" {
			t.Errorf("asked %+v", q.Request)
		}
		q.Answer(sure{true})
		if got := run.Result(); got != 7 {
			t.Errorf("got %d", got)
		}
		run.WantNodes("slow", "slow", "ask", "ask", "one")
	})
}

func TestSeveralQuestionsAreAnsweredOneByOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		each := node("each", func(c ctx, n int) (int, error) { return workflow.Ask[int, int](c, "how many", n) })
		env := workflowtest.New(t, workflow.MustDefine("poll", 1, func(b builder, in workflow.Ref[[]int]) workflow.Ref[[]int] {
			return workflow.Map(b, in, each)
		}))
		run := env.Start([]int{10, 20, 30})
		for i, q := range run.Questions() {
			q.Answer(i)
		}
		if got := run.Result(); len(got) != 3 || got[0] != 0 || got[2] != 2 {
			t.Errorf("got %v", got)
		}
	})
}

func TestSignalsReachTheRun(t *testing.T) {
	onEachStore(t, func(t *testing.T, options ...workflowtest.Option) {
		counting := node("count", func(c ctx, n int) (int, error) {
			for range 2 {
				more, err := workflow.Recv[int](c, "more", 0)
				if err != nil {
					return 0, err
				}
				n += more
			}
			return n, nil
		})
		run := workflowtest.New(t, chain("counts", counting), options...).Start(1)
		run.Signal("more", 10)
		if got := run.Rest(); got != runlog.Waiting {
			t.Errorf("it is %s", got)
		}
		run.Signal("more", 100)
		if got := run.Result(); got != 111 {
			t.Errorf("got %d", got)
		}
	})
}

func TestACancelledRunCleansUp(t *testing.T) {
	onEachStore(t, func(t *testing.T, options ...workflowtest.Option) {
		env := workflowtest.New(t, workflow.MustDefine("long", 1, func(b builder, in workflow.Ref[int]) workflow.Ref[int] {
			long := workflow.Then(b, in, node("long", func(c ctx, n int) (int, error) { return n, workflow.Sleep(c, "ever", 1000*time.Hour) }))
			return workflow.Finally(b, long, node("tidy", func(ctx, workflow.Failure) (bool, error) { return true, nil }))
		}), options...)
		run := env.Start(1)
		run.Rest()
		run.Cancel("enough")
		if f := run.Failure(); f.Kind != fault.ExecutionAborted || f.Message != "enough" {
			t.Errorf("failed with %+v", f)
		}
		run.WantLog("run.cancelling enough", "node.aborted long", "node.succeeded tidy", "run.aborted enough")
	})
}

func TestTheEngineIsAtHandForTheRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		env := workflowtest.New(t, chain("short", add("one", 1)))
		run := env.Start(1, executor.Labels(map[string]string{"team": "a"}))
		run.Result()
		record, err := env.Engine().Run(run.ID())
		if err != nil || record.Labels["team"] != "a" || string(record.Output) != "2" {
			t.Errorf("%+v, %v", record, err)
		}
		if _, err := env.Engine().Start(t.Context(), executor.Start{Workflow: "short", Input: json.RawMessage(`"x"`)}); !fault.Is(err, fault.InputValidation) {
			t.Errorf("a wrong input: %v", err)
		}
	})
}
