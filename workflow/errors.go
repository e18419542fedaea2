package workflow

import (
	"github.com/workflowd/workflowd/agentcore/fault"
)

// Error is a failure with a kind; see package fault for the kinds and errors.AsType for use.
type Error = fault.Error

// Failure says how a node ended badly. Catch hands it to its handler, Finally to its cleanup (zero when nothing failed).
type Failure struct {
	Node    string     `json:"node"` // path of the node that failed
	Visit   int        `json:"visit"`
	Attempt int        `json:"attempt"`
	Kind    fault.Kind `json:"kind"`
	Message string     `json:"message"`
}
