package workflowtest_test

import (
	"errors"
	"iter"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/workflowd/workflowd/executor"
	"github.com/workflowd/workflowd/workflow"
	"github.com/workflowd/workflowd/workflowtest"
)

// eventful shows every kind of line that a log has.
var eventful = workflow.MustDefine("eventful", 1, func(b builder, in workflow.Ref[int]) workflow.Ref[int] {
	words := workflow.ThenStream(b, in, workflow.StreamFunc("words",
		func(c ctx, _ int) iter.Seq2[string, error] {
			return func(yield func(string, error) bool) {
				for _, w := range []string{"a", "b", "c", "d", "e", "f"} {
					if !yield(w, nil) {
						return
					}
				}
				if c.Run().Attempt == 1 {
					yield("", errors.New("lost the thread"))
				}
			}
		},
		func(_ ctx, n int, _ iter.Seq[string]) (int, error) { return n, nil }, workflow.Retry(2, time.Minute)))
	person := workflow.Then(b, words, node("person", func(c ctx, n int) (int, error) {
		if _, err := workflow.Recv[int](c, "ready", 0); err != nil {
			return 0, err
		}
		return workflow.Ask[string, int](c, "how many", "apples")
	}))
	twice := workflow.MustDefine("twice", 1, func(b builder, in workflow.Ref[int]) workflow.Ref[int] {
		return workflow.Then(b, in, node("double", func(c ctx, n int) (int, error) {
			return 2 * n, c.TokenUsage().Report("r", workflow.Usage{Input: 3, Output: 4})
		}))
	})
	looped := workflow.Loop(b, person, twice, func(n int) bool { return n > 20 }, 9)
	return workflow.Then(b, looped, node("end", func(ctx, int) (int, error) { return 0, errors.New("no room") }))
})

func TestALogReadsAsAStory(t *testing.T) {
	onEachStore(t, func(t *testing.T, options ...workflowtest.Option) {
		run := workflowtest.New(t, eventful, options...).Start(1, executor.Deadline(time.Now().Add(time.Hour)))
		for run.Log(); run.Rest() != "waiting"; { // its second attempt begins by itself
			<-time.After(time.Minute)
		}
		run.Signal("ready", 1)
		run.Question().Answer(12)
		run.Failure()
		want := `        0s run.queued
        0s run.running
        0s node.started words
        0s node.chunk words "a"
        0s node.chunk words "b"
        0s node.chunk words "c"
           … 3 more chunks of words
        0s node.sleeping words until 1m0s, node_failed: lost the thread
        0s run.sleeping until 1m0s
      1m0s run.running
      1m0s node.retracted words 6 chunks (attempt 2)
      1m0s node.started words (attempt 2)
      1m0s node.chunk words "a" (attempt 2)
      1m0s node.chunk words "b" (attempt 2)
      1m0s node.chunk words "c" (attempt 2)
           … 3 more chunks of words
      1m0s node.succeeded words (attempt 2)
      1m0s node.started person
      1m0s node.waiting person for signal "ready"
      1m0s run.waiting
      1m0s run.signalled ready
      1m0s run.running
      1m0s node.started person (attempt 2)
      1m0s request.opened person how many "apples" (attempt 2)
      1m0s node.waiting person for an answer (attempt 2)
      1m0s run.waiting
      1m0s request.answered person 12
      1m0s run.running
      1m0s node.started person (attempt 3)
      1m0s node.succeeded person (attempt 3)
      1m0s node.started twice/double
      1m0s usage.recorded twice/double 3 tokens in, 4 out
      1m0s node.succeeded twice/double
      1m0s node.started end
      1m0s node.failed end node_failed: no room
      1m0s run.failed node_failed: no room`
		if diff := cmp.Diff(want, run.Log()); diff != "" {
			t.Errorf("-want +got:\n%s", diff)
		}
		run.WantNodes("words", "words", "person", "person", "person", "twice/double", "end")
		run.WantTimes("twice/double", 1)
	})
}

func TestVisitsOfALoopAreNumbered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		body := chain("double", node("twice", func(_ ctx, n int) (int, error) { return 2 * n, nil }))
		env := workflowtest.New(t, workflow.MustDefine("grows", 1, func(b builder, in workflow.Ref[int]) workflow.Ref[int] {
			return workflow.Loop(b, in, body, func(n int) bool { return n > 20 }, 9)
		}))
		run := env.Start(6)
		run.Result()
		run.WantNodes("double/twice", "double/twice#2")
		run.WantTimes("double/twice", 2)
		run.WantLog("node.started double/twice", "node.started double/twice#2", "run.succeeded")
	})
}

func TestWhatALogLacksIsSaidBesideTheLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := "0s node.started one\n        0s node.succeeded one\n        0s run.succeeded"
		for name, test := range map[string]struct {
			check func(*workflowtest.Run[int])
			want  string
		}{
			"another node":    {func(r *workflowtest.Run[int]) { r.WantNodes("two") }, "nodes entered:\n got one\nwant two\n"},
			"one node more":   {func(r *workflowtest.Run[int]) { r.WantNodes("one", "two") }, "nodes entered:\n got one\nwant one two\n"},
			"too often":       {func(r *workflowtest.Run[int]) { r.WantTimes("one", 0) }, `node "one": entered 1 times, want 0`},
			"a missing line":  {func(r *workflowtest.Run[int]) { r.WantLog("node.failed one") }, `log: no "node.failed one" from the start on`},
			"another order":   {func(r *workflowtest.Run[int]) { r.WantLog("run.succeeded", "node.started one") }, `log: no "node.started one" behind "run.succeeded"`},
			"half of a word":  {func(r *workflowtest.Run[int]) { r.WantLog("node.start") }, `log: no "node.start" from the start on`},
			"a line twice":    {func(r *workflowtest.Run[int]) { r.WantLog("node.started one", "node.started one") }, `log: no "node.started one" behind "node.started one"`},
			"more of a line":  {func(r *workflowtest.Run[int]) { r.WantLog("node.started one (attempt 2)") }, `log: no "node.started one (attempt 2)" from the start on`},
			"a failure":       {func(r *workflowtest.Run[int]) { r.Failure() }, "failure: the run has succeeded with 2"},
			"a question":      {func(r *workflowtest.Run[int]) { r.Question() }, "question: the run has succeeded without one"},
			"a late signal":   {func(r *workflowtest.Run[int]) { r.Signal("x", 1) }, `signal "x": run `},
			"a missing file":  {func(r *workflowtest.Run[int]) { r.Record("testdata/none.json") }, "record: stat testdata/none.json"},
			"no such payload": {func(r *workflowtest.Run[int]) { r.Signal("x", make(chan int)) }, `signal "x": json: unsupported type`},
		} {
			said := failing(t, func(t testing.TB) {
				run := workflowtest.New(t, chain("short", add("one", 1))).Start(1)
				run.Result()
				test.check(run)
			})
			wantSaid(t, said, test.want)
			if name != "a missing file" {
				wantSaid(t, said, log)
			}
		}
	})
}
