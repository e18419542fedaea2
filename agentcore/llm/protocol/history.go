package protocol

import (
	"iter"

	"github.com/workflowd/workflowd/agentcore/llm"
)

// The texts that stand where the history has none. The model reads them.
const (
	LostResult = "The tool did not return a result: it was interrupted and its outcome is unknown."
	NoOutput   = "(no output)"
	SeeImages  = "(see the attached images)"
	ImagesOf   = "Images returned by the tools:"
	NoImage    = "(an image that this model cannot see)"
)

// Step is one piece of a repaired history: a user message, or an assistant message with its calls and their results.
type Step struct {
	User      []llm.Block  // content of a user message
	Assistant *llm.Message // nil for a user message
	Same      bool         // the assistant is the endpoint and model asked now: content kept for replay may go back to it
	Ended     bool         // the assistant's message ended by itself: what was kept of it is whole
	Calls     []Call       // the calls of the assistant to send, in its order; each is followed by its result
}

// Call is a call with the id that it has in this request, and its result; nil when it has none.
type Call struct {
	Block  *llm.Block
	Result *llm.Message
	ID     string
}

// Steps yields the history of a request in the order in which it is sent. The results of an assistant message belong to it,
// in call order, whatever came between; users that came between follow it. A result without a call is dropped. A call
// without a result has none in a message that ended, and is dropped from one that did not: it never ran. Images that the
// model cannot see become NoImage. maxID is the longest call id that the endpoint takes. Source: bugs 31, 34, 35, 41.
func Steps(req llm.Request, origin llm.Origin, maxID int) iter.Seq[Step] {
	return func(yield func(Step) bool) {
		ids := CallIDs{Max: maxID}
		list := req.Messages
		for i := range list {
			m := &list[i]
			var step Step
			switch m.Role {
			case llm.RoleUser:
				step.User = seen(m.Blocks, req.TextOnly)
			case llm.RoleAssistant:
				end := i + 1
				for end < len(list) && list[end].Role != llm.RoleAssistant {
					end++
				}
				step = Step{Assistant: m, Same: m.Origin != nil && *m.Origin == origin, Ended: !unfinished(m.Stop)}
				step.pair(list[i+1:end], &ids, req.TextOnly)
			default:
				continue
			}
			if !yield(step) {
				return
			}
		}
	}
}

// pair finds the results of the step's calls among the messages behind it.
func (s *Step) pair(rest []llm.Message, ids *CallIDs, textOnly bool) {
	taken := make([]bool, len(rest))
	for i := range s.Assistant.Blocks {
		b := &s.Assistant.Blocks[i]
		if b.Type != llm.ToolCall || b.Name == "" {
			continue
		}
		c := Call{Block: b}
		for j := range rest {
			if rest[j].Role == llm.RoleToolResult && !taken[j] && rest[j].CallID == b.CallID {
				taken[j], c.Result = true, &rest[j]
				break
			}
		}
		if c.Result == nil && !s.Ended {
			continue
		}
		if c.Result != nil && textOnly {
			shown := *c.Result
			shown.Blocks = seen(shown.Blocks, true)
			c.Result = &shown
		}
		c.ID = ids.Next(b.CallID)
		s.Calls = append(s.Calls, c)
	}
}

// unfinished reports whether a message with this stop never ran its calls.
func unfinished(stop llm.StopReason) bool {
	switch stop {
	case llm.StopInterrupted, llm.StopAborted, llm.StopLength, llm.StopRefusal:
		return true
	case llm.StopEnd, llm.StopToolUse, llm.StopPause:
	}
	return false
}

// seen returns blocks as a model sees them that may be blind.
func seen(blocks []llm.Block, blind bool) []llm.Block {
	if !blind || !HasImages(blocks) {
		return blocks
	}
	out := make([]llm.Block, len(blocks))
	for i, b := range blocks {
		if out[i] = b; b.Type == llm.Image {
			out[i] = llm.Block{Type: llm.Text, Text: NoImage}
		}
	}
	return out
}

// HasImages reports whether blocks hold an image that has data.
func HasImages(blocks []llm.Block) bool {
	for i := range blocks {
		if blocks[i].Type == llm.Image && len(blocks[i].Data) > 0 {
			return true
		}
	}
	return false
}

// JoinText returns the texts of blocks, a line break between them.
func JoinText(blocks []llm.Block) string {
	said := ""
	for i := range blocks {
		switch b := &blocks[i]; {
		case b.Type != llm.Text || b.Text == "":
		case said == "":
			said = b.Text
		default:
			said += "\n" + b.Text
		}
	}
	return said
}

// Said returns what the result of c says as text: LostResult without one, and instead where it has no text.
func (c Call) Said(instead string) string {
	if c.Result == nil {
		return LostResult
	}
	if said := JoinText(c.Result.Blocks); said != "" {
		return said
	}
	return instead
}

// HasCalls reports whether a history holds a call.
func HasCalls(messages []llm.Message) bool {
	for i := range messages {
		for j := range messages[i].Blocks {
			if messages[i].Blocks[j].Type == llm.ToolCall {
				return true
			}
		}
	}
	return false
}
