package harness

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/workflowd/workflowd/agentcore/llm"
	"github.com/workflowd/workflowd/agentcore/session"
)

// thread is what the harness keeps of one conversation, as far as it is committed. The line of the session guards it.
type thread struct {
	absent  bool                              // the main conversation before its first commit
	waiting map[session.SubmissionID]struct{} // queued submissions: most rounds have none and need no look
	transcript
}

// transcript is the decoded part of a conversation from which requests are derived. The zero value knows nothing: it is
// read before it is used, and may be forgotten at any time.
type transcript struct {
	known bool
	from  session.EntryID // entries from here on are there; 0 = all
	items []item          // with what the conversation inherited, in id order
	shown string          // text of the newest system entry behind the newest head
}

// Two cutoffs: newest cuts nothing off; whole cuts all off, and no head is before it, so that it takes every entry.
const (
	newest = session.EntryID(math.MaxInt64)
	whole  = session.EntryID(1)
)

// load reads what lives, and what waits in the main conversation.
func (h *Harness) load(ctx context.Context) error {
	return h.sess.View(ctx, func(tx *session.Tx) error {
		for _, t := range tx.LiveTasks() {
			h.live[t.ID] = struct{}{}
		}
		_, err := h.thread(tx, session.Root)
		return err
	})
}

// thread returns a conversation, without its transcript. It is read on its first use: before the first write of a commit,
// like every record. A conversation that does not exist is session.ErrNotFound; the main one is then empty.
func (h *Harness) thread(tx *session.Tx, c session.ConversationID) (*thread, error) {
	if th := h.threads[c]; th != nil {
		return th, nil
	}
	th := &thread{waiting: map[session.SubmissionID]struct{}{}}
	switch _, err := tx.Conversation(c); {
	case errors.Is(err, session.ErrNotFound) && c == session.Root:
		th.absent, h.threads[c] = true, th
		return th, nil
	case err != nil:
		return nil, fmt.Errorf("load conversation %d: %w", c, err)
	}
	queued, err := tx.Submissions(c, session.SubmissionQueued)
	if err != nil {
		return nil, err
	}
	for _, sub := range queued {
		th.waiting[sub.ID] = struct{}{}
	}
	h.threads[c] = th
	return th, nil
}

// told is thread with a transcript that has the active range at a cutoff. It is read from that range's head on: a model is
// not shown what came before. An entry that cannot be decoded is session.ErrCorrupt.
func (h *Harness) told(tx *session.Tx, c session.ConversationID, cutoff session.EntryID) (*thread, error) {
	th, err := h.thread(tx, c)
	switch {
	case err != nil || th.covers(cutoff):
		return th, err
	case th.absent:
		th.transcript = transcript{known: true}
		return th, nil
	}
	head, err := tx.NewestHead(c, cutoff)
	if err != nil && !errors.Is(err, session.ErrNotFound) {
		return nil, fmt.Errorf("load conversation %d: %w", c, err)
	}
	entries, err := tx.Entries(session.EntryQuery{Conversation: c, From: head.Head})
	if err != nil {
		return nil, fmt.Errorf("load conversation %d: %w", c, err)
	}
	read := transcript{known: true, from: head.Head, items: make([]item, 0, len(entries))}
	for _, e := range slices.Backward(entries) {
		it, err := decodeItem(e)
		if err != nil {
			return nil, fmt.Errorf("load conversation %d: %w", c, err)
		}
		read.mirror(it)
	}
	th.transcript = read
	return th, nil
}

// covers reports whether the active range at a cutoff is there.
func (t *transcript) covers(cutoff session.EntryID) bool {
	if !t.known || t.from == 0 {
		return t.known
	}
	for _, it := range slices.Backward(t.items) {
		if it.head != 0 && it.id <= cutoff {
			return it.head >= t.from
		}
	}
	return false
}

// mirror takes a committed item in, in id order as a restart would find it.
func (t *transcript) mirror(it item) {
	if !t.known {
		return
	}
	at := len(t.items)
	for at > 0 && t.items[at-1].id > it.id { // an answer's id is reserved before it is said
		at--
	}
	t.items = slices.Insert(t.items, at, it)
	switch {
	case it.kind == kindSystem:
		t.shown = it.system
	case it.head != 0:
		t.shown = "" // a new context shows the whole prompt again
	}
}

// note keeps which submissions wait.
func (h *Harness) note(subs []session.Submission) {
	for _, sub := range subs {
		th := h.threads[sub.Conversation]
		switch {
		case th == nil: // it is read when it is needed
		case sub.Status == session.SubmissionQueued:
			th.waiting[sub.ID] = struct{}{}
		default:
			delete(th.waiting, sub.ID)
		}
	}
}

// committed keeps the threads and hands events to their feeds. It runs on the line. Every entry of the loop is drafted
// with its item; those of the layers above are read from the batch.
func (h *Harness) committed(c session.Commit) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, made := range c.Batch.Conversations {
		if th := h.threads[made.ID]; th != nil {
			th.absent = false
		}
	}
	h.note(c.Batch.Submissions)
	for _, e := range c.Batch.Entries {
		th := h.threads[e.Conversation]
		if th == nil || !th.known || slices.ContainsFunc(c.Published, func(p any) bool { it, ok := p.(item); return ok && it.id == e.ID }) {
			continue
		}
		it, err := decodeItem(e)
		if err != nil { // the record holds it: who reads it next is told
			th.transcript = transcript{}
			continue
		}
		th.mirror(it)
	}
	for i, p := range c.Published {
		switch p := p.(type) {
		case item:
			if th := h.threads[p.conversation]; th != nil {
				th.mirror(p)
			}
		case joined: // its readers follow the turn from here on
			h.subs[p.turn] = append(h.subs[p.turn], h.subs[p.sub]...)
			delete(h.subs, p.sub)
		case published:
			e := at(p.event, Cursor{Store: h.sess.StoreID(), Seq: c.Seq, Index: i})
			for _, f := range h.subs[p.sub] {
				f.put(e)
			}
		}
	}
	for _, t := range c.Batch.Tasks {
		if t.Status != session.TaskTerminal {
			h.live[t.ID] = struct{}{}
		} else if delete(h.live, t.ID); len(h.live) == 0 {
			h.tellResting()
		}
	}
	for _, gone := range c.Batch.Removals {
		delete(h.threads, gone)
		delete(h.setups, gone)
	}
}

// say drafts an entry of a conversation with a message for the model. The mirror takes the message as it is, without
// decoding it again.
func (h *Harness) say(tx *session.Tx, c session.ConversationID, e session.Entry, m llm.Message, data entryData) session.EntryID {
	e.Conversation, e.Model, e.Data = c, mustJSON(m), mustJSON(data)
	id := tx.Append(e)
	tx.Publish(item{id: id, conversation: c, kind: e.Kind, head: e.Head, message: m, model: true})
	return id
}

// The entry kinds of the loop. The prefix is reserved: a project's own kinds start otherwise.
const (
	kindUser         = "workflow.user"
	kindAssistant    = "workflow.assistant"
	kindToolResult   = "workflow.tool-result"
	kindSystem       = "workflow.system"
	kindContinuation = "workflow.continuation"
	kindReset        = "workflow.reset"
	kindRestore      = "workflow.restore" // a context that was made elsewhere begins: its messages follow, of the kinds above
	kindCompaction   = "workflow.compaction"
)

// item is a transcript entry with its content decoded, once.
type item struct {
	id           session.EntryID
	conversation session.ConversationID // the one that holds it; a fork shows it too

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
	it := item{id: e.ID, conversation: e.Conversation, kind: e.Kind, head: e.Head}
	for _, raw := range e.Edits {
		ed := edit{target: raw.Target, omit: raw.Model == nil}
		if !ed.omit {
			var s systemContent
			if err := errors.Join(json.Unmarshal(raw.Model, &ed.message), json.Unmarshal(raw.Model, &s)); err != nil {
				return it, fmt.Errorf("%w: entry %d: edit of %d: %w", session.ErrCorrupt, e.ID, raw.Target, err)
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
			return it, fmt.Errorf("%w: entry %d: %w", session.ErrCorrupt, e.ID, err)
		}
		it.system = s.Text
		return it, nil
	}
	if err := json.Unmarshal(e.Model, &it.message); err != nil {
		return it, fmt.Errorf("%w: entry %d: %w", session.ErrCorrupt, e.ID, err)
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
//
// What a response from before the newest head was counted at says nothing about the context now, and is left out.
// Source: durable kernel 1.4, P-547.
func derive(items []item, cutoff session.EntryID) modelContext {
	var c modelContext
	c.system = walk(items, cutoff, func(_ item, m llm.Message) { c.messages = append(c.messages, m) })
	return c
}

// walk is derive for who wants to know which item each message comes from. It returns the system prompt.
func walk(items []item, cutoff session.EntryID, say func(it item, m llm.Message)) (system string) {
	active, head := activeRange(items, cutoff)
	active, head = edited(active, head)
	results := map[string]item{} // by presentation id: a call id may come again in a later turn
	for _, it := range active {
		if it.kind == kindToolResult && it.model {
			results[it.message.CallID] = it
		}
	}
	if head != nil && head.model {
		say(*head, head.message)
	}
	for _, it := range active {
		if head != nil && it.id < head.id && it.message.Usage != nil {
			it.message.Usage = nil
		}
		switch {
		case it.kind == kindSystem && it.model:
			system = it.system
		case !it.model || it.head != 0 || it.kind == kindToolResult:
		case it.message.Role == llm.RoleAssistant:
			assistant(it, results, say)
		default:
			say(it, it.message)
		}
	}
	return system
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

// assistant says an assistant message and the results of its calls. The stored call ids are the provider's and may
// repeat over turns; results are stored under the presentation id, so each finds its own.
func assistant(it item, results map[string]item, say func(it item, m llm.Message)) {
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
	say(it, m)
	for i, b := range m.Blocks {
		if b.Type != llm.ToolCall {
			continue
		}
		from, ok := results[toolCallID(it.id, i)]
		r := from.message
		if !ok {
			from, r = it, llm.TextMessage(llm.RoleToolResult, missingResult)
			r.IsError = true
		}
		r.CallID, r.ToolName = b.CallID, b.Name
		say(from, r)
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
