package task

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/workflowd/workflowd/agentcore/session"
	"github.com/workflowd/workflowd/internal/strictjson"
)

// Errors of typed tasks.
var (
	// ErrTooLarge reports a checkpoint beyond MaxCheckpoint.
	ErrTooLarge = errors.New("task: the checkpoint is too large")
	// ErrNotCompleted reports a task without a result: it is not over, or it did not complete.
	ErrNotCompleted = errors.New("task: not completed")
)

// Type is a kind of task whose input, checkpoint and result have Go types. All three are JSON in the store; they are
// decoded strictly: an unknown member is an error. It is immutable; make one with Define.
type Type[In, State, Out any] struct {
	def     Definition
	initial func(In) (phase string, s State)
}

// Part is one part of a definition: On, OnAbort, OnMigrate or Restarts.
type Part[In, State, Out any] func(*Type[In, State, Out])

// TypedPhase is a Phase that sees its input and its checkpoint.
type TypedPhase[In, State, Out any] func(ctx context.Context, r *Run[In, State, Out]) error

// Define makes a kind of task. initial turns an input into the first phase and checkpoint; it has no effects.
// A step that takes its process down MaxRestarts times rests, unless Restarts says otherwise.
// Source: spec create-agent "Extension execution and recovery".
func Define[In, State, Out any](name string, version int, initial func(In) (phase string, s State), parts ...Part[In, State, Out]) *Type[In, State, Out] {
	t := &Type[In, State, Out]{initial: initial, def: Definition{Kind: name, Version: version, Phases: map[string]Phase{}, MaxRestarts: MaxRestarts}}
	t.def.Initial = t.first
	for _, part := range parts {
		part(t)
	}
	return t
}

// On gives a phase its code.
func On[In, State, Out any](phase string, code TypedPhase[In, State, Out]) Part[In, State, Out] {
	return func(t *Type[In, State, Out]) { t.def.Phases[phase] = typed(code) }
}

// OnAbort is the code that settles a cancelled task. Its owned work has ended by then.
func OnAbort[In, State, Out any](code TypedPhase[In, State, Out]) Part[In, State, Out] {
	return func(t *Type[In, State, Out]) { t.def.Abort = typed(code) }
}

// OnMigrate turns the checkpoint of an older version into a phase and a checkpoint of this one. The input is decoded as
// In, so In may only gain members that may be absent. It has no effects.
func OnMigrate[In, State, Out any](code func(in In, from int, phase string, checkpoint json.RawMessage) (string, State, error)) Part[In, State, Out] {
	return func(t *Type[In, State, Out]) {
		t.def.Migrate = func(old session.Task) (Continue, error) {
			in, err := decodeInput[In](old.Input)
			if err != nil {
				return Continue{}, err
			}
			phase, s, err := code(in, old.Version, old.Phase, old.Checkpoint)
			if err != nil {
				return Continue{}, err
			}
			return step(phase, s)
		}
	}
}

// Restarts bounds how often a step is started again after its process died in it; 0 = no bound.
func Restarts[In, State, Out any](most int) Part[In, State, Out] {
	return func(t *Type[In, State, Out]) { t.def.MaxRestarts = most }
}

// Definition returns what a Scheduler or a registry takes.
func (t *Type[In, State, Out]) Definition() Definition { return t.def }

// New drafts a pending task for an input of at most session.MaxTaskInput bytes as JSON. The caller sets Conversation and
// may set Owner, Background and Abandon, and gives it to Tx.CreateTask.
func (t *Type[In, State, Out]) New(in In) (session.Task, error) {
	input, err := json.Marshal(in)
	if err != nil {
		return session.Task{}, fmt.Errorf("create task %q: input: %w", t.def.Kind, err)
	}
	return t.def.New(input)
}

// Result returns the result of a task of this type. Error: ErrNotCompleted, with what it ended as.
func (t *Type[In, State, Out]) Result(task session.Task) (out Out, err error) {
	switch o := task.Outcome; {
	case o == nil || task.Status != session.TaskTerminal:
		return out, fmt.Errorf("task %d %s: %w: it is %s", task.ID, task.Kind, ErrNotCompleted, task.Status)
	case o.Status != session.Completed:
		return out, fmt.Errorf("task %d %s: %w: it %s: %s%s", task.ID, task.Kind, ErrNotCompleted, o.Status, o.Error, o.Reason)
	default:
		if err := strictjson.Decode(o.Result, len(o.Result), &out); err != nil {
			return out, fmt.Errorf("task %d %s: result: %w", task.ID, task.Kind, err)
		}
		return out, nil
	}
}

func (t *Type[In, State, Out]) first(input json.RawMessage) (Continue, error) {
	in, err := decodeInput[In](input)
	if err != nil {
		return Continue{}, err
	}
	return step(t.initial(in))
}

// Run is one execution of a typed phase. It is an Invocation: Sleep, Memo, Write and Commit are there too. The methods
// that make a next state only name it; Save or Commit writes it.
type Run[In, State, Out any] struct {
	*Invocation
	Input In
	State State // a copy: to change it, save it
}

// Save commits a next state and nothing else.
func (r *Run[In, State, Out]) Save(ctx context.Context, n Next) error {
	_, err := r.Commit(ctx, func(*session.Tx) (Next, error) { return n, nil })
	return err
}

// Continue goes on with a phase and a checkpoint.
func (r *Run[In, State, Out]) Continue(phase string, s State) Next {
	c, err := step(phase, s)
	if err != nil {
		return unencoded{err}
	}
	return c
}

// Wait goes on with a phase and a checkpoint once the tasks are as the policy wants them.
func (r *Run[In, State, Out]) Wait(on []session.TaskID, p Policy, phase string, s State) Next {
	c, err := step(phase, s)
	if err != nil {
		return unencoded{err}
	}
	return Wait{On: on, Policy: p, Phase: c.Phase, Checkpoint: c.Checkpoint}
}

// Complete ends the task with a result.
func (r *Run[In, State, Out]) Complete(out Out) Next {
	raw, err := json.Marshal(out)
	if err != nil {
		return unencoded{fmt.Errorf("result: %w", err)}
	}
	return Settle{session.Outcome{Status: session.Completed, Result: raw}}
}

// Fail ends the task as one that could not do its work. why is for people.
func (r *Run[In, State, Out]) Fail(why string) Next {
	return Settle{session.Outcome{Status: session.Failed, Error: why}}
}

// Cancelled ends the task as aborted, with the reason of its cancellation.
func (r *Run[In, State, Out]) Cancelled() Next {
	return Settle{session.Outcome{Status: session.Aborted, Reason: r.Task().AbortReason}}
}

// unencoded is a next state that has no JSON. Its commit is refused with ErrNext and why.
type unencoded struct{ err error }

func (unencoded) isNext() {}

func typed[In, State, Out any](code TypedPhase[In, State, Out]) Phase {
	return func(ctx context.Context, inv *Invocation) error {
		r := &Run[In, State, Out]{Invocation: inv}
		var err error
		if r.Input, err = decodeInput[In](inv.task.Input); err != nil {
			return err
		}
		if raw := inv.task.Checkpoint; len(raw) > 0 {
			if err := strictjson.Decode(raw, MaxCheckpoint, &r.State); err != nil {
				return fmt.Errorf("checkpoint: %w", err)
			}
		}
		return code(ctx, r)
	}
}

func decodeInput[In any](raw json.RawMessage) (in In, err error) {
	if len(raw) == 0 {
		return in, nil
	}
	if err := strictjson.Decode(raw, session.MaxTaskInput, &in); err != nil {
		return in, fmt.Errorf("%w: %w", session.ErrTaskInput, err)
	}
	return in, nil
}

func step[State any](phase string, s State) (Continue, error) {
	raw, err := json.Marshal(s)
	if err != nil {
		return Continue{}, fmt.Errorf("checkpoint: %w", err)
	}
	if len(raw) > MaxCheckpoint {
		return Continue{}, fmt.Errorf("%w: %d bytes, at most %d", ErrTooLarge, len(raw), MaxCheckpoint)
	}
	return Continue{Phase: phase, Checkpoint: raw}, nil
}
