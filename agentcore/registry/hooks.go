package registry

import (
	"context"
	"encoding/json"

	"github.com/workflowd/workflowd/agentcore/llm"
	"github.com/workflowd/workflowd/agentcore/session"
	"github.com/workflowd/workflowd/agentcore/tool"
)

// Hooks is what an extension does at fixed points of a turn. A nil field does nothing. Hooks run in the order of the
// extensions, outside of commits, and may run again after a crash: what must be said only once is kept in a memo or a
// document. An error or a panic is reported and the hook is skipped, unless the point says otherwise; the end of ctx is
// passed on. Source: durable kernel 3.8.
type Hooks struct {
	// BeforeTool decides about a call whose arguments are valid. An error blocks the call.
	BeforeTool func(ctx context.Context, c ToolCall) (ToolDecision, error)
	// AfterTool may replace the result of a call, before it is bounded and recorded.
	AfterTool func(ctx context.Context, c ToolCall, r tool.Result) (tool.Result, error)
	// BeforeRequest may replace a request, before every send, repeats included.
	BeforeRequest func(ctx context.Context, r llm.Request) (llm.Request, error)
	// AfterResponse may replace a whole response, before it is judged. While one is installed nothing of a response is
	// shown before it is whole: what was shown is never taken back.
	AfterResponse func(ctx context.Context, m llm.Message) (llm.Message, error)
	// OnYield looks at an answer that is about to end the turn. Asking the model to go on is honoured unless somebody else
	// has spoken meanwhile. A hook that always asks never lets a turn end.
	OnYield func(ctx context.Context, answer llm.Message) (YieldDecision, error)
	// AfterTools is told when every call of a round has a result.
	AfterTools func(ctx context.Context, round []ToolOutcome) error
	// ConversationCreated drafts what a new conversation starts with, inside the commit that creates it. It must be quick
	// and has no other effects. Its error refuses the conversation.
	ConversationCreated func(tx *session.Tx, c session.ConversationID) error
}

// ToolCall is what hooks see of a call. Args is not changed in place.
type ToolCall struct {
	ID   string
	Name string
	Args json.RawMessage
}

// ToolOutcome is a call with what it gave.
type ToolOutcome struct {
	Call   ToolCall
	Result tool.Result
}

// ToolDecision is Proceed or Block; nil is Proceed with the arguments as they are.
type ToolDecision interface{ isToolDecision() }

// Proceed lets the call go on, with other arguments unless Args is nil. They are validated again.
type Proceed struct{ Args json.RawMessage }

// Block ends the call without running it. Reason is its result for the model.
type Block struct{ Reason string }

func (Proceed) isToolDecision() {}
func (Block) isToolDecision()   {}

// YieldDecision is Accept or GoOn; nil is Accept.
type YieldDecision interface{ isYieldDecision() }

// Accept lets the answer end the turn.
type Accept struct{}

// GoOn asks the model to go on, with a prompt.
type GoOn struct{ Prompt string }

func (Accept) isYieldDecision() {}
func (GoOn) isYieldDecision()   {}
