package tool

import (
	"context"
	"encoding/json"

	"github.com/workflowd/workflowd/agentcore/llm"
)

// Tool is one thing a model can call. Implementations are safe for concurrent use.
type Tool interface {
	// Spec is the declaration shown to the model. It must not change while the tool is installed.
	Spec() llm.ToolSpec
	// Replay says whether a call with an unknown outcome may run again.
	Replay() ReplayPolicy
	// Prepare repairs and validates arguments, a JSON object, and returns those to record and execute. It has no effects.
	// An error becomes the call's result; nothing runs.
	Prepare(args json.RawMessage) (json.RawMessage, error)
	// Execute does the work. ctx ends when the run is stopped or suspended; what Execute returns then is not recorded as
	// a success. An error means the call failed; its text is shown to the model.
	Execute(ctx context.Context, call Call) (Result, error)
}

// ReplayPolicy is what may happen to a call that a crash caught between its intent and its result.
type ReplayPolicy string

// The policies. The zero value counts as Never. Source: spec create-agent "The transcript".
const (
	Never ReplayPolicy = "never" // reported as interrupted, outcome unknown; the default
	Safe  ReplayPolicy = "safe"  // executed again with the recorded arguments
)

// Call is one execution. It is valid until Execute returns.
type Call struct {
	ID   string          // opaque, stable over restarts, unique in the session
	Name string          // the tool's name
	Args json.RawMessage // as recorded with the intent
	Emit func(text string)
}

// Output shows text as live output of the call. It is progress for people: the model reads only the Result.
func (c Call) Output(text string) {
	if c.Emit != nil {
		c.Emit(text)
	}
}

// Result is what a call gives back. The zero value is an empty success.
type Result struct {
	Blocks  []llm.Block     // text and images for the model
	IsError bool            // the model should treat it as a failure
	Details json.RawMessage // facts for people (a diff, counts), never sent to the model
	// Structured is the result as data, for callers that are programs (MCP clients, code mode). nil = none.
	Structured json.RawMessage
	Terminate  bool       // the round ends the turn when every result of it says so
	Usage      *llm.Usage // tokens the tool itself spent, counted apart from the model's
}

// Text returns a successful result of one text block.
func Text(s string) Result { return Result{Blocks: []llm.Block{{Type: llm.Text, Text: s}}} }

// Fail returns a result of one text block that the model reads as an error.
func Fail(s string) Result {
	r := Text(s)
	r.IsError = true
	return r
}

// Text returns the concatenated text of r.
func (r Result) Text() string { return llm.Message{Blocks: r.Blocks}.Text() }
