package harness

import (
	"context"
	"encoding/json"
	"errors"
	"iter"

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
		if t.Kind == TaskGeneration && t.Conversation == c {
			return true
		}
	}
	return false
}

// place puts an input into the transcript and starts its turn. With a setup the request is prepared in the same commit.
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
			if t.Kind != TaskGeneration || t.Abort {
				continue
			}
			if g, err := generationOf(t); err != nil {
				return err
			} else if g.Submission != turn {
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

// settle ends a submission and publishes it.
func (h *Harness) settle(tx *session.Tx, sub session.Submission, status session.SubmissionStatus, answer session.EntryID, reason, detail string) {
	sub.Status, sub.Answer, sub.Reason, sub.Detail = status, answer, reason, detail
	tx.PutSubmission(sub)
	tx.Publish(published{sub.ID, TurnEnd{Status: status, Answer: answer, Reason: reason, Detail: detail}})
}
