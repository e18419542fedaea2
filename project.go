package workflowd

import (
	"context"

	"github.com/workflowd/workflowd/agentcore"
	"github.com/workflowd/workflowd/agentcore/control"
	"github.com/workflowd/workflowd/agentcore/registry"
	"github.com/workflowd/workflowd/agentcore/session"
	"github.com/workflowd/workflowd/agentcore/task"
)

// What a project adds to an agent, and how a session is steered: packages agentcore/registry, agentcore/task,
// agentcore/session and agentcore/control.
type (
	SessionOptions               = agentcore.SessionOptions
	Registry                     = registry.Registry
	Extension                    = registry.Extension
	Section                      = registry.Section
	Hooks                        = registry.Hooks
	Doc[T any]                   = session.Doc[T]
	DocDeclaration               = registry.Doc
	TaskType[In, State, Out any] = task.Type[In, State, Out]
	TaskRun[In, State, Out any]  = task.Run[In, State, Out]
	TaskDefinition               = task.Definition
	Command                      = control.Command
	SubmitCommand                = control.Submit
	TaskCommand                  = control.Task
	CancelCommand                = control.Cancel
	Receipt                      = control.Receipt
)

// The kinds of tasks that an agent runs itself, and what a CancelCommand and a SubmitCommand may say.
const (
	GenerationTask = agentcore.GenerationTask
	ToolTask       = agentcore.ToolTask

	CancelForeground = control.Foreground
	CancelAll        = control.All
	CancelTask       = control.OneTask

	Steer    = control.Steer
	FollowUp = control.FollowUp
	Reject   = control.Reject
)

// NewRegistry returns an empty registry of a project's own tasks, tools, prompt sections, hooks and documents.
func NewRegistry() *Registry { return agentcore.NewRegistry() }

// DefineTask makes a kind of durable task; see task.Define.
func DefineTask[In, State, Out any](name string, version int, initial func(In) (phase string, s State), parts ...task.Part[In, State, Out]) *TaskType[In, State, Out] {
	return task.Define(name, version, initial, parts...)
}

// TaskPhase gives a phase of a task its code; see task.On.
func TaskPhase[In, State, Out any](phase string, code func(context.Context, *TaskRun[In, State, Out]) error) task.Part[In, State, Out] {
	return task.On(phase, code)
}

// TaskAbort is the code that settles a cancelled task; see task.OnAbort.
func TaskAbort[In, State, Out any](code func(context.Context, *TaskRun[In, State, Out]) error) task.Part[In, State, Out] {
	return task.OnAbort(code)
}

// DefineDoc declares a kind of document that an extension keeps; see registry.DocOf.
func DefineDoc[T any](d Doc[T]) DocDeclaration { return registry.DocOf(d) }
