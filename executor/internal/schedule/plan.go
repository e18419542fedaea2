package schedule

import (
	"fmt"

	"github.com/workflowd/workflowd/workflow"
	"github.com/workflowd/workflowd/workflow/graph"
)

// scopeInput is the index that stands for the input of a scope: the run's input, or the value of a loop's turn.
const scopeInput = -1

// Plan is a definition prepared for scheduling: paths resolved to indices, inputs and consumers known. Immutable.
type Plan struct {
	def    *workflow.Definition
	graph  *graph.Graph
	steps  []step         // by index of graph.Nodes
	scopes []scope        // 0 is the run
	bodies map[int]int    // loop step -> scope
	at     map[string]int // path -> step
}

type step struct {
	node      *graph.Node
	index     int
	scope     int
	local     int   // position in its scope
	inputs    []int // steps, or scopeInput
	needs     []int // steps that have to settle first: inputs and the switch of its case, each once
	consumers []int // steps that need it
	guard     int   // step of the switch, -1 = none
	signature []byte
}

// scope is what runs together: the whole graph, or the body of a loop.
type scope struct {
	steps  []int
	result int // step, or scopeInput
}

// NewPlan prepares a definition.
func NewPlan(d *workflow.Definition) *Plan {
	g := d.Graph()
	p := &Plan{def: d, graph: g, steps: make([]step, len(g.Nodes)), bodies: map[int]int{}, at: make(map[string]int, len(g.Nodes))}
	p.scopes = []scope{{}}
	for i := range g.Nodes {
		n := &g.Nodes[i]
		p.at[n.Path] = i
		s := step{node: n, index: i, guard: -1, signature: signature(n)}
		if n.Scope != "" {
			s.scope = p.bodies[p.at[n.Scope]]
		}
		if n.Kind == graph.Loop {
			p.bodies[i] = len(p.scopes)
			p.scopes = append(p.scopes, scope{})
		}
		home := &p.scopes[s.scope]
		s.local = len(home.steps)
		home.steps = append(home.steps, i)
		p.steps[i] = s
	}
	for _, e := range g.Edges {
		to := &p.steps[p.at[e.To]]
		to.inputs = append(to.inputs, p.source(e.From, to.node.Scope))
	}
	for i := range p.steps {
		s := &p.steps[i]
		for _, from := range s.inputs {
			p.need(s, from)
		}
		if s.node.When != nil {
			s.guard = p.at[s.node.When.Switch]
			p.need(s, s.guard)
		}
	}
	p.scopes[0].result = p.source(g.Result, "")
	for loop, body := range p.bodies {
		p.scopes[body].result = p.source(p.graph.Nodes[loop].Result, p.graph.Nodes[loop].Path)
	}
	return p
}

// Definition is what was prepared.
func (p *Plan) Definition() *workflow.Definition { return p.def }

// Graph is the document. It is shared: do not change it.
func (p *Plan) Graph() *graph.Graph { return p.graph }

// source is the index of the value called path inside scope.
func (p *Plan) source(path, scope string) int {
	if path == graph.Input || path == scope {
		return scopeInput
	}
	return p.at[path]
}

func (p *Plan) need(s *step, from int) {
	if from == scopeInput {
		return
	}
	for _, known := range s.needs {
		if known == from {
			return
		}
	}
	s.needs = append(s.needs, from)
	p.steps[from].consumers = append(p.steps[from].consumers, s.index)
}

// Fits reports why a run with these records cannot go on under the graph next: everything that has a record must still be
// there with the same kind, version and types. Source: design "Ten rules" 8.
func Fits(old, next *graph.Graph, paths []string) error {
	if old.Input != next.Input {
		return fmt.Errorf("the type of the input changed")
	}
	if old.Output != next.Output {
		return fmt.Errorf("the type of the result changed")
	}
	index := func(g *graph.Graph) map[string]*graph.Node {
		m := make(map[string]*graph.Node, len(g.Nodes))
		for i := range g.Nodes {
			m[g.Nodes[i].Path] = &g.Nodes[i]
		}
		return m
	}
	before, after := index(old), index(next)
	for _, path := range paths {
		was, is := before[path], after[path]
		switch {
		case is == nil:
			return fmt.Errorf("node %q, which has begun, is gone", path)
		case was == nil:
			return fmt.Errorf("node %q has a record, but was not in the graph", path)
		case was.Kind != is.Kind || was.Scope != is.Scope:
			return fmt.Errorf("node %q, which has begun, is another kind of node now", path)
		case was.Version != is.Version:
			return fmt.Errorf("node %q, which has begun, changed from version %d to %d", path, was.Version, is.Version)
		case was.In != is.In || was.Out != is.Out || was.Chunk != is.Chunk:
			return fmt.Errorf("node %q, which has begun, has other types now", path)
		}
	}
	return nil
}
