package workflow

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/workflowd/workflowd/workflow/graph"
)

// Ref is a typed edge: the value that a node will have. Verbs make Refs; the zero Ref belongs to no workflow.
type Ref[T any] struct {
	b    *Builder
	path string
}

// From returns the Ref itself, so that a Ref fits wherever an edge is expected.
func (r Ref[T]) From() Ref[T] { return r }

// StreamRef is the edge of a stream node: its final value, with the type of its chunks.
type StreamRef[Chunk, T any] struct{ Ref[T] }

// From is a Ref or a StreamRef.
type From[T any] interface{ From() Ref[T] }

// Builder collects the nodes of one workflow while Define runs. It is not safe for concurrent use.
type Builder struct {
	graph    graph.Graph
	code     []code
	at       map[string]int // path -> index in graph.Nodes
	derived  map[string]int // base and verb -> how many inline nodes are called so
	guard    *graph.Guard   // the case that is being built
	problems graph.Problems
}

// Workflow is a defined workflow. It is immutable and safe for concurrent use.
type Workflow[In, Out any] struct{ definition *Definition }

// Definition returns the workflow without its types, as an engine sees it.
func (w *Workflow[In, Out]) Definition() *Definition { return w.definition }

// Define builds the workflow called name. A definition is known by name, version (from 1) and the fingerprint of its
// graph. What is wrong with the graph comes back as graph.Problems, each pointing at its node.
func Define[In, Out any](name string, version int, build func(*Builder, Ref[In]) Ref[Out]) (*Workflow[In, Out], error) {
	b := &Builder{
		graph:   graph.Graph{Format: graph.Format, Name: name, Version: version},
		at:      map[string]int{},
		derived: map[string]int{},
	}
	b.graph.Input = b.typeID("", reflect.TypeFor[In]())
	result := build(b, Ref[In]{b, graph.Input})
	b.graph.Output = b.typeID("", reflect.TypeFor[Out]())
	if b.resolve("", result.b, result.path) {
		b.graph.Result = result.path
	}
	err := error(b.problems)
	if len(b.problems) == 0 {
		err = errors.Join(b.graph.Sign())
		if err == nil {
			err = graph.Validate(&b.graph)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("define workflow %q version %d: %w", name, version, err)
	}
	return &Workflow[In, Out]{newDefinition(b.graph, b.code)}, nil
}

// MustDefine is Define for package variables: it panics where Define returns an error.
func MustDefine[In, Out any](name string, version int, build func(*Builder, Ref[In]) Ref[Out]) *Workflow[In, Out] {
	w, err := Define(name, version, build)
	if err != nil {
		panic(err)
	}
	return w
}

func (b *Builder) problem(node, format string, args ...any) {
	b.problems = append(b.problems, graph.Problem{Node: node, Message: fmt.Sprintf(format, args...)})
}

// typeID registers t; a type that cannot travel is a problem of node.
func (b *Builder) typeID(node string, t reflect.Type) graph.TypeID {
	id, err := b.graph.Add(t)
	if err != nil {
		b.problem(node, "%v", err)
	}
	return id
}

// resolve reports whether a ref made by builder from belongs to b, and notes the problem when it does not.
func (b *Builder) resolve(node string, from *Builder, path string) bool {
	switch {
	case from == nil:
		b.problem(node, "takes the zero Ref; take one that a verb or the build function's argument gave")
	case from != b:
		b.problem(node, "takes %q of another workflow; use Call to embed a workflow", path)
	default:
		return true
	}
	return false
}

// edge is an input of a node that is being added.
type edge struct {
	b    *Builder
	path string
}

func edgeOf[T any](from From[T]) edge {
	if from == nil {
		return edge{}
	}
	ref := from.From()
	return edge{ref.b, ref.path}
}

// add appends a node with its code and edges. It keeps a node with problems, so that later ones are found as well.
func (b *Builder) add(n graph.Node, c code, from ...edge) {
	for _, e := range from {
		if b.resolve(n.Path, e.b, e.path) {
			b.graph.Edges = append(b.graph.Edges, graph.Edge{From: e.path, To: n.Path})
		}
	}
	if _, taken := b.at[n.Path]; taken {
		b.problem(n.Path, "the path is taken by another node; give one of them another name")
	}
	if n.When == nil && n.Scope == "" { // a loop's body follows its loop
		n.When = b.guard
	}
	b.at[n.Path] = len(b.graph.Nodes)
	b.graph.Nodes = append(b.graph.Nodes, n)
	b.code = append(b.code, c)
}

// described starts the graph node of a user's node.
func (b *Builder) described(kind graph.Kind, info NodeInfo, options []NodeOption, in, out reflect.Type) graph.Node {
	for _, option := range options {
		option(&info)
	}
	if wrong := graph.CheckName(info.Name); wrong != "" {
		b.problem(info.Name, "%s", wrong)
	}
	return graph.Node{
		Path: info.Name, Kind: kind, Type: info.Type, Description: info.Description, Version: info.Version,
		In: b.typeID(info.Name, in), Out: b.typeID(info.Name, out),
		Resumes: info.Resumes, SessionKey: info.SessionKey,
		Attempts: info.Attempts, BackoffMS: info.Backoff.Milliseconds(),
		TimeoutMS: millis(info.Timeout), IdleMS: millis(info.IdleTimeout),
		Max: info.Parallel, CacheKey: info.CacheKey, CacheMS: millis(info.CacheFor),
	}
}

// millis rounds up, so that a bound stays one.
func millis(d time.Duration) int64 { return (d + time.Millisecond - 1).Milliseconds() }

// derive names an inline node after the node it follows: "scan:apply", "scan:apply2".
func (b *Builder) derive(from edge, verb string) string {
	base, _, _ := strings.Cut(from.path, ":")
	base += ":" + verb
	for {
		path := base
		b.derived[base]++
		if n := b.derived[base]; n > 1 {
			path += strconv.Itoa(n)
		}
		if _, taken := b.at[path]; !taken { // an embedded workflow brought names of its own
			return path
		}
	}
}

// embed copies the nodes of another workflow under prefix. Its input is the node at input; nodes outside of any loop get
// scope. It returns the path of the result.
func (b *Builder) embed(d *Definition, prefix, input, scope string) string {
	g := d.Graph()
	path := func(p string) string {
		if p == graph.Input {
			return input
		}
		return prefix + "/" + p
	}
	for id, t := range g.Types {
		b.graph.Types[id] = t
	}
	for i, n := range g.Nodes {
		n.Path, n.Cases = path(n.Path), slices.Clone(n.Cases)
		if n.Scope != "" {
			n.Scope = path(n.Scope)
		} else {
			n.Scope = scope
		}
		if n.Kind == graph.Loop {
			n.Result = path(n.Result)
		}
		if n.When != nil {
			n.When = &graph.Guard{Switch: path(n.When.Switch), Case: n.When.Case}
		}
		b.add(n, d.code[i])
	}
	for _, e := range g.Edges {
		b.graph.Edges = append(b.graph.Edges, graph.Edge{From: path(e.From), To: path(e.To)})
	}
	return path(g.Result)
}
