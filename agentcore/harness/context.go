package harness

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/workflowd/workflowd/agentcore/llm"
	"github.com/workflowd/workflowd/agentcore/session"
)

// The entry kinds of the loop. The prefix is reserved: a project's own kinds start otherwise.
const (
	kindUser         = "workflow.user"
	kindAssistant    = "workflow.assistant"
	kindToolResult   = "workflow.tool-result"
	kindSystem       = "workflow.system"
	kindContinuation = "workflow.continuation"
	kindReset        = "workflow.reset"
)

// item is a transcript entry with its content decoded, once.
type item struct {
	id      session.EntryID
	kind    string
	head    session.EntryID
	message llm.Message // zero when the entry has no content for the model
	system  string      // kindSystem
	model   bool
	edits   []edit
}

// edit is how an entry changes what the model sees of an earlier one.
type edit struct {
	target  session.EntryID
	omit    bool
	message llm.Message // in the target's place, unless that is a system entry
	system  string      // in the place of a system entry
}

// systemContent is the model part of a system entry.
type systemContent struct {
	Text string `json:"text"`
}

func decodeItem(e session.Entry) (item, error) {
	it := item{id: e.ID, kind: e.Kind, head: e.Head}
	for _, raw := range e.Edits {
		ed := edit{target: raw.Target, omit: raw.Model == nil}
		if !ed.omit {
			var s systemContent
			if err := errors.Join(json.Unmarshal(raw.Model, &ed.message), json.Unmarshal(raw.Model, &s)); err != nil {
				return it, fmt.Errorf("entry %d: edit of %d: %w", e.ID, raw.Target, err)
			}
			ed.system = s.Text
		}
		it.edits = append(it.edits, ed)
	}
	if e.Model == nil {
		return it, nil
	}
	it.model = true
	if e.Kind == kindSystem {
		var s systemContent
		if err := json.Unmarshal(e.Model, &s); err != nil {
			return it, fmt.Errorf("entry %d: %w", e.ID, err)
		}
		it.system = s.Text
		return it, nil
	}
	if err := json.Unmarshal(e.Model, &it.message); err != nil {
		return it, fmt.Errorf("entry %d: %w", e.ID, err)
	}
	return it, nil
}

// modelContext is what a model is shown.
type modelContext struct {
	system   string
	messages []llm.Message
}

// missingResult stands in for a result that does not exist, so that every call sent has one.
const missingResult = "There is no result for this call: it was interrupted and its outcome is unknown."

// derive computes the context at a cutoff from the items of a conversation in id order. It is a pure function: the same
// items and cutoff give the same messages, after any restart. Results stand directly behind the assistant message that
// made the calls, in call order, each call exactly once; results without a call are left out; aborted answers too. Edits
// count when their entry is active; of several for one target the newest does.
func derive(items []item, cutoff session.EntryID) modelContext {
	var c modelContext
	active, head := activeRange(items, cutoff)
	active, head = edited(active, head)
	results := map[string]llm.Message{} // by presentation id: a call id may come again in a later turn
	for _, it := range active {
		if it.kind == kindToolResult && it.model {
			results[it.message.CallID] = it.message
		}
	}
	if head != nil && head.model {
		c.messages = append(c.messages, head.message)
	}
	for _, it := range active {
		switch {
		case it.kind == kindSystem && it.model:
			c.system = it.system
		case !it.model || it.head != 0 || it.kind == kindToolResult:
		case it.message.Role == llm.RoleAssistant:
			c.assistant(it, results)
		default:
			c.messages = append(c.messages, it.message)
		}
	}
	return c
}

// activeRange returns the items from the newest head up to the cutoff, and the head itself.
func activeRange(items []item, cutoff session.EntryID) ([]item, *item) {
	end := len(items)
	for end > 0 && items[end-1].id > cutoff {
		end--
	}
	items = items[:end]
	for i := end - 1; i >= 0; i-- {
		if items[i].head != 0 {
			start := 0
			for start < end && items[start].id < items[i].head {
				start++
			}
			return items[start:], &items[i]
		}
	}
	return items, nil
}

// edited applies the edits of active entries. Without any it returns what it was given.
func edited(active []item, head *item) ([]item, *item) {
	edits := map[session.EntryID]edit{}
	for _, it := range active { // in id order: a newer edit replaces an older one
		for _, e := range it.edits {
			edits[e.target] = e
		}
	}
	if len(edits) == 0 {
		return active, head
	}
	out := make([]item, 0, len(active))
	for _, it := range active {
		if e, ok := edits[it.id]; ok {
			it = it.edit(e)
		}
		if head != nil && it.id == head.id {
			head = &it
		}
		out = append(out, it)
	}
	return out, head
}

// edit returns it as e shows it. What is omitted stays in its place, without content.
func (it item) edit(e edit) item {
	switch {
	case e.omit:
		it.model, it.system, it.message = false, "", llm.Message{}
	case it.kind == kindSystem:
		it.model, it.system = true, e.system
	default:
		call := it.message.CallID // a result stays that of its call
		it.model, it.message = true, e.message
		if it.kind == kindToolResult {
			it.message.Role, it.message.CallID = llm.RoleToolResult, call
		}
	}
	return it
}

// assistant appends an assistant message and the results of its calls. The stored call ids are the provider's and may
// repeat over turns; results are stored under the presentation id, so each finds its own.
func (c *modelContext) assistant(it item, results map[string]llm.Message) {
	m := it.message
	switch m.Stop {
	case llm.StopAborted:
		return
	case llm.StopInterrupted, llm.StopLength, llm.StopRefusal:
		m.Blocks = withoutCalls(m.Blocks)
	case llm.StopEnd, llm.StopToolUse, llm.StopPause:
	}
	if len(m.Blocks) == 0 {
		return
	}
	c.messages = append(c.messages, m)
	for i, b := range m.Blocks {
		if b.Type != llm.ToolCall {
			continue
		}
		r, ok := results[toolCallID(it.id, i)]
		if !ok {
			r = llm.TextMessage(llm.RoleToolResult, missingResult)
			r.IsError = true
		}
		r.CallID, r.ToolName = b.CallID, b.Name
		c.messages = append(c.messages, r)
	}
}

func withoutCalls(blocks []llm.Block) []llm.Block {
	var out []llm.Block
	for _, b := range blocks {
		if b.Type != llm.ToolCall {
			out = append(out, b)
		}
	}
	return out
}

// toolCallID is the presentation id of the call at block index of entry: opaque, stable, unique in the session.
func toolCallID(entry session.EntryID, index int) string { return fmt.Sprintf("%d.%d", entry, index) }
