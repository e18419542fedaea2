package workflowd

import (
	"context"
	"iter"
	"time"

	"github.com/workflowd/workflowd/executor"
	"github.com/workflowd/workflowd/nodes/agentnode"
	"github.com/workflowd/workflowd/workflow"
	"github.com/workflowd/workflowd/workflow/userinput"
)

// The words of a workflow: package workflow. An agent as a node: package nodes/agentnode.
type (
	Workflow[In, Out any]          = workflow.Workflow[In, Out]
	Builder                        = workflow.Builder
	Ref[T any]                     = workflow.Ref[T]
	StreamRef[Chunk, T any]        = workflow.StreamRef[Chunk, T]
	From[T any]                    = workflow.From[T]
	Node[In, Out any]              = workflow.Node[In, Out]
	StreamNode[In, Chunk, Out any] = workflow.StreamNode[In, Chunk, Out]
	NodeContext                    = workflow.NodeContext
	NodeInfo                       = workflow.NodeInfo
	NodeOption                     = workflow.NodeOption
	Failure                        = workflow.Failure
	Element[R any]                 = workflow.Element[R]
	Tx                             = workflow.Tx
	InputRequest                   = userinput.Request
	InputOption                    = userinput.Option
	Decision                       = userinput.Decision
	AgentNode                      = agentnode.Node
	AgentNodeOptions               = agentnode.Options
	AgentPayload                   = agentnode.Payload
)

// Define builds a workflow and checks it; see workflow.Define.
func Define[In, Out any](name string, version int, build func(*Builder, Ref[In]) Ref[Out]) (*Workflow[In, Out], error) {
	return workflow.Define(name, version, build)
}

// MustDefine is Define for workflows that are known to be right; it panics otherwise.
func MustDefine[In, Out any](name string, version int, build func(*Builder, Ref[In]) Ref[Out]) *Workflow[In, Out] {
	return workflow.MustDefine(name, version, build)
}

// NewAgentNode returns an agent as a streaming node; see agentnode.New.
func NewAgentNode(o AgentNodeOptions) AgentNode { return agentnode.New(o) }

// Func makes a node of a function; see workflow.Func.
func Func[In, Out any](name string, fn func(NodeContext, In) (Out, error), options ...NodeOption) Node[In, Out] {
	return workflow.Func(name, fn, options...)
}

// StreamFunc makes a streaming node of two functions; see workflow.StreamFunc.
func StreamFunc[In, Chunk, Out any](name string, stream func(NodeContext, In) iter.Seq2[Chunk, error],
	finalize func(NodeContext, In, iter.Seq[Chunk]) (Out, error), options ...NodeOption) StreamNode[In, Chunk, Out] {
	return workflow.StreamFunc(name, stream, finalize, options...)
}

// Then continues with a node; see workflow.Then.
func Then[A, B any](b *Builder, from From[A], node Node[A, B], options ...NodeOption) Ref[B] {
	return workflow.Then(b, from, node, options...)
}

// ThenStream continues with a streaming node; see workflow.ThenStream.
func ThenStream[A, Chunk, B any](b *Builder, from From[A], node StreamNode[A, Chunk, B], options ...NodeOption) StreamRef[Chunk, B] {
	return workflow.ThenStream(b, from, node, options...)
}

// Apply computes inline, without a node; see workflow.Apply.
func Apply[A, B any](b *Builder, from From[A], fn func(A) B) Ref[B] {
	return workflow.Apply(b, from, fn)
}

// Join2 waits for two values; see workflow.Join2, and Join3 and Join4 beside it.
func Join2[A, B, T any](b *Builder, first From[A], second From[B], fn func(A, B) T) Ref[T] {
	return workflow.Join2(b, first, second, fn)
}

// Map runs a node for each element; see workflow.Map.
func Map[T, R any](b *Builder, from From[[]T], node Node[T, R], options ...NodeOption) Ref[[]R] {
	return workflow.Map(b, from, node, options...)
}

// MapPartial runs a node for each element and keeps failures as results; see workflow.MapPartial.
func MapPartial[T, R any](b *Builder, from From[[]T], node Node[T, R], options ...NodeOption) Ref[[]Element[R]] {
	return workflow.MapPartial(b, from, node, options...)
}

// Timeout bounds each attempt of a node, in all and between two chunks; see workflow.Timeout.
func Timeout(total, idle time.Duration) NodeOption { return workflow.Timeout(total, idle) }

// Cache lets a node take the result of an earlier success; see workflow.Cache.
func Cache(key string, ttl time.Duration) NodeOption { return workflow.Cache(key, ttl) }

// Parallel bounds the elements of a Map that are in work at a time; see workflow.Parallel.
func Parallel(elements int) NodeOption { return workflow.Parallel(elements) }

// Switch continues with one of several cases; see workflow.Switch.
func Switch[T, R any](b *Builder, from From[T], choose func(T) string, cases map[string]func(*Builder, Ref[T]) Ref[R]) Ref[R] {
	return workflow.Switch(b, from, choose, cases)
}

// Loop repeats a workflow until it is done; see workflow.Loop.
func Loop[T any](b *Builder, from From[T], body *Workflow[T, T], done func(T) bool, turns int) Ref[T] {
	return workflow.Loop(b, from, body, done, turns)
}

// Call runs another workflow as a part of this one; see workflow.Call.
func Call[In, Out any](b *Builder, from From[In], w *Workflow[In, Out]) Ref[Out] {
	return workflow.Call(b, from, w)
}

// Catch continues with a handler when what comes before fails; see workflow.Catch.
func Catch[T any](b *Builder, from From[T], handler Node[Failure, T]) Ref[T] {
	return workflow.Catch(b, from, handler)
}

// Ask asks a person and waits, durably; see workflow.Ask.
func Ask[Q, A any](ctx NodeContext, key string, question Q, options ...InputOption) (A, error) {
	return workflow.Ask[Q, A](ctx, key, question, options...)
}

// InputExpires ends a request that nobody answers in time; see userinput.Expires.
func InputExpires(d time.Duration) InputOption { return userinput.Expires(d) }

// Once does an effect once in the life of a run; see workflow.Once.
func Once[T any](ctx NodeContext, key string, effect func(context.Context) (T, error)) (T, error) {
	return workflow.Once(ctx, key, effect)
}

// InTx does an effect inside the run store, exactly once; see workflow.InTx.
func InTx[T any](ctx NodeContext, key string, effect func(context.Context, Tx) (T, error)) (T, error) {
	return workflow.InTx(ctx, key, effect)
}

// Sleep waits, durably; see workflow.Sleep.
func Sleep(ctx NodeContext, key string, d time.Duration) error { return workflow.Sleep(ctx, key, d) }

// Runs: package executor.
type (
	Engine              = executor.Engine
	EngineOption        = executor.Option
	Handle[In, Out any] = executor.Handle[In, Out]
	Run[Out any]        = executor.Run[Out]
	RunID               = executor.RunID
	RunEvent            = executor.Event
	StartOption         = executor.StartOption
	ForkOption          = executor.ForkOption
)

// Open opens an engine on "memory:" or "sqlite:PATH"; see executor.Open.
func Open(ctx context.Context, dsn string, options ...EngineOption) (*Engine, error) {
	return executor.Open(ctx, dsn, options...)
}

// Register makes a workflow known to an engine and takes up its unfinished runs; see executor.Register.
func Register[In, Out any](e *Engine, w *Workflow[In, Out]) (*Handle[In, Out], error) {
	return executor.Register(e, w)
}

// Attach finds a run by its id; see executor.Attach.
func Attach[Out any](ctx context.Context, e *Engine, id RunID) (*Run[Out], error) {
	return executor.Attach[Out](ctx, e, id)
}

// RequestID makes a start idempotent; see executor.RequestID.
func RequestID(id string) StartOption { return executor.RequestID(id) }

// Edit gives the node at which a run is forked another input; see executor.Edit.
func Edit(input any) ForkOption { return executor.Edit(input) }

// ForkRequestID makes a fork idempotent; see executor.ForkRequestID.
func ForkRequestID(id string) ForkOption { return executor.ForkRequestID(id) }

// Conversation makes a run part of a conversation; see executor.Conversation.
func Conversation(id string) StartOption { return executor.Conversation(id) }

// Deadline ends a run as expired at a time; see executor.Deadline.
func Deadline(at time.Time) StartOption { return executor.Deadline(at) }
