package llm

import (
	"context"
	"encoding/json"
	"iter"
)

// Provider is one model endpoint. Implementations are safe for concurrent use.
type Provider interface {
	// Stream sends one request. The sequence yields events and ends after exactly one Done, or after one error, which is
	// always an *Error and comes last. Breaking out of the loop or cancelling ctx stops reading at once and releases the
	// connection before the sequence returns. A cancelled ctx yields an *Error of class Canceled.
	Stream(ctx context.Context, req Request) iter.Seq2[StreamEvent, error]
	// Origin identifies the endpoint for model. It is stored with each answer.
	Origin(model string) Origin
}

// Request is one call of a model. Slices and messages are only read.
type Request struct {
	Model     string
	System    string // the whole system prompt; "" sends none
	Messages  []Message
	Tools     []ToolSpec
	Effort    Effort // "" = the model decides
	MaxTokens int    // output limit; 0 = the provider's default
	WebSearch bool   // the provider's own search is offered beside Tools; a protocol that has none ignores it
	TextOnly  bool   // the model sees no images: a placeholder stands for each
	// CacheKey is stable per conversation; a provider with prompt caching sends it as its affinity key.
	CacheKey string
}

// ToolSpec declares a tool to the model. Schema is a JSON Schema object.
type ToolSpec struct {
	Name        string          `json:"name"`
	Description string          `json:"description"`
	Schema      json.RawMessage `json:"schema"`
}

// Effort is a reasoning level on our wire.
type Effort string

// The levels. "ultra" means max; "" means that the model decides. Source: spec create-agent "Reasoning effort".
const (
	EffortOff     Effort = "off"
	EffortMinimal Effort = "minimal"
	EffortLow     Effort = "low"
	EffortMedium  Effort = "medium"
	EffortHigh    Effort = "high"
	EffortXHigh   Effort = "xhigh"
	EffortMax     Effort = "max"
	EffortUltra   Effort = "ultra"
)

// StopReason is why a response ended, normalised over protocols.
type StopReason string

// The stop reasons. Interrupted is never sent by a provider: the harness stores it for a response whose stream died after
// output; Aborted likewise for one that somebody stopped.
const (
	StopEnd         StopReason = "stop"
	StopToolUse     StopReason = "toolUse"
	StopLength      StopReason = "length"
	StopRefusal     StopReason = "refusal" // refusal or content filter: a call beside it never runs
	StopPause       StopReason = "pause"   // provider wants to be called again (native tools)
	StopInterrupted StopReason = "interrupted"
	StopAborted     StopReason = "aborted"
)

// Usage counts tokens of one response, as last reported (never summed over events). Input includes CachedInput and
// CacheWrite. Output includes Reasoning.
type Usage struct {
	Input       int64 `json:"inputTokens"`
	Output      int64 `json:"outputTokens"`
	Total       int64 `json:"totalTokens"`
	CachedInput int64 `json:"cachedInputTokens,omitempty"`
	CacheWrite  int64 `json:"cacheCreationTokens,omitempty"`
	Reasoning   int64 `json:"reasoningTokens,omitempty"`
}

// Add returns the sum of two usages, for totals over several responses.
func (u Usage) Add(v Usage) Usage {
	return Usage{u.Input + v.Input, u.Output + v.Output, u.Total + v.Total, u.CachedInput + v.CachedInput, u.CacheWrite + v.CacheWrite, u.Reasoning + v.Reasoning}
}

// StreamEvent is one step of a response: BlockStart, Delta, BlockStop or Done.
type StreamEvent interface{ isStreamEvent() }

// BlockStart opens block Index. Indices grow in the order of first appearance and are never reused. A tool call starts
// only once its name is known; argument text that came earlier follows as a Delta.
type BlockStart struct {
	Index  int
	Type   BlockType
	CallID string
	Name   string
	Field  string // Thinking: as Block has it, where it is known at the start
}

// Delta appends to block Index: text, thinking, refusal, or raw argument text of a call.
type Delta struct {
	Index int
	Text  string
}

// BlockStop says that block Index is complete. Block is its final value: what its deltas said, unless the provider's own
// final value was another one, which then counts.
type BlockStop struct {
	Index int
	Block Block
}

// Done ends a response. Message holds every block in order with Origin, Stop and Usage set. A call whose name never came
// is dropped and counted in LostCalls.
type Done struct {
	Message   Message
	LostCalls int
}

func (BlockStart) isStreamEvent() {}
func (Delta) isStreamEvent()      {}
func (BlockStop) isStreamEvent()  {}
func (Done) isStreamEvent()       {}
