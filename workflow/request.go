package workflow

import (
	"encoding/json"
	"fmt"
	"reflect"
	"time"

	"github.com/workflowd/workflowd/agentcore/fault"
	"github.com/workflowd/workflowd/workflow/graph"
)

// InputKind says what is asked and thereby what an answer looks like.
type InputKind string

// The kinds. Plan and approval are answered by a Decision, a question and a custom request by JSON that fits the schema.
const (
	InputPlan     InputKind = "plan"
	InputApproval InputKind = "approval"
	InputQuestion InputKind = "question"
	InputCustom   InputKind = "custom"
)

// InputRequest is a question to a person. Key is unique in the node's visit.
type InputRequest struct {
	Key     string          `json:"key"`
	Kind    InputKind       `json:"kind"`
	Title   string          `json:"title,omitempty"`
	Payload json.RawMessage `json:"payload,omitempty"` // what to show, by kind
	Schema  json.RawMessage `json:"schema,omitempty"`  // of the answer; nil = any JSON, or Decision for plan and approval
	Expires time.Duration   `json:"-"`                 // after the opening; 0 = never
}

// Decision answers a plan or an approval. Decision is "approve" or "deny".
type Decision struct {
	Decision  string          `json:"decision"`
	Reason    string          `json:"reason,omitempty"`
	Arguments json.RawMessage `json:"arguments,omitempty"` // changed arguments of the call
	Answers   json.RawMessage `json:"answers,omitempty"`
}

// Approved reports whether the decision is a yes.
func (d Decision) Approved() bool { return d.Decision == "approve" }

// UserInputRequired parks the run: a person has to answer RequestID. A node returns it, wrapped or not. Its kind is
// fault.UserInputRequired.
type UserInputRequired struct {
	RequestID string
	Request   InputRequest
}

// Error names the request.
func (e *UserInputRequired) Error() string {
	return fmt.Sprintf("input required: request %s (%s) %s", e.RequestID, e.Request.Kind, e.Request.Title)
}

// Unwrap gives the error its kind.
func (e *UserInputRequired) Unwrap() error {
	return &fault.Error{Kind: fault.UserInputRequired, Message: e.Error()}
}

// Ask asks a person a typed question under key and returns the typed answer. It is another view of the row that
// UserInput.Request makes, with the schema of A.
func Ask[Q, A any](ctx NodeContext, key string, question Q) (A, error) {
	var answer A
	payload, err := encode(question)
	if err != nil {
		return answer, fault.New(fault.InputValidation, "ask %q: %w", key, err)
	}
	schema, err := graph.SchemaOf(reflect.TypeFor[A]())
	if err != nil {
		return answer, fault.New(fault.InputValidation, "ask %q: %w", key, err)
	}
	raw, err := ctx.UserInput().Request(InputRequest{Key: key, Kind: InputCustom, Payload: payload, Schema: schema})
	if err != nil {
		return answer, err
	}
	if err := json.Unmarshal(raw, &answer); err != nil {
		return answer, fault.New(fault.InputValidation, "answer to %q: %w", key, err)
	}
	return answer, nil
}

// ToolDefinition says how a host treats one tool of a node.
type ToolDefinition struct {
	Name        string `json:"name"`
	Enabled     bool   `json:"enabled"`
	AutoApprove bool   `json:"autoApprove"` // false: a person decides about each call
}

// ToolCall is a call that a person has to decide about. ID is stable over attempts.
type ToolCall struct {
	ID        string          `json:"toolCallId"`
	Name      string          `json:"name"`
	Title     string          `json:"title,omitempty"`
	Arguments json.RawMessage `json:"arguments,omitempty"`
}

// ToolPermissions asks people about tool calls: a view of Input's rows of kind approval.
type ToolPermissions struct{ Input UserInput }

// Approve returns the recorded decision about the call, or *UserInputRequired while there is none.
func (p ToolPermissions) Approve(call ToolCall) (Decision, error) {
	var decision Decision
	payload, err := encode(call)
	if err != nil {
		return decision, fault.New(fault.InputValidation, "approve tool call %q: %w", call.ID, err)
	}
	raw, err := p.Input.Request(InputRequest{Key: "tool:" + call.ID, Kind: InputApproval, Title: call.Title, Payload: payload})
	if err != nil {
		return decision, err
	}
	if err := json.Unmarshal(raw, &decision); err != nil {
		return decision, fault.New(fault.Storage, "decision about tool call %q: %w", call.ID, err)
	}
	return decision, nil
}
