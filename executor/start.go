package executor

import (
	"context"
	"encoding/json"
	"errors"
	"iter"
	"maps"
	"time"

	"github.com/workflowd/workflowd/agentcore/fault"
	"github.com/workflowd/workflowd/executor/runlog"
	"github.com/workflowd/workflowd/internal/faultpoint"
	"github.com/workflowd/workflowd/internal/ids"
	"github.com/workflowd/workflowd/internal/strictjson"
)

// The durable edges of a start.
var (
	startBefore = faultpoint.New("executor.start.before")
	startAfter  = faultpoint.New("executor.start.after")
)

// Start is a request to begin a run. Only Workflow is required.
type Start struct {
	Workflow     string
	Version      int // 0 = the newest registered
	Input        json.RawMessage
	RequestID    string // "" = a new one: the start is not idempotent
	Conversation string
	Project      string
	Labels       map[string]string
	Deadline     time.Time // the run expires then; zero = never
}

// StartOption adds to a start.
type StartOption func(*Start)

// RequestID makes a start idempotent: the same id with the same payload is the same run, with another payload it is
// fault.Conflict. Ids are unique per workflow name.
func RequestID(id string) StartOption { return func(s *Start) { s.RequestID = id } }

// Conversation makes the run part of a conversation.
func Conversation(id string) StartOption { return func(s *Start) { s.Conversation = id } }

// Project names the project that the run's nodes keep their sessions under.
func Project(name string) StartOption { return func(s *Start) { s.Project = name } }

// Labels tags the run. The map is copied.
func Labels(labels map[string]string) StartOption {
	return func(s *Start) { s.Labels = maps.Clone(labels) }
}

// Deadline ends the run as expired at that time.
func Deadline(at time.Time) StartOption { return func(s *Start) { s.Deadline = at } }

// Start begins a run and returns once its acceptance is on disk. The input is taken as the Go value it is; Validate
// checks it against the constraints of its tags.
func (h *Handle[In, Out]) Start(ctx context.Context, in In, options ...StartOption) (*Run[Out], error) {
	raw, err := json.Marshal(in)
	if err != nil {
		return nil, fault.New(fault.InputValidation, "input of workflow %q: %w", h.name, err)
	}
	s := Start{Workflow: h.name, Version: h.version, Input: raw}
	for _, option := range options {
		option(&s)
	}
	run, err := h.e.accept(ctx, s)
	if err != nil {
		return nil, err
	}
	return &Run[Out]{h.e, run.ID}, nil
}

// Start begins a run from JSON, which is validated first. It returns the run's record, that of the first start when the
// request id was used before.
func (e *Engine) Start(ctx context.Context, s Start) (runlog.Run, error) {
	if len(s.Input) == 0 {
		s.Input = json.RawMessage("{}")
	}
	if err := e.Validate(s.Workflow, s.Version, s.Input); err != nil {
		return runlog.Run{}, err
	}
	s.Input, s.Labels = append(json.RawMessage(nil), s.Input...), maps.Clone(s.Labels)
	return e.accept(ctx, s)
}

// accept commits the start, or finds the run that the request id began.
func (e *Engine) accept(ctx context.Context, s Start) (runlog.Run, error) {
	if ctx.Err() != nil {
		return runlog.Run{}, contextError(ctx)
	}
	p, err := e.plan(s.Workflow, s.Version)
	if err != nil {
		return runlog.Run{}, err
	}
	digest, err := strictjson.Digest(map[string]any{
		"input": s.Input, "conversation": s.Conversation, "project": s.Project, "labels": s.Labels, "deadline": s.Deadline.UnixMilli(),
	})
	if err != nil {
		return runlog.Run{}, fault.New(fault.InputValidation, "input of workflow %q: %w", s.Workflow, err)
	}
	run := runlog.Run{
		Workflow: s.Workflow, Version: p.Graph().Version, Fingerprint: p.Graph().Fingerprint, RequestID: s.RequestID, Digest: digest,
		Conversation: s.Conversation, Project: s.Project, Labels: s.Labels, Input: s.Input, Deadline: s.Deadline,
	}
	startBefore.Hit()
	run, first, err := e.create(run)
	if err == nil && first {
		startAfter.Hit()
		e.dispatch(run.ID, &run, message{})
	}
	return run, err
}

// create commits a new run, or finds the first one that has its request id.
func (e *Engine) create(run runlog.Run) (_ runlog.Run, first bool, err error) {
	run.ID, run.Status = runlog.RunID(ids.New(ids.Run)), runlog.Queued
	run.CreatedAt = e.now().UTC().Truncate(time.Millisecond)
	if run.RequestID == "" {
		run.RequestID = string(run.ID)
	}
	if !run.Deadline.IsZero() {
		run.Deadline = run.Deadline.UTC()
	}
	data := map[string]any{"workflow": run.Workflow, "version": run.Version, "requestId": run.RequestID}
	if f := run.ForkedFrom; f != nil {
		data["forkedFrom"] = runlog.Fork{Run: f.Run, At: f.At, Seq: f.Seq} // edits may be long, and stand in the record
	}
	err = e.store.Commit(&runlog.Batch{
		Run: run.ID, Epoch: e.epoch, Durability: runlog.Synced, Create: &run,
		Events: []runlog.Event{{At: run.CreatedAt, Epoch: e.epoch, Kind: runlog.RunQueued, Data: encode(data)}},
	})
	if errors.Is(err, runlog.ErrExists) {
		old, err := e.repeated(run.Workflow, run.RequestID, run.Digest)
		return old, false, err
	}
	if err != nil {
		return runlog.Run{}, false, storeError(err, "start of workflow %q", run.Workflow)
	}
	run.LastSeq = 1
	return run, true, nil
}

// repeated returns the run that a request id began, which goes on when it was only found now.
func (e *Engine) repeated(workflow, requestID, digest string) (runlog.Run, error) {
	first, err := e.store.RunByRequest(workflow, requestID)
	if err != nil {
		return runlog.Run{}, storeError(err, "run of request %q", requestID)
	}
	if first.Digest != digest {
		return runlog.Run{}, fault.New(fault.Conflict, "request id %q began run %s with another payload", requestID, first.ID)
	}
	e.name(&first)
	return first, nil
}

// Run is a run whose result is an Out. It is a name, not a resource: it needs no closing, and any number may exist.
type Run[Out any] struct {
	e  *Engine
	id RunID
}

// Attach returns the run called id. Out has to be the type of its result.
func Attach[Out any](_ context.Context, e *Engine, id RunID) (*Run[Out], error) {
	r, err := e.store.Run(id)
	if err != nil {
		return nil, storeError(err, "run %s", id)
	}
	e.name(&r)
	return &Run[Out]{e, id}, nil
}

// ID returns the public id.
func (r *Run[Out]) ID() RunID { return r.id }

// Events yields the run's events behind a number and follows it until it ends; see Engine.Events.
func (r *Run[Out]) Events(ctx context.Context, after Seq) iter.Seq2[Event, error] {
	return r.e.Events(ctx, r.id, after)
}

// Result waits for the end of the run and returns its value, or its failure as an error with the failure's kind:
// fault.ExecutionAborted when it was cancelled, workflow.DeadlineExceeded when it expired.
func (r *Run[Out]) Result(ctx context.Context) (Out, error) {
	var out Out
	run, err := r.e.Wait(ctx, r.id)
	if err != nil {
		return out, err
	}
	if run.Status != runlog.Succeeded {
		return out, asError(run.Failure)
	}
	if err := json.Unmarshal(run.Output, &out); err != nil {
		return out, fault.New(fault.InputValidation, "result of run %s as %T: %w", r.id, out, err)
	}
	return out, nil
}

// Answer answers a request of any run; see Engine.Answer. The answer is encoded as JSON.
func (r *Run[Out]) Answer(ctx context.Context, requestID string, answer any, who string) (Receipt, error) {
	raw, err := json.Marshal(answer)
	if err != nil {
		return Receipt{}, fault.New(fault.InputValidation, "answer to request %s: %w", requestID, err)
	}
	return r.e.Answer(ctx, requestID, raw, who)
}

// Cancel asks the run to stop; see Engine.Cancel.
func (r *Run[Out]) Cancel(ctx context.Context, reason string) error {
	return r.e.Cancel(ctx, r.id, reason)
}

// Signal sends a message to the run; see Engine.Signal.
func (r *Run[Out]) Signal(ctx context.Context, topic, id string, payload any) error {
	raw, err := json.Marshal(payload)
	if err != nil {
		return fault.New(fault.InputValidation, "signal %q: %w", topic, err)
	}
	return r.e.Signal(ctx, r.id, topic, id, raw)
}
