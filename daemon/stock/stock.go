// Package stock holds the workflows that the binary brings: demo, which shows the main job on a copy of the reader's own
// files, and agent, one prompt for an agent in the current directory.
package stock

import (
	"strings"

	"github.com/workflowd/workflowd/agentcore"
	"github.com/workflowd/workflowd/agentcore/fault"
	"github.com/workflowd/workflowd/daemon"
	"github.com/workflowd/workflowd/nodes/agentnode"
	"github.com/workflowd/workflowd/outputitems"
	"github.com/workflowd/workflowd/workflow"
)

// Parts returns the built-in workflows.
func Parts() []daemon.Part {
	return []daemon.Part{Demo(), Agent()}
}

// AgentRequest is the input of the agent workflow.
type AgentRequest struct {
	Prompt string `json:"prompt" jsonschema:"minLength=1,description=What the agent should do"`
}

// Agent is one prompt for one agent: input, agent node, answer.
func Agent() daemon.Part {
	return daemon.Workflow("one prompt for an agent in the working directory: -i prompt=TEXT", func(o agentnode.Options) (*workflow.Workflow[AgentRequest, agentnode.Payload], error) {
		return workflow.Define("agent", 1, func(b *workflow.Builder, in workflow.Ref[AgentRequest]) workflow.Ref[agentnode.Payload] {
			input := workflow.Then(b, in, prompted)
			return workflow.Then(b, workflow.ThenStream(b, input, agentnode.New(o)), answered)
		})
	}, answer)
}

// answer is the text of the turn. What was said before and after a tool call are paragraphs of their own; the parts of an
// answer that was cut off are not.
func answer(p agentnode.Payload) string {
	var b strings.Builder
	apart := false
	for _, it := range p.Items {
		switch {
		case it.IsBody():
			if apart && b.Len() > 0 {
				b.WriteString("\n\n")
			}
			b.WriteString(it.Text())
			apart = false
		case it.Metadata.PartType == outputitems.PartTool:
			apart = true
		}
	}
	return b.String()
}

var prompted = workflow.Func("input", func(_ workflow.NodeContext, r AgentRequest) (agentcore.Input, error) {
	if strings.TrimSpace(r.Prompt) == "" {
		return agentcore.Input{}, fault.New(fault.InputValidation, "/prompt: must not be empty")
	}
	return agentcore.Input{Prompt: r.Prompt}, nil
})

var answered = workflow.Func("output", func(_ workflow.NodeContext, p agentnode.Payload) (agentnode.Payload, error) { return p, nil })
