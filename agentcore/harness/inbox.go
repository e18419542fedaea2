package harness

import (
	"context"
	"errors"
	"slices"

	"github.com/workflowd/workflowd/agentcore/control"
	"github.com/workflowd/workflowd/agentcore/fault"
	"github.com/workflowd/workflowd/agentcore/llm"
	"github.com/workflowd/workflowd/agentcore/session"
	"github.com/workflowd/workflowd/internal/faultpoint"
	"github.com/workflowd/workflowd/internal/strictjson"
)

var pointAdmitted = faultpoint.New("harness.submission.committed")

// admit finds or makes the submission of an input, and subscribes f, when there is one, behind a replay of what the turn
// has shown so far. The receipt is synced: a caller may rely on it.
func (h *Harness) admit(ctx context.Context, s Submit, f *feed) (session.SubmissionID, error) {
	mode := s.Mode
	switch mode {
	case control.FollowUp:
		mode = ""
	case "", control.Steer, control.Reject:
	default:
		return 0, fault.New(fault.InputValidation, "mode: %q is none of followUp, steer, reject", mode)
	}
	p := submitted{Prompt: s.Prompt, Settings: s.Settings, Mode: mode, Compact: s.Compact}
	for _, image := range s.Images {
		image.Data = slices.Clone(image.Data) // the transcript keeps it
		p.Images = append(p.Images, image)
	}
	head := control.Head{RequestID: s.RequestID, TargetID: s.Conversation}
	return h.record(ctx, head, p, func(ctx context.Context) (Setup, error) { return h.opts.Resolve(ctx, s.Settings) }, f)
}

// record is admit for inputs and resets; a reset has no resolve.
func (h *Harness) record(ctx context.Context, head control.Head, p submitted, resolve func(context.Context) (Setup, error), f *feed) (session.SubmissionID, error) {
	if head.RequestID == "" {
		return 0, fault.New(fault.InputValidation, "requestId: must not be empty")
	}
	c := target(head)
	content := p
	content.Settings = nil // settings may change between attempts
	digest, err := strictjson.Digest(content)
	if err != nil {
		return 0, fault.New(fault.InputValidation, "submission %q: %w", head.RequestID, err)
	}
	if id, found, err := h.attach(ctx, c, head.RequestID, digest, f); found || err != nil {
		if err == nil && f != nil {
			err = h.release(ctx, c)
		}
		return id, AsFault(err)
	}
	var setup *Setup
	if resolve != nil {
		s, err := resolve(ctx)
		if err != nil {
			return 0, AsFault(err)
		}
		s = extended(s, h.publication())
		setup = &s
	}
	sub := session.Submission{Conversation: c, RequestID: head.RequestID, Digest: digest, Status: session.SubmissionQueued, Payload: mustJSON(p)}
	id, err := h.create(ctx, queued{sub: sub, input: p}, setup, f)
	if errors.Is(err, errExists) { // a twin of this call was faster
		id, _, err = h.attach(ctx, c, head.RequestID, digest, f)
	}
	return id, AsFault(err)
}

// errExists reports that the submission was made between looking and creating.
var errExists = errors.New("harness: submission exists")

func (h *Harness) create(ctx context.Context, q queued, setup *Setup, f *feed) (session.SubmissionID, error) {
	var id session.SubmissionID
	c, requestID := q.sub.Conversation, q.sub.RequestID
	_, err := h.sess.Commit(ctx, func(tx *session.Tx) error {
		if _, err := tx.SubmissionByRequest(c, requestID); err == nil {
			return errExists
		} else if !errors.Is(err, session.ErrNotFound) {
			return err
		}
		if err := h.unused(tx, c, requestID); err != nil {
			return err
		}
		queue, err := h.queue(tx, c)
		if err != nil {
			return noTarget(c, err)
		}
		busy := h.busy(tx, c)
		if live := len(tx.LiveTasks()); q.input.Mode == control.Reject && q.input.Reset != nil && live+len(queue) > 0 {
			return fault.New(fault.Conflict, "the context cannot be emptied now: %d tasks are unfinished and %d inputs wait", live, len(queue))
		}
		if q.input.Compact && len(tx.LiveTasks()) > 0 {
			return fault.New(fault.Conflict, "the context cannot be compacted by hand while %d tasks are at work; wait for them or cancel them", len(tx.LiveTasks()))
		}
		if busy && q.input.Mode == control.Reject {
			return fault.New(fault.Conflict, "a turn is under way and %q asked to be refused then", requestID)
		}
		starts := !busy && len(queue) == 0 && !q.input.write() && !q.input.Compact
		if starts && setup != nil || q.input.Compact {
			if _, err := h.told(tx, c, newest); err != nil { // whether the prompt is shown already
				return err
			}
		}
		if err := h.ensureRoot(tx); err != nil {
			return err
		}
		tx.Sync()
		q.sub.ID = tx.CreateSubmission(q.sub)
		id = q.sub.ID
		if f != nil {
			h.subscribe(id, f)
		}
		if c != session.Root { // its id is used in the whole session
			used := receiptDoc{Digest: q.sub.Digest, Receipt: control.Receipt{RequestID: requestID, Status: control.Accepted}}
			if err := receipts.Put(tx, receiptAt(requestID), used); err != nil {
				return err
			}
		}
		switch {
		case busy:
			return nil
		case q.input.Compact:
			return h.startCompaction(tx, q)
		case starts:
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

// unused refuses a request id that another command of the session has, or an input of another conversation than c.
func (h *Harness) unused(tx *session.Tx, c session.ConversationID, requestID string) error {
	used, err := receipts.Get(tx, receiptAt(requestID))
	if err != nil {
		return err
	}
	taken := used.Digest != ""
	if !taken && c != session.Root {
		_, err := tx.SubmissionByRequest(session.Root, requestID)
		if taken = err == nil; !taken && !errors.Is(err, session.ErrNotFound) {
			return err
		}
	}
	if taken {
		return fault.New(fault.Conflict, "requestId %q was used for another command", requestID)
	}
	return nil
}

// release starts the oldest queued input when nothing is under way: a queue held by a failed turn goes on as soon as
// somebody asks for one of its turns.
func (h *Harness) release(ctx context.Context, c session.ConversationID) error {
	_, err := h.sess.Commit(ctx, func(tx *session.Tx) error {
		if h.busy(tx, c) {
			return nil
		}
		queue, err := h.queue(tx, c)
		if err != nil {
			return err
		}
		return h.placeFrom(tx, queue, atRest)
	})
	return err
}

// boundary is a safe point at which queued submissions are placed.
type boundary int

const (
	afterTools boundary = iota // a round is finished and the turn goes on
	atEnd                      // the turn has its answer
	atRest                     // nothing is under way: the queue of a failed turn is released
)

// selectAt returns which of queue a boundary places: all writes (resets and summaries), and one input (-1 = none). A steer joins behind a round;
// an end takes the oldest steer, else the oldest input; a queue at rest goes on with its oldest input, whatever its mode.
// Source: durable kernel 4.2, design "Open cases".
func selectAt(b boundary, queue []queued) (writes []int, input int) {
	steer, oldest := -1, -1
	for i, q := range queue {
		switch {
		case q.input.write():
			writes = append(writes, i)
			continue
		case q.input.Mode == control.Steer && steer < 0:
			steer = i
		}
		if oldest < 0 {
			oldest = i
		}
	}
	switch {
	case b == afterTools || b == atEnd && steer >= 0:
		return writes, steer
	}
	return writes, oldest
}

// write reports whether it is placed between turns and gets no answer of its own.
func (p submitted) write() bool { return p.Reset != nil || p.Summary != nil }

// queued is a submission that waits for a boundary, with its payload.
type queued struct {
	sub   session.Submission
	input submitted
	head  session.EntryID // a summary: the newest head there is
}

func decodeQueued(sub session.Submission) (queued, error) {
	q := queued{sub: sub}
	return q, stored(sub.Payload, &q.input, "submission", sub.ID)
}

// queue reads what waits, in id order.
func (h *Harness) queue(tx *session.Tx, c session.ConversationID) ([]queued, error) {
	th, err := h.thread(tx, c)
	if err != nil || len(th.waiting) == 0 {
		return nil, err
	}
	subs, err := tx.Submissions(c, session.SubmissionQueued)
	if err != nil {
		return nil, err
	}
	queue := make([]queued, len(subs))
	for i, sub := range subs {
		if queue[i], err = decodeQueued(sub); err == nil && queue[i].input.Summary != nil {
			queue[i].head, err = headOf(tx, c)
		}
		if err != nil {
			return nil, err
		}
	}
	return queue, nil
}

// placeFrom places what a boundary selects behind a turn, or without one.
func (h *Harness) placeFrom(tx *session.Tx, queue []queued, b boundary) error {
	writes, input := selectAt(b, queue)
	h.placeWrites(tx, queue, writes)
	if input < 0 {
		return nil
	}
	return h.place(tx, queue[input], nil)
}

// placeWrites appends what writes hold, in order. It returns the newest entry, 0 when all of them were overtaken.
func (h *Harness) placeWrites(tx *session.Tx, queue []queued, writes []int) (last session.EntryID) {
	headed := false // by one of them
	for _, i := range writes {
		id := session.EntryID(0)
		if queue[i].input.Summary != nil {
			id = h.placeSummary(tx, queue[i], headed)
		} else {
			id = h.placeReset(tx, queue[i])
		}
		last, headed = max(last, id), headed || id != 0
	}
	return last
}

func (h *Harness) placeReset(tx *session.Tx, q queued) session.EntryID {
	c := q.sub.Conversation
	e := session.Entry{ID: tx.ReserveEntry(), Kind: kindReset, Conversation: c, Data: mustJSON(entryData{Submission: q.sub.ID})}
	e.Head = e.ID
	if text := q.input.Reset.Handoff; text != "" {
		h.say(tx, c, e, llm.TextMessage(llm.RoleUser, text), entryData{Submission: q.sub.ID})
	} else {
		tx.Append(e)
		tx.Publish(item{id: e.ID, conversation: c, kind: e.Kind, head: e.Head})
	}
	q.sub.Entry = e.ID
	h.settle(tx, q.sub, session.SubmissionAnswered, e.ID, "", "")
	return e.ID
}

// roundBoundary reads what the boundary behind a round depends on, and returns the step that applies it: the turn goes on
// with its next generation, or a reset ends it.
func (h *Harness) roundBoundary(tx *session.Tx, g genState) (func(tx *session.Tx, last session.EntryID) error, error) {
	queue, err := h.queue(tx, g.Conversation)
	if err != nil {
		return nil, err
	}
	writes, input := selectAt(afterTools, queue)
	if !slices.ContainsFunc(writes, func(i int) bool { return queue[i].input.Reset != nil }) {
		return func(tx *session.Tx, last session.EntryID) error {
			h.carryTurnOn(tx, g, queue, input, max(last, h.placeWrites(tx, queue, writes)))
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
