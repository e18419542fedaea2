package executor_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/workflowd/workflowd/executor"
	"github.com/workflowd/workflowd/executor/runlog"
	"github.com/workflowd/workflowd/workflow"
	"github.com/workflowd/workflowd/workflow/graph"
)

// program is a random workflow over numbers: each line makes one from earlier ones, 0 being the input. It is built into a
// graph, and evaluated directly.
type program struct {
	name   string
	lines  []line
	result int
}

type line struct {
	verb string
	name string // of its node
	k    int    // what makes nodes differ
	a, b int    // lines it takes
	body *program
}

const numbers = 60

// work is what every node computes. The verb "try" may fail.
func work(k, n int) int { return (3*n + k) % numbers }

func fails(k, n int) bool { return (n+k)%4 == 0 }

func split(n int) (list []int) {
	for i := range n % 4 {
		list = append(list, n+i)
	}
	return list
}

func total(list []int) (n int) {
	for _, one := range list {
		n += one
	}
	return n % numbers
}

const (
	handled = 7 // what a handler makes of any failure
	turns   = 6 // of a loop, at most
)

func enough(n int) bool { return n%3 == 0 }

func drawProgram(t *rapid.T, name string, depth int, names *int) *program {
	p := &program{name: name}
	verbs := []string{"node", "node", "node", "join", "halve", "choose", "map", "try", "finally"}
	if depth > 0 {
		verbs = append(verbs, "loop", "loop", "call")
	}
	if depth == 2 {
		verbs = append(verbs, "bad")
	}
	for i := range rapid.IntRange(1, 6-depth).Draw(t, "lines") {
		*names++
		l := line{verb: rapid.SampledFrom(verbs).Draw(t, "verb"), name: fmt.Sprint("n", *names), k: rapid.IntRange(0, 9).Draw(t, "k"),
			a: rapid.IntRange(0, i).Draw(t, "a"), b: rapid.IntRange(0, i).Draw(t, "b")}
		if l.verb == "bad" && rapid.IntRange(0, 2).Draw(t, "rare") > 0 {
			l.verb = "node"
		}
		if l.verb == "loop" || l.verb == "call" {
			l.body = drawProgram(t, l.name, depth-1, names)
		}
		p.lines = append(p.lines, l)
	}
	p.result = rapid.IntRange(0, len(p.lines)).Draw(t, "result")
	return p
}

// executions notes what each run executes.
type executions struct {
	mu sync.Mutex
	of map[string]map[string]int // run -> "path#visit input" -> times
}

func (x *executions) note(c ctx, in any) {
	raw, err := json.Marshal(in)
	if err != nil {
		panic(err)
	}
	if f, is := in.(workflow.Failure); is { // which of several came first is chance
		raw = []byte(fmt.Sprint(f.Kind != ""))
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.of[c.Run().RunID] == nil {
		x.of[c.Run().RunID] = map[string]int{}
	}
	x.of[c.Run().RunID][fmt.Sprintf("%s#%d %s", c.Run().Path, c.Run().Visit, raw)]++
}

func (p *program) define(x *executions) *workflow.Workflow[int, int] {
	return workflow.MustDefine(p.name, 1, func(b builder, in workflow.Ref[int]) workflow.Ref[int] {
		refs := []workflow.Ref[int]{in}
		for _, l := range p.lines {
			refs = append(refs, l.build(b, x, refs))
		}
		return refs[p.result]
	})
}

func (l line) build(b builder, x *executions, refs []workflow.Ref[int]) workflow.Ref[int] {
	from := refs[l.a]
	node := fn(l.name, func(c ctx, n int) (int, error) {
		x.note(c, n)
		if l.verb == "bad" || l.verb == "try" && fails(l.k, n) {
			return 0, errors.New("as it has to")
		}
		return work(l.k, n), nil
	})
	switch l.verb {
	case "join":
		return workflow.Join2(b, from, refs[l.b], func(x, y int) int { return (x + 2*y + l.k) % numbers })
	case "halve":
		return workflow.Apply(b, from, func(n int) int { return n / 2 })
	case "choose":
		return workflow.Switch(b, from, func(n int) string { return []string{"even", "odd"}[n%2] }, map[string]func(builder, workflow.Ref[int]) workflow.Ref[int]{
			"even": func(b builder, in workflow.Ref[int]) workflow.Ref[int] { return workflow.Then(b, in, node) },
			"odd":  func(_ builder, in workflow.Ref[int]) workflow.Ref[int] { return in },
		})
	case "map":
		return workflow.Apply(b, workflow.Map(b, workflow.Apply(b, from, split), node), total)
	case "try":
		return workflow.Catch(b, workflow.Then(b, from, node), fn(l.name+"h", func(c ctx, f workflow.Failure) (int, error) { x.note(c, f); return handled, nil }))
	case "finally":
		return workflow.Finally(b, workflow.Then(b, from, node), fn(l.name+"f", func(c ctx, f workflow.Failure) (int, error) { x.note(c, f); return 0, nil }))
	case "loop":
		return workflow.Loop(b, from, l.body.define(x), enough, turns)
	case "call":
		return workflow.Call(b, from, l.body.define(x))
	default:
		return workflow.Then(b, from, node)
	}
}

// evaluation is the direct evaluation of a program, with the inputs that a fork gives it.
type evaluation struct {
	edits  map[runlog.NodeKey]json.RawMessage
	turns  map[string]int
	visits map[runlog.NodeKey]visited
}

// visited is a node that is entered: its input, and the loops around it as visits of their own.
type visited struct {
	input string
	loops []runlog.NodeKey
}

// unhandled stops an evaluation at a failure that no handler of its own catches: what else runs then is chance.
type unhandled struct{}

// evaluate returns the visits and the result; well is false when it was stopped.
func evaluate(p *program, input int, edits []runlog.Edit) (visits map[runlog.NodeKey]visited, out int, well bool) {
	e := &evaluation{edits: map[runlog.NodeKey]json.RawMessage{}, turns: map[string]int{}, visits: map[runlog.NodeKey]visited{}}
	for _, edit := range edits {
		e.edits[edit.NodeKey] = edit.Input
	}
	defer func() {
		if r := recover(); r != nil {
			if _, is := r.(unhandled); !is {
				panic(r)
			}
			well = false
		}
	}()
	return e.visits, e.scope(p, "", 1, input, nil), true
}

func edited[T any](e *evaluation, key runlog.NodeKey, own T) T {
	if raw, is := e.edits[key]; is {
		if err := json.Unmarshal(raw, &own); err != nil {
			panic(err)
		}
	}
	return own
}

func (e *evaluation) scope(p *program, prefix string, visit, input int, loops []runlog.NodeKey) int {
	values := []int{input}
	at := func(name string) runlog.NodeKey { return runlog.NodeKey{Path: prefix + name, Visit: visit} }
	enter := func(name string, in int) int {
		in = edited(e, at(name), in)
		e.visits[at(name)] = visited{fmt.Sprint(in), loops}
		return in
	}
	for _, l := range p.lines {
		n := values[l.a]
		switch l.verb {
		case "join":
			n = (n + 2*values[l.b] + l.k) % numbers
		case "halve":
			n /= 2
		case "choose":
			if n%2 == 0 {
				n = work(l.k, enter(l.name, n))
			}
		case "map":
			list := edited(e, at(l.name), split(n))
			for i, one := range list {
				list[i] = work(l.k, enter(fmt.Sprintf("%s[%d]", l.name, i), one))
			}
			n = total(list)
		case "try":
			if in := enter(l.name, n); fails(l.k, in) {
				e.visits[at(l.name+"h")] = visited{"true", loops}
				n = handled
			} else {
				n = work(l.k, in)
			}
		case "finally":
			n = work(l.k, enter(l.name, n))
			e.visits[at(l.name+"f")] = visited{"false", loops}
		case "loop":
			key := at(l.name)
			n = edited(e, key, n)
			inside := append(slices.Clone(loops), key)
			for turn := 0; ; turn++ {
				if turn == turns {
					panic(unhandled{})
				}
				e.turns[key.Path]++
				if n = e.scope(l.body, key.Path+"/", e.turns[key.Path], n, inside); enough(n) {
					break
				}
			}
		case "call":
			n = e.scope(l.body, prefix+l.name+"/", visit, n, loops)
		case "bad":
			panic(unhandled{})
		default:
			n = work(l.k, enter(l.name, n))
		}
		values = append(values, n)
	}
	return values[p.result]
}

// drawPoint draws where to fork a run and with which input, nil for its own.
func drawPoint(t *rapid.T, g *graph.Graph, nodes []runlog.Node) (at string, input any) {
	points := []string{"$input"}
	for _, n := range nodes {
		path, _, _ := strings.Cut(n.Path, "[")
		switch i := slices.IndexFunc(g.Nodes, func(of graph.Node) bool { return of.Path == path }); {
		case n.Visit < 1: // what a loop was given
		case g.Nodes[i].Kind == graph.Loop:
			points = append(points, n.Path) // its records count turns
		case strings.Contains(path, ":"): // inline
		default:
			points = append(points, fmt.Sprintf("%s#%d", n.Path, n.Visit))
		}
	}
	at = rapid.SampledFrom(points).Draw(t, "at")
	number := rapid.IntRange(0, numbers)
	path, _, _ := strings.Cut(at, "#")
	path, _, element := strings.Cut(path, "[")
	kind := graph.Kind("")
	for _, n := range g.Nodes {
		if n.Path == path {
			kind = n.Kind
		}
	}
	switch {
	case at == "$input":
		return at, number.Draw(t, "input")
	case kind == graph.Catch || kind == graph.Finally || rapid.IntRange(0, 2).Draw(t, "own") == 0:
		return at, nil
	case kind == graph.Map && !element:
		return at, rapid.SliceOfN(number, 0, 4).Draw(t, "list")
	}
	return at, number.Draw(t, "edit")
}

// A fork at a random place of a random graph, and a fork of that fork, come to what the edited graph comes to when it is
// evaluated directly; and they execute exactly what has another input than in their source, or was named.
//
// Invariant: INV-35
func TestARandomForkIsTheEditedGraphAndRepeatsNothing(t *testing.T) {
	built := 0
	rapid.Check(t, func(rt *rapid.T) {
		built++
		names := 0
		p := drawProgram(rt, fmt.Sprint("random", built), 2, &names)
		x := &executions{of: map[string]map[string]int{}}
		e, err := executor.New(t.Context(), runlog.NewMemory())
		if err != nil {
			rt.Fatal(err)
		}
		defer func() {
			if err := e.Close(); err != nil {
				rt.Error(err)
			}
		}()
		h, err := executor.Register(e, p.define(x))
		if err != nil {
			rt.Fatal(err)
		}
		run, err := h.Start(t.Context(), rapid.IntRange(0, numbers).Draw(rt, "start"))
		if err != nil {
			rt.Fatal(err)
		}
		before, known := checkRun(t, rt, e, p, x, run, nil, true)
		for range 2 {
			g, err := e.Graph(p.name, 1)
			if err != nil {
				rt.Fatal(err)
			}
			nodes, err := e.Nodes(run.ID())
			if err != nil {
				rt.Fatal(err)
			}
			at, input := drawPoint(rt, g, nodes)
			var options []executor.ForkOption
			if input != nil {
				options = append(options, executor.Edit(input))
			}
			if run, err = run.Fork(t.Context(), at, options...); err != nil {
				rt.Fatalf("at %s with %v: %v", at, input, err)
			}
			before, known = checkRun(t, rt, e, p, x, run, before, known)
		}
	})
}

// checkRun waits for the end of a run and compares it with the direct evaluation. before are the visits of its source, and
// known whether it went well. It returns the run's own.
func checkRun(t *testing.T, rt *rapid.T, e *executor.Engine, p *program, x *executions, run *executor.Run[int], before map[runlog.NodeKey]visited, known bool) (map[runlog.NodeKey]visited, bool) {
	out, err := run.Result(t.Context())
	r, stored := e.Run(run.ID())
	nodes, storedNodes := e.Nodes(run.ID())
	if err := errors.Join(stored, storedNodes); err != nil {
		rt.Fatal(err)
	}
	input := 0
	if err := json.Unmarshal(r.Input, &input); err != nil {
		rt.Fatal(err)
	}
	fork := r.ForkedFrom
	if fork == nil {
		fork = &runlog.Fork{}
	}
	visits, want, well := evaluate(p, input, fork.Edits)
	if well && (err != nil || out != want) {
		rt.Fatalf("run %s gives %d, %v; evaluated directly %d\n%s", run.ID(), out, err, want, wholeStory(t, run))
	}
	again := func(key runlog.NodeKey) bool {
		v := visits[key]
		whole, _, _ := strings.Cut(key.Path, "[")
		return slices.ContainsFunc(append([]runlog.NodeKey{key, {Path: whole, Visit: key.Visit}}, v.loops...), func(at runlog.NodeKey) bool {
			return slices.Contains(fork.At, at)
		})
	}
	x.mu.Lock()
	executed := maps.Clone(x.of[string(run.ID())])
	x.mu.Unlock()
	for _, n := range nodes { // whatever happened: what was kept was not executed
		for what := range executed {
			if n.From != "" && strings.HasPrefix(what, fmt.Sprintf("%s#%d ", n.Path, n.Visit)) {
				rt.Fatalf("%s was kept from %s and executed", what, n.From)
			}
		}
	}
	if !well {
		return visits, false
	}
	should := map[string]int{}
	for key, v := range visits {
		if was, there := before[key]; !there || was.input != v.input || again(key) {
			should[fmt.Sprintf("%s#%d %s", key.Path, key.Visit, v.input)] = 1
		}
	}
	if known {
		if diff := cmp.Diff(should, executed, cmpopts.EquateEmpty()); diff != "" {
			rt.Fatalf("run %s executed (-should +did):\n%s\n%s", run.ID(), diff, wholeStory(t, run))
		}
	}
	return visits, true
}
