package userinput

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/workflowd/workflowd/agentcore/fault"
)

// Kind says what is asked and thereby what an answer looks like.
type Kind string

// The kinds. Plan and approval are answered by a Decision, a question and a custom request by JSON that fits the schema.
const (
	Plan     Kind = "plan"
	Approval Kind = "approval"
	Question Kind = "question"
	Custom   Kind = "custom"
)

// Request is a question to a person. Key is unique in the node's visit.
type Request struct {
	Key     string          `json:"key"`
	Kind    Kind            `json:"kind"`
	Title   string          `json:"title,omitempty"`
	Payload json.RawMessage `json:"payload,omitempty"` // what to show, by kind
	Schema  json.RawMessage `json:"schema,omitempty"`  // of the answer; nil = any JSON, or Decision for plan and approval
	Expires time.Duration   `json:"-"`                 // after the opening; 0 = never
}

// Option adds to a request.
type Option func(*Request)

// Expires ends the request when nobody has answered it within d of its opening: who asked gets an error of kind
// workflow.DeadlineExceeded, an answer that comes later fault.Conflict. 0 = never.
func Expires(d time.Duration) Option { return func(r *Request) { r.Expires = d } }

// Title is what people see first.
func Title(title string) Option { return func(r *Request) { r.Title = title } }

// Decision answers a plan or an approval. Decision is "approve" or "deny".
type Decision struct {
	Decision  string          `json:"decision"`
	Reason    string          `json:"reason,omitempty"`
	Arguments json.RawMessage `json:"arguments,omitempty"` // changed arguments of the call
	Answers   json.RawMessage `json:"answers,omitempty"`
}

// Approved reports whether the decision is a yes.
func (d Decision) Approved() bool { return d.Decision == "approve" }

// Required parks the run: a person has to answer RequestID. A node returns it, wrapped or not. Its kind is
// fault.UserInputRequired.
type Required struct {
	RequestID string
	Request   Request
}

// Error names the request.
func (e *Required) Error() string {
	return fmt.Sprintf("input required: request %s (%s) %s", e.RequestID, e.Request.Kind, e.Request.Title)
}

// Unwrap gives the error its kind.
func (e *Required) Unwrap() error {
	return &fault.Error{Kind: fault.UserInputRequired, Message: e.Error()}
}
