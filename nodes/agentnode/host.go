package agentnode

import (
	"context"
	"encoding/json"

	"github.com/workflowd/workflowd/agentcore"
	"github.com/workflowd/workflowd/agentcore/fault"
	"github.com/workflowd/workflowd/agentcore/permission"
	"github.com/workflowd/workflowd/workflow"
	"github.com/workflowd/workflowd/workflow/userinput"
)

// host routes what an agent asks for through the node's context.
type host struct {
	ctx  workflow.NodeContext
	opts Options
	mode permission.Mode
}

// planPayload is what a plan request shows.
type planPayload struct {
	Plan     string `json:"plan"`
	Revision int    `json:"revision"`
}

// ApprovePlan asks for a decision under the plan's own request id; an earlier answer can never decide a later plan.
func (h host) ApprovePlan(_ context.Context, plan agentcore.PlanRequest) (agentcore.PlanDecision, error) {
	payload, err := json.Marshal(planPayload{plan.Text, plan.Revision})
	if err != nil {
		return agentcore.PlanDecision{}, err
	}
	raw, err := h.ctx.UserInput().Request(userinput.Request{Key: "plan:" + plan.RequestID, Kind: userinput.Plan, Title: "Approve the plan", Payload: payload})
	if err != nil {
		return agentcore.PlanDecision{}, err
	}
	var d userinput.Decision
	if err := json.Unmarshal(raw, &d); err != nil {
		return agentcore.PlanDecision{}, fault.New(fault.Storage, "decision about plan %s: %w", plan.RequestID, err)
	}
	return agentcore.PlanDecision{Approve: d.Approved(), Instructions: d.Reason}, nil
}

// ApproveToolCall asks about tools that are declared with AutoApprove false, in a plan-mode turn; a build turn runs them.
// Source: spec create-agent "Your own tools", R-17.
func (h host) ApproveToolCall(_ context.Context, call agentcore.ToolApproval) error {
	for _, d := range h.opts.ToolDefinitions {
		if d.Name != call.Name || d.AutoApprove || h.mode != permission.Plan {
			continue
		}
		decision, err := h.ctx.ToolPermissions().Approve(workflow.ToolCall{ID: call.ToolCallID, Name: call.Name, Title: "Run " + call.Name, Arguments: call.Args})
		if err != nil {
			return err
		}
		if !decision.Approved() {
			reason := decision.Reason
			if reason == "" {
				reason = "the user did not allow this call"
			}
			return fault.New(fault.Conflict, "%s", reason)
		}
	}
	return nil
}

// ReportUsage passes a bill on under its stable id.
func (h host) ReportUsage(_ context.Context, u agentcore.UsageReport) error {
	return h.ctx.TokenUsage().Report(u.RecordID, workflow.Usage{Provider: u.Origin.Provider, Model: u.Origin.Model, Input: u.Usage.Input,
		Output: u.Usage.Output, Total: u.Usage.Total, CachedInput: u.Usage.CachedInput, CacheWrite: u.Usage.CacheWrite, Reasoning: u.Usage.Reasoning})
}
