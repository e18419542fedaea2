package agentcore

import (
	"context"
	"encoding/json"

	"github.com/workflowd/workflowd/agentcore/harness"
)

// Host takes decisions and bills. A nil Host never pauses a turn. Source: spec create-agent "Host hooks".
type Host interface {
	// ApproveToolCall decides a call of a tool of the host's own; built-in tools never ask. Nil allows it; an error of
	// kind user_input_required pauses the turn; any other error denies it and its text is what the model reads.
	ApproveToolCall(ctx context.Context, call ToolApproval) error
	// ApprovePlan decides a plan. An error of kind user_input_required pauses the turn.
	ApprovePlan(ctx context.Context, plan PlanRequest) (PlanDecision, error)
	// ReportUsage takes the bill of one model response. The same RecordID may come again: it replaces the first.
	ReportUsage(ctx context.Context, usage UsageReport) error
}

// ToolApproval is a call to decide. ToolCallID binds store, assistant entry and call: another call never shares it.
type ToolApproval struct {
	ToolCallID string
	Name       string
	Args       json.RawMessage
}

// PlanRequest is a plan to decide. Every revision has a RequestID of its own, the same after a restart.
type PlanRequest struct {
	RequestID string
	Revision  int // from 1
	Text      string
}

// PlanDecision is what a person said of a plan.
type PlanDecision struct {
	Approve      bool
	Instructions string // for the revision, when it was not approved
}

// approver adapts a Host to the harness.
type approver struct{ host Host }

func (a approver) Approve(ctx context.Context, call harness.Approval) error {
	return a.host.ApproveToolCall(ctx, ToolApproval{ToolCallID: call.ToolCallID, Name: call.Name, Args: call.Args})
}
