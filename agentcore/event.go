package agentcore

import "github.com/workflowd/workflowd/agentcore/harness"

// Event is one thing that happened in a turn; the sum is closed. Source: spec create-agent "Events".
type Event = harness.Event

// The events.
type (
	TextDelta     = harness.TextDelta
	ThinkingDelta = harness.ThinkingDelta
	ToolEvent     = harness.Tool
	Plan          = harness.Plan
	PlanApproval  = harness.PlanApproval
	Retry         = harness.Retry
	Compaction    = harness.Compaction
	ContextUsage  = harness.ContextUsage
	UsageReport   = harness.UsageReport
	TurnEnd       = harness.TurnEnd
	Cursor        = harness.Cursor
	Place         = harness.Place
)

// The phases of a tool or plan event.
const (
	Start  = harness.Start
	Update = harness.Update
	End    = harness.End
)
