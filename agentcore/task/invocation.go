package task

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/workflowd/workflowd/agentcore/session"
)

// Errors of an invocation.
var (
	// ErrPark is returned by a phase that can only go on after somebody acts. The task keeps its checkpoint.
	ErrPark = errors.New("task: parked")
	// ErrStaleInvocation reports a commit of a phase whose task has moved on, is marked, or is stopping. Nothing is written.
	ErrStaleInvocation = errors.New("task: invocation is no longer current")
	// ErrStopped is the cause of a phase's ctx when its task was cancelled.
	ErrStopped = errors.New("task: cancelled")
	// ErrSuspended is the cause of a phase's ctx when the scheduler closes. Nothing is marked.
	ErrSuspended = errors.New("task: suspended")
)

// Invocation is one execution of one phase. It belongs to the phase's goroutine.
type Invocation struct {
	s        *Scheduler
	task     session.Task
	aborting bool
	progress bool
}

// Task returns the record the phase was started with, or as this invocation last committed it.
func (inv *Invocation) Task() session.Task { return inv.task }

// Recovered reports whether the checkpoint was committed by an earlier owner: the phase may have run before.
func (inv *Invocation) Recovered() bool { return inv.task.Epoch != inv.s.sess.Epoch() }

// Decode reads the checkpoint into v.
func (inv *Invocation) Decode(v any) error {
	if err := json.Unmarshal(inv.task.Checkpoint, v); err != nil {
		return fmt.Errorf("task %d %s: checkpoint: %w", inv.task.ID, inv.task.Kind, err)
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

// Commit commits fn's drafts and the next state of the task in one. On the line it first checks that the invocation is
// current, that the task carries no mark (unless this is its abort), else ErrStaleInvocation.
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
		after = After(t, next, ownsLive(tx.LiveTasks(), t.ID))
		tx.PutTask(after)
		return nil
	})
	if err == nil {
		inv.progress, inv.task = true, after
		inv.task.Epoch = inv.s.sess.Epoch()
	}
	return seq, err
}

func (inv *Invocation) current(tx *session.Tx) (session.Task, error) {
	t, ok := tx.LiveTask(inv.task.ID)
	if !ok || inv.progress || t.Phase != inv.task.Phase || t.Status != inv.task.Status || t.Abort != inv.aborting || inv.s.isClosing() {
		return t, ErrStaleInvocation
	}
	return t, nil
}

// ownsLive reports whether a live, ordinary task belongs to owner.
func ownsLive(live []session.Task, owner session.TaskID) bool {
	for _, t := range live {
		if t.Owner == owner && !t.Background {
			return true
		}
	}
	return false
}
