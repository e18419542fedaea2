package agentcore

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/workflowd/workflowd/agentcore/fault"
	"github.com/workflowd/workflowd/agentcore/llm"
	"github.com/workflowd/workflowd/internal/ids"
)

// Reset empties what the model sees, synced: the next turn starts with its own input. A restored transcript goes with it.
// The store keeps everything that was said, and a repeated RequestID still tells its turn. While a task is unfinished, or an
// input waits, it is an error of kind conflict and changes nothing. Other errors: kinds storage, owner_lost.
// Source: P-008 to P-012, P-804.
func (a *Agent) Reset(ctx context.Context) error {
	return recordFault(ctx, a.h.ResetIdle(ctx, ids.New(ids.Request)))
}

// ReadTranscript returns what the model sees of the session: exactly the messages behind which the next turn puts its
// input. While a turn is unfinished they are those of its last request. It is for looking and for RestoreTranscript, no
// history: what a reset or a compaction took away is in the store alone. The messages are shared and must not be changed.
// Errors: kinds storage, owner_lost. Source: P-475, P-476.
func (a *Agent) ReadTranscript(ctx context.Context) ([]llm.Message, error) {
	ms, err := a.h.Messages(ctx)
	return ms, recordFault(ctx, err)
}

// RestoreTranscript makes messages the context from which the first turn goes on, synced. It is for a session in which
// nothing was said yet; any other one stays as it is, and the error is of kind conflict. Before the first turn it may be
// called again: the newest transcript counts, and Reset drops it. It starts nothing: a call without a result is shown to the
// model as interrupted, a result without a call is left out, and what the messages say of usage is not counted.
// Errors: kinds conflict, input_validation (names the message), storage, owner_lost. Source: P-477 to P-480.
func (a *Agent) RestoreTranscript(ctx context.Context, messages []llm.Message) error {
	for i, m := range messages {
		if err := checkMessage(fmt.Sprintf("messages[%d]", i), m); err != nil {
			return err
		}
	}
	return recordFault(ctx, a.h.Restore(ctx, messages))
}

// What the blocks of a restored message may be.
var (
	shownBlocks = []llm.BlockType{llm.Text, llm.Image}
	saidBlocks  = []llm.BlockType{llm.Text, llm.Thinking, llm.ToolCall, llm.Refusal, llm.Native}
)

// checkMessage refuses what no model can be shown. at names the message.
func checkMessage(at string, m llm.Message) error {
	allowed := shownBlocks
	switch m.Role {
	case llm.RoleUser:
		if len(m.Blocks) == 0 {
			return fault.New(fault.InputValidation, "%s.blocks: must not be empty", at)
		}
	case llm.RoleAssistant:
		allowed = saidBlocks
	case llm.RoleToolResult:
		if m.CallID == "" {
			return fault.New(fault.InputValidation, "%s.callId: must not be empty", at)
		}
	default:
		return fault.New(fault.InputValidation, "%s.role: %q is none of user, assistant, toolResult", at, m.Role)
	}
	for i, b := range m.Blocks {
		at := fmt.Sprintf("%s.blocks[%d]", at, i)
		if !slices.Contains(allowed, b.Type) {
			return fault.New(fault.InputValidation, "%s.type: a message of role %q has no block %q", at, m.Role, b.Type)
		}
		if err := checkBlock(at, b); err != nil {
			return err
		}
	}
	return nil
}

func checkBlock(at string, b llm.Block) error {
	var args map[string]json.RawMessage
	switch {
	case b.Raw != nil && !json.Valid(b.Raw):
		return fault.New(fault.InputValidation, "%s.raw: is not JSON", at)
	case b.Type == llm.Image && (len(b.Data) == 0 || b.MimeType == ""):
		return fault.New(fault.InputValidation, "%s: an image needs data and mimeType", at)
	case b.Type == llm.ToolCall && (b.CallID == "" || b.Name == ""):
		return fault.New(fault.InputValidation, "%s: a call needs callId and name", at)
	case b.Args != nil && (json.Unmarshal(b.Args, &args) != nil || args == nil):
		return fault.New(fault.InputValidation, "%s.args: is not a JSON object", at)
	}
	return nil
}
