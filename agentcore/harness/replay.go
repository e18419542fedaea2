package harness

import (
	"context"
	"encoding/json"
	"slices"
	"time"

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
	if err := json.Unmarshal(e.Data, &d); err != nil {
		return err
	}
	if d.Submission != sub {
		return nil
	}
	switch e.Kind {
	case kindAssistant, kindToolResult:
		var m llm.Message
		if err := json.Unmarshal(e.Model, &m); err != nil {
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
		if err := json.Unmarshal(e.Data, &d); err != nil {
			return err
		}
		if d.GoOn {
			a.Text = ""
		}
	case kindAssistant:
		var d entryData
		var m llm.Message
		if err := json.Unmarshal(e.Data, &d); err != nil {
			return err
		}
		if d.Submission != sub {
			return nil
		}
		if err := json.Unmarshal(e.Model, &m); err != nil {
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
