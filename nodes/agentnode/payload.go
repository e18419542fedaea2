package agentnode

import (
	"github.com/workflowd/workflowd/agentcore/llm"
	"github.com/workflowd/workflowd/agentcore/permission"
	"github.com/workflowd/workflowd/outputitems"
)

// Payload is what an agent node ends in: the items, and what the turn actually ran with. Source: spec create-agent-node
// "Output".
type Payload struct {
	ErrCode       int                `json:"errCode"`
	ErrMessage    string             `json:"errMessage"`
	Items         []outputitems.Item `json:"items"`
	Prompt        string             `json:"prompt"`
	Workdir       string             `json:"workdir"`
	Provider      string             `json:"provider"`
	Model         string             `json:"model"`
	Effort        llm.Effort         `json:"effort"`
	Agent         permission.Mode    `json:"agent"`
	SessionID     string             `json:"sessionId"`
	ToolCallCount int                `json:"toolCallCount"`
	ContextUsage  *ContextUsage      `json:"contextUsage,omitempty"`
}

// ContextUsage is the occupancy of the model's context at the end of the turn.
type ContextUsage struct {
	Used  int64 `json:"used"`
	Total int64 `json:"total"`
}

// Answer is the text of the turn, as the conversation shows it.
func (p Payload) Answer() string { return outputitems.Body(p.Items) }

// Plan is the newest plan of the turn, "" when there is none.
func (p Payload) Plan() string {
	for i := len(p.Items) - 1; i >= 0; i-- {
		if p.Items[i].Metadata.Plan {
			return p.Items[i].Text()
		}
	}
	return ""
}
