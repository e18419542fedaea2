package agentnode

import (
	"context"
	"encoding/json"
	"iter"
	"reflect"
	"slices"

	"github.com/workflowd/workflowd/agentcore"
	"github.com/workflowd/workflowd/agentcore/fault"
	"github.com/workflowd/workflowd/agentcore/llm"
	"github.com/workflowd/workflowd/agentcore/prompt"
	"github.com/workflowd/workflowd/agentcore/tool"
	"github.com/workflowd/workflowd/internal/schema"
	"github.com/workflowd/workflowd/outputitems"
	"github.com/workflowd/workflowd/workflow"
)

// SubmitTool is the tool by which an agent hands over a typed answer.
const SubmitTool = "submit_answer"

// Typed returns an agent node that ends in an Out: a struct, whose JSON schema the model is shown as the tool SubmitTool.
// Arguments that do not fit go back to the model as the call's error. A turn that ends without the call is asked for it
// once more; then the node fails with kind model_error. The session key is the name unless the options give one.
func Typed[In, Out any](name string, opts Options, input func(In) agentcore.Input) workflow.StreamNode[In, outputitems.Chunk, Out] {
	opts.Name = name
	if opts.SessionKey == "" {
		opts.SessionKey = name
	}
	t := typed[In, Out]{input: input}
	submit, err := submitTool(reflect.TypeFor[Out]())
	if err != nil {
		t.wrong = err
	} else {
		opts.ExtraTools = append(slices.Clip(opts.ExtraTools), submit)
	}
	t.node = Node{opts: opts, more: askAgain}
	return t
}

// submitTool is the tool of an answer's type. It has no effects: the answer is its arguments.
func submitTool(out reflect.Type) (tool.Tool, error) {
	shape, err := schema.Reflect(out)
	if err != nil {
		return nil, fault.New(fault.InputValidation, "typed answer %s: %w", out, err)
	}
	spec := llm.ToolSpec{Name: SubmitTool, Description: "Hands the complete answer over to the program. Call it once, at the end.", Schema: shape}
	return tool.FromSchema(spec, func(context.Context, tool.Call) (tool.Result, error) {
		r := tool.Text("The answer was taken.")
		r.Terminate = true
		return r, nil
	}, tool.Replay(tool.Safe))
}

// askAgain asks once for an answer that a turn ended without.
func askAgain(in agentcore.Input, p *projector) (*agentcore.Input, error) {
	if _, ok := submitted(p.acc.Items()); ok {
		return nil, nil
	}
	const again = "/answer"
	if n := len(in.RequestID) - len(again); n > 0 && in.RequestID[n:] == again {
		return nil, fault.New(fault.ModelError, "the model ended twice without handing its answer over by %s", SubmitTool)
	}
	in.RequestID, in.Prompt, in.Images = in.RequestID+again, prompt.SubmitMissing(SubmitTool), nil
	return &in, nil
}

// submitted returns the arguments of the newest answer that was taken.
func submitted(items []outputitems.Item) (json.RawMessage, bool) {
	for _, it := range slices.Backward(items) {
		var row ToolRow
		j, ok := it.Content.(outputitems.JSON)
		if ok && it.Metadata.PartType == outputitems.PartTool && it.Status == outputitems.StatusCompleted && j.Decode(&row) == nil && row.Tool == SubmitTool {
			return row.Arguments, true
		}
	}
	return nil, false
}

type typed[In, Out any] struct {
	node  Node
	input func(In) agentcore.Input
	wrong error // the type has no schema
}

func (t typed[In, Out]) Info() workflow.NodeInfo { return t.node.Info() }

func (t typed[In, Out]) Stream(ctx workflow.NodeContext, in In) iter.Seq2[outputitems.Chunk, error] {
	if t.wrong != nil {
		return func(yield func(outputitems.Chunk, error) bool) { yield(outputitems.Chunk{}, t.wrong) }
	}
	input := t.input(in)
	input.Prompt += "\n\n" + prompt.Submit(SubmitTool)
	return t.node.Stream(ctx, input)
}

// Finalize decodes the answer from the committed chunks.
func (t typed[In, Out]) Finalize(ctx workflow.NodeContext, _ In, chunks iter.Seq[outputitems.Chunk]) (Out, error) {
	var out Out
	p, err := t.node.Finalize(ctx, agentcore.Input{}, chunks)
	if err != nil {
		return out, err
	}
	raw, ok := submitted(p.Items)
	if !ok {
		return out, fault.New(fault.ModelError, "the agent handed no answer over by %s", SubmitTool)
	}
	if err := json.Unmarshal(raw, &out); err != nil {
		return out, fault.New(fault.ModelError, "the agent's answer: %w", err)
	}
	return out, nil
}
