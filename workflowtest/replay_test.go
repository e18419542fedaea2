package workflowtest_test

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/workflowd/workflowd/agentcore"
	"github.com/workflowd/workflowd/agentcore/fault"
	"github.com/workflowd/workflowd/agentcore/llm/scripted"
	"github.com/workflowd/workflowd/executor"
	"github.com/workflowd/workflowd/nodes/agentnode"
	"github.com/workflowd/workflowd/workflow"
	"github.com/workflowd/workflowd/workflowtest"
)

var update = flag.Bool("update", false, "rewrite the recordings and golden files")

// order is one version of a workflow, as the cases of the tests change it.
type order struct {
	version int
	price   func(int) int                                               // pure
	nodes   func(b builder, in workflow.Ref[int]) workflow.Ref[int]     // between the price and the choice
	choose  func(int) string                                            // pure
	done    func(int) bool                                              // pure, ends the loop
	end     func(b builder, in workflow.Ref[int]) workflow.Ref[int]     // last
	each    func(b builder, in workflow.Ref[[]int]) workflow.Ref[[]int] // the map
}

// older is how the recorded runs were made.
func older() order {
	return order{
		version: 1,
		price:   func(n int) int { return 3 * n },
		nodes:   func(b builder, in workflow.Ref[int]) workflow.Ref[int] { return workflow.Then(b, in, add("tax", 2)) },
		choose: func(n int) string {
			if n < 10 {
				return "small"
			}
			return "large"
		},
		done: func(n int) bool { return n > 20 },
		end:  func(_ builder, in workflow.Ref[int]) workflow.Ref[int] { return in },
		each: func(b builder, in workflow.Ref[[]int]) workflow.Ref[[]int] {
			return workflow.Map(b, in, add("wrap", 1))
		},
	}
}

func (o order) workflow() *workflow.Workflow[int, int] {
	type builds = func(builder, workflow.Ref[int]) workflow.Ref[int]
	grow := workflow.MustDefine("grow", 1, func(b builder, in workflow.Ref[int]) workflow.Ref[int] {
		return workflow.Then(b, in, add("more", 5))
	})
	return workflow.MustDefine("order", o.version, func(b builder, in workflow.Ref[int]) workflow.Ref[int] {
		priced := o.nodes(b, workflow.Apply(b, in, o.price))
		chosen := workflow.Switch(b, priced, o.choose, map[string]builds{
			"small": func(b builder, in workflow.Ref[int]) workflow.Ref[int] { return workflow.Then(b, in, add("letter", 0)) },
			"large": func(b builder, in workflow.Ref[int]) workflow.Ref[int] { return workflow.Then(b, in, add("parcel", 0)) },
		})
		grown := workflow.Loop(b, chosen, grow, o.done, 9)
		list := o.each(b, workflow.Apply(b, grown, func(n int) []int { return []int{n, n} }))
		asked := workflow.Then(b, list, node("ask", func(c ctx, all []int) (int, error) {
			if all[0] > 100 {
				return 0, errors.New("too much")
			}
			return workflow.Ask[int, int](c, "how many", len(all))
		}))
		return o.end(b, asked)
	})
}

// with changes one thing.
func (o order) with(change func(*order)) order {
	change(&o)
	return o
}

func inserted(name string) func(builder, workflow.Ref[int]) workflow.Ref[int] {
	return func(b builder, in workflow.Ref[int]) workflow.Ref[int] {
		return workflow.Then(b, workflow.Then(b, in, add(name, 0)), add("tax", 2))
	}
}

// recordings writes a run that succeeded, one that waits, one that failed, one that was cancelled and one that expired, of
// the older version, and returns their files.
func recordings(t *testing.T) (pattern string) {
	t.Helper()
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		env := workflowtest.New(t, older().workflow())
		write := func(name string, run *workflowtest.Run[int]) {
			raw, err := workflowtest.Record(env.Engine(), run.ID())
			if err == nil {
				err = os.WriteFile(filepath.Join(dir, name+".json"), raw, 0o600)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		run := env.Start(2)
		run.Question()
		write("waits", run)
		run.Question().Answer(4)
		run.Result()
		write("succeeded", run)
		run = env.Start(200)
		run.Failure()
		write("failed", run)
		run = env.Start(2)
		run.Question()
		run.Cancel("enough")
		run.Failure()
		write("cancelled", run)
		run = env.Start(2, executor.Deadline(time.Now().Add(time.Hour)))
		run.Failure()
		write("expired", run)
	})
	return filepath.Join(dir, "*.json")
}

func TestARecordedRunIsReplayedAgainstAChange(t *testing.T) {
	files := recordings(t)
	live := strings.Replace(files, "*", "waits", 1)
	for _, test := range []struct {
		name  string
		files string
		next  order
		want  []string // nothing = it fits
	}{
		{name: "no change", files: files, next: older()},
		{name: "a new version of the same", files: files, next: older().with(func(o *order) { o.version = 2 })},
		{name: "a node behind all that was recorded", files: files, next: older().with(func(o *order) {
			o.version, o.end = 2, func(b builder, in workflow.Ref[int]) workflow.Ref[int] { return workflow.Then(b, in, add("last", 1)) }
		})},
		{name: "a change without a version", files: live, next: older().with(func(o *order) {
			o.end = func(b builder, in workflow.Ref[int]) workflow.Ref[int] { return workflow.Then(b, in, add("last", 1)) }
		}), want: []string{`a run of workflow "order" version 1 (waiting) does not fit`, "the graph is another one under the same version: give it version 2"}},
		{name: "a finished node that is gone", files: files, next: older().with(func(o *order) {
			o.version, o.nodes = 2, func(_ builder, in workflow.Ref[int]) workflow.Ref[int] { return in }
		}), want: []string{`node "tax" is gone`}},
		{name: "a finished node of another version", files: files, next: older().with(func(o *order) {
			o.version, o.nodes = 2, func(b builder, in workflow.Ref[int]) workflow.Ref[int] {
				return workflow.Then(b, in, node("tax", func(_ ctx, n int) (int, error) { return n, nil }, func(i *workflow.NodeInfo) { i.Version = 3 }))
			}
		}), want: []string{`node "tax" changed from version 0 to 3`}},
		{name: "a finished node with other types", files: files, next: older().with(func(o *order) {
			o.version, o.nodes = 2, func(b builder, in workflow.Ref[int]) workflow.Ref[int] {
				text := workflow.Then(b, in, node("tax", func(_ ctx, n int) (string, error) { return fmt.Sprint(n), nil }))
				return workflow.Apply(b, text, func(s string) int { return len(s) })
			}
		}), want: []string{`node "tax" gives another type: it was int {"type":`, `and is string {"type":"string"}`}},
		{name: "a finished node of another kind", files: files, next: older().with(func(o *order) {
			o.version, o.each = 2, func(b builder, in workflow.Ref[[]int]) workflow.Ref[[]int] {
				return workflow.Then(b, in, node("wrap", func(_ ctx, all []int) ([]int, error) { return all, nil }))
			}
		}), want: []string{`node "wrap" was a map, is a node`}},
		{name: "a node in the middle of what has ended", files: files, next: older().with(func(o *order) { o.version, o.nodes = 2, inserted("discount") }), want: []string{`node "tax" takes its input from discount, it was $input:apply; what it gave then would be kept`}},
		{name: "a pure step that computes another value", files: files, next: older().with(func(o *order) { o.price = func(n int) int { return 4 * n } }), want: []string{`step "$input:apply" (visit 1) comes to 8 now, in the recording to 6`}},
		{name: "a pure step that panics", files: live, next: older().with(func(o *order) { o.price = func(int) int { panic("no price") } }), want: []string{`step "$input:apply" (visit 1) comes to node "$input:apply": node_panicked: panic: no price now, in the recording to 6`}},
		{name: "a choice that falls otherwise", files: live, next: older().with(func(o *order) { o.choose = func(int) string { return "large" } }), want: []string{`step "tax:switch" (visit 1) comes to "large" now, in the recording to "small"`}},
		{name: "a loop that ends earlier", files: live, next: older().with(func(o *order) { o.done = func(n int) bool { return n > 10 } }), want: []string{`step "grow" (visit 1) comes to true now, in the recording to false`}},
	} {
		t.Run(test.name, func(t *testing.T) {
			said := failing(t, func(t testing.TB) { workflowtest.Replay(t, test.next.workflow(), test.files) })
			if len(test.want) == 0 && said != "" {
				t.Errorf("a change that fits is refused:\n%s", said)
			}
			wantSaid(t, said, test.want...)
		})
	}
}

func TestARecordingOfAnotherWorkflowOrNoRecordingIsRefused(t *testing.T) {
	files := recordings(t)
	broken := filepath.Join(t.TempDir(), "broken.json")
	if err := os.WriteFile(broken, []byte(`{"format":"x"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	said := failing(t, func(t testing.TB) {
		workflowtest.Replay(t, chain("other", add("one", 1)), strings.Replace(files, "*", "waits", 1))
		workflowtest.Replay(t, older().workflow(), broken, "testdata/none-*.json")
	})
	wantSaid(t, said, `the workflow is "other"`, `format is "x"`, "no recording testdata/none-*.json")
}

// The text of a recording is the same for every run that went the same way.
func TestARecordingHasNoTimesAndNoIDs(t *testing.T) {
	quick := ""
	branch := func(b builder, in workflow.Ref[agentcore.Input], name string) workflow.Ref[string] {
		said := workflow.Then(b, in, node(name, func(c ctx, _ agentcore.Input) (string, error) {
			if name != quick {
				<-time.After(time.Second)
			}
			return c.Run().RunID + " <&> " + c.Run().RunID, nil
		}))
		return workflow.Apply(b, said, func(s string) string { return name + ": " + s })
	}
	flow := workflow.MustDefine("says", 1, func(b builder, in workflow.Ref[agentcore.Input]) workflow.Ref[agentnode.Payload] {
		list := workflow.Join2(b, branch(b, in, "left"), branch(b, in, "right"), func(a, b string) []string { return []string{a, b} })
		each := workflow.Map(b, list, node("each", func(_ ctx, s string) (agentcore.Input, error) { return agentcore.Input{Prompt: s}, nil }))
		first := workflow.Apply(b, each, func(all []agentcore.Input) agentcore.Input { return all[0] })
		return workflow.ThenStream(b, first, agentnode.New(agentnode.Options{Name: "agent", Model: "m"})).From()
	})
	var texts []string
	for _, quick = range []string{"left", "right"} {
		onEachStore(t, func(t *testing.T, options ...workflowtest.Option) {
			env := workflowtest.New(t, flow, append(options, workflowtest.Model("agent", scripted.Responses(scripted.Say("well"))))...)
			run := env.Start(agentcore.Input{Prompt: "x"})
			run.Result()
			raw, err := workflowtest.Record(env.Engine(), run.ID())
			if err != nil {
				t.Fatal(err)
			}
			texts = append(texts, string(raw))
		})
	}
	for _, other := range texts[1:] {
		if diff := cmp.Diff(texts[0], other); diff != "" {
			t.Fatalf("two recordings of one story differ:\n%s", diff)
		}
	}
	wantSaid(t, texts[0], `"left: run_1 <&> run_1"`, `"path": "each[1]"`, `"itm_1"`)
}

func TestRecordWritesWhenToldAndReplaysOtherwise(t *testing.T) {
	file := filepath.Join(t.TempDir(), "deep", "order.json")
	record := func(o order) string {
		var said string
		synctest.Test(t, func(t *testing.T) {
			said = failing(t, func(t testing.TB) {
				run := workflowtest.New(t, o.workflow(), workflowtest.Stub("tax", func(_ ctx, n int) (int, error) { return n, nil })).Start(2)
				run.Question()
				run.Record(file)
			})
		})
		return said
	}
	wantSaid(t, record(older()), "record: stat ", "write it with: go test -run '^TestRecordWrites", "' . -update")
	set := func(value string) {
		if err := flag.Set("update", value); err != nil {
			t.Fatal(err)
		}
	}
	was := fmt.Sprint(*update)
	defer set(was)
	set("true")
	if said := record(older()); said != "" {
		t.Error(said)
	}
	set("false")
	if said := record(older()); said != "" {
		t.Error(said)
	}
	changed := older().with(func(o *order) { o.price = func(n int) int { return n } })
	wantSaid(t, record(changed), `step "$input:apply" (visit 1) comes to 2 now, in the recording to 6`, "record it again with -update")
	set("true")
	if said := record(changed); said != "" {
		t.Error(said)
	}
	set("false")
	if said := record(changed); said != "" {
		t.Error(said)
	}
}

func TestOnlyARunWhoseGraphIsKnownIsRecorded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		env := workflowtest.New(t, older().workflow())
		if _, err := workflowtest.Record(env.Engine(), "run_none"); !fault.Is(err, fault.NotFound) {
			t.Errorf("a run that does not exist: %v", err)
		}
		run := env.Start(2)
		run.Question()
		env.Restart(older().with(func(o *order) {
			o.version, o.nodes = 2, func(_ builder, in workflow.Ref[int]) workflow.Ref[int] { return in }
		}).workflow())
		if _, err := workflowtest.Record(env.Engine(), run.ID()); !fault.Is(err, fault.NotFound) {
			t.Errorf("a run whose graph is not registered: %v", err)
		}
	})
}
