package harness

import (
	"context"
	"encoding/json"
	"errors"
	"slices"

	"github.com/workflowd/workflowd/agentcore/fault"
	"github.com/workflowd/workflowd/agentcore/llm"
	"github.com/workflowd/workflowd/agentcore/session"
	"github.com/workflowd/workflowd/internal/faultpoint"
	"github.com/workflowd/workflowd/internal/strictjson"
)

var pointAdmitted = faultpoint.New("harness.submission.committed")

// Mode says what an input does while a turn is under way. On an idle conversation every mode starts a turn.
type Mode string

// The modes; the zero Mode is FollowUp. Source: spec create-agent "Durable session control".
const (
	FollowUp Mode = "followUp" // waits for the turn's end and starts one of its own
	Steer    Mode = "steer"    // joins the turn at its next tool boundary
	Reject   Mode = "reject"   // is refused, and nothing is recorded
)

// Receipt is what a command leaves with its sender. The same command under the same request id gets the first receipt
// again, after a restart too; another command under that id is a conflict.
type Receipt struct {
	RequestID string `json:"requestId"`
	InputID   string `json:"inputId,omitempty"` // Withdraw, Promote: the input it was about
	Result    Result `json:"result"`
}

// Result is what became of a command.
type Result string

// The results.
const (
	Accepted      Result = "accepted"       // Submit, Reset: recorded
	Withdrawn     Result = "withdrawn"      // the input will never be sent
	Promoted      Result = "promoted"       // the input steers now
	AlreadyPlaced Result = "already_placed" // the input is in a turn that is under way
	Settled       Result = "settled"        // the input has its end
	Unknown       Result = "not_found"      // there is no such input
)

// Submit records an input, synced, and returns without waiting for its answer; the work goes on by itself. Errors: kinds
// input_validation, conflict (the request id was used for something else, or a turn is under way and the mode is Reject),
// storage, owner_lost. Source: durable kernel 4.1.
func (h *Harness) Submit(ctx context.Context, s Submit) (Receipt, error) {
	if _, err := h.admit(ctx, s, nil); err != nil {
		return Receipt{}, err
	}
	return Receipt{RequestID: s.RequestID, Result: Accepted}, h.resume(ctx)
}

// Reset records a request to start the model's context anew at the next boundary, synced: at once when idle, else at the
// next tool boundary or the turn's end. What was said before stays in the transcript. handoff, when there is one, opens
// the new context. Inputs of a turn that is cut this way end unanswered. Source: durable kernel 5.
func (h *Harness) Reset(ctx context.Context, requestID, handoff string) (Receipt, error) {
	if _, err := h.record(ctx, requestID, submitted{Reset: &resetData{handoff}}, nil, nil); err != nil {
		return Receipt{}, err
	}
	return Receipt{RequestID: requestID, Result: Accepted}, h.resume(ctx)
}

// Withdraw takes a queued input back. It never undoes what a turn did. Source: durable kernel 4.3.
func (h *Harness) Withdraw(ctx context.Context, requestID, inputID string) (Receipt, error) {
	return h.change(ctx, "withdraw", requestID, inputID, Withdrawn, func(tx *session.Tx, q queued) error {
		h.settle(tx, q.sub, session.SubmissionWithdrawn, 0, "", "")
		return nil
	})
}

// Promote makes a queued input a steer; its identity and images stay. Source: durable kernel 4.3.
func (h *Harness) Promote(ctx context.Context, requestID, inputID string) (Receipt, error) {
	return h.change(ctx, "promote", requestID, inputID, Promoted, func(tx *session.Tx, q queued) error {
		if q.input.Reset != nil {
			return fault.New(fault.InputValidation, "inputId %q: a reset cannot steer", inputID)
		}
		q.input.Mode = Steer
		q.sub.Payload = mustJSON(q.input)
		tx.PutSubmission(q.sub)
		return nil
	})
}

// Cancel stops the conversation: the turn under way and every queued input end unanswered, synced. Their ends come when
// what runs has stopped. Queued resets stay. A conversation at rest is left as it is.
func (h *Harness) Cancel(ctx context.Context, reason string) error {
	_, err := h.sess.Commit(ctx, func(tx *session.Tx) error {
		queue, err := h.queue(tx)
		if err != nil {
			return err
		}
		tx.Sync()
		for _, t := range tx.LiveTasks() {
			if t.Kind == taskGeneration && !t.Abort {
				t.Abort, t.AbortReason = true, reason
				tx.PutTask(t)
			}
		}
		for _, q := range queue {
			if q.input.Reset == nil {
				h.settle(tx, q.sub, session.SubmissionUnanswered, 0, reasonAborted, reason)
			}
		}
		return nil
	})
	if err != nil {
		return asFault(err)
	}
	return h.resume(ctx)
}

// Resume lets unfinished work go on, and host decide its calls from now on; nil asks nobody. Calls that wait for a person
// are put to the host again.
func (h *Harness) Resume(ctx context.Context, host Host) error {
	h.mu.Lock()
	h.host = host
	h.mu.Unlock()
	h.sched.Unpark()
	return h.resume(ctx)
}

func (h *Harness) resume(ctx context.Context) error { return asFault(h.sched.Resume(ctx)) }

// receiptDoc is the record of a command about an input.
type receiptDoc struct {
	Digest  string  `json:"digest"`
	Receipt Receipt `json:"receipt"`
}

var receipts = session.Doc[receiptDoc]{Kind: "workflow.receipt", Version: 1, Scope: session.ScopeConversation}

// change carries out a command about a queued input and keeps its receipt, in one commit.
func (h *Harness) change(ctx context.Context, verb, requestID, inputID string, done Result, act func(*session.Tx, queued) error) (Receipt, error) {
	if requestID == "" {
		return Receipt{}, fault.New(fault.InputValidation, "requestId: must not be empty")
	}
	digest, err := strictjson.Digest([]string{verb, inputID})
	if err != nil {
		return Receipt{}, fault.New(fault.InputValidation, "%s %q: %w", verb, requestID, err)
	}
	receipt := Receipt{RequestID: requestID, InputID: inputID, Result: done}
	_, err = h.sess.Commit(ctx, func(tx *session.Tx) error {
		at := receipts.At(int64(session.Root), requestID)
		first, err := receipts.Get(tx, at)
		if err != nil {
			return err
		}
		if first.Digest == digest {
			receipt = first.Receipt
			return nil
		}
		if _, err = tx.SubmissionByRequest(session.Root, requestID); first.Digest != "" || err == nil {
			return fault.New(fault.Conflict, "requestId %q was used for another command", requestID)
		} else if !errors.Is(err, session.ErrNotFound) {
			return err
		}
		sub, err := tx.SubmissionByRequest(session.Root, inputID)
		switch {
		case errors.Is(err, session.ErrNotFound):
			receipt.Result = Unknown
		case err != nil:
			return err
		case sub.Status == session.SubmissionPlaced:
			receipt.Result = AlreadyPlaced
		case sub.Status != session.SubmissionQueued:
			receipt.Result = Settled
		default:
			q, err := decodeQueued(sub)
			if err == nil {
				err = act(tx, q)
			}
			if err != nil {
				return err
			}
		}
		if err := tx.EnsureRoot(); err != nil {
			return err
		}
		tx.Sync()
		return receipts.Put(tx, at, receiptDoc{digest, receipt})
	})
	if err != nil {
		return Receipt{}, asFault(err)
	}
	return receipt, nil
}

// admit finds or makes the submission of an input, and subscribes f, when there is one, behind a replay of what the turn
// has shown so far. The receipt is synced: a caller may rely on it.
func (h *Harness) admit(ctx context.Context, s Submit, f *feed) (session.SubmissionID, error) {
	mode := s.Mode
	switch mode {
	case FollowUp:
		mode = ""
	case "", Steer, Reject:
	default:
		return 0, fault.New(fault.InputValidation, "mode: %q is none of followUp, steer, reject", mode)
	}
	p := submitted{Prompt: s.Prompt, Settings: s.Settings, Mode: mode}
	for _, image := range s.Images {
		image.Data = slices.Clone(image.Data) // the transcript keeps it
		p.Images = append(p.Images, image)
	}
	return h.record(ctx, s.RequestID, p, func(ctx context.Context) (Setup, error) { return h.opts.Resolve(ctx, s.Settings) }, f)
}

// record is admit for inputs and resets; a reset has no resolve.
func (h *Harness) record(ctx context.Context, requestID string, p submitted, resolve func(context.Context) (Setup, error), f *feed) (session.SubmissionID, error) {
	if requestID == "" {
		return 0, fault.New(fault.InputValidation, "requestId: must not be empty")
	}
	content := p
	content.Settings = nil // settings may change between attempts
	digest, err := strictjson.Digest(content)
	if err != nil {
		return 0, fault.New(fault.InputValidation, "submission %q: %w", requestID, err)
	}
	if id, found, err := h.attach(ctx, requestID, digest, f); found || err != nil {
		if err == nil && f != nil {
			err = h.release(ctx)
		}
		return id, asFault(err)
	}
	var setup *Setup
	if resolve != nil {
		s, err := resolve(ctx)
		if err != nil {
			return 0, asFault(err)
		}
		setup = &s
	}
	sub := session.Submission{Conversation: session.Root, RequestID: requestID, Digest: digest, Status: session.SubmissionQueued, Payload: mustJSON(p)}
	id, err := h.create(ctx, queued{sub, p}, setup, f)
	if errors.Is(err, errExists) { // a twin of this call was faster
		id, _, err = h.attach(ctx, requestID, digest, f)
	}
	return id, asFault(err)
}

// errExists reports that the submission was made between looking and creating.
var errExists = errors.New("harness: submission exists")

func (h *Harness) create(ctx context.Context, q queued, setup *Setup, f *feed) (session.SubmissionID, error) {
	var id session.SubmissionID
	_, err := h.sess.Commit(ctx, func(tx *session.Tx) error {
		if _, err := tx.SubmissionByRequest(session.Root, q.sub.RequestID); err == nil {
			return errExists
		} else if !errors.Is(err, session.ErrNotFound) {
			return err
		}
		if used, err := receipts.Get(tx, receipts.At(int64(session.Root), q.sub.RequestID)); err != nil || used.Digest != "" {
			return errors.Join(err, fault.New(fault.Conflict, "requestId %q was used for another command", q.sub.RequestID))
		}
		queue, err := h.queue(tx)
		if err != nil {
			return err
		}
		busy := h.busy(tx)
		if busy && q.input.Mode == Reject {
			return fault.New(fault.Conflict, "a turn is under way and %q asked to be refused then", q.sub.RequestID)
		}
		if err := tx.EnsureRoot(); err != nil {
			return err
		}
		tx.Sync()
		q.sub.ID = tx.CreateSubmission(q.sub)
		id = q.sub.ID
		if f != nil {
			h.subscribe(id, f)
		}
		switch {
		case busy:
			return nil
		case len(queue) == 0 && q.input.Reset == nil:
			return h.place(tx, q, setup)
		}
		return h.placeFrom(tx, append(queue, q), atRest)
	})
	if err != nil {
		if f != nil {
			h.unsubscribe(f)
		}
		return 0, err
	}
	pointAdmitted.Hit()
	return id, nil
}

// release starts the oldest queued input when nothing is under way: a queue held by a failed turn goes on as soon as
// somebody asks for one of its turns.
func (h *Harness) release(ctx context.Context) error {
	_, err := h.sess.Commit(ctx, func(tx *session.Tx) error {
		if h.busy(tx) {
			return nil
		}
		queue, err := h.queue(tx)
		if err != nil {
			return err
		}
		return h.placeFrom(tx, queue, atRest)
	})
	return err
}

// queued is a submission that waits for a boundary, with its payload.
type queued struct {
	sub   session.Submission
	input submitted
}

func decodeQueued(sub session.Submission) (queued, error) {
	q := queued{sub: sub}
	return q, json.Unmarshal(sub.Payload, &q.input)
}

// queue reads what waits, in id order.
func (h *Harness) queue(tx *session.Tx) ([]queued, error) {
	if len(h.waiting) == 0 {
		return nil, nil
	}
	subs, err := tx.Submissions(session.Root, session.SubmissionQueued)
	if err != nil {
		return nil, err
	}
	queue := make([]queued, len(subs))
	for i, sub := range subs {
		if queue[i], err = decodeQueued(sub); err != nil {
			return nil, err
		}
	}
	return queue, nil
}

// placeFrom places what a boundary selects behind a turn, or without one.
func (h *Harness) placeFrom(tx *session.Tx, queue []queued, b boundary) error {
	resets, input := selectAt(b, queue)
	for _, i := range resets {
		h.placeReset(tx, queue[i])
	}
	if input < 0 {
		return nil
	}
	return h.place(tx, queue[input], nil)
}

func (h *Harness) placeReset(tx *session.Tx, q queued) {
	e := session.Entry{ID: tx.ReserveEntry(), Kind: kindReset, Conversation: session.Root, Data: mustJSON(entryData{Submission: q.sub.ID})}
	e.Head = e.ID
	if text := q.input.Reset.Handoff; text != "" {
		h.say(tx, e, llm.TextMessage(llm.RoleUser, text), entryData{Submission: q.sub.ID})
	} else {
		tx.Append(e)
		tx.Publish(item{id: e.ID, kind: e.Kind, head: e.Head})
	}
	q.sub.Entry = e.ID
	h.settle(tx, q.sub, session.SubmissionAnswered, e.ID, "", "")
}

// roundBoundary reads what the boundary behind a round depends on, and returns the step that applies it: the turn goes on
// with its next generation, or a reset ends it.
func (h *Harness) roundBoundary(tx *session.Tx, g genState) (func(tx *session.Tx, last session.EntryID) error, error) {
	queue, err := h.queue(tx)
	if err != nil {
		return nil, err
	}
	resets, input := selectAt(afterTools, queue)
	if len(resets) == 0 {
		return func(tx *session.Tx, last session.EntryID) error {
			h.carryTurnOn(tx, g, queue, input, last)
			return nil
		}, nil
	}
	open, err := h.inputsOf(tx, g)
	if err != nil {
		return nil, err
	}
	return func(tx *session.Tx, _ session.EntryID) error {
		h.settleAll(tx, open, session.SubmissionUnanswered, 0, reasonReset, "the context was started anew before an answer")
		return h.placeFrom(tx, queue, atEnd)
	}, nil
}

// carryTurnOn prepares the next generation of a turn, behind the steer queue[input] when there is one.
func (h *Harness) carryTurnOn(tx *session.Tx, g genState, queue []queued, input int, last session.EntryID) {
	next := g.after(last)
	if input >= 0 {
		q := queue[input]
		next.Cutoff = h.sayInput(tx, q)
		next.Joined = append(next.Joined, q.sub.ID)
		q.input.Turn = g.Submission
		q.sub.Payload, q.sub.Status, q.sub.Entry = mustJSON(q.input), session.SubmissionPlaced, next.Cutoff
		tx.PutSubmission(q.sub)
		tx.Publish(joined{q.sub.ID, g.Submission})
	}
	h.generate(tx, next, phaseRequest)
}

// inputs are the open inputs of a turn: the one it began with, then those that joined it.
type inputs []session.Submission

func (h *Harness) inputsOf(tx *session.Tx, g genState) (inputs, error) {
	var in inputs
	for _, id := range append([]session.SubmissionID{g.Submission}, g.Joined...) {
		sub, err := tx.Submission(id)
		if err != nil {
			return nil, err
		}
		in = append(in, sub)
	}
	return in, nil
}

// settleAll ends a turn's inputs in one way. The readers of all hear it once.
func (h *Harness) settleAll(tx *session.Tx, in inputs, status session.SubmissionStatus, answer session.EntryID, reason, detail string) {
	h.settle(tx, in[0], status, answer, reason, detail)
	for _, sub := range in[1:] {
		sub.Status, sub.Answer, sub.Reason, sub.Detail = status, answer, reason, detail
		tx.PutSubmission(sub)
	}
}

// turnOf is the submission whose turn a submission is in: its own, or the one it joined.
func turnOf(sub session.Submission) (session.SubmissionID, error) {
	q, err := decodeQueued(sub)
	if err != nil || q.input.Turn == 0 {
		return sub.ID, err
	}
	return q.input.Turn, nil
}
