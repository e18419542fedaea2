package task

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/workflowd/workflowd/agentcore/session"
)

// Errors of an invocation.
var (
	// ErrPark is returned by a phase that can only go on after somebody acts. The task keeps its checkpoint.
	ErrPark = errors.New("task: parked")
	// ErrStaleInvocation reports a commit of a phase that has ended or made its step, or whose task has moved on, is marked,
	// or is stopping. Nothing is written.
	ErrStaleInvocation = errors.New("task: invocation is no longer current")
	// ErrNext reports a next state that a phase may not commit. Nothing is written.
	ErrNext = errors.New("task: not a next state")
	// ErrStopped is the cause of a phase's ctx when its task was cancelled.
	ErrStopped = errors.New("task: cancelled")
	// ErrSuspended is the cause of a phase's ctx when the scheduler closes or fails. Nothing is marked.
	ErrSuspended = errors.New("task: suspended")
)

// Invocation is one execution of one phase. It belongs to the phase's goroutine, except that Write may be called from
// others that the phase has started. A commit after the phase has returned is stale.
type Invocation struct {
	s        *Scheduler
	def      *Definition  // what runs; a replacement does not reach this invocation
	began    session.Task // never changes
	task     session.Task
	aborting bool
	progress bool        // read by the loop once the phase has returned
	over     atomic.Bool // the phase has returned
}

// Task returns the record the phase was started with, or as this invocation last committed it. Treat it as read-only.
func (inv *Invocation) Task() session.Task { return inv.task }

// Recovered reports whether the checkpoint was committed by an earlier owner: the phase may have run before.
func (inv *Invocation) Recovered() bool { return inv.task.Epoch != inv.s.sess.Epoch() }

// Decode reads the checkpoint into v.
func (inv *Invocation) Decode(v any) error {
	if err := json.Unmarshal(inv.task.Checkpoint, v); err != nil {
		return fmt.Errorf("%w: task %d %s: checkpoint: %w", session.ErrCorrupt, inv.task.ID, inv.task.Kind, err)
	}
	return nil
}

// Write commits fn's drafts without moving the task. It is refused like Commit when the invocation is stale.
func (inv *Invocation) Write(ctx context.Context, fn func(tx *session.Tx) error) (session.Seq, error) {
	return inv.s.sess.Commit(ctx, func(tx *session.Tx) error {
		if _, err := inv.current(tx); err != nil {
			return err
		}
		return fn(tx)
	})
}

// Commit commits fn's drafts and the next state of the task in one. A phase makes one such step. On the line it first
// checks that the invocation is current and that the task carries no mark (unless this is its abort), else
// ErrStaleInvocation. ErrNext: the next state is the present one, an abort phase that does not settle, or an outcome that
// only the scheduler writes.
func (inv *Invocation) Commit(ctx context.Context, fn func(tx *session.Tx) (Next, error)) (session.Seq, error) {
	var after session.Task
	seq, err := inv.s.sess.Commit(ctx, func(tx *session.Tx) error {
		t, err := inv.current(tx)
		if err != nil {
			return err
		}
		next, err := fn(tx)
		if err != nil {
			return err
		}
		after = After(t, next, tx.OwnsLive(t.ID))
		if err := inv.allow(t, next, after); err != nil {
			return fmt.Errorf("task %d %s: %w", t.ID, t.Phase, err)
		}
		tx.PutTask(after)
		return nil
	})
	if err == nil {
		after.Epoch = inv.s.sess.Epoch()
		inv.progress, inv.task = true, after
	}
	return seq, err
}

// current returns the task as committed when the invocation may still write.
func (inv *Invocation) current(tx *session.Tx) (session.Task, error) {
	t, ok := tx.LiveTask(inv.began.ID)
	if !ok || !sameStep(t, inv.began) || t.Abort != inv.aborting || inv.over.Load() || inv.s.isClosing() {
		return t, ErrStaleInvocation
	}
	return t, nil
}

// allow checks a step. Source: durable kernel 2.1, 2.2, 2.5.
func (inv *Invocation) allow(before session.Task, n Next, after session.Task) error {
	switch n := n.(type) {
	case Settle:
		if s := n.Outcome.Status; s != session.Completed && s != session.Failed && s != session.Aborted {
			return fmt.Errorf("%w: a phase does not settle as %q", ErrNext, s)
		}
		return nil
	case Wait:
		if !n.Policy.known() {
			return fmt.Errorf("%w: there is no policy %q", ErrNext, n.Policy)
		}
	case unencoded:
		return fmt.Errorf("%w: %w", ErrNext, n.err)
	case nil:
		return fmt.Errorf("%w: none was given", ErrNext)
	}
	if inv.aborting {
		return fmt.Errorf("%w: an abort phase settles", ErrNext)
	}
	if sameStep(before, after) {
		return fmt.Errorf("%w: it is the present one, so the phase would run for ever", ErrNext)
	}
	return nil
}
