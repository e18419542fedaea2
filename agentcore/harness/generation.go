package harness

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/workflowd/workflowd/agentcore/compaction"
	"github.com/workflowd/workflowd/agentcore/fault"
	"github.com/workflowd/workflowd/agentcore/harness/turn"
	"github.com/workflowd/workflowd/agentcore/llm"
	"github.com/workflowd/workflowd/agentcore/registry"
	"github.com/workflowd/workflowd/agentcore/session"
	"github.com/workflowd/workflowd/agentcore/task"
	"github.com/workflowd/workflowd/agentcore/tokens"
	"github.com/workflowd/workflowd/internal/faultpoint"
)

var (
	pointRequest   = faultpoint.New("harness.request.before")
	pointStreamed  = faultpoint.New("harness.response.complete")
	pointRound     = faultpoint.New("harness.round.committed")
	pointContinued = faultpoint.New("harness.continuation.committed")
	pointAnswered  = faultpoint.New("harness.answer.committed")
	pointRetry     = faultpoint.New("harness.retry.committed")
)

func (h *Harness) generation() task.Definition {
	return task.Definition{
		Kind: TaskGeneration, Version: taskVersion,
		Phases:  map[string]task.Phase{phaseRequest: h.step(h.request), phaseRetry: h.step(h.retry), phaseTools: h.step(h.tools)},
		Abort:   h.abortGeneration,
		Cleanup: h.faultGeneration,
	}
}

// resolution is the setup of a conversation's newest turn.
type resolution struct {
	sub   session.SubmissionID
	setup Setup
}

// resolved is what a generation needs from outside: the submission's settings made live, once per turn and process.
func (h *Harness) resolved(ctx context.Context, c session.ConversationID, id session.SubmissionID) (Setup, error) {
	h.mu.Lock()
	last := h.setups[c]
	h.mu.Unlock()
	if last.sub == id {
		return last.setup, nil
	}
	var p submitted
	err := h.sess.View(ctx, func(tx *session.Tx) error {
		sub, err := tx.Submission(id)
		if err != nil {
			return err
		}
		return stored(sub.Payload, &p, "submission", sub.ID)
	})
	if err != nil {
		return Setup{}, err
	}
	setup, err := h.opts.Resolve(ctx, p.Settings)
	if err == nil {
		h.mu.Lock()
		h.setups[c] = resolution{id, setup}
		h.mu.Unlock()
	}
	return setup, err
}

// retry sleeps until the checkpoint's wake time, the rest of it after a restart, then asks again.
func (h *Harness) retry(ctx context.Context, inv *task.Invocation) error {
	g, err := generationOf(inv.Task())
	if err != nil {
		return err
	}
	timer := time.NewTimer(g.WakeAt.Sub(h.opts.Now()))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	return h.ask(ctx, inv, g)
}

func (h *Harness) request(ctx context.Context, inv *task.Invocation) error {
	g, err := generationOf(inv.Task())
	if err != nil {
		return err
	}
	return h.ask(ctx, inv, g)
}

// ask sends one model request and commits what follows from it.
func (h *Harness) ask(ctx context.Context, inv *task.Invocation, g genState) error {
	setup, err := h.resolved(ctx, g.Conversation, g.Submission)
	if err != nil {
		return h.failTurn(ctx, inv, g, &stream{h: h}, reasonSetup, err.Error(), llm.Message{})
	}
	if failed, err := h.compacted(ctx, &g); err != nil {
		return err
	} else if failed != nil {
		g.Failed = append(g.Failed, failed.Bills...)
		return h.failTurn(ctx, inv, g, &stream{h: h}, reasonModel, failed.why, llm.Message{})
	}
	published := h.publication()
	chain := h.chain(published)
	setup = extended(setup, published)
	req, partial, err := h.prepare(ctx, inv, &g, setup)
	if err != nil {
		return err
	}
	if partial != nil {
		return h.recover(ctx, inv, g, *partial)
	}
	if chain.BeforeRequestSet() {
		if req, err = chain.BeforeRequest(ctx, req); err != nil {
			return err
		}
		setup = setup.offering(req)
	}
	used := tokens.Request(req)
	if setup.Window > 0 {
		h.show(g.Submission, ContextUsage{Used: used, Total: setup.Window})
	}
	if compaction.Due(used, setup.Window, setup.MaxTokens, setup.Compaction) {
		if waits, err := h.makeRoom(ctx, inv, g, setup, nil); waits || err != nil {
			return err
		}
	}
	pointRequest.Hit()
	st := h.newStream(inv, g, setup, used)
	st.whole = chain.AfterResponseSet()
	message, resp := st.run(ctx, setup.Provider.Stream(ctx, req))
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if errors.Is(st.failed, session.ErrStale) || errors.Is(st.failed, session.ErrPoisoned) {
		return st.failed
	}
	pointStreamed.Hit()
	if st.whole && resp.Err == nil {
		if message, err = chain.AfterResponse(ctx, message); err != nil {
			return err
		}
		resp = st.replaced(message, resp.Lost)
	}
	return h.classify(ctx, inv, g, setup, chain, st, message, resp)
}

// prepare makes sure that the system prompt in force is recorded and derives the request. It returns the committed part
// of an answer that an earlier owner was streaming, if there is one.
func (h *Harness) prepare(ctx context.Context, inv *task.Invocation, g *genState, setup Setup) (llm.Request, *liveDoc, error) {
	req := llm.Request{Model: setup.Model, Effort: setup.Effort, MaxTokens: setup.MaxTokens, CacheKey: h.providerSession(g.Conversation)}
	for _, t := range setup.Tools {
		req.Tools = append(req.Tools, t.Spec())
	}
	var partial *liveDoc
	derived := false
	read := func(tx *session.Tx) error {
		th, err := h.told(tx, g.Conversation, g.Cutoff)
		if err != nil {
			return err
		}
		if doc, err := live.Get(tx, liveAt(g.Conversation)); err != nil {
			return err
		} else if doc.Entry == g.Entry && len(doc.Blocks) > 0 {
			partial = &doc
		}
		if setup.System == th.shown {
			c := derive(th.items, g.Cutoff)
			req.System, req.Messages = setup.System, c.messages // the prompt may be recorded behind the cutoff
			derived = true
		}
		return nil
	}
	if err := h.sess.View(ctx, read); err != nil || derived {
		return req, partial, err
	}
	if _, err := inv.Write(ctx, func(tx *session.Tx) error {
		th, err := h.told(tx, g.Conversation, newest)
		if err != nil {
			return err
		}
		if id, wrote := h.showSystem(tx, g.Conversation, th.shown, setup, g.Submission); wrote {
			g.Cutoff = id
		}
		return nil
	}); err != nil {
		return req, nil, err
	}
	return req, partial, h.sess.View(ctx, read)
}

// classify commits what a response leads to.
func (h *Harness) classify(ctx context.Context, inv *task.Invocation, g genState, setup Setup, chain registry.Chain, st *stream, m llm.Message, r turn.Response) error {
	r.Before = g.Spoken
	d := turn.Next(g.Budget, r)
	switch d.Act {
	case turn.Abandon:
		return context.Cause(ctx)
	case turn.Answer:
		yield, err := chain.OnYield(ctx, m)
		if err != nil {
			return err
		}
		return h.answerTurn(ctx, inv, g, st, m, yield)
	case turn.Round:
		return h.startRound(ctx, inv, g, setup, chain, st, m)
	case turn.Resend:
		return h.resendLater(ctx, inv, g, st, d)
	case turn.Compact:
		if setup.Compaction.Off {
			break
		}
		g.Failed, g.Budget = append(g.Failed, st.usage(g)...), d.Budget
		g.Attempt++
		if waits, err := h.makeRoom(ctx, inv, g, setup, r.Err); waits || err != nil {
			return err
		}
	case turn.CarryOn:
		return h.continueTurn(ctx, inv, g, st, m, d)
	case turn.Fail:
	}
	reason := reasonModel
	if d.Failure == fault.EmptyAnswer {
		reason = string(fault.EmptyAnswer)
	}
	return h.failTurn(ctx, inv, g, st, reason, d.Reason, m)
}

// providerSession is the identity of a conversation with the provider: every fork has its own, for good.
// Source: durable kernel 1.5 "pi.provider", P-132.
func (h *Harness) providerSession(c session.ConversationID) string {
	if c == session.Root {
		return h.sess.StoreID()
	}
	return fmt.Sprintf("%s/%d", h.sess.StoreID(), c)
}

// recordID is the stable identity of the bill of a generation's attempt.
func (h *Harness) recordID(g genState) string {
	return fmt.Sprintf("%s/%d.%d", h.sess.StoreID(), g.Entry, g.Attempt)
}

// appendAnswer writes the assistant entry under its reserved id, clears the live document, and publishes what was not
// shown yet, tool starts excepted.
func (h *Harness) appendAnswer(tx *session.Tx, g genState, st *stream, m llm.Message, failure string) error {
	bills := append(g.Failed, st.usage(g)...)
	h.say(tx, g.Conversation, session.Entry{ID: g.Entry, Kind: kindAssistant}, m, entryData{Submission: g.Submission, Usage: bills, Failure: failure})
	if err := live.Retire(tx, liveAt(g.Conversation)); err != nil {
		return err
	}
	for _, e := range st.rest() {
		tx.Publish(published{g.Submission, e})
	}
	for _, b := range bills {
		tx.Publish(published{g.Submission, UsageReport{RecordID: b.RecordID, Origin: b.Origin, Usage: b.Usage}})
	}
	return nil
}

func (h *Harness) answerTurn(ctx context.Context, inv *task.Invocation, g genState, st *stream, m llm.Message, yield registry.YieldDecision) error {
	_, err := inv.Commit(ctx, func(tx *session.Tx) (task.Next, error) {
		open, err := h.inputsOf(tx, g)
		if err != nil {
			return nil, err
		}
		queue, err := h.queue(tx, g.Conversation)
		if err != nil {
			return nil, err
		}
		if err := h.appendAnswer(tx, g, st, m, ""); err != nil {
			return nil, err
		}
		if st.window > 0 && m.Usage != nil {
			tx.Publish(published{g.Submission, ContextUsage{Used: m.Usage.Total, Total: st.window}})
		}
		if on, asked := yield.(registry.GoOn); asked {
			if writes, input := selectAt(atEnd, queue); input < 0 && !slices.ContainsFunc(writes, func(i int) bool { return queue[i].input.Reset != nil }) { // else somebody else has spoken
				id := h.say(tx, g.Conversation, session.Entry{Kind: kindContinuation}, llm.TextMessage(llm.RoleUser, on.Prompt), entryData{Submission: g.Submission, GoOn: true})
				h.generate(tx, g.after(id), phaseRequest)
				return task.Settle{Outcome: session.Outcome{Status: session.Completed}}, nil
			}
		}
		h.settleAll(tx, open, session.SubmissionAnswered, g.Entry, "", "")
		tx.Sync()
		return task.Settle{Outcome: session.Outcome{Status: session.Completed}}, h.placeFrom(tx, queue, atEnd)
	})
	if err == nil {
		pointAnswered.Hit()
	}
	return err
}

func (h *Harness) resendLater(ctx context.Context, inv *task.Invocation, g genState, st *stream, d turn.Decision) error {
	g.Failed = append(g.Failed, st.usage(g)...)
	g.Budget, g.WakeAt = d.Budget, h.opts.Now().Add(d.Delay)
	g.Attempt++
	_, err := inv.Commit(ctx, func(tx *session.Tx) (task.Next, error) {
		tx.Publish(published{g.Submission, Retry{Kind: d.Kind, Attempt: d.Attempt, MaxAttempts: d.Most, Reason: d.Reason}})
		return task.Continue{Phase: phaseRetry, Checkpoint: mustJSON(g)}, nil
	})
	if err == nil {
		pointRetry.Hit()
	}
	return err
}

// continueTurn keeps what came and asks the model to go on.
func (h *Harness) continueTurn(ctx context.Context, inv *task.Invocation, g genState, st *stream, m llm.Message, d turn.Decision) error {
	if m.Stop == "" {
		m.Stop = llm.StopInterrupted
	}
	if m.Stop != llm.StopInterrupted && m.Stop != llm.StopLength {
		m.Stop = llm.StopInterrupted // the announced calls are gone; what is left is text
	}
	_, err := inv.Commit(ctx, func(tx *session.Tx) (task.Next, error) {
		if err := h.appendAnswer(tx, g, st, m, d.Reason); err != nil {
			return nil, err
		}
		h.continuation(tx, g, d, m.Text() != "")
		return task.Settle{Outcome: session.Outcome{Status: session.Completed}}, nil
	})
	if err == nil {
		pointContinued.Hit()
	}
	return err
}

// continuation appends the prompt and creates the generation that sends it.
func (h *Harness) continuation(tx *session.Tx, g genState, d turn.Decision, visible bool) {
	r := retryData{Kind: d.Kind, Attempt: d.Attempt, Most: d.Most, Reason: d.Reason}
	id := h.say(tx, g.Conversation, session.Entry{Kind: kindContinuation}, llm.TextMessage(llm.RoleUser, d.Prompt.Text(visible)), entryData{Submission: g.Submission, Retry: &r})
	if d.Kind != "" { // asking for an answer that did not come is no retry row
		tx.Publish(published{g.Submission, Retry{Kind: r.Kind, Attempt: r.Attempt, MaxAttempts: r.Most, Reason: r.Reason, Entry: id}})
	}
	after, phase := g.after(id), phaseRequest
	after.Budget, after.Spoken = d.Budget, g.Spoken || visible
	if d.Delay > 0 {
		after.WakeAt, phase = h.opts.Now().Add(d.Delay), phaseRetry
	}
	h.generate(tx, after, phase)
}

// recover carries on an answer that died with its host: the committed text stays, the turn goes on behind it.
func (h *Harness) recover(ctx context.Context, inv *task.Invocation, g genState, partial liveDoc) error {
	m := partialMessage(partial)
	d := turn.Spend(g.Budget, Recovery, turn.CarryOn, turn.PromptDropped, "the host restarted while the answer was streaming",
		fmt.Sprintf("the answer was interrupted again after %d attempts to carry on, by a restart of the host", turn.MaxConnection))
	if d.Act == turn.Fail {
		return h.failTurn(ctx, inv, g, &stream{h: h}, reasonModel, d.Reason, m)
	}
	return h.continueTurn(ctx, inv, g, &stream{h: h}, m, d)
}

func partialMessage(doc liveDoc) llm.Message {
	m := llm.Message{Role: llm.RoleAssistant, Stop: llm.StopInterrupted, Origin: doc.Origin}
	for _, b := range doc.Blocks {
		m.Blocks = append(m.Blocks, b.block())
	}
	return m
}

// failTurn ends a turn without an answer. What was shown stays in the transcript; the queue is held.
func (h *Harness) failTurn(ctx context.Context, inv *task.Invocation, g genState, st *stream, reason, detail string, m llm.Message) error {
	_, err := inv.Commit(ctx, func(tx *session.Tx) (task.Next, error) {
		open, err := h.inputsOf(tx, g)
		if err != nil {
			return nil, err
		}
		held, err := h.hold(tx, g.Conversation)
		if err != nil {
			return nil, err
		}
		if err := h.keepFailed(tx, g, st, m, detail); err != nil {
			return nil, err
		}
		h.settleAll(tx, open, session.SubmissionUnanswered, 0, reason, detail)
		held()
		tx.Sync()
		return task.Settle{Outcome: session.Outcome{Status: session.Failed, Error: detail}}, nil
	})
	return err
}

// hold reads which submissions wait behind a turn that ends badly. Calling what it returns tells their readers, with the
// same commit, that the queue is held: the next submission, or asking for one of them again, releases it oldest first.
func (h *Harness) hold(tx *session.Tx, c session.ConversationID) (func(), error) {
	queue, err := h.queue(tx, c)
	if err != nil {
		return nil, err
	}
	return func() {
		for _, q := range queue {
			tx.Publish(published{q.sub.ID, Paused{Err: fault.New(fault.Conflict, "submission %q is held: the turn before it failed; ask for it again to release it", q.sub.RequestID)}})
		}
	}, nil
}

// keepFailed records the text and the bills of a response that ended badly, when there are any.
func (h *Harness) keepFailed(tx *session.Tx, g genState, st *stream, m llm.Message, why string) error {
	if len(m.Blocks) == 0 && len(g.Failed) == 0 && st.bill == nil {
		return live.Retire(tx, liveAt(g.Conversation))
	}
	m.Role, m.Stop = llm.RoleAssistant, llm.StopAborted
	return h.appendAnswer(tx, g, st, m, why)
}

// abortGeneration settles a stopped turn: its calls have settled before.
func (h *Harness) abortGeneration(ctx context.Context, inv *task.Invocation) error {
	g, err := generationOf(inv.Task())
	if err != nil {
		return err
	}
	reason := inv.Task().AbortReason
	_, err = inv.Commit(ctx, func(tx *session.Tx) (task.Next, error) {
		open, err := h.inputsOf(tx, g)
		if err != nil {
			return nil, err
		}
		held, err := h.hold(tx, g.Conversation)
		if err != nil {
			return nil, err
		}
		if inv.Task().Phase != phaseTools {
			doc, err := live.Get(tx, liveAt(g.Conversation))
			if err != nil {
				return nil, err
			}
			if doc.Entry != g.Entry {
				doc = liveDoc{}
			}
			if err := h.keepFailed(tx, g, &stream{h: h}, partialMessage(doc), "stopped"); err != nil {
				return nil, err
			}
		}
		h.settleAll(tx, open, session.SubmissionUnanswered, 0, reasonAborted, reason)
		held()
		tx.Sync()
		return task.Settle{Outcome: session.Outcome{Status: session.Aborted, Reason: reason}}, nil
	})
	return err
}

// faultGeneration accompanies an outcome that the scheduler set: a defect must not leave a submission open.
func (h *Harness) faultGeneration(tx *session.Tx, t session.Task, o session.Outcome) error {
	g, err := generationOf(t)
	if err != nil {
		return err
	}
	detail := o.Error
	if detail == "" {
		detail = o.Reason
	}
	open, err := h.inputsOf(tx, g)
	if err != nil {
		return err
	}
	held, err := h.hold(tx, g.Conversation)
	if err != nil {
		return err
	}
	tx.Sync()
	reason := reasonFaulted
	if o.Reason == task.ReasonStorage {
		reason = reasonStorage
	}
	h.settleAll(tx, open, session.SubmissionUnanswered, 0, reason, detail)
	held()
	return nil
}
