package workflowtest

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"testing"

	"github.com/workflowd/workflowd/agentcore/llm/scripted"
	"github.com/workflowd/workflowd/nodes/agentnode"
	"github.com/workflowd/workflowd/workflow"
	"github.com/workflowd/workflowd/workflow/graph"
)

// change is a node with other code.
type change struct {
	path  string
	wrong error                                                                // of the replacement itself
	fits  func(g *graph.Graph, n graph.Node) error                             // nil = any node
	run   func(workflow.NodeContext, json.RawMessage) (json.RawMessage, error) // in place of the node, or nil
	enter func(workflow.NodeContext) workflow.NodeContext                      // around the node, or nil
}

// Stub runs fn in place of the node at path: of a catch or a finally in place of its handler, of a Map for each element,
// or, with a path such as "each[2]", for that element alone. Types that are not the node's end the test. A stream node
// that is replaced delivers no chunks. fn may do what a node may: ask, sleep, fail by ctx.Run().Attempt.
func Stub[In, Out any](path string, fn func(ctx workflow.NodeContext, in In) (Out, error)) Option {
	alone, err := workflow.Define("replacement", 1, func(b *workflow.Builder, in workflow.Ref[In]) workflow.Ref[Out] {
		return workflow.Then(b, in, workflow.Func("fn", fn))
	})
	c := change{path: path, wrong: err, fits: fits[In, Out]}
	if err == nil {
		def := alone.Definition()
		c.run = func(ctx workflow.NodeContext, in json.RawMessage) (json.RawMessage, error) {
			return def.Run(ctx, 0, in)
		}
	}
	return func(s *setup) { s.changes = append(s.changes, c) }
}

// Model lets the agent node at path ask a model that follows script, in process and without a network:
//
//	workflowtest.Model("review", scripted.Responses(scripted.Say("fine")))
//
// The node's other options stay: its tools act on its working directory. A request that the script did not plan fails the
// test, and so does a response that nobody asked for. A script outlives Restart, as a provider outlives its clients.
func Model(path string, script scripted.Script) Option {
	m := &model{path: path, script: script, model: scripted.New(script, scripted.Options{})}
	provider := m.model.Provider()
	c := change{path: path, enter: func(ctx workflow.NodeContext) workflow.NodeContext { return agentnode.WithModel(ctx, provider) }}
	return func(s *setup) { s.changes, s.models = append(s.changes, c), append(s.models, m) }
}

// model is a scripted model of a node.
type model struct {
	path   string
	script scripted.Script
	model  *scripted.Model
}

func (m *model) check(t testing.TB) {
	if err := m.model.Err(); err != nil {
		t.Errorf("model of node %q: %v", m.path, err)
	}
	if list, counts := m.script.(interface{ Left() int }); counts && list.Left() > 0 && !t.Failed() {
		t.Errorf("model of node %q: %d of its responses were not asked for", m.path, list.Left())
	}
}

// replaced returns w with the changes.
func replaced[In, Out any](w *workflow.Workflow[In, Out], changes []change) (*workflow.Workflow[In, Out], error) {
	g, taken := w.Definition().Graph(), map[string]bool{}
	for _, c := range changes {
		i, err := c.node(g)
		if err != nil {
			return nil, fmt.Errorf("workflow %q: node %q: %w", g.Name, c.path, err)
		}
		if taken[c.path] {
			return nil, fmt.Errorf("workflow %q: node %q: is replaced twice", g.Name, c.path)
		}
		taken[c.path] = true
		if c.enter != nil {
			w = w.Within(i, c.enter)
			continue
		}
		run, before, whole := c.run, w.Definition(), g.Nodes[i].Path == c.path
		w = w.Replace(i, func(ctx workflow.NodeContext, in json.RawMessage) (json.RawMessage, error) {
			if whole || ctx.Run().Path == c.path {
				return run(ctx, in)
			}
			return before.Run(ctx, i, in) // another element of the map
		})
	}
	return w, nil
}

// node finds the node that a change is about.
func (c change) node(g *graph.Graph) (int, error) {
	if c.wrong != nil {
		return 0, c.wrong
	}
	base, element, of := strings.Cut(c.path, "[")
	var known []string
	for i, n := range g.Nodes {
		if !hasCode(n.Kind) {
			continue
		}
		known = append(known, n.Path)
		if n.Path != base {
			continue
		}
		if of {
			if _, err := strconv.Atoi(strings.TrimSuffix(element, "]")); err != nil || n.Kind != graph.Map {
				return 0, errors.New("only a map has elements, counted from 0")
			}
		}
		if c.fits == nil {
			return i, nil
		}
		return i, c.fits(g, n)
	}
	return 0, fmt.Errorf("is not a node with code; there are %s", strings.Join(known, ", "))
}

// hasCode reports whether nodes of the kind run a user's code.
func hasCode(k graph.Kind) bool {
	switch k {
	case graph.Func, graph.Stream, graph.Map, graph.Catch, graph.Finally:
		return true
	default:
		return false
	}
}

// fits compares the types of a replacement with those of the node.
func fits[In, Out any](g *graph.Graph, n graph.Node) error {
	in, out := reflect.TypeFor[In](), reflect.TypeFor[Out]()
	wantIn, wantOut := n.In, n.Out
	switch n.Kind {
	case graph.Map:
		in, out = reflect.SliceOf(in), reflect.SliceOf(out)
	case graph.Catch, graph.Finally:
		if in != reflect.TypeFor[workflow.Failure]() {
			return fmt.Errorf("handles a workflow.Failure, the replacement takes a %v", in)
		}
		wantIn = ""
		if n.Kind == graph.Finally {
			wantOut = "" // what cleanup gives goes nowhere
		}
	default:
	}
	return errors.Join(same(g, wantIn, in, "takes"), same(g, wantOut, out, "gives"))
}

// same reports that a type is not the one with an id; "" is any.
func same(g *graph.Graph, want graph.TypeID, t reflect.Type, verb string) error {
	var own graph.Graph
	id, err := own.Add(t)
	if err == nil && want != "" && id != want {
		err = fmt.Errorf("%s a %s, the replacement %s a %v", verb, g.Types[want].Name, verb, t)
	}
	return err
}
