package control

import (
	"encoding/json"

	"github.com/workflowd/workflowd/agentcore/session"
)

// Command is one of the twelve commands. The sum is closed; Type is the name on the wire.
// Source: spec create-agent "Durable session control", P-817.
type Command interface {
	Type() string
	// Head returns what every command carries.
	Head() Head
}

// Head is what every command carries.
type Head struct {
	// RequestID is the command's identity in its session, the same on each transmission.
	RequestID string `json:"requestId"`
	// TargetID is the conversation it is for; 0 = the main one.
	TargetID session.ConversationID `json:"targetId,omitempty"`
}

// Mode says what an input does while a turn is under way. On an idle conversation every mode starts a turn.
type Mode string

// The modes; the zero Mode is FollowUp.
const (
	FollowUp Mode = "followUp" // waits for the turn's end and starts one of its own
	Steer    Mode = "steer"    // joins the turn at its next tool boundary
	Reject   Mode = "reject"   // is refused, and nothing is recorded
)

// Image is a picture of an input.
type Image struct {
	Data     []byte `json:"data"` // base64 in JSON
	MimeType string `json:"mimeType"`
}

// Submit gives the model an input.
type Submit struct {
	RequestID string                 `json:"requestId"`
	TargetID  session.ConversationID `json:"targetId,omitempty"`
	Prompt    string                 `json:"prompt"`
	Images    []Image                `json:"images,omitempty"`
	Mode      Mode                   `json:"mode,omitempty"`
}

// Withdraw takes a queued input back. It never undoes what a turn did.
type Withdraw struct {
	RequestID string                 `json:"requestId"`
	TargetID  session.ConversationID `json:"targetId,omitempty"`
	InputID   string                 `json:"inputId"` // the request id of the input
}

// Promote makes a queued input a steer.
type Promote struct {
	RequestID string                 `json:"requestId"`
	TargetID  session.ConversationID `json:"targetId,omitempty"`
	InputID   string                 `json:"inputId"`
}

// Compact summarises the context in the background.
type Compact struct {
	RequestID    string                 `json:"requestId"`
	TargetID     session.ConversationID `json:"targetId,omitempty"`
	Instructions string                 `json:"instructions,omitempty"`
}

// Reset starts the model's context anew at the next boundary. What was said stays in the transcript.
type Reset struct {
	RequestID string                 `json:"requestId"`
	TargetID  session.ConversationID `json:"targetId,omitempty"`
	Handoff   string                 `json:"handoff,omitempty"` // opens the new context
}

// Fork makes a conversation of its own that shows the target up to an entry.
type Fork struct {
	RequestID string                 `json:"requestId"`
	TargetID  session.ConversationID `json:"targetId,omitempty"`
	EntryID   session.EntryID        `json:"entryId"`
}

// Delete cancels a child conversation and hides it. The main one is the host's to remove, with its file.
type Delete struct {
	RequestID string                 `json:"requestId"`
	TargetID  session.ConversationID `json:"targetId,omitempty"`
}

// ModelRef names a registered model.
type ModelRef struct {
	Provider string `json:"provider"`
	ModelID  string `json:"modelId"`
}

// Configure changes model or effort from the next request on, when ExpectedVersion is the version in force.
type Configure struct {
	RequestID       string                 `json:"requestId"`
	TargetID        session.ConversationID `json:"targetId,omitempty"`
	ExpectedVersion int                    `json:"expectedVersion"`
	Model           *ModelRef              `json:"model,omitempty"`
	Effort          *string                `json:"effort,omitempty"`
}

// PlanItem is one step of a plan. Status is pending, in_progress or completed.
type PlanItem struct {
	ID     string `json:"id"`
	Text   string `json:"text"`
	Status string `json:"status"`
}

// Plan replaces the plan when ExpectedVersion is the version in force.
type Plan struct {
	RequestID       string                 `json:"requestId"`
	TargetID        session.ConversationID `json:"targetId,omitempty"`
	ExpectedVersion int                    `json:"expectedVersion"`
	Items           []PlanItem             `json:"items"`
}

// Scope says how far a Cancel reaches.
type Scope string

// The scopes.
const (
	Foreground Scope = "foreground" // the target's work; background work and what it owns go on
	All        Scope = "all"        // that too, and children; forks go on
	OneTask    Scope = "task"       // one task of the target, and what it owns
)

// Cancel stops work for good.
type Cancel struct {
	RequestID string                 `json:"requestId"`
	TargetID  session.ConversationID `json:"targetId,omitempty"`
	Scope     Scope                  `json:"scope"`
	TaskID    session.TaskID         `json:"taskId,omitempty"` // OneTask
}

// Snapshot publishes the latest full snapshot.
type Snapshot struct {
	RequestID string                 `json:"requestId"`
	TargetID  session.ConversationID `json:"targetId,omitempty"`
}

// Task starts a task of a kind that the project has registered.
type Task struct {
	RequestID  string                 `json:"requestId"`
	TargetID   session.ConversationID `json:"targetId,omitempty"`
	Name       string                 `json:"name"`
	Input      json.RawMessage        `json:"input,omitempty"` // strict JSON of at most session.MaxTaskInput bytes
	Background bool                   `json:"background,omitempty"`
}

// Type returns "submit".
func (Submit) Type() string { return "submit" }

// Type returns "withdraw".
func (Withdraw) Type() string { return "withdraw" }

// Type returns "promote".
func (Promote) Type() string { return "promote" }

// Type returns "compact".
func (Compact) Type() string { return "compact" }

// Type returns "reset".
func (Reset) Type() string { return "reset" }

// Type returns "fork".
func (Fork) Type() string { return "fork" }

// Type returns "delete".
func (Delete) Type() string { return "delete" }

// Type returns "configure".
func (Configure) Type() string { return "configure" }

// Type returns "plan".
func (Plan) Type() string { return "plan" }

// Type returns "cancel".
func (Cancel) Type() string { return "cancel" }

// Type returns "snapshot".
func (Snapshot) Type() string { return "snapshot" }

// Type returns "task".
func (Task) Type() string { return "task" }

// Head implements Command.
func (c Submit) Head() Head { return Head{c.RequestID, c.TargetID} }

// Head implements Command.
func (c Withdraw) Head() Head { return Head{c.RequestID, c.TargetID} }

// Head implements Command.
func (c Promote) Head() Head { return Head{c.RequestID, c.TargetID} }

// Head implements Command.
func (c Compact) Head() Head { return Head{c.RequestID, c.TargetID} }

// Head implements Command.
func (c Reset) Head() Head { return Head{c.RequestID, c.TargetID} }

// Head implements Command.
func (c Fork) Head() Head { return Head{c.RequestID, c.TargetID} }

// Head implements Command.
func (c Delete) Head() Head { return Head{c.RequestID, c.TargetID} }

// Head implements Command.
func (c Configure) Head() Head { return Head{c.RequestID, c.TargetID} }

// Head implements Command.
func (c Plan) Head() Head { return Head{c.RequestID, c.TargetID} }

// Head implements Command.
func (c Cancel) Head() Head { return Head{c.RequestID, c.TargetID} }

// Head implements Command.
func (c Snapshot) Head() Head { return Head{c.RequestID, c.TargetID} }

// Head implements Command.
func (c Task) Head() Head { return Head{c.RequestID, c.TargetID} }
