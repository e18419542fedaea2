package workflow

import (
	"encoding/json"
	"reflect"

	"github.com/workflowd/workflowd/agentcore/fault"
	"github.com/workflowd/workflowd/workflow/graph"
	"github.com/workflowd/workflowd/workflow/userinput"
)

// Ask asks a person a typed question under key and returns the typed answer. It is another view of the row that
// UserInput.Request makes, with the schema of A: an answer that does not fit is refused at the door. With
// userinput.Expires a request that nobody answers in time ends with an error of kind DeadlineExceeded.
func Ask[Q, A any](ctx NodeContext, key string, question Q, options ...userinput.Option) (A, error) {
	var answer A
	payload, err := encode(question)
	if err != nil {
		return answer, fault.New(fault.InputValidation, "ask %q: %w", key, err)
	}
	schema, err := graph.SchemaOf(reflect.TypeFor[A]())
	if err != nil {
		return answer, fault.New(fault.InputValidation, "ask %q: %w", key, err)
	}
	var request userinput.Request
	for _, option := range options {
		option(&request)
	}
	request.Key, request.Kind, request.Payload, request.Schema = key, userinput.Custom, payload, schema
	raw, err := ctx.UserInput().Request(request)
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

// Approve returns the recorded decision about the call, or *userinput.Required while there is none.
func (p ToolPermissions) Approve(call ToolCall) (userinput.Decision, error) {
	var decision userinput.Decision
	payload, err := encode(call)
	if err != nil {
		return decision, fault.New(fault.InputValidation, "approve tool call %q: %w", call.ID, err)
	}
	raw, err := p.Input.Request(userinput.Request{Key: "tool:" + call.ID, Kind: userinput.Approval, Title: call.Title, Payload: payload})
	if err != nil {
		return decision, err
	}
	if err := json.Unmarshal(raw, &decision); err != nil {
		return decision, fault.New(fault.Storage, "decision about tool call %q: %w", call.ID, err)
	}
	return decision, nil
}
