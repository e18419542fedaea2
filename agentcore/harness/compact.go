package harness

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/workflowd/workflowd/agentcore/compaction"
	"github.com/workflowd/workflowd/agentcore/control"
	"github.com/workflowd/workflowd/agentcore/harness/turn"
	"github.com/workflowd/workflowd/agentcore/llm"
	"github.com/workflowd/workflowd/agentcore/prompt"
	"github.com/workflowd/workflowd/agentcore/session"
	"github.com/workflowd/workflowd/agentcore/task"
	"github.com/workflowd/workflowd/internal/faultpoint"
)

var (
	pointSummaryAsked  = faultpoint.New("harness.summary.before")
	pointSummarised    = faultpoint.New("harness.summary.committed")
	pointSummaryPlaced = faultpoint.New("harness.summary.placed")
)

func (h *Harness) compaction() task.Definition {
	return task.Definition{
		Kind: TaskCompaction, Version: taskVersion,
		Phases:  map[string]task.Phase{phaseSummarise: h.step(h.summarise), phaseRetry: h.step(h.summariseLater), phasePlace: h.step(h.placeWhenFree)},
		Abort:   h.abortCompaction,
		Cleanup: h.faultCompaction,
	}
}

func compactionOf(t session.Task) (compactInput, error) {
	var in compactInput
	if err := stored(t.Input, &in, "input of task", t.ID); err != nil {
		return in, err
	}
	return in, nil
}

// contextItems is what the model sees up to a cutoff, for the cut.
func contextItems(items []item, cutoff session.EntryID) []compaction.Item {
	var list []compaction.Item
	walk(items, cutoff, func(it item, m llm.Message) {
		list = append(list, compaction.Item{ID: int64(it.id), Message: m, Turn: it.kind == kindUser, Fixed: it.head != 0})
	})
	return list
}

// makeRoom begins the compaction that a request needs, and lets the generation wait for it. waits is false when there is
// nothing to summarise, or the request has had its compaction: then it goes out as it is, unless a message alone is too large. overflow is
// what the provider said, nil when the threshold is the reason.
func (h *Harness) makeRoom(ctx context.Context, inv *task.Invocation, g genState, setup Setup, overflow error) (waits bool, err error) {
	var items []compaction.Item
	err = h.sess.View(ctx, func(tx *session.Tx) error {
		th, err := h.told(tx, g.Conversation, g.Cutoff)
		if err == nil {
			items = contextItems(th.items, g.Cutoff)
		}
		return err
	})
	if err != nil {
		return false, err
	}
	settings := setup.Compaction
	if overflow != nil { // the provider counts otherwise than the estimate: what is kept is a part of what was too much
		settings.Keep = compaction.Size(items) / overflowShare
	}
	from, ok := compaction.Cut(items, setup.Window, settings)
	if !ok || g.Compacted && overflow == nil {
		if name, size := compaction.Largest(items); size > setup.Window {
			return true, h.failTurn(ctx, inv, g, &stream{h: h}, reasonModel, compaction.TooLarge(name, size, setup.Window), llm.Message{})
		}
		return false, nil
	}
	in := compactInput{Submission: g.Submission, Auto: true, Cutoff: g.Cutoff, KeepFrom: session.EntryID(from)}
	_, err = inv.Commit(ctx, func(tx *session.Tx) (task.Next, error) {
		g.Compaction = tx.CreateTask(session.Task{Conversation: g.Conversation, Kind: TaskCompaction, Version: taskVersion, Owner: inv.Task().ID,
			Status: session.TaskPending, Phase: phaseSummarise, Input: mustJSON(in), Checkpoint: mustJSON(compactState{})})
		tx.Publish(published{g.Submission, Compaction{Phase: Start, Task: g.Compaction, Auto: true}})
		return task.Wait{On: []session.TaskID{g.Compaction}, Phase: phaseRequest, Checkpoint: mustJSON(g)}, nil
	})
	return true, err
}

// compacted takes the end of the compaction that a request waited for. It returns what failed, if it did.
func (h *Harness) compacted(ctx context.Context, g *genState) (*compactOutcome, error) {
	if g.Compaction == 0 {
		return nil, nil
	}
	var failed *compactOutcome
	err := h.sess.View(ctx, func(tx *session.Tx) error {
		t, err := tx.Task(g.Compaction)
		if err != nil || t.Outcome == nil {
			return errors.Join(err, fmt.Errorf("compaction %d has no outcome", g.Compaction))
		}
		var out compactOutcome
		if t.Outcome.Result != nil {
			if err := stored(t.Outcome.Result, &out, "result of task", t.ID); err != nil {
				return err
			}
		}
		if t.Outcome.Status != session.Completed {
			out.why = "the context could not be compacted: " + t.Outcome.Error + t.Outcome.Reason
			failed = &out
			return nil
		}
		g.Cutoff, g.Compaction, g.Compacted = max(g.Cutoff, out.Entry), 0, true
		return nil
	})
	return failed, err
}

// startCompaction places a compaction that somebody asked for, of a transcript that was read. Source: P-500 to P-510.
func (h *Harness) startCompaction(tx *session.Tx, q queued) error {
	c := q.sub.Conversation
	th := h.threads[c]
	cutoff := session.EntryID(0)
	if n := len(th.items); n > 0 {
		cutoff = th.items[n-1].id
	}
	if len(contextItems(th.items, cutoff)) == 0 {
		tx.Publish(published{q.sub.ID, Compaction{Phase: End}})
		h.settle(tx, q.sub, session.SubmissionAnswered, 0, "", "")
		return nil
	}
	q.sub.Status = session.SubmissionPlaced
	tx.PutSubmission(q.sub)
	in := compactInput{Submission: q.sub.ID, Instructions: q.input.Prompt, Cutoff: cutoff}
	id := tx.CreateTask(session.Task{Conversation: c, Kind: TaskCompaction, Version: taskVersion, Status: session.TaskPending, Phase: phaseSummarise,
		Input: mustJSON(in), Checkpoint: mustJSON(compactState{})})
	tx.Publish(published{q.sub.ID, Compaction{Phase: Start, Task: id}})
	return nil
}

// compactBehind starts a compaction in the background: what is new meanwhile stays as it is. Source: P-124 to P-126.
func (h *Harness) compactBehind(tx *session.Tx, c control.Compact, settings json.RawMessage, r *control.Receipt) error {
	at := target(c.Head())
	th, err := h.told(tx, at, newest)
	if err != nil {
		return err
	}
	in := compactInput{Settings: settings, Instructions: c.Instructions}
	if n := len(th.items); n > 0 {
		in.Cutoff = th.items[n-1].id
	}
	in.KeepFrom = session.EntryID(compaction.OpenRound(contextItems(th.items, in.Cutoff)))
	if in.KeepFrom == 0 {
		in.KeepFrom = in.Cutoff + 1
	}
	if err := h.ensureRoot(tx); err != nil {
		return err
	}
	r.TaskID = tx.CreateTask(session.Task{Conversation: at, Kind: TaskCompaction, Version: taskVersion, Background: true, Status: session.TaskPending,
		Phase: phaseSummarise, Input: mustJSON(in), Checkpoint: mustJSON(compactState{})})
	return nil
}

// summarising is what a step of a compaction works with.
type summarising struct {
	in     compactInput
	state  compactState
	setup  Setup
	window int64
	room   int64
	chunks []string
}

func (h *Harness) summarising(ctx context.Context, inv *task.Invocation) (s summarising, err error) {
	if s.in, err = compactionOf(inv.Task()); err != nil {
		return s, err
	}
	if err := inv.Decode(&s.state); err != nil {
		return s, err
	}
	c := inv.Task().Conversation
	if s.in.Submission != 0 {
		s.setup, err = h.resolved(ctx, c, s.in.Submission)
	} else {
		s.setup, err = h.opts.Resolve(ctx, s.in.Settings)
	}
	if err != nil {
		return s, &notSummarised{err}
	}
	if s.window = s.setup.Window; s.window == 0 {
		s.window = unknownWindow
	}
	if s.room, err = compaction.Room(s.window, s.in.Instructions); err != nil {
		return s, &notSummarised{err}
	}
	return s, h.sess.View(ctx, func(tx *session.Tx) error {
		th, err := h.told(tx, c, s.in.Cutoff)
		if err != nil {
			return err
		}
		var older []llm.Message
		for _, it := range contextItems(th.items, s.in.Cutoff) {
			if s.in.KeepFrom != 0 && it.ID >= int64(s.in.KeepFrom) && !it.Fixed {
				break
			}
			older = append(older, it.Message)
		}
		s.chunks = compaction.Chunks(compaction.Render(older), s.room)
		return nil
	})
}

// notSummarised is a reason why a compaction fails, in contrast to a defect.
type notSummarised struct{ error }

// Unwrap returns the reason.
func (e *notSummarised) Unwrap() error { return e.error }

// summarise makes one summary request and commits what it gave.
func (h *Harness) summarise(ctx context.Context, inv *task.Invocation) error {
	s, err := h.summarising(ctx, inv)
	if why, is := errors.AsType[*notSummarised](err); is {
		return h.failCompaction(ctx, inv, s, why)
	}
	if err != nil {
		return err
	}
	text, merge, done := s.state.Work.Next(s.chunks)
	if done { // there is nothing to say
		return h.finishCompaction(ctx, inv, s)
	}
	pointSummaryAsked.Hit()
	m, usage, failure := h.askSummary(ctx, s, compaction.Request(s.setup.Model, s.window, s.in.Instructions, text, merge))
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	s.state.Calls++
	var bill *usageRecord
	if usage != nil && *usage != (llm.Usage{}) {
		bill = &usageRecord{fmt.Sprintf("%s/compaction/%d.%d", h.sess.StoreID(), inv.Task().ID, s.state.Calls), s.setup.Provider.Origin(s.setup.Model), *usage}
		s.state.Bills = append(s.state.Bills, *bill)
	}
	if failure != nil {
		if d := turn.Next(s.state.Budget, turn.Response{Err: failure}); d.Act == turn.Resend && !failure.Produced {
			return h.summariseAgain(ctx, inv, s, bill, d)
		}
		return h.failCompaction(ctx, inv, s, failure, bill)
	}
	summary, err := compaction.Valid(m)
	if err == nil {
		s.state.Work, err = s.state.Work.Took(s.chunks, summary, s.room)
	}
	if err != nil {
		return h.failCompaction(ctx, inv, s, err, bill)
	}
	s.state.Budget = turn.Budget{}
	if _, _, done = s.state.Work.Next(s.chunks); done && !inv.Task().Background {
		return h.finishCompaction(ctx, inv, s, bill)
	}
	next := phaseSummarise
	if done {
		next = phasePlace
	}
	_, err = inv.Commit(ctx, func(tx *session.Tx) (task.Next, error) {
		h.publishBill(tx, s.in.Submission, bill)
		return task.Continue{Phase: next, Checkpoint: mustJSON(s.state)}, nil
	})
	if err == nil {
		pointSummarised.Hit()
	}
	return err
}

func (h *Harness) publishBill(tx *session.Tx, sub session.SubmissionID, bills ...*usageRecord) {
	for _, b := range bills {
		if b != nil && sub != 0 {
			tx.Publish(published{sub, UsageReport{RecordID: b.RecordID, Origin: b.Origin, Usage: b.Usage}})
		}
	}
}

// askSummary sends one request and returns the whole response, or why there is none.
func (h *Harness) askSummary(ctx context.Context, s summarising, req llm.Request) (m llm.Message, usage *llm.Usage, failure *llm.Error) {
	for e, err := range s.setup.Provider.Stream(ctx, req) {
		if err != nil {
			failure, ok := errors.AsType[*llm.Error](err)
			if !ok {
				failure = &llm.Error{Class: llm.Invalid, Message: err.Error(), Cause: err}
			}
			return m, failure.Usage, failure
		}
		if done, is := e.(llm.Done); is {
			return done.Message, done.Message.Usage, nil
		}
	}
	return m, nil, &llm.Error{Class: llm.Connection, Message: "the provider's stream ended without a terminal event", Dispatched: true, Produced: true}
}

func (h *Harness) summariseAgain(ctx context.Context, inv *task.Invocation, s summarising, bill *usageRecord, d turn.Decision) error {
	s.state.Budget, s.state.WakeAt = d.Budget, h.opts.Now().Add(d.Delay)
	_, err := inv.Commit(ctx, func(tx *session.Tx) (task.Next, error) {
		h.publishBill(tx, s.in.Submission, bill)
		return task.Continue{Phase: phaseRetry, Checkpoint: mustJSON(s.state)}, nil
	})
	return err
}

// summariseLater sleeps until the checkpoint's wake time, then asks again.
func (h *Harness) summariseLater(ctx context.Context, inv *task.Invocation) error {
	var state compactState
	if err := inv.Decode(&state); err != nil {
		return err
	}
	if err := inv.Sleep(state.WakeAt); err != nil {
		return err
	}
	return h.summarise(ctx, inv)
}

// finishCompaction puts the summary in the place of the older part, and ends the turn that asked for it.
func (h *Harness) finishCompaction(ctx context.Context, inv *task.Invocation, s summarising, bills ...*usageRecord) error {
	c := inv.Task().Conversation
	manual := inv.Task().Owner == 0
	_, err := inv.Commit(ctx, func(tx *session.Tx) (task.Next, error) {
		var queue []queued
		var sub session.Submission
		if manual {
			var err error
			if queue, err = h.queue(tx, c); err != nil {
				return nil, err
			}
			if sub, err = tx.Submission(s.in.Submission); err != nil {
				return nil, err
			}
		}
		h.publishBill(tx, s.in.Submission, bills...)
		id := h.sayWith(tx, c, s.in.Submission, inv.Task().ID, compactionData{Auto: s.in.Auto, Summary: s.state.Work.Summary(), KeepFrom: s.in.KeepFrom, Bills: s.state.Bills})
		tx.Publish(published{s.in.Submission, Compaction{Phase: End, Task: inv.Task().ID, Auto: s.in.Auto, Entry: id, Summary: s.state.Work.Summary()}})
		settled := task.Settle{Outcome: session.Outcome{Status: session.Completed, Result: mustJSON(compactOutcome{Entry: id})}}
		if !manual {
			return settled, nil
		}
		sub.Entry = id
		h.settle(tx, sub, session.SubmissionAnswered, id, "", "")
		tx.Sync()
		return settled, h.placeFrom(tx, queue, atEnd)
	})
	if err == nil {
		pointSummaryPlaced.Hit()
	}
	return err
}

// sayWith appends the entry of a summary.
func (h *Harness) sayWith(tx *session.Tx, c session.ConversationID, sub session.SubmissionID, by session.TaskID, d compactionData) session.EntryID {
	e := session.Entry{ID: tx.ReserveEntry(), Kind: kindCompaction, Head: d.KeepFrom, ByTask: by}
	if e.Head == 0 {
		e.Head = e.ID
	}
	bills := d.Bills
	d.KeepFrom, d.Cutoff, d.Bills = 0, 0, nil
	return h.say(tx, c, e, llm.TextMessage(llm.RoleUser, prompt.Summary(d.Summary)), entryData{Submission: sub, Usage: bills, Compaction: &d})
}

// placeWhenFree hands the summary of a compaction in the background to the conversation: at once when it is at rest, else
// at its next boundary.
func (h *Harness) placeWhenFree(ctx context.Context, inv *task.Invocation) error {
	in, err := compactionOf(inv.Task())
	if err != nil {
		return err
	}
	var state compactState
	if err := inv.Decode(&state); err != nil {
		return err
	}
	c := inv.Task().Conversation
	_, err = inv.Commit(ctx, func(tx *session.Tx) (task.Next, error) {
		queue, err := h.queue(tx, c)
		if err != nil {
			return nil, err
		}
		input := submitted{Summary: &compactionData{Summary: state.Work.Summary(), KeepFrom: in.KeepFrom, Cutoff: in.Cutoff, Bills: state.Bills}}
		sub := session.Submission{Conversation: c, RequestID: fmt.Sprintf("compaction:%d", inv.Task().ID), Status: session.SubmissionQueued, Payload: mustJSON(input)}
		head, err := headOf(tx, c)
		if err != nil {
			return nil, err
		}
		sub.ID = tx.CreateSubmission(sub)
		settled := task.Settle{Outcome: session.Outcome{Status: session.Completed}}
		if h.busy(tx, c) {
			return settled, nil
		}
		return settled, h.placeFrom(tx, append(queue, queued{sub, input, head}), atRest)
	})
	if err == nil {
		pointSummaryPlaced.Hit()
	}
	return err
}

// headOf is the newest head of a conversation, 0 when there is none.
func headOf(tx *session.Tx, c session.ConversationID) (session.EntryID, error) {
	head, err := tx.NewestHead(c, 0)
	if errors.Is(err, session.ErrNotFound) {
		return 0, nil
	}
	return head.ID, err
}

// placeSummary places the summary of a compaction in the background, unless a newer head has overtaken it. It returns the
// entry, or 0. Source: durable kernel 4.2 "Stale rule".
func (h *Harness) placeSummary(tx *session.Tx, q queued, overtaken bool) session.EntryID {
	c, s := q.sub.Conversation, *q.input.Summary
	if overtaken || q.head > s.Cutoff {
		h.settle(tx, q.sub, session.SubmissionUnanswered, 0, reasonStale, "a newer summary or reset has taken its place")
		return 0
	}
	id := h.sayWith(tx, c, q.sub.ID, 0, s)
	q.sub.Entry = id
	h.settle(tx, q.sub, session.SubmissionAnswered, id, "", "")
	return id
}

// failCompaction ends a compaction without a summary. The context stays as it is.
func (h *Harness) failCompaction(ctx context.Context, inv *task.Invocation, s summarising, why error, bills ...*usageRecord) error {
	return h.endCompaction(ctx, inv, s.in, session.Outcome{Status: session.Failed, Error: why.Error(), Result: mustJSON(compactOutcome{Bills: s.state.Bills})}, reasonModel, why.Error(), bills...)
}

// abortCompaction settles a stopped compaction: nothing that still comes is saved.
func (h *Harness) abortCompaction(ctx context.Context, inv *task.Invocation) error {
	in, err := compactionOf(inv.Task())
	if err != nil {
		return err
	}
	reason := inv.Task().AbortReason
	return h.endCompaction(ctx, inv, in, session.Outcome{Status: session.Aborted, Reason: reason}, reasonAborted, reason)
}

func (h *Harness) endCompaction(ctx context.Context, inv *task.Invocation, in compactInput, o session.Outcome, reason, detail string, bills ...*usageRecord) error {
	_, err := inv.Commit(ctx, func(tx *session.Tx) (task.Next, error) {
		end, err := h.withoutSummary(tx, inv.Task(), in, reason, detail)
		if err != nil {
			return nil, err
		}
		h.publishBill(tx, in.Submission, bills...)
		end()
		return task.Settle{Outcome: o}, nil
	})
	return err
}

// withoutSummary reads what the end of a compaction without a summary depends on, and returns the step that tells who asked
// for it.
func (h *Harness) withoutSummary(tx *session.Tx, t session.Task, in compactInput, reason, detail string) (func(), error) {
	if t.Owner != 0 || in.Submission == 0 {
		return func() {}, nil
	}
	sub, err := tx.Submission(in.Submission)
	if err != nil {
		return nil, err
	}
	held, err := h.hold(tx, t.Conversation)
	if err != nil {
		return nil, err
	}
	return func() {
		h.settle(tx, sub, session.SubmissionUnanswered, 0, reason, detail)
		held()
		tx.Sync()
	}, nil
}

// faultCompaction accompanies an outcome that the scheduler set.
func (h *Harness) faultCompaction(tx *session.Tx, t session.Task, o session.Outcome) error {
	in, err := compactionOf(t)
	if err != nil {
		return err
	}
	end, err := h.withoutSummary(tx, t, in, reasonFaulted, o.Error+o.Reason)
	if err == nil {
		end()
	}
	return err
}
