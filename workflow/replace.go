package workflow

import (
	"encoding/json"
	"iter"
	"slices"
)

// Replace returns the workflow with run as the code of node i of its graph. run gets the node's input and gives its value;
// of a map it gets one element, of a catch or a finally the Failure. A stream node then delivers no chunks. The graph and
// its fingerprint stay, so an engine cannot tell the difference. Nodes that decide inline have no code to replace: they
// stay as they are. It serves tests.
func (w *Workflow[In, Out]) Replace(i int, run func(NodeContext, json.RawMessage) (json.RawMessage, error)) *Workflow[In, Out] {
	return w.with(i, func(c *code) {
		if c.run != nil {
			c.run = run
		}
		if c.stream != nil {
			c.stream = func(NodeContext, json.RawMessage, func(any) error) error { return nil }
			c.finalize = func(ctx NodeContext, in json.RawMessage, _ iter.Seq2[json.RawMessage, error]) (json.RawMessage, error) {
				return run(ctx, in)
			}
		}
	})
}

// Within returns the workflow whose node i is entered with the context that change makes of its own. It serves tests.
func (w *Workflow[In, Out]) Within(i int, change func(NodeContext) NodeContext) *Workflow[In, Out] {
	return w.with(i, func(c *code) {
		if run := c.run; run != nil {
			c.run = func(ctx NodeContext, in json.RawMessage) (json.RawMessage, error) { return run(change(ctx), in) }
		}
		if stream := c.stream; stream != nil {
			c.stream = func(ctx NodeContext, in json.RawMessage, deliver func(any) error) error {
				return stream(change(ctx), in, deliver)
			}
		}
	})
}

// with returns a copy of the workflow with other code behind node i.
func (w *Workflow[In, Out]) with(i int, change func(*code)) *Workflow[In, Out] {
	all := slices.Clone(w.definition.code)
	change(&all[i])
	return &Workflow[In, Out]{newDefinition(w.definition.graph, all)}
}
