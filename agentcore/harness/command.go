package harness

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"

	"github.com/workflowd/workflowd/agentcore/control"
	"github.com/workflowd/workflowd/agentcore/fault"
	"github.com/workflowd/workflowd/agentcore/llm"
	"github.com/workflowd/workflowd/agentcore/session"
	"github.com/workflowd/workflowd/agentcore/task"
	"github.com/workflowd/workflowd/internal/faultpoint"
	"github.com/workflowd/workflowd/internal/strictjson"
)

var pointCommand = faultpoint.New("harness.command.committed")

// Control carries out a command, synced, and returns without waiting for what it starts; the work goes on by itself. What
// a client may send again gives the first receipt again. settings are those of an input. Errors: kinds input_validation,
// conflict (the request id was used for something else; a turn is under way and the mode is reject), not_found (no such
// conversation), unsupported (a command that this build does not carry out), storage, owner_lost.
// Source: spec create-agent "Durable session control".
func (h *Harness) Control(ctx context.Context, c control.Command, settings []byte) (control.Receipt, error) {
	if err := control.Check(c); err != nil {
		return control.Receipt{}, err
	}
	receipt, err := h.carryOut(ctx, control.Clone(c), settings)
	if err != nil {
		return control.Receipt{}, AsFault(err)
	}
	return receipt, h.resume(ctx)
}

func (h *Harness) carryOut(ctx context.Context, c control.Command, settings []byte) (control.Receipt, error) {
	head := c.Head()
	accepted := control.Receipt{RequestID: head.RequestID, Status: control.Accepted}
	switch c := c.(type) {
	case control.Submit:
		s := Submit{RequestID: c.RequestID, Conversation: c.TargetID, Prompt: c.Prompt, Settings: settings, Mode: c.Mode}
		for _, image := range c.Images {
			s.Images = append(s.Images, imageBlock(image))
		}
		_, err := h.admit(ctx, s, nil)
		return accepted, err
	case control.Reset:
		_, err := h.record(ctx, head, submitted{Reset: &resetData{c.Handoff}}, nil, nil)
		return accepted, err
	case control.Withdraw:
		accepted.InputID = c.InputID
		return h.once(ctx, c, accepted, func(tx *session.Tx, r *control.Receipt) error {
			return h.change(tx, head, r, control.Withdrawn, func(q queued) error {
				h.settle(tx, q.sub, session.SubmissionWithdrawn, 0, "", "")
				return nil
			})
		})
	case control.Promote:
		accepted.InputID = c.InputID
		return h.once(ctx, c, accepted, func(tx *session.Tx, r *control.Receipt) error {
			return h.change(tx, head, r, control.Promoted, func(q queued) error {
				if q.input.write() {
					return fault.New(fault.InputValidation, "inputId %q: it is no input, so it cannot steer", c.InputID)
				}
				q.input.Mode = control.Steer
				q.sub.Payload = mustJSON(q.input)
				tx.PutSubmission(q.sub)
				return nil
			})
		})
	case control.Fork:
		return h.once(ctx, c, accepted, func(tx *session.Tx, r *control.Receipt) error { return h.fork(tx, c, r) })
	case control.Delete:
		return h.once(ctx, c, accepted, func(tx *session.Tx, _ *control.Receipt) error { return h.delete(tx, c) })
	case control.Cancel:
		return h.once(ctx, c, accepted, func(tx *session.Tx, r *control.Receipt) error { return h.cancelScope(tx, c, r) })
	case control.Task:
		return h.once(ctx, c, accepted, func(tx *session.Tx, r *control.Receipt) error { return h.startTask(tx, c, r) })
	case control.Compact:
		return h.once(ctx, c, accepted, func(tx *session.Tx, r *control.Receipt) error { return h.compactBehind(tx, c, settings, r) })
	case control.Configure, control.Plan, control.Snapshot:
	}
	return control.Receipt{}, fault.New(fault.Unsupported, "the command %q is not carried out by this build", c.Type())
}

// receiptDoc is the record of a command that is no submission of the main conversation. Those of all conversations are
// kept with the main one: a request id is used once in a session.
type receiptDoc struct {
	Digest  string          `json:"digest"`
	Receipt control.Receipt `json:"receipt"`
}

var receipts = session.Doc[receiptDoc]{Kind: "workflow.receipt", Version: 1, Scope: session.ScopeConversation}

func receiptAt(requestID string) session.Address { return receipts.At(int64(session.Root), requestID) }

// once carries out a command and keeps its receipt, in one commit; for a repeat it returns the first receipt and does
// nothing.
func (h *Harness) once(ctx context.Context, c control.Command, receipt control.Receipt, act func(*session.Tx, *control.Receipt) error) (control.Receipt, error) {
	digest, err := strictjson.Digest([]any{c.Type(), c})
	if err != nil {
		return receipt, fault.New(fault.InputValidation, "%s %q: %w", c.Type(), receipt.RequestID, err)
	}
	_, err = h.sess.Commit(ctx, func(tx *session.Tx) error {
		first, err := receipts.Get(tx, receiptAt(receipt.RequestID))
		if err != nil {
			return err
		}
		if first.Digest == digest {
			receipt = first.Receipt
			return nil
		}
		if _, err = tx.SubmissionByRequest(session.Root, receipt.RequestID); first.Digest != "" || err == nil {
			return fault.New(fault.Conflict, "requestId %q was used for another command", receipt.RequestID)
		} else if !errors.Is(err, session.ErrNotFound) {
			return err
		}
		if _, err := h.thread(tx, target(c.Head())); err != nil {
			return noTarget(target(c.Head()), err)
		}
		if err := act(tx, &receipt); err != nil {
			return err
		}
		if err := h.ensureRoot(tx); err != nil {
			return err
		}
		tx.Sync()
		return receipts.Put(tx, receiptAt(receipt.RequestID), receiptDoc{digest, receipt})
	})
	if err == nil {
		pointCommand.Hit()
	}
	return receipt, err
}

// target is the conversation a command is for.
func target(h control.Head) session.ConversationID {
	if h.TargetID == 0 {
		return session.Root
	}
	return h.TargetID
}

// noTarget names the conversation that a command did not find.
func noTarget(c session.ConversationID, err error) error {
	if errors.Is(err, session.ErrNotFound) {
		return fault.New(fault.NotFound, "targetId: there is no conversation %d", c)
	}
	return err
}

// change carries out a command about a queued input.
func (h *Harness) change(tx *session.Tx, head control.Head, r *control.Receipt, done control.Status, act func(queued) error) error {
	sub, err := tx.SubmissionByRequest(target(head), r.InputID)
	switch {
	case errors.Is(err, session.ErrNotFound):
		r.Status = control.Unknown
	case err != nil:
		return err
	case sub.Status == session.SubmissionPlaced:
		r.Status = control.AlreadyPlaced
	case sub.Status != session.SubmissionQueued:
		r.Status = control.Settled
	default:
		q, err := decodeQueued(sub)
		if err != nil {
			return err
		}
		r.Status = done
		return act(q)
	}
	return nil
}

// fork makes a conversation that shows the target up to an entry. Source: durable kernel 5, P-131 to P-135, P-809.
func (h *Harness) fork(tx *session.Tx, c control.Fork, r *control.Receipt) error {
	published := h.publication()
	id, err := tx.Fork(target(c.Head()), c.EntryID, published.ForkRules()...)
	if errors.Is(err, session.ErrForkPoint) {
		return fault.New(fault.InputValidation, "entryId: conversation %d shows no committed entry %d", target(c.Head()), c.EntryID)
	}
	if err != nil {
		return err
	}
	r.ForkID = id
	return h.chain(published).ConversationCreated(tx, id)
}

// hiddenDoc says that a conversation was deleted: nobody is shown it any more.
type hiddenDoc struct {
	Hidden bool `json:"hidden"`
}

var hidden = session.Doc[hiddenDoc]{Kind: "workflow.hidden", Version: 1, Scope: session.ScopeConversation}

func (h *Harness) delete(tx *session.Tx, c control.Delete) error {
	if err := h.cancelAll(tx, c.TargetID); err != nil {
		return err
	}
	return hidden.Put(tx, hidden.At(int64(c.TargetID), ""), hiddenDoc{true})
}

// startTask creates a task of a registered kind. Source: P-151 to P-155.
func (h *Harness) startTask(tx *session.Tx, c control.Task, r *control.Receipt) error {
	def := h.publication().Task(c.Name)
	if def == nil {
		return fault.New(fault.InputValidation, "/name: no task %q is registered; there are: %s", c.Name, strings.Join(slices.Sorted(h.publication().TaskKinds()), ", "))
	}
	t, err := def.New(c.Input)
	if err != nil {
		return fault.New(fault.InputValidation, "/input: %w", err)
	}
	if err := h.ensureRoot(tx); err != nil {
		return err
	}
	t.Conversation, t.Background = target(c.Head()), c.Background
	r.TaskID = tx.CreateTask(t)
	return nil
}

// cancelReason is recorded with what a command cancels.
const cancelReason = "cancelled by the user"

// cancelScope marks what a command is about; the scheduler does the rest, also in a later process. A conversation at rest
// is left as it is. Source: durable kernel 2.5, P-145 to P-149.
func (h *Harness) cancelScope(tx *session.Tx, c control.Cancel, r *control.Receipt) error {
	at := target(c.Head())
	switch c.Scope {
	case control.Foreground:
		queue, err := h.queue(tx, at)
		if err != nil {
			return err
		}
		for _, t := range tx.LiveTasks() {
			if t.Conversation == at && t.Owner == 0 && !t.Background {
				markTask(tx, t, cancelReason)
			}
		}
		h.dropQueue(tx, queue, cancelReason)
		return nil
	case control.OneTask:
		t, err := tx.Task(c.TaskID)
		if err != nil || t.Conversation != at {
			return fault.New(fault.InputValidation, "/taskId: conversation %d has no task %d", at, c.TaskID)
		}
		if t.Status == session.TaskTerminal {
			r.Status = control.Settled
			return nil
		}
		markTask(tx, t, cancelReason)
		return nil
	case control.All:
	}
	return h.cancelAll(tx, at)
}

// cancelAll marks all work of a conversation and of those that its tasks own, background work included. Forks are
// independent and go on.
func (h *Harness) cancelAll(tx *session.Tx, at session.ConversationID) error {
	reached, err := h.descent(tx, at)
	if err != nil {
		return err
	}
	var queues [][]queued
	for c := range reached {
		queue, err := h.queue(tx, c)
		if err != nil {
			return err
		}
		queues = append(queues, queue)
	}
	for _, t := range tx.LiveTasks() {
		if reached[t.Conversation] {
			markTask(tx, t, cancelReason)
		}
	}
	for _, queue := range queues {
		h.dropQueue(tx, queue, cancelReason)
	}
	return nil
}

// descent returns a conversation and all that belong to its tasks, and so on down.
func (h *Harness) descent(tx *session.Tx, at session.ConversationID) (map[session.ConversationID]bool, error) {
	reached := map[session.ConversationID]bool{at: true}
	all, err := tx.Conversations()
	if err != nil {
		return nil, err
	}
	for _, c := range all { // an owner is older than what it owns
		if c.Owner == 0 {
			continue
		}
		owner, err := tx.Task(c.Owner)
		switch {
		case errors.Is(err, session.ErrNotFound): // removed with its conversation
		case err != nil:
			return nil, err
		case reached[owner.Conversation]:
			reached[c.ID] = true
		}
	}
	return reached, nil
}

// markTask drafts a mark. One that is there stays.
func markTask(tx *session.Tx, t session.Task, reason string) {
	if !t.Abort {
		t.Abort, t.AbortReason = true, reason
		tx.PutTask(t)
		tx.Sync()
	}
}

// reached ends what waits in conversations whose owners are going down. Source: durable kernel 2.5.
func (h *Harness) reached(tx *session.Tx, list []task.Reached) error {
	queues := make([][]queued, len(list))
	for i, r := range list { // records are read before the first write
		var err error
		if queues[i], err = h.queue(tx, r.Conversation); err != nil {
			return err
		}
	}
	for i, r := range list {
		h.dropQueue(tx, queues[i], r.Reason)
	}
	return nil
}

// dropQueue ends the queued inputs unanswered. Queued writes stay.
func (h *Harness) dropQueue(tx *session.Tx, queue []queued, reason string) {
	for _, q := range queue {
		if !q.input.write() {
			h.settle(tx, q.sub, session.SubmissionUnanswered, 0, reasonAborted, reason)
			tx.Sync()
		}
	}
}

// Messages returns what the model is shown of the main conversation, without the system prompt and before a project's hooks
// look at it. At rest these are exactly the messages to which the next request adds its input; while a turn is unfinished,
// those of its request under way. The messages are shared: do not change them. Source: P-475.
func (h *Harness) Messages(ctx context.Context) ([]llm.Message, error) {
	var c modelContext
	err := h.sess.View(ctx, func(tx *session.Tx) error {
		cutoff := newest
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
		th, err := h.told(tx, session.Root, cutoff)
		if err == nil {
			c = derive(th.items, cutoff)
		}
		return err
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
		th, err := h.told(tx, session.Root, whole)
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
