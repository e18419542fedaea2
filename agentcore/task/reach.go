package task

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/workflowd/workflowd/agentcore/session"
)

// Reached is a conversation whose keeper goes down, or that a cancelled tree holds: the ordinary work in it ends.
type Reached struct {
	Conversation session.ConversationID
	Reason       string // why its work ends, as the marks say it
}

// OnReach names what decides about the submissions that wait in reached conversations; the kernel knows no payloads. It is
// called before Resume, at most once.
//
// decide runs in the commit that marks the work of the conversations, ahead of its writes: it reads first and writes then.
// It is called again for one that is still reached when the session is opened, when its keeper's record changes, and when a
// submission is queued there: what it has settled before is not queued any more. Its error fails the scheduler, or the
// CancelTree that called it. Source: durable kernel 2.5.
func (s *Scheduler) OnReach(decide func(tx *session.Tx, list []Reached) error) { s.onReach = decide }

// reach tells the layer above.
func (s *Scheduler) reach(tx *session.Tx, list []Reached) error {
	if s.onReach == nil || len(list) == 0 {
		return nil
	}
	if err := s.onReach(tx, list); err != nil {
		return fmt.Errorf("conversations that a cancel reached: %w", err)
	}
	return nil
}

// stillReached decides on the line which of the conversations are reached.
func stillReached(tx *session.Tx, conversations []session.ConversationID) (list []Reached) {
	for _, c := range conversations {
		if keeper, live := tx.LiveTask(tx.Keeper(c)); live && goingDown(keeper) {
			list = append(list, Reached{c, downReason(keeper)})
		}
	}
	return list
}

// CancelTree is Cancel for a task and everything below it, in one commit: background tasks and what is below those, and
// conversations that any of them owns. What is created below a background task afterwards is its own affair, and forks
// belong to nobody.
func (s *Scheduler) CancelTree(ctx context.Context, id session.TaskID, reason string) error {
	_, err := s.sess.Commit(ctx, func(tx *session.Tx) error {
		tx.Sync()
		tasks, conversations, err := below(tx, id)
		if err != nil {
			return fmt.Errorf("cancel the tree of task %d: %w", id, err)
		}
		var list []Reached
		for _, c := range conversations {
			list = append(list, Reached{c, reason})
		}
		if err := s.reach(tx, list); err != nil {
			return err
		}
		for _, t := range tasks {
			cancel(tx, t, reason)
		}
		return nil
	})
	return err
}

// below returns what a tree holds: the live tasks at and below a task and the conversations below it, whatever between is in
// the background or over.
func below(tx *session.Tx, id session.TaskID) (tasks []session.Task, conversations []session.ConversationID, err error) {
	all, err := tx.Conversations()
	if err != nil {
		return nil, nil, err
	}
	w := walk{tx: tx, owner: map[session.ConversationID]session.TaskID{}, inside: map[session.TaskID]bool{id: true}, oldest: max(id, 1)}
	for _, c := range all {
		w.owner[c.ID] = c.Owner
	}
	for _, c := range all {
		if w.in(c.Owner) {
			conversations = append(conversations, c.ID)
		}
	}
	tasks = slices.DeleteFunc(tx.LiveTasks(), func(t session.Task) bool { return t.ID != id && !w.in(w.above(t)) })
	return tasks, conversations, w.err
}

// walk goes up the chains of owners.
type walk struct {
	tx     *session.Tx
	owner  map[session.ConversationID]session.TaskID
	inside map[session.TaskID]bool // tasks looked at: are they in the tree?
	oldest session.TaskID          // the top of the tree: an owner has a smaller number than what it owns
	err    error
}

// above returns the task that owns t or its conversation, or 0.
func (w *walk) above(t session.Task) session.TaskID {
	if t.Owner != 0 {
		return t.Owner
	}
	return w.owner[t.Conversation]
}

// in reports whether a task is in the tree. One that was removed leads nowhere.
func (w *walk) in(id session.TaskID) bool {
	if id < w.oldest || w.err != nil {
		return false
	}
	if in, known := w.inside[id]; known {
		return in
	}
	t, err := w.tx.Task(id)
	if err != nil && !errors.Is(err, session.ErrNotFound) {
		w.err = err
	}
	in := err == nil && w.in(w.above(t))
	w.inside[id] = in
	return in
}
