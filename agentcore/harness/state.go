package harness

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/workflowd/workflowd/agentcore/compaction"
	"github.com/workflowd/workflowd/agentcore/control"
	"github.com/workflowd/workflowd/agentcore/harness/turn"
	"github.com/workflowd/workflowd/agentcore/llm"
	"github.com/workflowd/workflowd/agentcore/session"
)

// The kinds of the loop's tasks.
const (
	TaskGeneration = "workflow.generation" // one model request and the calls it leads to
	TaskTool       = "workflow.tool"       // one call
	TaskCompaction = "workflow.compaction" // a long context becomes a summary
)

// Their phases.
const (
	phaseRequest = "request" // send the model request
	phaseRetry   = "retry"   // sleep, then send
	phaseTools   = "tools"   // every call of the round has settled

	phaseApprove = "approve" // ask the host
	phaseExecute = "execute" // the intent is committed

	phaseSummarise = "summarise" // one summary request
	phasePlace     = "place"     // the summary is complete
)

// versions of what is stored; they grow when a stored shape changes.
const taskVersion = 1

// genState is a generation's checkpoint.
type genState struct {
	Conversation session.ConversationID `json:"-"` // the task's

	Submission session.SubmissionID   `json:"sub"`
	Joined     []session.SubmissionID `json:"joined,omitempty"` // steers that this turn answers too
	Cutoff     session.EntryID        `json:"cutoff"`           // the request shows entries up to here
	Entry      session.EntryID        `json:"entry"`            // reserved for the answer: items have their ids before it is written
	Budget     turn.Budget            `json:"budget,omitzero"`
	Spoken     bool                   `json:"spoken,omitempty"`     // interrupted pieces of the same answer have text
	Attempt    int                    `json:"attempt,omitempty"`    // resends of this very request
	WakeAt     time.Time              `json:"wakeAt,omitzero"`      // retry: absolute
	Failed     []usageRecord          `json:"failed,omitempty"`     // what resent attempts cost
	Compaction session.TaskID         `json:"compaction,omitempty"` // the request waits for it
	Compacted  bool                   `json:"compacted,omitempty"`  // it has had one
}

// after is the state of the turn's next generation, with a full budget.
func (g genState) after(cutoff session.EntryID) genState {
	return genState{Conversation: g.Conversation, Submission: g.Submission, Joined: g.Joined, Cutoff: cutoff}
}

// generationOf reads the checkpoint of a generation.
func generationOf(t session.Task) (genState, error) {
	var g genState
	if err := stored(t.Checkpoint, &g, "checkpoint of task", t.ID); err != nil {
		return g, err
	}
	g.Conversation = t.Conversation
	return g, nil
}

// compactInput says what a compaction summarises: what the model sees up to Cutoff, from KeepFrom on left as it is.
type compactInput struct {
	Submission   session.SubmissionID `json:"sub,omitempty"` // whose turn hears of it; 0 = nobody's
	Settings     json.RawMessage      `json:"settings,omitempty"`
	Auto         bool                 `json:"auto,omitempty"`
	Instructions string               `json:"instructions,omitempty"`
	Cutoff       session.EntryID      `json:"cutoff"`
	KeepFrom     session.EntryID      `json:"keepFrom,omitempty"` // 0 = nothing is kept
}

// compactState is a compaction's checkpoint.
type compactState struct {
	Work   compaction.Work `json:"work"`
	Budget turn.Budget     `json:"budget,omitzero"`
	WakeAt time.Time       `json:"wakeAt,omitzero"`
	Calls  int             `json:"calls,omitempty"` // requests that have ended, for the ids of their bills
	Bills  []usageRecord   `json:"bills,omitempty"`
}

// compactOutcome is what a compaction leaves for the generation that waits.
type compactOutcome struct {
	Entry session.EntryID `json:"entry,omitempty"`
	Bills []usageRecord   `json:"bills,omitempty"` // of one that failed: a finished one has them in its entry
	why   string
}

// compactionData is what an entry, or a write that waits, says of a compaction.
type compactionData struct {
	Auto     bool            `json:"auto,omitempty"`
	Summary  string          `json:"summary"`
	KeepFrom session.EntryID `json:"keepFrom,omitempty"` // writes
	Cutoff   session.EntryID `json:"cutoff,omitempty"`   // writes
	Bills    []usageRecord   `json:"bills,omitempty"`    // writes
}

// stored reads JSON that the store holds; what does not read is a corrupt store, and the error names the record.
func stored(raw json.RawMessage, v any, what string, id any) error {
	if err := json.Unmarshal(raw, v); err != nil {
		return fmt.Errorf("%w: %s %d: %w", session.ErrCorrupt, what, id, err)
	}
	return nil
}

// usageRecord is one bill.
type usageRecord struct {
	RecordID string     `json:"recordId"`
	Origin   llm.Origin `json:"origin"`
	Usage    llm.Usage  `json:"usage"`
}

// toolInput says which call a tool task executes.
type toolInput struct {
	Conversation session.ConversationID `json:"-"` // the task's

	Submission session.SubmissionID `json:"sub"`
	Entry      session.EntryID      `json:"entry"`
	Index      int                  `json:"index"`
	Name       string               `json:"name"`
}

// toolState is a tool task's checkpoint: the intent.
type toolState struct {
	Args   json.RawMessage `json:"args"`
	Replay string          `json:"replay"`
}

// toolOutcome is what a settled call leaves for its round.
type toolOutcome struct {
	Terminate bool `json:"terminate,omitempty"`
}

// entryData is the part of an entry for people and recovery.
type entryData struct {
	Submission session.SubmissionID `json:"sub"`
	Usage      []usageRecord        `json:"usage,omitempty"` // assistant: this response and failed attempts before it
	Retry      *retryData           `json:"retry,omitempty"` // continuation
	GoOn       bool                 `json:"goOn,omitempty"`  // continuation that a hook asked for: what was said is no answer
	Compaction *compactionData      `json:"compaction,omitempty"`
	Call       *callData            `json:"call,omitempty"`    // tool-result
	Tools      []string             `json:"tools,omitempty"`   // system
	Failure    string               `json:"failure,omitempty"` // assistant that did not end well: why
}

type retryData struct {
	Kind    RetryKind `json:"kind"`
	Attempt int       `json:"attempt"`
	Most    int       `json:"most"`
	Reason  string    `json:"reason"`
}

type callData struct {
	Entry      session.EntryID `json:"entry"`
	Index      int             `json:"index"`
	Name       string          `json:"name"`
	Code       string          `json:"code,omitempty"`
	Details    json.RawMessage `json:"details,omitempty"`
	DurationMS int64           `json:"durationMs,omitempty"`
}

// Codes of results that no tool gave. Source: durable kernel 3.6.
const (
	codeUnavailable = "tool_unavailable"
	codeArguments   = "invalid_arguments"
	codeInterrupted = "interrupted"
	codeAborted     = "aborted"
	codeDenied      = "blocked"
	codeToolError   = "tool_error"
)

// Reasons of an unanswered submission. Source: durable kernel 3.5.
const (
	reasonModel   = "model_error"
	reasonAborted = "aborted"
	reasonFaulted = "faulted"
	reasonStorage = "storage" // the store refused what the turn had to write
	reasonSetup   = "no_model"
	reasonReset   = "reset"
	reasonStale   = "stale"
)

// submitted is a submission's payload.
type submitted struct {
	Prompt   string          `json:"prompt"`
	Images   []llm.Block     `json:"images,omitempty"`
	Settings json.RawMessage `json:"settings,omitempty"`

	Mode  control.Mode `json:"mode,omitempty"`  // "" = FollowUp
	Reset *resetData   `json:"reset,omitempty"` // a reset and no input
	// Compact asks for a summary in place of the context, and is no input; Prompt are its instructions.
	Compact bool `json:"compact,omitempty"`
	// Summary is a finished one that waits for a boundary.
	Summary *compactionData      `json:"summary,omitempty"`
	Turn    session.SubmissionID `json:"turn,omitempty"` // the turn a steer has joined
}

type resetData struct {
	Handoff string `json:"handoff,omitempty"`
}

// liveDoc is the committed part of an answer still streaming.
type liveDoc struct {
	Entry  session.EntryID `json:"entry"`
	Origin *llm.Origin     `json:"origin,omitempty"` // thinking goes back to where it came from only
	Blocks []liveBlock     `json:"blocks"`
}

type liveBlock struct {
	Type  llm.BlockType   `json:"type"`
	Text  string          `json:"text"`
	Field string          `json:"field,omitempty"` // thinking: as llm.Block has it
	Raw   json.RawMessage `json:"raw,omitempty"`   // thinking that is complete: likewise
}

func (b liveBlock) block() llm.Block {
	return llm.Block{Type: b.Type, Text: b.Text, Field: b.Field, Raw: b.Raw}
}

var live = session.Doc[liveDoc]{Kind: "workflow.live", Version: 1, Scope: session.ScopeConversation, BaseEvery: deltasPerBase}

// liveAt is where the live document of a conversation is.
func liveAt(c session.ConversationID) session.Address { return live.At(int64(c), "") }

func mustJSON(v any) json.RawMessage {
	raw, err := json.Marshal(v)
	if err != nil { // only our own plain structs come here
		panic("harness: " + err.Error())
	}
	return raw
}
