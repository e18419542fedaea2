package graph

import (
	"fmt"
	"slices"
	"strings"
)

// Problem is one thing that is wrong with a graph. Node is the path of the node it is about, "" for the whole.
type Problem struct {
	Node    string `json:"node,omitempty"`
	Message string `json:"message"`
}

// Problems is the error that Validate and the builder return: all that is wrong, in document order.
type Problems []Problem

// Error has one line per problem, each beginning with its node.
func (p Problems) Error() string {
	lines := make([]string, len(p))
	for i, problem := range p {
		if problem.Node == "" {
			lines[i] = problem.Message
		} else {
			lines[i] = fmt.Sprintf("node %q: %s", problem.Node, problem.Message)
		}
	}
	return strings.Join(lines, "\n")
}

// MaxName bounds the name of a workflow or node, in bytes. Names become parts of request ids and file names.
const MaxName = 120

// CheckName returns what is wrong with a name of a workflow or node, or "".
func CheckName(name string) string {
	switch {
	case name == "":
		return "has no name"
	case len(name) > MaxName:
		return fmt.Sprintf("name is %d bytes long, at most %d", len(name), MaxName)
	}
	for _, r := range name {
		if (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune("_-.", r) {
			return fmt.Sprintf("name holds %q; letters, digits, _, - and . are allowed", r)
		}
	}
	return ""
}

// Validate returns nil when the document can be run, else Problems. A document from outside has to match its fingerprint.
func Validate(g *Graph) error {
	v := validation{g: g, at: map[string]int{}, sessions: map[string]string{}}
	v.whole()
	for i, n := range g.Nodes {
		v.node(i, n)
	}
	inputs := v.edges()
	for _, n := range g.Nodes {
		v.shape(n, inputs[n.Path])
	}
	if len(v.problems) == 0 {
		return nil
	}
	return v.problems
}

type validation struct {
	g        *Graph
	at       map[string]int    // path -> index, of the nodes seen so far
	sessions map[string]string // session key -> path
	problems Problems
}

func (v *validation) add(node, format string, args ...any) {
	v.problems = append(v.problems, Problem{Node: node, Message: fmt.Sprintf(format, args...)})
}

func (v *validation) whole() {
	g := v.g
	if g.Format != Format {
		v.add("", "format is %q, want %q", g.Format, Format)
	}
	if wrong := CheckName(g.Name); wrong != "" {
		v.add("", "workflow %q: %s", g.Name, wrong)
	}
	if g.Version < 1 {
		v.add("", "version is %d, versions count from 1", g.Version)
	}
	if sum, err := g.sum(); err != nil || sum != g.Fingerprint {
		v.add("", "fingerprint %q does not match the document", g.Fingerprint)
	}
	for _, id := range []TypeID{g.Input, g.Output} {
		if _, known := g.Types[id]; !known {
			v.add("", "type %q is not in types", id)
		}
	}
	if g.Result != Input && !slices.ContainsFunc(g.Nodes, func(n Node) bool { return n.Path == g.Result && n.Scope == "" }) {
		v.add("", "result %q is not a node", g.Result)
	}
}

func (v *validation) node(i int, n Node) {
	if _, taken := v.at[n.Path]; taken {
		v.add(n.Path, "the path is taken by another node; give one of them another name")
		return
	}
	v.at[n.Path] = i
	if other, taken := v.sessions[n.SessionKey]; taken && n.SessionKey != "" {
		v.add(n.Path, "session key %q belongs to node %q; set another one, a session has one owner", n.SessionKey, other)
	}
	v.sessions[n.SessionKey] = n.Path
	for _, id := range []TypeID{n.In, n.Out, n.Chunk} {
		if _, known := v.g.Types[id]; id != "" && !known {
			v.add(n.Path, "type %q is not in types", id)
		}
	}
	if n.Scope != "" {
		if at, known := v.at[n.Scope]; !known || v.g.Nodes[at].Kind != Loop {
			v.add(n.Path, "scope %q is not a loop before it", n.Scope)
		}
	}
	if n.When != nil {
		at, known := v.at[n.When.Switch]
		if !known || v.g.Nodes[at].Kind != Switch || !slices.Contains(v.g.Nodes[at].Cases, n.When.Case) {
			v.add(n.Path, "case %q of switch %q does not exist", n.When.Case, n.When.Switch)
		}
	}
	if n.Attempts < 0 || n.BackoffMS < 0 || n.TimeoutMS < 0 || n.IdleMS < 0 {
		v.add(n.Path, "attempts, backoff and timeouts are not negative")
	}
	switch {
	case n.CacheKey == "" && n.CacheMS != 0:
		v.add(n.Path, "a cache needs a key")
	case n.CacheMS < 0:
		v.add(n.Path, "a cache does not keep results for less than no time")
	case n.CacheKey != "" && n.Kind != Func && n.Kind != Stream && n.Kind != Map:
		v.add(n.Path, "a %s is not cached", n.Kind)
	}
	if n.Kind != Map && n.Kind != Loop && n.Max != 0 {
		v.add(n.Path, "is no map; only the elements of a map are in work in parallel")
	}
	if n.IdleMS > 0 && n.Kind != Stream {
		v.add(n.Path, "an idle timeout is for nodes that stream; give it a total one")
	}
}

func (v *validation) edges() map[string][]string {
	inputs := make(map[string][]string, len(v.g.Nodes))
	for _, e := range v.g.Edges {
		to, known := v.at[e.To]
		if !known {
			v.add(e.To, "an edge from %q ends here, but there is no such node", e.From)
			continue
		}
		inputs[e.To] = append(inputs[e.To], e.From)
		if e.From == Input {
			if v.g.Nodes[to].Scope != "" {
				v.add(e.To, "takes the run's input, but is inside %q", v.g.Nodes[to].Scope)
			}
			continue
		}
		from, known := v.at[e.From]
		switch {
		case !known:
			v.add(e.To, "its input %q is not a node", e.From)
		case from >= to:
			v.add(e.To, "its input %q comes after it; only a loop repeats", e.From)
		case e.From != v.g.Nodes[to].Scope && v.g.Nodes[from].Scope != v.g.Nodes[to].Scope:
			v.add(e.To, "its input %q is outside of its loop", e.From)
		}
	}
	return inputs
}

func (v *validation) shape(n Node, inputs []string) {
	want := 1
	switch n.Kind {
	case Func, Stream, Catch, Finally:
	case Map:
		if n.Max < 0 {
			v.add(n.Path, "a map works on at least one element at a time; 0 leaves it to the engine")
		}
	case Apply:
		want = max(1, len(inputs))
	case Switch:
		if len(n.Cases) == 0 {
			v.add(n.Path, "a switch needs a case")
		}
	case Merge:
		want = 1
		if at, known := v.at[first(inputs)]; known && v.g.Nodes[at].Kind == Switch {
			want += len(v.g.Nodes[at].Cases)
		} else {
			v.add(n.Path, "its first input is not a switch")
		}
	case Loop:
		if n.Max < 1 {
			v.add(n.Path, "a loop needs a bound of turns above 0")
		}
		at, known := v.at[n.Result]
		if n.Result != n.Path && (!known || v.g.Nodes[at].Scope != n.Path) {
			v.add(n.Path, "its result %q is not a node of its body", n.Result)
		}
	default:
		v.add(n.Path, "kind %q is unknown", n.Kind)
	}
	if len(inputs) != want {
		v.add(n.Path, "has %d inputs, needs %d", len(inputs), want)
	}
}

func first(list []string) string {
	if len(list) == 0 {
		return ""
	}
	return list[0]
}
