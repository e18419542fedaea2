package harness

import (
	"context"
	"encoding/json"
	"errors"
	"iter"
	"slices"
	"time"

	"github.com/workflowd/workflowd/agentcore/control"
	"github.com/workflowd/workflowd/agentcore/fault"
	"github.com/workflowd/workflowd/agentcore/llm"
	"github.com/workflowd/workflowd/agentcore/session"
	"github.com/workflowd/workflowd/agentcore/task"
)

// Submit is one input for the model.
type Submit struct {
	// RequestID is the logical identity: the same id with the same content is the same turn, finished or not; with other
	// content it is a conflict. It must not be empty.
	RequestID    string
	Conversation session.ConversationID // 0 = the main one
	Prompt       string
	Images       []llm.Block
	Settings     json.RawMessage // for Options.Resolve; stored, so without credentials
	Mode         control.Mode    // what it does while another turn is under way
	Compact      bool            // a summary in place of the context is wanted; Prompt are instructions for it
}

// Run submits and follows one turn. It yields the turn's events from its beginning (those of a turn that was already
// under way, or finished, again) and ends after TurnEnd with status answered, or with one error: of kind
// user_input_required when a call waits for a person, execution_aborted after a stop, model_error and others when the
// turn is unanswered. Every error comes last.
//
// When ctx ends with cause task.ErrSuspended the work is left for the next open; any other end cancels the turn durably.
// One host decides at a time: the newest Run's.
func (h *Harness) Run(ctx context.Context, s Submit, host Host) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		f := newFeed()
		h.mu.Lock()
		h.host = host
		h.mu.Unlock()
		sub, err := h.admit(ctx, s, f)
		if err != nil {
			yield(nil, err)
			return
		}
		defer h.unsubscribe(f)
		h.sched.Unpark()
		if err := h.sched.Resume(ctx); err != nil {
			yield(nil, err)
			return
		}
		h.follow(ctx, sub, f, yield)
	}
}

func (h *Harness) follow(ctx context.Context, sub session.SubmissionID, f *feed, yield func(Event, error) bool) {
	wait := ctx
	for {
		events, err := f.take(wait)
		switch {
		case err != nil && wait == ctx && ctx.Err() != nil && !errors.Is(err, task.ErrSuspended):
			wait = context.WithoutCancel(ctx) // stopped: the turn's end still comes, with what was spent
			if err := h.cancel(wait, sub, context.Cause(ctx).Error()); err != nil {
				yield(nil, err)
				return
			}
			continue
		case err != nil:
			yield(nil, AsFault(err))
			return
		}
		for _, e := range events {
			switch e := e.(type) {
			case Paused:
				yield(nil, e.Err)
				return
			case TurnEnd:
				if e.Status == session.SubmissionAnswered {
					yield(e, nil)
					return
				}
				yield(nil, unanswered(e))
				return
			default:
				if !yield(e, nil) {
					return
				}
			}
		}
	}
}

// unanswered is the error a turn without an answer ends in.
func unanswered(e TurnEnd) error {
	switch e.Reason {
	case reasonAborted:
		return fault.New(fault.ExecutionAborted, "the turn was stopped: %s", e.Detail)
	case reasonModel:
		return fault.New(fault.ModelError, "%s", e.Detail)
	case string(fault.EmptyAnswer):
		return fault.New(fault.EmptyAnswer, "%s", e.Detail)
	case reasonStorage:
		return fault.New(fault.Storage, "%s", e.Detail)
	case reasonSetup:
		return fault.New(fault.InputValidation, "%s", e.Detail)
	case reasonReset:
		return fault.New(fault.ExecutionAborted, "%s", e.Detail)
	}
	if e.Status == session.SubmissionWithdrawn {
		return fault.New(fault.ExecutionAborted, "the input was withdrawn before its turn began")
	}
	return fault.New(fault.Internal, "%s: %s", e.Reason, e.Detail)
}

// AsFault gives the failures of the kernel their kinds.
func AsFault(err error) error {
	switch {
	case errors.Is(err, task.ErrSuspended):
		return &fault.Error{Kind: fault.Suspended, Message: "the host left; the turn goes on when the session is opened again", Cause: err}
	case errors.Is(err, session.ErrStale):
		return &fault.Error{Kind: fault.OwnerLost, Message: "another process took over this session; nothing was written here", Cause: err}
	case err == nil || fault.KindOf(err) != "":
		return err
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return &fault.Error{Kind: fault.ExecutionAborted, Message: "stopped before the turn began: " + err.Error(), Cause: err}
	case errors.Is(err, session.ErrPoisoned), errors.Is(err, session.ErrClosed), errors.Is(err, session.ErrNoEffect), errors.Is(err, session.ErrCorrupt),
		errors.Is(err, session.ErrInvalidJSON): // of a record: what comes from outside is checked at the doors
		return &fault.Error{Kind: fault.Storage, Message: err.Error(), Cause: err}
	}
	return err
}

// attach subscribes to a submission that exists.
func (h *Harness) attach(ctx context.Context, c session.ConversationID, requestID, digest string, f *feed) (session.SubmissionID, bool, error) {
	var id session.SubmissionID
	found := false
	err := h.sess.View(ctx, func(tx *session.Tx) error {
		sub, err := tx.SubmissionByRequest(c, requestID)
		if errors.Is(err, session.ErrNotFound) {
			return nil
		}
		if err != nil {
			return err
		}
		found, id = true, sub.ID
		if sub.Digest != digest {
			return fault.New(fault.Conflict, "requestId %q was used for another input", requestID)
		}
		if f == nil {
			return nil
		}
		turn, err := turnOf(sub)
		if err != nil {
			return err
		}
		if err := h.replay(tx, sub, turn, f); err != nil {
			return err
		}
		h.subscribe(turn, f)
		return nil
	})
	return id, found, err
}

// busy reports whether a turn of a conversation is under way.
func (h *Harness) busy(tx *session.Tx, c session.ConversationID) bool {
	for _, t := range tx.LiveTasks() {
		if t.Conversation == c && (t.Kind == TaskGeneration || t.Kind == TaskCompaction && t.Owner == 0 && !t.Background) {
			return true
		}
	}
	return false
}

// place puts an input into the transcript and starts its turn. With a setup, and a transcript that was read, the request is
// prepared in the same commit.
func (h *Harness) place(tx *session.Tx, q queued, setup *Setup) error {
	c := q.sub.Conversation
	if setup != nil {
		h.showSystem(tx, c, h.threads[c].shown, *setup, q.sub.ID)
	}
	cutoff := h.sayInput(tx, q)
	q.sub.Status, q.sub.Entry = session.SubmissionPlaced, cutoff
	tx.PutSubmission(q.sub)
	h.generate(tx, genState{Conversation: c, Submission: q.sub.ID, Cutoff: cutoff}, phaseRequest)
	return nil
}

// sayInput appends an input's message.
func (h *Harness) sayInput(tx *session.Tx, q queued) session.EntryID {
	m := llm.Message{Role: llm.RoleUser}
	if q.input.Prompt != "" {
		m.Blocks = append(m.Blocks, llm.Block{Type: llm.Text, Text: q.input.Prompt})
	}
	m.Blocks = append(m.Blocks, q.input.Images...)
	return h.say(tx, q.sub.Conversation, session.Entry{Kind: kindUser}, m, entryData{Submission: q.sub.ID})
}

// showSystem appends the system prompt when it is not the one shown last. It reports whether it did.
func (h *Harness) showSystem(tx *session.Tx, c session.ConversationID, shown string, setup Setup, sub session.SubmissionID) (session.EntryID, bool) {
	if setup.System == shown {
		return 0, false
	}
	names := make([]string, len(setup.Tools))
	for i, t := range setup.Tools {
		names[i] = t.Spec().Name
	}
	id := tx.Append(session.Entry{Conversation: c, Kind: kindSystem, Model: mustJSON(systemContent{setup.System}), Data: mustJSON(entryData{Submission: sub, Tools: names})})
	tx.Publish(item{id: id, conversation: c, kind: kindSystem, system: setup.System, model: true})
	return id, true
}

// generate creates the next generation task. The answer's entry id is reserved now.
func (h *Harness) generate(tx *session.Tx, g genState, phase string) session.TaskID {
	g.Entry = tx.ReserveEntry()
	return tx.CreateTask(session.Task{Conversation: g.Conversation, Kind: TaskGeneration, Version: taskVersion, Status: session.TaskPending, Phase: phase, Checkpoint: mustJSON(g)})
}

// cancel marks the turn of a submission, synced. Its end comes through the feed.
func (h *Harness) cancel(ctx context.Context, id session.SubmissionID, reason string) error {
	_, err := h.sess.Commit(ctx, func(tx *session.Tx) error {
		sub, err := tx.Submission(id)
		if err != nil {
			return err
		}
		if sub.Status == session.SubmissionQueued {
			tx.Sync()
			h.settle(tx, sub, session.SubmissionUnanswered, 0, reasonAborted, reason)
			return nil
		}
		turn, err := turnOf(sub)
		if err != nil {
			return err
		}
		for _, t := range tx.LiveTasks() {
			if mine, err := belongs(t, turn); err != nil {
				return err
			} else if !mine || t.Abort {
				continue
			}
			t.Abort, t.AbortReason = true, reason
			tx.PutTask(t)
			tx.Sync()
		}
		return nil
	})
	return AsFault(err)
}

// belongs reports whether a task leads the turn of a submission.
func belongs(t session.Task, turn session.SubmissionID) (bool, error) {
	switch t.Kind {
	case TaskGeneration:
		g, err := generationOf(t)
		return g.Submission == turn, err
	case TaskCompaction:
		in, err := compactionOf(t)
		return t.Owner == 0 && in.Submission == turn, err
	}
	return false, nil
}

// settle ends a submission and publishes it.
func (h *Harness) settle(tx *session.Tx, sub session.Submission, status session.SubmissionStatus, answer session.EntryID, reason, detail string) {
	sub.Status, sub.Answer, sub.Reason, sub.Detail = status, answer, reason, detail
	tx.PutSubmission(sub)
	tx.Publish(published{sub.ID, TurnEnd{Status: status, Answer: answer, Reason: reason, Detail: detail}})
}

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
	case kindCompaction:
		if c := d.Compaction; c != nil {
			r.put(Compaction{Phase: Start, Task: e.ByTask, Auto: c.Auto})
			for _, b := range d.Usage {
				r.put(UsageReport{RecordID: b.RecordID, Origin: b.Origin, Usage: b.Usage})
			}
			r.put(Compaction{Phase: End, Task: e.ByTask, Auto: c.Auto, Entry: e.ID, Summary: c.Summary})
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
