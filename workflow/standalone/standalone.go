// Package standalone runs single nodes without an engine: a workflow.NodeContext whose journal lives in memory.
//
// It serves programs that want one agent node and no runs, and tests of nodes. Nothing outlives the process.
package standalone

import (
	"context"
	"encoding/json"
	"errors"
	"iter"
	"sync"
	"time"

	"github.com/workflowd/workflowd/agentcore/fault"
	"github.com/workflowd/workflowd/internal/ids"
	"github.com/workflowd/workflowd/outputitems"
	"github.com/workflowd/workflowd/workflow"
	"github.com/workflowd/workflowd/workflow/userinput"
)

// Options configure a context. The zero value works: no conversation, nothing is shown, nobody answers.
type Options struct {
	Run     workflow.RunInfo // empty RunID, Visit and Attempt are filled in
	Storage workflow.Storage
	// Answer is asked once per request key; nil and ErrNoAnswer park the node with *userinput.Required.
	Answer func(userinput.Request) (json.RawMessage, error)
	// Emit receives auxiliary items; nil drops them.
	Emit func(outputitems.Chunk) error
	// Usage receives each report; nil drops them. A record may be reported again with a newer value.
	Usage func(recordID string, usage workflow.Usage) error
	// Now is the clock; nil is the system's.
	Now func() time.Time
	// Chunks are what earlier attempts delivered.
	Chunks []json.RawMessage
}

// ErrNoAnswer is what Options.Answer returns while there is no answer.
var ErrNoAnswer = errors.New("standalone: no answer yet")

// Context is a NodeContext without an engine. It is safe for concurrent use.
type Context struct {
	context.Context
	options Options

	mu      sync.Mutex
	answers map[string]json.RawMessage
	effects map[string]json.RawMessage
}

var _ workflow.NodeContext = (*Context)(nil)

// New returns a context for one visit of a node. It ends with ctx.
func New(ctx context.Context, options Options) *Context {
	if options.Run.RunID == "" {
		options.Run.RunID = ids.New(ids.Run)
	}
	options.Run.Visit, options.Run.Attempt = max(1, options.Run.Visit), max(1, options.Run.Attempt)
	if options.Now == nil {
		options.Now = time.Now
	}
	return &Context{Context: ctx, options: options, answers: map[string]json.RawMessage{}, effects: map[string]json.RawMessage{}}
}

// Run returns Options.Run.
func (c *Context) Run() workflow.RunInfo { return c.options.Run }

// UserInput asks Options.Answer.
func (c *Context) UserInput() workflow.UserInput { return input{c} }

// ToolPermissions asks Options.Answer about tool calls.
func (c *Context) ToolPermissions() workflow.ToolPermissions {
	return workflow.ToolPermissions{Input: input{c}}
}

// TokenUsage reports to Options.Usage.
func (c *Context) TokenUsage() workflow.TokenUsage { return usage{c} }

// Storage returns Options.Storage.
func (c *Context) Storage() workflow.Storage { return c.options.Storage }

// Output emits to Options.Emit.
func (c *Context) Output() workflow.OutputSink { return sink{c} }

// Abort follows the context: its cause's kind, else fault.ExecutionAborted.
func (c *Context) Abort() workflow.AbortSignal { return signal{c} }

// Clock returns the clock of Options.Now.
func (c *Context) Clock() workflow.Clock { return clock(c.options.Now) }

// Journal is kept in memory for the life of the Context.
func (c *Context) Journal() workflow.Journal { return journal{c} }

type clock func() time.Time

func (c clock) Now() time.Time { return c() }

type input struct{ c *Context }

func (i input) Request(request userinput.Request) (json.RawMessage, error) {
	i.c.mu.Lock()
	answer, known := i.c.answers[request.Key]
	i.c.mu.Unlock()
	if known {
		return answer, nil
	}
	answer, err := json.RawMessage(nil), ErrNoAnswer
	if i.c.options.Answer != nil {
		answer, err = i.c.options.Answer(request)
	}
	if errors.Is(err, ErrNoAnswer) {
		run := i.c.options.Run
		return nil, &userinput.Required{RequestID: ids.Derived(ids.Request, run.RunID, run.Path, request.Key), Request: request}
	}
	if err != nil {
		return nil, err
	}
	i.c.mu.Lock()
	defer i.c.mu.Unlock()
	i.c.answers[request.Key] = answer
	return answer, nil
}

type usage struct{ c *Context }

func (u usage) Report(recordID string, report workflow.Usage) error {
	if u.c.options.Usage == nil {
		return nil
	}
	return u.c.options.Usage(recordID, report)
}

type sink struct{ c *Context }

func (s sink) Emit(chunk outputitems.Chunk) error {
	if s.c.options.Emit == nil {
		return nil
	}
	return s.c.options.Emit(chunk)
}

type signal struct{ c *Context }

func (s signal) Done() <-chan struct{} { return s.c.Done() }

func (s signal) Cause() fault.Kind {
	if s.c.Err() == nil {
		return ""
	}
	cause := context.Cause(s.c)
	if kind := fault.KindOf(cause); kind != "" {
		return kind
	}
	if errors.Is(cause, context.DeadlineExceeded) {
		return workflow.DeadlineExceeded
	}
	return fault.ExecutionAborted
}

type journal struct{ c *Context }

func (j journal) Once(key string, again bool, effect func(context.Context) (json.RawMessage, error)) (json.RawMessage, error) {
	j.c.mu.Lock()
	recorded, known := j.c.effects[key]
	if !known {
		j.c.effects[key] = nil // the intent
	}
	j.c.mu.Unlock()
	switch {
	case recorded != nil:
		return recorded, nil
	case known && !again:
		return nil, fault.New(fault.Interrupted, "effect %q began before and its outcome is unknown", key)
	}
	result, err := effect(j.c)
	j.c.mu.Lock()
	defer j.c.mu.Unlock()
	if err != nil {
		delete(j.c.effects, key)
		return nil, err
	}
	j.c.effects[key] = result
	return result, nil
}

func (j journal) InTx(key string, _ func(context.Context, workflow.Tx) (json.RawMessage, error)) (json.RawMessage, error) {
	return nil, fault.New(fault.Unsupported, "effect %q in a transaction: there is no store", key)
}

func (j journal) Sleep(_ string, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-j.c.Done():
		return context.Cause(j.c)
	}
}

func (j journal) Receive(topic string, _ time.Duration) (json.RawMessage, error) {
	return nil, fault.New(fault.Unsupported, "receive %q: signals need an engine", topic)
}

func (j journal) Chunks() iter.Seq2[json.RawMessage, error] {
	return func(yield func(json.RawMessage, error) bool) {
		for _, chunk := range j.c.options.Chunks {
			if !yield(chunk, nil) {
				return
			}
		}
	}
}

// Source is ignored: nothing is delivered twice.
func (journal) Source(string) {}

// LastSource returns "".
func (journal) LastSource() string { return "" }
