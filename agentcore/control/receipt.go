package control

import "github.com/workflowd/workflowd/agentcore/session"

// Receipt is what a command leaves with its sender. The same command under the same request id gets the first receipt
// again, after a restart too; another command under that id is a conflict.
type Receipt struct {
	RequestID string                 `json:"requestId"`
	Status    Status                 `json:"status"`
	InputID   string                 `json:"inputId,omitempty"` // Withdraw, Promote: the input it was about
	ForkID    session.ConversationID `json:"forkId,omitempty"`  // Fork
	TaskID    session.TaskID         `json:"taskId,omitempty"`  // Task
}

// Status is what became of a command.
type Status string

// The states.
const (
	Accepted      Status = "accepted"       // recorded
	Withdrawn     Status = "withdrawn"      // the input will never be sent
	Promoted      Status = "promoted"       // the input steers now
	AlreadyPlaced Status = "already_placed" // the input is in a turn that is under way
	Settled       Status = "settled"        // the input has its end
	Unknown       Status = "not_found"      // there is no such input
)
