package workflowtest_test

import (
	"errors"
	"iter"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/workflowd/workflowd/agentcore"
	"github.com/workflowd/workflowd/agentcore/llm/scripted"
	"github.com/workflowd/workflowd/agentcore/permission"
	"github.com/workflowd/workflowd/nodes/agentnode"
	"github.com/workflowd/workflowd/workflow"
	"github.com/workflowd/workflowd/workflow/userinput"
	"github.com/workflowd/workflowd/workflowtest"
)

// shop has a node of each kind that has code; each panics when it really runs.
var shop = workflow.MustDefine("shop", 1, func(b builder, in workflow.Ref[int]) workflow.Ref[string] {
	list := workflow.ThenStream(b, in, workflow.StreamFunc("find",
		func(ctx, int) iter.Seq2[string, error] { panic("find") },
		func(ctx, int, iter.Seq[string]) ([]string, error) { panic("find") }))
	prices := workflow.Map(b, list, node("price", func(_ ctx, name string) (int, error) { return len(name), nil }))
	pack := workflow.MustDefine("pack", 1, func(b builder, in workflow.Ref[[]int]) workflow.Ref[string] {
		return workflow.Then(b, in, node("box", func(ctx, []int) (string, error) { panic("box") }))
	})
	packed := workflow.Finally(b, workflow.Call(b, prices, pack), node("sweep", func(ctx, workflow.Failure) (int, error) { panic("sweep") }))
	return workflow.Catch(b, packed, node("sorry", func(ctx, workflow.Failure) (string, error) { panic("sorry") }))
})

func TestAnyNodeWithCodeIsReplacedByItsPath(t *testing.T) {
	find := workflowtest.Stub("find", func(ctx, int) ([]string, error) { return []string{"tea", "milk"}, nil })
	sweep := workflowtest.Stub("sweep", func(ctx, workflow.Failure) (int, error) { return 0, nil })
	box := workflowtest.Stub("pack/box", func(_ ctx, prices []int) (string, error) {
		if prices[0] < 0 {
			return "", errors.New("negative")
		}
		return strings.Repeat("x", prices[0]+10*prices[1]), nil
	})
	sorry := workflowtest.Stub("sorry", func(_ ctx, f workflow.Failure) (string, error) { return "sorry for " + f.Node, nil })
	for _, test := range []struct {
		name    string
		options []workflowtest.Option
		want    string
	}{
		{"a stream, a called one, a cleanup", nil, strings.Repeat("x", 43)},
		{"each element of a map", []workflowtest.Option{workflowtest.Stub("price", func(_ ctx, _ string) (int, error) { return 1, nil })}, strings.Repeat("x", 11)},
		{"one element of a map, and the handler of a failure", []workflowtest.Option{sorry, workflowtest.Stub("price[1]", func(_ ctx, name string) (int, error) { return 0, errors.New(name) })}, "sorry for price[1]"},
		{"two elements", []workflowtest.Option{
			workflowtest.Stub("price[0]", func(ctx, string) (int, error) { return 0, nil }),
			workflowtest.Stub("price[1]", func(ctx, string) (int, error) { return 1, nil }),
		}, strings.Repeat("x", 10)},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				run := workflowtest.New(t, shop, append(test.options, find, sweep, box)...).Start(1)
				if got := run.Result(); got != test.want {
					t.Errorf("got %q, want %q\n%s", got, test.want, run.Log())
				}
				run.WantTimes("find", 1)
				run.WantTimes("price", 2)
				run.WantTimes("price[1]", 1)
			})
		})
	}
}

func TestAReplacementDoesWhatANodeMay(t *testing.T) {
	onEachStore(t, func(t *testing.T, options ...workflowtest.Option) {
		ask := workflowtest.Stub("one", func(c ctx, n int) (int, error) {
			if err := workflow.Sleep(c, "nap", time.Hour); err != nil {
				return 0, err
			}
			return workflow.Ask[int, int](c, "more", n)
		})
		env := workflowtest.New(t, chain("short", add("one", 1)), append(options, ask)...)
		run := env.Start(1)
		env.Restart()
		run.Question().Answer(40)
		if got := run.Result(); got != 40 {
			t.Errorf("got %d", got)
		}
	})
}

func TestAReplacementThatDoesNotFitIsRefused(t *testing.T) {
	for _, test := range []struct {
		name   string
		option workflowtest.Option
		want   string
	}{
		{"no such node", workflowtest.Stub("box", func(ctx, int) (int, error) { return 0, nil }), `workflow "shop": node "box": is not a node with code; there are find, price, pack/box, sweep, sorry`},
		{"another input", workflowtest.Stub("pack/box", func(ctx, []string) (string, error) { return "", nil }), `node "pack/box": takes a []int, the replacement takes a []string`},
		{"another value", workflowtest.Stub("find", func(ctx, int) (string, error) { return "", nil }), `node "find": gives a []string, the replacement gives a string`},
		{"a list where a map takes elements", workflowtest.Stub("price", func(ctx, []string) (int, error) { return 0, nil }), `node "price": takes a []string, the replacement takes a [][]string`},
		{"a handler that takes no failure", workflowtest.Stub("sorry", func(ctx, string) (string, error) { return "", nil }), `node "sorry": handles a workflow.Failure, the replacement takes a string`},
		{"an element of no map", workflowtest.Stub("find[0]", func(ctx, int) ([]string, error) { return nil, nil }), `node "find[0]": only a map has elements, counted from 0`},
		{"a type that JSON cannot carry", workflowtest.Stub("find", func(ctx, int) (chan int, error) { return nil, nil }), `JSON cannot carry a chan`},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				wantSaid(t, failing(t, func(t testing.TB) { workflowtest.New(t, shop, test.option) }), test.want)
			})
		})
	}
	synctest.Test(t, func(t *testing.T) {
		twice := workflowtest.Stub("find", func(ctx, int) ([]string, error) { return nil, nil })
		wantSaid(t, failing(t, func(t testing.TB) { workflowtest.New(t, shop, twice, twice) }), `node "find": is replaced twice`)
	})
}

// reviewing has an agent node for a model that no test can reach, and a typed one behind it.
var reviewing = workflow.MustDefine("reviewing", 1, func(b builder, in workflow.Ref[agentcore.Input]) workflow.Ref[int] {
	type grade struct {
		Points int `json:"points"`
	}
	options := agentnode.Options{Name: "review", Provider: "openai", Model: "gpt-5", Mode: permission.Plan}
	text := workflow.ThenStream(b, in, agentnode.New(options))
	graded := workflow.ThenStream(b, text, agentnode.Typed[agentnode.Payload, grade]("grade", agentnode.Options{Provider: "openai", Model: "gpt-5"},
		func(p agentnode.Payload) agentcore.Input { return agentcore.Input{Prompt: p.Plan()} }))
	return workflow.Apply(b, graded, func(g grade) int { return g.Points })
})

func TestAgentsAskAScriptedModel(t *testing.T) {
	onEachStore(t, func(t *testing.T, options ...workflowtest.Option) {
		env := workflowtest.New(t, reviewing, append(options,
			workflowtest.Model("review", scripted.Responses(scripted.Say("1. Look"), scripted.Say("1. Look twice"))),
			workflowtest.Model("grade", scripted.Responses(scripted.Reply(scripted.Call{Name: agentnode.SubmitTool, Args: `{"points":7}`}))))...)
		run := env.Start(agentcore.Input{Prompt: "review it"})
		run.Question().Answer(userinput.Decision{Decision: "deny", Reason: "twice"})
		run.Question()
		env.Restart()
		q := run.Question()
		wantSaid(t, string(q.Payload), "Look twice")
		q.Answer(userinput.Decision{Decision: "approve"})
		if got := run.Result(); got != 7 {
			t.Errorf("got %d", got)
		}
		run.WantNodes("review", "review", "review", "grade")
	})
}

func TestAScriptIsFollowedToItsEnd(t *testing.T) {
	for _, test := range []struct {
		name   string
		script scripted.Script
		want   string
	}{
		{"a response that nobody asked for", scripted.Responses(scripted.Say("1. Look"), scripted.Say("more")), `model of node "review": 1 of its responses were not asked for`},
		{"a request without a response", scripted.Responses(), `model of node "review": unplanned model request 1`},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				said := failing(t, func(t testing.TB) {
					workflowtest.New(t, reviewing, workflowtest.Model("review", test.script)).Start(agentcore.Input{Prompt: "review it"}).Rest()
				})
				wantSaid(t, said, test.want)
			})
		})
	}
}
