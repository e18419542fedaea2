package workflow

import (
	"bytes"
	"encoding/json"
	"fmt"
	"iter"

	"github.com/workflowd/workflowd/agentcore/fault"
	"github.com/workflowd/workflowd/workflow/graph"
)

// Definition is a workflow without its types: the graph document and, for each of its nodes, the code behind it. Values
// are JSON. It is immutable and safe for concurrent use. Engines use it; i is an index into Graph().Nodes.
type Definition struct {
	graph graph.Graph
	code  []code
}

// code is what a node does; which parts are set depends on its kind.
type code struct {
	run      func(NodeContext, json.RawMessage) (json.RawMessage, error)
	stream   func(NodeContext, json.RawMessage, func(any) error) error
	finalize func(NodeContext, json.RawMessage, iter.Seq2[json.RawMessage, error]) (json.RawMessage, error)
	pure     func([]json.RawMessage) (json.RawMessage, error)
}

func newDefinition(g graph.Graph, c []code) *Definition { return &Definition{graph: g, code: c} }

// Graph returns the document. It is shared: do not change it.
func (d *Definition) Graph() *graph.Graph { return &d.graph }

// Run enters a node, the handler of a catch (input: a Failure), the cleanup of a finally (likewise), or a map's node for
// one element.
func (d *Definition) Run(ctx NodeContext, i int, in json.RawMessage) (json.RawMessage, error) {
	return d.code[i].run(ctx, in)
}

// Stream enters a stream node and hands each chunk to deliver; an error of deliver ends the stream and is returned.
func (d *Definition) Stream(ctx NodeContext, i int, in json.RawMessage, deliver func(chunk any) error) error {
	return d.code[i].stream(ctx, in, deliver)
}

// Finalize folds the chunks of a stream node. An error among the chunks ends the fold and is returned.
func (d *Definition) Finalize(ctx NodeContext, i int, in json.RawMessage, chunks iter.Seq2[json.RawMessage, error]) (json.RawMessage, error) {
	return d.code[i].finalize(ctx, in, chunks)
}

// Pure computes an inline node: apply gives its value, switch the JSON string of the case, loop (input: the value of the
// turn that ended) whether it is done.
func (d *Definition) Pure(i int, inputs []json.RawMessage) (json.RawMessage, error) {
	return d.code[i].pure(inputs)
}

// encode is the JSON that values travel as: compact, without the escaping that is meant for HTML.
func encode(value any) (json.RawMessage, error) {
	var buffer bytes.Buffer
	encoder := json.NewEncoder(&buffer)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(buffer.Bytes(), []byte("\n")), nil
}

func decode[T any](raw json.RawMessage) (T, error) {
	var value T
	if err := json.Unmarshal(raw, &value); err != nil {
		return value, fault.New(fault.InputValidation, "decode %T: %w", value, err)
	}
	return value, nil
}

// output encodes a node's value; one that JSON cannot hold (a NaN) is the node's failure.
func output(value any) (json.RawMessage, error) {
	raw, err := encode(value)
	if err != nil {
		return nil, fmt.Errorf("encode the result: %w", err)
	}
	return raw, nil
}

func nodeCode[In, Out any](n Node[In, Out]) code {
	return code{run: func(ctx NodeContext, raw json.RawMessage) (json.RawMessage, error) {
		in, err := decode[In](raw)
		if err != nil {
			return nil, err
		}
		out, err := n.Run(ctx, in)
		if err != nil {
			return nil, err
		}
		return output(out)
	}}
}

func streamCode[In, Chunk, Out any](n StreamNode[In, Chunk, Out]) code {
	stream := func(ctx NodeContext, raw json.RawMessage, deliver func(any) error) error {
		in, err := decode[In](raw)
		if err != nil {
			return err
		}
		for chunk, err := range n.Stream(ctx, in) {
			if err != nil {
				return err
			}
			if err := deliver(chunk); err != nil {
				return err
			}
		}
		return nil
	}
	finalize := func(ctx NodeContext, raw json.RawMessage, chunks iter.Seq2[json.RawMessage, error]) (json.RawMessage, error) {
		in, err := decode[In](raw)
		if err != nil {
			return nil, err
		}
		var broken error
		out, err := n.Finalize(ctx, in, func(yield func(Chunk) bool) {
			for raw, err := range chunks {
				var chunk Chunk
				if err == nil {
					chunk, err = decode[Chunk](raw)
				}
				if err != nil {
					broken = err
					return
				}
				if !yield(chunk) {
					return
				}
			}
		})
		if broken != nil {
			return nil, broken
		}
		if err != nil {
			return nil, err
		}
		return output(out)
	}
	return code{stream: stream, finalize: finalize}
}
