package graph

import (
	"fmt"
	"strings"
)

// Mermaid draws the graph as a Mermaid flowchart, from the top down: one box per node with its kind's shape, dotted boxes
// for the nodes of a loop's body. It is a pure function of the document.
func (g *Graph) Mermaid() string {
	var b strings.Builder
	fmt.Fprintf(&b, "---\ntitle: %s %d\n---\nflowchart TD\n", mermaidText(g.Name), g.Version)
	ids := map[string]string{Input: "in"}
	fmt.Fprintf(&b, "  in([%s])\n", mermaidText(g.Types[g.Input].Name))
	for i, n := range g.Nodes {
		ids[n.Path] = fmt.Sprintf("n%d", i)
		open, end := mermaidShape(n.Kind)
		fmt.Fprintf(&b, "  n%d%s%s%s\n", i, open, mermaidText(label(n)), end)
	}
	for _, e := range g.Edges {
		fmt.Fprintf(&b, "  %s --> %s\n", ids[e.From], ids[e.To])
	}
	for _, n := range g.Nodes {
		if n.When != nil {
			fmt.Fprintf(&b, "  %s -. %s .-> %s\n", ids[n.When.Switch], mermaidText(n.When.Case), ids[n.Path])
		}
		if n.Scope != "" {
			fmt.Fprintf(&b, "  %s -. body .-> %s\n", ids[n.Scope], ids[n.Path])
		}
	}
	fmt.Fprintf(&b, "  out([%s])\n  %s --> out\n", mermaidText(g.Types[g.Output].Name), ids[g.Result])
	return b.String()
}

// label is what a box says: the path, and what the node is.
func label(n Node) string {
	what := string(n.Kind)
	if n.Type != "" {
		what = n.Type
	}
	return n.Path + " (" + what + ")"
}

func mermaidShape(k Kind) (open, end string) {
	switch k {
	case Stream:
		return "[/", "/]"
	case Switch, Merge, Loop:
		return "{", "}"
	case Map:
		return "[[", "]]"
	case Apply:
		return "(", ")"
	case Func, Catch, Finally:
	}
	return "[", "]"
}

// mermaidText quotes a text: Mermaid knows no escape for a quotation mark but its entity.
func mermaidText(s string) string {
	return `"` + strings.NewReplacer(`"`, "#quot;", "\n", " ").Replace(s) + `"`
}

// DOT draws the graph in Graphviz' language, from the top down. It is a pure function of the document.
func (g *Graph) DOT() string {
	var b strings.Builder
	fmt.Fprintf(&b, "digraph %q {\n  rankdir=TB; node [shape=box, fontname=\"sans-serif\"];\n", g.Name)
	fmt.Fprintf(&b, "  %q [label=%q, shape=oval];\n", Input, g.Types[g.Input].Name)
	for _, n := range g.Nodes {
		fmt.Fprintf(&b, "  %q [label=%q, shape=%s];\n", n.Path, label(n), dotShape(n.Kind))
	}
	for _, e := range g.Edges {
		fmt.Fprintf(&b, "  %q -> %q;\n", e.From, e.To)
	}
	for _, n := range g.Nodes {
		if n.When != nil {
			fmt.Fprintf(&b, "  %q -> %q [style=dotted, label=%q];\n", n.When.Switch, n.Path, n.When.Case)
		}
		if n.Scope != "" {
			fmt.Fprintf(&b, "  %q -> %q [style=dotted, label=\"body\"];\n", n.Scope, n.Path)
		}
	}
	fmt.Fprintf(&b, "  %q [label=%q, shape=oval];\n  %q -> %q;\n}\n", "$output", g.Types[g.Output].Name, g.Result, "$output")
	return b.String()
}

func dotShape(k Kind) string {
	switch k {
	case Stream:
		return "parallelogram"
	case Switch, Merge, Loop:
		return "diamond"
	case Map:
		return "box3d"
	case Apply:
		return "ellipse"
	case Func, Catch, Finally:
	}
	return "box"
}
