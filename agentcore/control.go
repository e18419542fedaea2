package agentcore

import (
	"context"
	"encoding/json"
	"slices"

	"github.com/workflowd/workflowd/agentcore/compaction"
	"github.com/workflowd/workflowd/agentcore/control"
	"github.com/workflowd/workflowd/agentcore/fault"
	"github.com/workflowd/workflowd/agentcore/harness"
	"github.com/workflowd/workflowd/agentcore/llm"
	"github.com/workflowd/workflowd/agentcore/permission"
	"github.com/workflowd/workflowd/agentcore/registry"
	"github.com/workflowd/workflowd/agentcore/session"
	"github.com/workflowd/workflowd/agentcore/task"
	"github.com/workflowd/workflowd/agentcore/tool"
)

// SessionOptions are what the session protocol has to do with. The zero value adds nothing to the commands.
// Source: spec create-agent "Durable session control".
type SessionOptions struct {
	// Registry holds the project's own tasks, tools, prompt sections and hooks. It may serve many agents and may change
	// while they run. Nil adds nothing.
	Registry registry.Reader
	// Compaction says when a long context becomes a summary; the zero value at 90 % of the window.
	Compaction compaction.Settings
	// HookFailed is told about hooks of the registry that failed and were skipped. It must return at once. Nil: nobody is
	// told.
	HookFailed func(HookError)
}

// harness returns the options of a harness. A nil o is the protocol switched off.
func (o *SessionOptions) harness(resolve func(context.Context, json.RawMessage) (harness.Setup, error)) harness.Options {
	h := harness.Options{Resolve: resolve}
	if o != nil {
		h.Registry, h.HookFailed = o.Registry, o.HookFailed
	}
	return h
}

// reserve says to the registry which tools the agent has beside it. A name that is taken there is an error, now or when an
// extension with it is installed later.
func (o *SessionOptions) reserve(own []tool.Tool) error {
	if o == nil || o.Registry == nil {
		return nil
	}
	names := make([]string, len(own))
	for i, t := range own {
		names[i] = t.Spec().Name
	}
	if r, can := o.Registry.(interface{ Reserve(tools ...string) error }); can {
		if err := r.Reserve(names...); err != nil {
			return fault.New(fault.InputValidation, "extraTools: %w", err)
		}
	}
	return nil
}

// run is one Run under way, with the inputs that commands add to it.
type run struct {
	turn  turn
	added []turn
	more  chan struct{} // capacity 1
}

func (a *Agent) begin(t turn) *run {
	r := &run{turn: t, more: make(chan struct{}, 1)}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.runs = append(a.runs, r)
	return r
}

func (a *Agent) end(r *run) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.runs = slices.DeleteFunc(a.runs, func(other *run) bool { return other == r })
}

// Control carries a command out while a Run is under way, and returns its receipt without waiting for what it starts. The
// same command again gets the first receipt, after a restart too. Errors: kinds AGENT_NOT_READY (no Run is under way, or
// Options.Session is nil), input_validation, conflict, not_found, unsupported, storage, owner_lost.
// Source: P-101, P-103, P-105 to P-109.
func (a *Agent) Control(ctx context.Context, c control.Command) (control.Receipt, error) {
	a.mu.Lock()
	var r *run
	if len(a.runs) > 0 {
		r = a.runs[len(a.runs)-1]
	}
	a.mu.Unlock()
	switch {
	case a.opts.Session == nil:
		return control.Receipt{}, fault.New(fault.AgentNotReady, "the session protocol is off: Options.Session is nil")
	case r == nil:
		return control.Receipt{}, fault.New(fault.AgentNotReady, "a command needs a Run that is under way")
	}
	c = control.Clone(c)
	receipt, err := a.h.Control(ctx, c, r.turn.settings)
	if err != nil {
		return receipt, err
	}
	if s, is := c.(control.Submit); is {
		a.add(r, s)
	}
	return receipt, nil
}

// add lets a Run tell the turn of an input too.
func (a *Agent) add(r *run, s control.Submit) {
	t := turn{requestID: s.RequestID, conversation: s.TargetID, prompt: s.Prompt, mode: r.turn.mode, sent: s.Mode, settings: r.turn.settings, host: r.turn.host}
	for _, i := range s.Images {
		t.images = append(t.images, llm.Block{Type: llm.Image, Data: i.Data, MimeType: i.MimeType})
	}
	a.mu.Lock()
	r.added = append(r.added, t)
	a.mu.Unlock()
	select {
	case r.more <- struct{}{}:
	default:
	}
}

// lateTurns tells the turns that commands have added to a Run, until no work of the session is left.
func (a *Agent) lateTurns(ctx context.Context, r *run, yield func(Event, error) bool) {
	for {
		resting := a.h.Resting() // taken first: an input that is added now is not at rest
		a.mu.Lock()
		added := r.added
		r.added = nil
		a.mu.Unlock()
		for _, t := range added {
			leads, err := a.h.Leads(ctx, t.conversation, t.requestID)
			if err != nil {
				yield(nil, err)
				return
			}
			if leads && !a.tell(ctx, t, yield) { // what joined another turn was told with it
				return
			}
		}
		if len(added) > 0 {
			continue
		}
		select {
		case <-resting:
			return
		case <-r.more:
		case <-ctx.Done():
			yield(nil, harness.AsFault(context.Cause(ctx)))
			return
		}
	}
}

// What a project registers: packages agentcore/registry, agentcore/task and agentcore/session.
type (
	// Registry is where a project installs extensions, before and while agents run.
	Registry = registry.Registry
	// Extension is what one part of a project adds: tasks, tools, prompt sections, hooks, documents.
	Extension = registry.Extension
	// Hooks is what an extension does at fixed points of a turn.
	Hooks = registry.Hooks
	// HookError is a hook that failed.
	HookError = registry.HookError
)

// NewRegistry returns an empty registry in which the names of the built-in tools are taken.
func NewRegistry() *Registry { return registry.New(permission.Builtins()...) }

// The kinds of tasks that the agent itself runs. They show in a session beside the project's own, and cannot be installed
// or replaced.
const (
	GenerationTask = harness.TaskGeneration
	ToolTask       = harness.TaskTool
)

// DefineTask makes a kind of task of the project's own; see task.Define.
func DefineTask[In, State, Out any](name string, version int, initial func(In) (phase string, s State), parts ...task.Part[In, State, Out]) *task.Type[In, State, Out] {
	return task.Define(name, version, initial, parts...)
}

// DefineDoc declares a kind of document that an extension keeps; see registry.DocOf.
func DefineDoc[T any](d session.Doc[T]) registry.Doc { return registry.DocOf(d) }
