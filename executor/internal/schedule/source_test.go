package schedule

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/workflowd/workflowd/agentcore/fault"
	"github.com/workflowd/workflowd/executor/runlog"
	"github.com/workflowd/workflowd/workflow"
	"github.com/workflowd/workflowd/workflow/graph"
)

func TestAHashNamesTheNodeAndTheCanonicalInput(t *testing.T) {
	node := graph.Node{Path: "n", Kind: graph.Func, Version: 1, In: "a", Out: "b"}
	other := func(edit func(*graph.Node)) *graph.Node { n := node; edit(&n); return &n }
	raw := func(texts ...string) (list []json.RawMessage) {
		for _, text := range texts {
			list = append(list, json.RawMessage(text))
		}
		return list
	}
	first := Hash(&node, raw(`{"a":1,"b":[2,"x"]}`)...)
	for _, test := range []struct {
		name string
		n    *graph.Node
		in   []json.RawMessage
		same bool
	}{
		{"the same", &node, raw(`{"a":1,"b":[2,"x"]}`), true},
		{"another spelling", &node, raw(` {"b":[2,"\u0078"] , "a":1}`), true},
		{"another path: it is the record's key", other(func(n *graph.Node) { n.Path = "m" }), raw(`{"a":1,"b":[2,"x"]}`), true},
		{"another value", &node, raw(`{"a":1,"b":[2,"y"]}`), false},
		{"another order", &node, raw(`{"a":1,"b":["x",2]}`), false},
		{"two inputs", &node, raw(`{"a":1,`, `"b":[2,"x"]}`), false},
		{"another version", other(func(n *graph.Node) { n.Version = 2 }), raw(`{"a":1,"b":[2,"x"]}`), false},
		{"another input type", other(func(n *graph.Node) { n.In = "c" }), raw(`{"a":1,"b":[2,"x"]}`), false},
		{"another output type", other(func(n *graph.Node) { n.Out = "c" }), raw(`{"a":1,"b":[2,"x"]}`), false},
		{"another kind", other(func(n *graph.Node) { n.Kind = graph.Stream }), raw(`{"a":1,"b":[2,"x"]}`), false},
		{"no JSON", &node, raw(`{"a":1,"a":1}`), false},
	} {
		if got := Hash(test.n, test.in...) == first; got != test.same {
			t.Errorf("%s: the same hash: %t", test.name, got)
		}
	}
	if Hash(&node, raw(`1`, `2`)...) == Hash(&node, raw(`2`, `1`)...) {
		t.Error("the order of inputs does not count")
	}
}

type (
	builder = *workflow.Builder
	ref     = workflow.Ref[int]
)

func node(b builder, in ref, name string) ref {
	return workflow.Then(b, in, workflow.Func(name, func(_ workflow.NodeContext, n int) (int, error) { return n, nil }))
}

func never(int) bool { return false }

// nested has a loop in a loop, a map, and something before, beside and behind them.
func nested() *Plan {
	inner := workflow.MustDefine("inner", 1, func(b builder, in ref) ref { return node(b, node(b, in, "x"), "y") })
	outer := workflow.MustDefine("outer", 1, func(b builder, in ref) ref {
		return node(b, workflow.Loop(b, node(b, in, "a"), inner, never, 9), "z")
	})
	return NewPlan(workflow.MustDefine("nested", 1, func(b builder, in ref) ref {
		list := workflow.Apply(b, node(b, in, "before"), func(n int) []int { return make([]int, n) })
		each := workflow.Map(b, list, workflow.Func("each", func(_ workflow.NodeContext, n int) (int, error) { return n, nil }))
		looped := workflow.Loop(b, workflow.Apply(b, each, func(all []int) int { return len(all) }), outer, never, 9)
		return workflow.Join2(b, node(b, looped, "behind"), node(b, in, "beside"), func(x, y int) int { return x + y })
	}).Definition())
}

func key(t *testing.T, at string) runlog.NodeKey {
	path, number, numbered := strings.Cut(at, "#")
	if !numbered {
		return runlog.NodeKey{Path: path, Visit: 1}
	}
	visit, err := strconv.Atoi(number)
	if err != nil {
		t.Fatal(err)
	}
	return runlog.NodeKey{Path: path, Visit: visit}
}

// An edit holds unless it lies behind the place where its run is forked.
func TestAnEditHoldsUnlessItIsBehindTheFork(t *testing.T) {
	p := nested()
	for _, test := range []struct{ at, holds, gone string }{
		{"$input", "", "before beside each[0] outer behind"},
		{"before", "before beside", "each each[1] outer outer/a outer/inner/x#3 behind"},
		{"beside", "before each outer outer/a#7 behind beside", ""},
		{"each", "before each beside", "each[2] outer outer/z#2 behind"},
		{"each[1]", "before each each[1] each[2]", "outer outer/inner behind"},
		{"outer", "before each outer beside", "outer/a outer/a#4 outer/inner outer/inner/x behind"},
		{"outer/a#2", "before outer outer/a#2 outer/a#1 outer/z#1 outer/inner/y#4 beside", "outer/a#3 outer/z#2 outer/inner#2 behind"},
		{"outer/z#2", "outer/a#2 outer/inner#2 outer/z#1 before", "outer/a#3 outer/inner#3 behind"},
		{"outer/inner/x#3", "outer/inner/x#3 outer/inner/x#2 outer outer/inner#1 before beside", "outer/inner/y#3 outer/inner/x#4 behind"},
		{"behind", "before each outer outer/inner/y#4 beside behind", ""},
	} {
		for want, list := range map[bool]string{true: test.holds, false: test.gone} {
			for edited := range strings.FieldsSeq(list) {
				edits := []runlog.Edit{{NodeKey: key(t, edited)}}
				if got := len(p.Holding(edits, []runlog.NodeKey{key(t, test.at)})) == 1; got != want {
					t.Errorf("forked at %s, the edit of %s holds: %t", test.at, edited, got)
				}
			}
		}
	}
}

// The newest visit of a loop in a loop is that of what stands beside it.
func TestAPointIsFoundAmongTheRecords(t *testing.T) {
	p := nested()
	var records []runlog.Node
	for at := range strings.FieldsSeq("before before:apply each[0] each[1] each each:apply outer/a outer/inner/x#1 outer/inner/y#1 outer/inner#1 outer/inner/x#2 outer/inner/y#2 outer/inner#2 outer/z#1 outer#1 outer/a#2 outer/inner/x#3") {
		records = append(records, runlog.Node{NodeKey: key(t, at), Status: runlog.NodeIsDone})
	}
	run := &runlog.Run{ID: "run_1", Status: runlog.Waiting}
	for _, test := range []struct {
		at, want string
		fails    fault.Kind
	}{
		{at: "before", want: "before#1"},
		{at: "each", want: "each#1"},
		{at: "each[1]", want: "each[1]#1"},
		{at: "each[2]", fails: fault.NotFound},
		{at: "outer", want: "outer#1"},
		{at: "outer/a", want: "outer/a#2"},
		{at: "outer/a#1", want: "outer/a#1"},
		{at: "outer/inner", want: "outer/inner#2"},
		{at: "outer/inner/x", want: "outer/inner/x#3"},
		{at: "outer/inner/y", want: "outer/inner/y#2"},
		{at: "behind", fails: fault.NotFound},
		{at: "outer/inner/z", fails: fault.NotFound},
		{at: "each[x]", fails: fault.NotFound},
		{at: "#1", fails: fault.NotFound},
		{at: "before#-1", fails: fault.InputValidation},
		{at: "", fails: fault.InputValidation},
	} {
		got, err := p.Point(run, records, test.at)
		text := ""
		for _, k := range got {
			text += fmt.Sprintf("%s#%d", k.Path, k.Visit)
		}
		if text != test.want || fault.KindOf(err) != test.fails {
			t.Errorf("%q is %q, %v", test.at, text, err)
		}
	}
}
