package openairesponses

import (
	"encoding/json"

	"github.com/workflowd/workflowd/agentcore/llm"
	"github.com/workflowd/workflowd/agentcore/llm/protocol"
)

// The names of the wire that are acted upon.
const (
	eventCreated     = "response.created"
	eventItemAdded   = "response.output_item.added"
	eventItemDone    = "response.output_item.done"
	eventPartAdded   = "response.content_part.added"
	eventPartDone    = "response.content_part.done"
	eventTextDelta   = "response.output_text.delta"
	eventTextDone    = "response.output_text.done"
	eventCitation    = "response.output_text.annotation.added"
	eventNoDelta     = "response.refusal.delta"
	eventNoDone      = "response.refusal.done"
	eventSummary     = "response.reasoning_summary_text.delta"
	eventSummaryDone = "response.reasoning_summary_text.done"
	eventThought     = "response.reasoning_text.delta"
	eventThoughtDone = "response.reasoning_text.done"
	eventArgs        = "response.function_call_arguments.delta"
	eventArgsDone    = "response.function_call_arguments.done"
	eventInput       = "response.custom_tool_call_input.delta"
	eventInputDone   = "response.custom_tool_call_input.done"
	eventCompleted   = "response.completed"
	eventIncomplete  = "response.incomplete"
	eventFailed      = "response.failed"
	eventCancelled   = "response.cancelled"
	eventDone        = "response.done"
	eventKeepAlive   = "keepalive"
	eventError       = "error"

	itemMessage   = "message"
	itemReasoning = "reasoning"
	itemCall      = "function_call"
	itemCustom    = "custom_tool_call"
	itemSearch    = "web_search_call"

	partText    = "output_text"
	partRefusal = "refusal"
)

// event is one data event. Its fields take any JSON value without failing, so that one odd field never costs a stream.
type event struct {
	Type       protocol.Text   `json:"type"`
	Number     protocol.Int    `json:"sequence_number"`
	Output     protocol.Int    `json:"output_index"`
	Content    protocol.Int    `json:"content_index"`
	Summary    protocol.Int    `json:"summary_index"`
	ItemID     protocol.Text   `json:"item_id"`
	Delta      protocol.Text   `json:"delta"`
	Text       protocol.Text   `json:"text"`
	Refusal    protocol.Text   `json:"refusal"`
	Arguments  protocol.Text   `json:"arguments"`
	Input      protocol.Text   `json:"input"`
	Part       part            `json:"part"`
	Annotation json.RawMessage `json:"annotation"`
	Item       json.RawMessage `json:"item"`
	Response   *response       `json:"response"`
	Error      json.RawMessage `json:"error"`
}

// response is the response object of created and of the terminal events.
type response struct {
	Object     protocol.Text     `json:"object"`
	ID         protocol.Text     `json:"id"`
	Status     protocol.Text     `json:"status"`
	Error      json.RawMessage   `json:"error"`
	Output     []json.RawMessage `json:"output"`
	Usage      *usage            `json:"usage"`
	Incomplete *struct {
		Reason protocol.Text `json:"reason"`
	} `json:"incomplete_details"`
}

// item is an output item, as far as it is understood.
type item struct {
	Type      string        `json:"type"`
	ID        protocol.Text `json:"id"`
	CallID    protocol.Text `json:"call_id"`
	Name      protocol.Text `json:"name"`
	Arguments protocol.Text `json:"arguments"`
	Input     protocol.Text `json:"input"`
	Phase     protocol.Text `json:"phase"`
	Status    protocol.Text `json:"status"`
	Encrypted protocol.Text `json:"encrypted_content"`
	Content   []part        `json:"content"`
	Summary   []part        `json:"summary"`
	Action    struct {
		Type    protocol.Text   `json:"type"`
		Query   protocol.Text   `json:"query"`
		Queries []protocol.Text `json:"queries"`
		URL     protocol.Text   `json:"url"`
		Sources []struct {
			URL   protocol.Text `json:"url"`
			Title protocol.Text `json:"title"`
		} `json:"sources"`
	} `json:"action"`
}

// part is a piece of a message or of reasoning.
type part struct {
	Type        protocol.Text     `json:"type"`
	Text        protocol.Text     `json:"text"`
	Refusal     protocol.Text     `json:"refusal"`
	Annotations []json.RawMessage `json:"annotations"`
}

// words returns what a part of a message says, and the kind of block it makes.
func (p part) words() (llm.BlockType, string) {
	if p.Type == partRefusal {
		return llm.Refusal, string(p.Refusal)
	}
	return llm.Text, string(p.Text)
}

// usage is a token report.
type usage struct {
	Input        protocol.Int `json:"input_tokens"`
	Output       protocol.Int `json:"output_tokens"`
	Total        protocol.Int `json:"total_tokens"`
	InputDetails struct {
		Cached protocol.Int `json:"cached_tokens"`
	} `json:"input_tokens_details"`
	OutputDetails struct {
		Reasoning protocol.Int `json:"reasoning_tokens"`
	} `json:"output_tokens_details"`
}

// report returns u on our scale, nil when it reports nothing.
func (u *usage) report() *llm.Usage {
	if u == nil || !u.Input.OK && !u.Output.OK && !u.Total.OK {
		return nil
	}
	out := &llm.Usage{Input: u.Input.N, Output: u.Output.N, Total: u.Total.N, CachedInput: u.InputDetails.Cached.N, Reasoning: u.OutputDetails.Reasoning.N}
	if !u.Total.OK {
		out.Total = out.Input + out.Output
	}
	return out
}

// parsePlain reads an event that is one piece of text or of arguments without reflection, reporting false for every other
// one; in is then undefined. Where it accepts an event it reads what encoding/json reads; a fuzz test holds the two against
// each other.
func parsePlain(data []byte, in *event) bool {
	*in = event{}
	c := protocol.NewCursor(data)
	said := false
	ok := c.Object(func(key []byte) bool {
		switch string(key) {
		case "type":
			v, ok := c.ASCII()
			if !ok || in.Type != "" {
				return false
			}
			in.Type = plainKind(v)
			return in.Type != ""
		case "delta":
			if said {
				return false
			}
			said = true
			return c.Text((*string)(&in.Delta))
		case "sequence_number":
			return !in.Number.OK && c.Index(&in.Number)
		case "output_index":
			return !in.Output.OK && c.Index(&in.Output)
		case "content_index":
			return !in.Content.OK && c.Index(&in.Content)
		case "summary_index":
			return !in.Summary.OK && c.Index(&in.Summary)
		case "item_id", "obfuscation":
			return c.Idle()
		case "logprobs":
			return c.Null() || c.Byte('[') && c.Byte(']')
		}
		return false
	})
	return ok && c.AtEnd() && in.Type != "" && said && in.Output.OK
}

// plainKind returns the constant that equals v, so that nothing is allocated; "" for the events that are not plain.
func plainKind(v []byte) protocol.Text {
	switch string(v) {
	case eventTextDelta:
		return eventTextDelta
	case eventArgs:
		return eventArgs
	case eventSummary:
		return eventSummary
	case eventThought:
		return eventThought
	case eventNoDelta:
		return eventNoDelta
	}
	return ""
}
