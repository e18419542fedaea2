package workflowd

import (
	"context"
	"strings"

	"github.com/workflowd/workflowd/agentcore"
	"github.com/workflowd/workflowd/agentcore/fault"
	"github.com/workflowd/workflowd/agentcore/llm"
	"github.com/workflowd/workflowd/agentcore/llm/demo"
	"github.com/workflowd/workflowd/agentcore/permission"
	"github.com/workflowd/workflowd/agentcore/tool"
)

// An agent: package agentcore.
type (
	Agent         = agentcore.Agent
	AgentOptions  = agentcore.Options
	Input         = agentcore.Input
	Host          = agentcore.Host
	ToolApproval  = agentcore.ToolApproval
	PlanRequest   = agentcore.PlanRequest
	PlanDecision  = agentcore.PlanDecision
	Event         = agentcore.Event
	TextDelta     = agentcore.TextDelta
	ThinkingDelta = agentcore.ThinkingDelta
	ToolEvent     = agentcore.ToolEvent
	Retry         = agentcore.Retry
	Plan          = agentcore.Plan
	PlanApproval  = agentcore.PlanApproval
	ContextUsage  = agentcore.ContextUsage
	UsageReport   = agentcore.UsageReport
	TurnEnd       = agentcore.TurnEnd
	Provider      = llm.Provider
	Effort        = llm.Effort
)

// A place for sessions that is neither a file nor memory, and what a model sees of a session.
type (
	AgentStorageFactory = agentcore.StorageFactory
	Message             = llm.Message
)

// ErrSuspend is the cause with which the end of a turn's context lets the turn rest instead of stopping it.
var ErrSuspend = agentcore.ErrSuspend

// NewAgent opens a session; see agentcore.New.
func NewAgent(ctx context.Context, o AgentOptions) (*Agent, error) { return agentcore.New(ctx, o) }

// DemoModel is the built-in model, a script that looks at the request and at your files. It needs no key and no network.
func DemoModel() Provider { return demo.New(demo.Options{}) }

// Prompt asks a new agent one thing and returns what it said last. It is to NewAgent what http.Get is to an http.Client:
// nothing is kept, nobody is asked, and it ends when the answer does. Without o.Model and o.LLM the demo model answers.
func Prompt(prompt string, o AgentOptions) (answer string, err error) {
	if o.Model == "" && o.LLM == nil {
		o.Model, o.LLM = demo.Model, DemoModel()
	}
	ctx := context.Background()
	agent, err := NewAgent(ctx, o)
	if err != nil {
		return "", err
	}
	defer func() {
		if cerr := agent.Close(); err == nil {
			err = cerr
		}
	}()
	var said strings.Builder
	for event, err := range agent.Run(ctx, Input{Prompt: prompt}, nil) {
		switch e := event.(type) {
		case TextDelta:
			said.WriteString(e.Text)
		case ToolEvent:
			said.Reset() // what comes before a call introduces it
		}
		if err != nil {
			return "", err
		}
	}
	return said.String(), nil
}

// What an agent can do, and how far it reaches: packages agentcore/tool and agentcore/permission.
type (
	Tool         = tool.Tool
	ToolCall     = tool.Call
	ToolResult   = tool.Result
	ToolOption   = tool.Option
	ReplayPolicy = tool.ReplayPolicy
	Policy       = permission.Policy
	Mode         = permission.Mode
)

// The choices of AgentOptions and of NewTool; see their packages.
const (
	ReadOnly  = permission.ReadOnly
	Workspace = permission.Workspace
	Auto      = permission.Auto
	BuildMode = permission.Build
	PlanMode  = permission.Plan
	Safe      = tool.Safe
	Never     = tool.Never
)

// NewTool returns a tool whose arguments are an In; see tool.New.
func NewTool[In any](name, description string, fn func(context.Context, ToolCall, In) (ToolResult, error), options ...ToolOption) Tool {
	return tool.New(name, description, fn, options...)
}

// Replay says what a crash in the middle of a call means; see tool.Replay.
func Replay(p ReplayPolicy) ToolOption { return tool.Replay(p) }

// ToolText is a result that the model reads.
func ToolText(text string) ToolResult { return tool.Text(text) }

// ToolFail is a result that tells the model what went wrong.
func ToolFail(text string) ToolResult { return tool.Fail(text) }

// Failures: package agentcore/fault.
type (
	Error     = fault.Error
	ErrorKind = fault.Kind
)

// KindOf returns the kind of err, "" when it has none; see fault.Kind for the kinds there are.
func KindOf(err error) ErrorKind { return fault.KindOf(err) }
