package task

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/workflowd/workflowd/agentcore/session"
)

// Definition is what a kind of task does. It is a value; the scheduler never changes it. Define makes a typed one.
type Definition struct {
	Kind    string
	Version int
	// Initial turns an input into the first step. Nil: tasks of this kind are created by code that knows the first step.
	Initial func(input json.RawMessage) (Continue, error)
	// Phases maps the phase names of checkpoints to code.
	Phases map[string]Phase
	// Abort settles a cancelled task whose owned work has drained. It must settle: it can neither continue, wait, sleep nor
	// park. Nil settles it as aborted without more ado.
	Abort Phase
	// Migrate turns the step of a task of an older version into one of this version. It has no effects and may be called
	// again. Nil, an error or a panic: such a task is blocked.
	Migrate func(t session.Task) (Continue, error)
	// Cleanup writes what must accompany an outcome that the scheduler sets itself (a phase that failed to progress, an
	// abort without code, a cancelled task whose definition does not fit). It runs inside the commit that makes the task
	// terminal, before the outcome is drafted. Its error fails the scheduler.
	Cleanup func(tx *session.Tx, t session.Task, o session.Outcome) error
	// MaxRestarts bounds how often one step is started again after an owner that died in it; then the task rests until
	// Scheduler.Release or Cancel. 0 = no bound, and nothing is counted.
	MaxRestarts int
}

// ErrNoInitial reports a kind of task that cannot be made from an input.
var ErrNoInitial = errors.New("task: this kind is not created from an input")

// New drafts a pending task for an input. The caller sets Conversation and may set Owner, Background and Abandon.
func (d *Definition) New(input json.RawMessage) (session.Task, error) {
	if d.Initial == nil {
		return session.Task{}, fmt.Errorf("create task %q: %w", d.Kind, ErrNoInitial)
	}
	first, err := d.Initial(input)
	if err != nil {
		return session.Task{}, fmt.Errorf("create task %q: %w", d.Kind, err)
	}
	return After(session.Task{Kind: d.Kind, Version: d.Version, Input: input}, first, false), nil
}

// Phase is one step. It must commit progress through inv.Commit, or return an error. What a phase returns after its task
// was marked, moved on by somebody else, or suspended is no failure; any other error, a panic, and no progress fault the
// task. ErrPark leaves the task as it is until Unpark, the error of Sleep until its time. A phase runs on a goroutine of
// its own and must end soon after ctx.
type Phase func(ctx context.Context, inv *Invocation) error

// Source is where a scheduler finds definitions. It is safe for concurrent use.
type Source interface {
	// Definition returns the definition of a kind in force now, or nil. What it returns never changes; a replacement is
	// another pointer.
	Definition(kind string) *Definition
	// Watch calls changed after each change, until stop. changed returns at once.
	Watch(changed func()) (stop func())
}

// Fixed is a Source that never changes.
type Fixed map[string]*Definition

// NewFixed returns a Source of the definitions. Of two with one kind the last one counts.
func NewFixed(defs ...Definition) Fixed {
	f := Fixed{}
	for _, d := range defs {
		f[d.Kind] = &d
	}
	return f
}

// Definition returns the definition of a kind, or nil.
func (f Fixed) Definition(kind string) *Definition { return f[kind] }

// Watch has nothing to tell.
func (f Fixed) Watch(func()) (stop func()) { return func() {} }

// Join is a Source that asks several ones in order: the first that knows a kind counts.
func Join(sources ...Source) Source { return joined(sources) }

type joined []Source

func (j joined) Definition(kind string) *Definition {
	for _, s := range j {
		if d := s.Definition(kind); d != nil {
			return d
		}
	}
	return nil
}

func (j joined) Watch(changed func()) (stop func()) {
	stops := make([]func(), len(j))
	for i, s := range j {
		stops[i] = s.Watch(changed)
	}
	return func() {
		for _, stop := range stops {
			stop()
		}
	}
}
