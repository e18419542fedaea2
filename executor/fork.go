package executor

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/workflowd/workflowd/agentcore/fault"
	"github.com/workflowd/workflowd/executor/internal/schedule"
	"github.com/workflowd/workflowd/executor/runlog"
	"github.com/workflowd/workflowd/internal/faultpoint"
	"github.com/workflowd/workflowd/internal/strictjson"
	"github.com/workflowd/workflowd/workflow/graph"
)

// The durable edges of a fork.
var (
	forkBefore = faultpoint.New("executor.fork.before")
	forkAfter  = faultpoint.New("executor.fork.after")
)

// ForkOptions change a fork. The zero value runs the named node again with the input it had.
type ForkOptions struct {
	Input        json.RawMessage // takes the place of the node's input; empty = its own
	RequestID    string          // "" = a new one: the fork is not idempotent
	Version      int             // of the workflow; 0 = the source's, or the newest when that one is not registered
	Conversation string          // "" = the source's
	Deadline     time.Time       // the fork expires then; zero = never

	err error // of an option
}

// ForkOption adds to a fork.
type ForkOption func(*ForkOptions)

// Edit gives the node another input, encoded as JSON.
func Edit(input any) ForkOption {
	return func(o *ForkOptions) {
		if o.Input, o.err = json.Marshal(input); o.err != nil {
			o.err = fault.New(fault.InputValidation, "input of the fork: %w", o.err)
		}
	}
}

// ForkRequestID makes a fork idempotent, as RequestID does a start.
func ForkRequestID(id string) ForkOption { return func(o *ForkOptions) { o.RequestID = id } }

// ForkVersion runs the fork under another version of the workflow. What is kept is kept where kind, version, types and input
// of a node are the same.
func ForkVersion(version int) ForkOption { return func(o *ForkOptions) { o.Version = version } }

// Fork begins a run that repeats this one from a node on; see Engine.Fork. Without a node it repeats what failed.
func (r *Run[Out]) Fork(ctx context.Context, at string, options ...ForkOption) (*Run[Out], error) {
	var o ForkOptions
	for _, option := range options {
		if option(&o); o.err != nil {
			return nil, o.err
		}
	}
	run, err := r.e.Fork(ctx, r.id, at, o)
	if err != nil {
		return nil, err
	}
	return &Run[Out]{r.e, run.ID}, nil
}

// Fork begins a run that repeats another one from a node on, and returns once its acceptance is on disk. The named node runs
// again, with its own input or the one in o. Every other visit, before and behind it, keeps its recorded result while it
// computes from the same: the same node, version and types, the same input. Only the rest is executed.
//
// at is a path, with "#" and a visit when it is not the newest one; a map's element ends in [index]; "$input" is the input of
// the run; "" is where the run failed, which repeats the failed and the stopped nodes and nothing else. The source may have
// ended, be parked, or be at work: what counts is what is committed now, and what happens to either of the two later is
// nothing to the other. A visit that is not kept starts afresh: it asks again, waits for its own signals, repeats its effects.
// The fork has the source's conversation, and with it its sessions, when that has a name.
//
// Errors: fault.NotFound for the run, the workflow or the node, with the nearest name; fault.InputValidation for an input that
// does not fit the node, and for "" when nothing failed; fault.Conflict when the request id began something else.
func (e *Engine) Fork(ctx context.Context, id RunID, at string, o ForkOptions) (runlog.Run, error) {
	if ctx.Err() != nil {
		return runlog.Run{}, contextError(ctx)
	}
	source, err := e.store.Run(id)
	if err != nil {
		return runlog.Run{}, storeError(err, "run %s", id)
	}
	if len(o.Input) == 0 {
		o.Input = nil
	} else if err := validateJSON("input of "+at, o.Input, nil); err != nil {
		return runlog.Run{}, err
	}
	digest, err := strictjson.Digest(map[string]any{
		"fork": id, "at": at, "input": o.Input, "version": o.Version, "conversation": o.Conversation, "deadline": o.Deadline.UnixMilli(),
	})
	if err != nil {
		return runlog.Run{}, fault.New(fault.InputValidation, "input of %q: %w", at, err)
	}
	if o.RequestID != "" { // first, because what was possible then may not be any more
		switch first, err := e.repeated(source.Workflow, o.RequestID, digest); {
		case err == nil:
			return first, nil
		case !fault.Is(err, fault.NotFound):
			return runlog.Run{}, err
		}
	}
	run, err := e.forked(&source, at, o)
	if err != nil {
		return runlog.Run{}, err
	}
	run.Digest = digest
	forkBefore.Hit()
	run, first, err := e.create(run)
	if err == nil && first {
		forkAfter.Hit()
		e.dispatch(run.ID, &run, message{})
	}
	return run, err
}

// forked is the record of a fork of the source.
func (e *Engine) forked(source *runlog.Run, at string, o ForkOptions) (run runlog.Run, err error) {
	p, err := e.plan(source.Workflow, cmp.Or(o.Version, source.Version))
	if err != nil && o.Version == 0 {
		p, err = e.plan(source.Workflow, 0)
	}
	if err != nil {
		return run, err
	}
	nodes, err := e.store.Nodes(source.ID)
	if err != nil {
		return run, storeError(err, "nodes of run %s", source.ID)
	}
	nodes = slices.DeleteFunc(nodes, func(n runlog.Node) bool { return n.LastSeq > source.LastSeq }) // written since
	fork := &runlog.Fork{Run: source.ID, Seq: source.LastSeq}
	if fork.At, err = p.Point(source, nodes, at); err != nil {
		return run, err
	}
	if source.ForkedFrom != nil {
		fork.Edits = p.Holding(source.ForkedFrom.Edits, fork.At)
	}
	run = runlog.Run{
		Workflow: source.Workflow, Version: p.Graph().Version, Fingerprint: p.Graph().Fingerprint, RequestID: o.RequestID,
		Conversation: cmp.Or(o.Conversation, source.Conversation), Project: source.Project, Labels: maps.Clone(source.Labels),
		Input: source.Input, ForkedFrom: fork, Deadline: o.Deadline,
	}
	return run, edit(p, &run, at, o.Input)
}

// edit puts an input in its place.
func edit(p *schedule.Plan, run *runlog.Run, at string, input json.RawMessage) error {
	fork := run.ForkedFrom
	isRun := len(fork.At) == 1 && fork.At[0].Path == graph.Input
	switch {
	case input == nil && isRun:
		return fault.New(fault.InputValidation, "fork at %s: want the new input", graph.Input)
	case input == nil:
		return nil
	case at == "":
		return fault.New(fault.InputValidation, "an input needs the name of its node")
	}
	text, err := p.InputSchema(fork.At[0])
	if err == nil {
		err = validateJSON("input of "+fork.At[0].Path, input, text)
	}
	if err != nil {
		return err
	}
	input = bytes.Clone(input)
	if isRun {
		run.Input = input
		return nil
	}
	fork.Edits = slices.DeleteFunc(fork.Edits, func(e runlog.Edit) bool { return e.NodeKey == fork.At[0] })
	fork.Edits = append(fork.Edits, runlog.Edit{NodeKey: fork.At[0], Input: input})
	return nil
}

// source reads what a fork takes over, nil for a run that is no fork.
func (e *Engine) source(p *schedule.Plan, fork *runlog.Fork) (*schedule.Source, error) {
	if fork == nil {
		return nil, nil //nolint:nilnil // nothing is taken over
	}
	run, err := e.store.Run(fork.Run)
	var nodes []runlog.Node
	if err == nil {
		nodes, err = e.store.Nodes(fork.Run)
	}
	if errors.Is(err, runlog.ErrNotFound) { // no store removes it
		return nil, fault.New(fault.Storage, "run %s, which this one was forked from, is gone", fork.Run)
	}
	if err != nil {
		return nil, storeError(err, "run %s, which this one was forked from", fork.Run)
	}
	return schedule.NewSource(p, fork, &run, nodes), nil
}

// kept tells that a visit keeps the result that another run computed.
func (o *owner) kept(n *runlog.Node) {
	data := map[string]any{"from": n.From, "status": n.Status}
	if n.Failure != nil {
		data["failure"] = n.Failure
	}
	o.next.Events = append(o.next.Events, runlog.Event{
		Kind: runlog.NodeKept, Node: n.Path, Visit: n.Visit, Attempt: n.Attempt, Data: encode(data),
	})
}
