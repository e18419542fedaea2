package harness

import (
	"context"
	"encoding/json"
	"math"
	"slices"
	"time"

	"github.com/workflowd/workflowd/agentcore/control"
	"github.com/workflowd/workflowd/agentcore/fault"
	"github.com/workflowd/workflowd/agentcore/llm"
	"github.com/workflowd/workflowd/agentcore/session"
)

// replay gives f what a turn has shown so far, from the record alone: its entries, the committed part of an answer under
// way, and its end; for an input that joined a turn, what that turn has shown since. It runs on the line, so that live events follow without a gap or a repeat.
func (h *Harness) replay(tx *session.Tx, sub session.Submission, turn session.SubmissionID, f *feed) error {
	r := replayer{f: f, cursor: Cursor{Store: tx.StoreID(), Seq: tx.Seq() - 1, Index: -1}}
	if sub.Entry != 0 {
		entries, err := tx.Entries(session.EntryQuery{Conversation: sub.Conversation, From: sub.Entry})
		if err != nil {
			return err
		}
		for _, e := range slices.Backward(entries) {
			if err := r.entry(e, turn); err != nil {
				return err
			}
		}
		if err := r.live(tx, sub.Conversation, turn); err != nil {
			return err
		}
	}
	switch sub.Status {
	case session.SubmissionAnswered, session.SubmissionUnanswered, session.SubmissionWithdrawn:
		r.put(TurnEnd{Status: sub.Status, Answer: sub.Answer, Reason: sub.Reason, Detail: sub.Detail})
	case session.SubmissionQueued, session.SubmissionPlaced:
	}
	return nil
}

type replayer struct {
	f      *feed
	cursor Cursor
}

func (r *replayer) put(e Event) {
	r.f.put(at(e, r.cursor))
	r.cursor.Index--
}

func (r *replayer) entry(e session.Entry, sub session.SubmissionID) error {
	var d entryData
	if err := stored(e.Data, &d, "entry", e.ID); err != nil {
		return err
	}
	if d.Submission != sub {
		return nil
	}
	switch e.Kind {
	case kindAssistant, kindToolResult:
		var m llm.Message
		if err := stored(e.Model, &m, "entry", e.ID); err != nil {
			return err
		}
		if e.Kind == kindAssistant {
			r.message(e.ID, m)
		} else if d.Call != nil {
			c := d.Call
			r.put(Tool{Phase: End, Entry: c.Entry, Index: c.Index, ToolCallID: toolCallID(c.Entry, c.Index), Name: c.Name, Result: m.Blocks,
				IsError: m.IsError, Code: c.Code, Details: c.Details, Duration: time.Duration(c.DurationMS) * time.Millisecond})
		}
		for _, b := range d.Usage {
			r.put(UsageReport{RecordID: b.RecordID, Origin: b.Origin, Usage: b.Usage})
		}
	case kindContinuation:
		if d.Retry != nil && d.Retry.Kind != "" {
			r.put(Retry{Kind: d.Retry.Kind, Attempt: d.Retry.Attempt, MaxAttempts: d.Retry.Most, Reason: d.Retry.Reason, Entry: e.ID})
		}
	}
	return nil
}

func (r *replayer) message(id session.EntryID, m llm.Message) {
	for i, b := range m.Blocks {
		p := Place{Entry: id, Block: i}
		switch b.Type {
		case llm.Text, llm.Refusal:
			r.text(TextDelta{Place: p, Text: b.Text})
		case llm.Thinking:
			r.text(ThinkingDelta{Place: p, Text: b.Text})
		case llm.ToolCall:
			if m.Stop == llm.StopToolUse || m.Stop == llm.StopEnd {
				r.put(toolStart(id, i, b))
			}
		case llm.Image, llm.Native:
		}
	}
}

func (r *replayer) text(e Event) {
	switch e := e.(type) {
	case TextDelta:
		if e.Text != "" {
			r.put(e)
		}
	case ThinkingDelta:
		if e.Text != "" {
			r.put(e)
		}
	}
}

// live replays the committed part of an answer under way, if it belongs to sub.
func (r *replayer) live(tx *session.Tx, c session.ConversationID, sub session.SubmissionID) error {
	doc, err := live.Get(tx, liveAt(c))
	if err != nil || doc.Entry == 0 {
		return err
	}
	for _, t := range tx.LiveTasks() {
		if t.Kind != TaskGeneration || t.Conversation != c {
			continue
		}
		if g, err := generationOf(t); err != nil {
			return err
		} else if g.Submission == sub && g.Entry == doc.Entry {
			r.message(doc.Entry, partialMessage(doc))
		}
	}
	return nil
}

// Answer is what a turn said.
type Answer struct {
	Entry session.EntryID // the entry that answered, 0 while there is none
	Text  string          // what was said behind the last tool call, continuations included
}

// AnswerOf reads the answer of a submission from the record. An unknown or unanswered one gives a zero Entry.
func (h *Harness) AnswerOf(ctx context.Context, requestID string) (Answer, error) {
	var a Answer
	err := h.sess.View(ctx, func(tx *session.Tx) error {
		sub, err := tx.SubmissionByRequest(session.Root, requestID)
		if err != nil {
			return err
		}
		if sub.Status != session.SubmissionAnswered {
			return nil
		}
		entries, err := tx.Entries(session.EntryQuery{Conversation: session.Root, From: sub.Entry, To: sub.Answer})
		if err != nil {
			return err
		}
		turn, err := turnOf(sub)
		if err != nil {
			return err
		}
		a.Entry = sub.Answer
		for _, e := range slices.Backward(entries) {
			if err := a.add(e, turn); err != nil {
				return err
			}
		}
		return nil
	})
	return a, AsFault(err)
}

func (a *Answer) add(e session.Entry, sub session.SubmissionID) error {
	switch e.Kind {
	case kindToolResult:
		a.Text = ""
	case kindContinuation:
		var d entryData
		if err := stored(e.Data, &d, "entry", e.ID); err != nil {
			return err
		}
		if d.GoOn {
			a.Text = ""
		}
	case kindAssistant:
		var d entryData
		var m llm.Message
		if err := stored(e.Data, &d, "entry", e.ID); err != nil {
			return err
		}
		if d.Submission != sub {
			return nil
		}
		if err := stored(e.Model, &m, "entry", e.ID); err != nil {
			return err
		}
		a.Text += m.Text()
	}
	return nil
}

// Leads reports whether an input has a turn of its own, or none yet; false says that it joined the turn of another one.
func (h *Harness) Leads(ctx context.Context, c session.ConversationID, requestID string) (leads bool, err error) {
	if c == 0 {
		c = session.Root
	}
	err = h.sess.View(ctx, func(tx *session.Tx) error {
		sub, err := tx.SubmissionByRequest(c, requestID)
		if err != nil {
			return err
		}
		turn, err := turnOf(sub)
		leads = turn == sub.ID
		return err
	})
	return leads, AsFault(err)
}

// Session is the kernel under the harness, for documents of the layers above.
func (h *Harness) Session() *session.Session { return h.sess }

// Messages returns what the model is shown of the main conversation, without the system prompt and before a project's hooks
// look at it. At rest these are exactly the messages to which the next request adds its input; while a turn is unfinished,
// those of its request under way. The messages are shared: do not change them. Source: P-475.
func (h *Harness) Messages(ctx context.Context) ([]llm.Message, error) {
	var c modelContext
	err := h.sess.View(ctx, func(tx *session.Tx) error {
		th, err := h.thread(tx, session.Root)
		if err == nil {
			err = th.broken
		}
		if err != nil {
			return err
		}
		cutoff := session.EntryID(math.MaxInt64)
		for _, t := range tx.LiveTasks() {
			if t.Kind != TaskGeneration || t.Conversation != session.Root {
				continue
			}
			g, err := generationOf(t)
			if err != nil {
				return err
			}
			if cutoff = g.Cutoff; t.Phase == phaseTools {
				cutoff = g.Entry - 1 // results are still to come
			}
		}
		c = derive(th.items, cutoff)
		return nil
	})
	return c.messages, AsFault(err)
}

// ResetIdle starts the context of the main conversation anew, synced. While anything of the session is unfinished, a live
// task or an input that waits, it is a conflict and nothing is recorded. Source: P-010.
func (h *Harness) ResetIdle(ctx context.Context, requestID string) error {
	_, err := h.record(ctx, control.Head{RequestID: requestID}, submitted{Reset: &resetData{}, Mode: control.Reject}, nil, nil)
	return err
}

// Restore makes messages the context from which the first turn goes on, synced. It is for a session in which nothing was
// said yet: of several calls, and of a reset among them, the newest counts. Any other session is a conflict and stays as it
// is. Nothing runs: a call among messages that has no result is shown to the model as interrupted.
// Source: P-477 to P-480.
func (h *Harness) Restore(ctx context.Context, messages []llm.Message) error {
	_, err := h.sess.Commit(ctx, func(tx *session.Tx) error {
		th, err := h.thread(tx, session.Root)
		if err == nil {
			err = th.broken
		}
		if err != nil {
			return err
		}
		tasks, err := tx.Tasks(session.TaskQuery{Limit: 1})
		if err != nil {
			return err
		}
		if len(tasks) > 0 || !untouched(th.items) {
			return fault.New(fault.Conflict, "the transcript cannot be restored: session %s has a history of its own", h.sess.StoreID())
		}
		if err := h.ensureRoot(tx); err != nil {
			return err
		}
		entries, err := restoredEntries(messages, tx.ReserveEntry)
		if err != nil {
			return err
		}
		for _, e := range entries {
			tx.Append(e)
		}
		tx.Sync()
		return nil
	})
	return AsFault(err)
}

// restoredEntries is the other way round: the entries from which derive makes messages. Call ids become presentation ids,
// so that each result finds its call; a result without a call before it has no place in a context and is left out. What a
// message says of usage was counted elsewhere, and of another context.
func restoredEntries(messages []llm.Message, reserve func() session.EntryID) ([]session.Entry, error) {
	marker := session.Entry{ID: reserve(), Conversation: session.Root, Kind: kindRestore}
	marker.Head = marker.ID
	entries := []session.Entry{marker}
	open := map[string]string{} // calls without a result: presentation ids by the provider's
	for i, m := range messages {
		e := session.Entry{ID: reserve(), Conversation: session.Root, Data: mustJSON(entryData{})}
		m.Usage = nil
		switch m.Role {
		case llm.RoleUser:
			e.Kind = kindUser
		case llm.RoleAssistant:
			e.Kind = kindAssistant
			for at, b := range m.Blocks {
				if b.Type == llm.ToolCall {
					open[b.CallID] = toolCallID(e.ID, at)
				}
			}
		case llm.RoleToolResult:
			e.Kind = kindToolResult
			call, ok := open[m.CallID]
			if !ok {
				continue
			}
			delete(open, m.CallID)
			m.CallID = call
		default:
			return nil, fault.New(fault.InputValidation, "messages[%d]: role %q is none of user, assistant, toolResult", i, m.Role)
		}
		var err error
		if e.Model, err = json.Marshal(m); err != nil {
			return nil, fault.New(fault.InputValidation, "messages[%d]: %w", i, err)
		}
		entries = append(entries, e)
	}
	entries[0].Data = mustJSON(restoreData{Messages: len(entries) - 1})
	return entries, nil
}

// restoreData is the data of a kindRestore entry.
type restoreData struct {
	Messages int `json:"messages"` // how many entries behind it came with it
}

// untouched reports whether a transcript holds nothing but what was restored and resets: nothing was said here yet. The
// caller knows that no task ever ran, so that messages can only be restored ones.
func untouched(items []item) bool {
	for _, it := range items {
		switch it.kind {
		case kindRestore, kindReset, kindUser, kindAssistant, kindToolResult:
		default:
			return false
		}
	}
	return true
}
