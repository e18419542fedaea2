package workflow

import (
	"iter"
	"time"
)

// Node computes one value. Run may be entered again after a crash, a pause or a failure with attempts left; an effect
// that must not repeat goes through Once. Run must return soon after ctx is done.
type Node[In, Out any] interface {
	Info() NodeInfo
	Run(ctx NodeContext, in In) (Out, error)
}

// StreamNode delivers chunks while it works and then folds the committed ones into its value.
type StreamNode[In, Chunk, Out any] interface {
	Info() NodeInfo
	// Stream yields chunks; an error is last and ends the attempt. The caller pulls, which is the backpressure; it stops
	// pulling to end the stream.
	Stream(ctx NodeContext, in In) iter.Seq2[Chunk, error]
	// Finalize is a pure function of the input and of all chunks that count for the node, in commit order.
	Finalize(ctx NodeContext, in In, chunks iter.Seq[Chunk]) (Out, error)
}

// NodeInfo describes a node. Only Name is required.
type NodeInfo struct {
	Name        string // unique in its workflow: letters, digits, "_", "-", "."
	Type        string // what a console draws: "agent", "input"; "" = a function
	Description string
	// Version distinguishes behaviours of one name. A run whose finished node has another version does not continue.
	Version int
	// Resumes says that a new attempt goes on behind the committed chunks (Committed) instead of starting over.
	Resumes bool
	// SessionKey names the durable session that the node owns, "" = none. Equal keys in one workflow are refused.
	SessionKey string
	// Attempts bounds how often a failing node is entered; 0 and 1 mean once. Crashes and pauses do not count.
	Attempts int
	// Backoff is the wait before the second attempt; it doubles for each further one.
	Backoff time.Duration
	// Timeout bounds an attempt, IdleTimeout the time in which a stream node delivers nothing; 0 = no bound.
	Timeout, IdleTimeout time.Duration
	// CacheKey names the results that runs share, "" = none; they are taken while they are younger than CacheFor, 0 = always.
	CacheKey string
	CacheFor time.Duration
	// Parallel bounds the elements that are in work at a time where the node runs in a Map; 0 = the engine's bound.
	Parallel int
}

// NodeOption changes the description of a node, where Func or StreamFunc makes it or where a verb puts it into a graph.
type NodeOption func(*NodeInfo)

// ResumeAfterCrash keeps the chunks of an interrupted attempt. The next attempt reads them with Committed and goes on
// behind them. Without it they are retracted and the node starts over.
func ResumeAfterCrash() NodeOption { return func(i *NodeInfo) { i.Resumes = true } }

// Retry lets a failing node be entered up to attempts times, waiting backoff, then twice as long each time.
func Retry(attempts int, backoff time.Duration) NodeOption {
	return func(i *NodeInfo) { i.Attempts, i.Backoff = attempts, backoff }
}

// Timeout bounds each attempt: total from its entry to its return, idle, which is for stream nodes, the time in which it
// delivers nothing. 0 = no bound. An attempt that runs over is told so by its context and has failed with the kind
// DeadlineExceeded once it returns, whatever it returns; Retry applies. A pause (Ask, Sleep, Recv) ends an attempt, so the
// time of waiting never counts, and the attempt behind it has all its time again. A stream that is held up because its
// chunks are not written yet is not idle.
func Timeout(total, idle time.Duration) NodeOption {
	return func(i *NodeInfo) { i.Timeout, i.IdleTimeout = total, idle }
}

// Cache lets a node take the recorded result of an earlier success, of any run of the same store, instead of running: one
// with the same key, node version, input (as canonical JSON) and type of result, that is younger than ttl (0 = however
// old). Its succeeded event then says where the result is from; the chunks of a stream node are not repeated. Failures are
// never kept. The node has to be a function of its input; give it another Version when it becomes another function. Runs
// that come to it at the same time each compute it.
func Cache(key string, ttl time.Duration) NodeOption {
	return func(i *NodeInfo) { i.CacheKey, i.CacheFor = key, ttl }
}

// Parallel bounds how many elements of a Map or MapPartial are in work at a time.
func Parallel(elements int) NodeOption { return func(i *NodeInfo) { i.Parallel = elements } }

// Func returns a node called name that runs fn.
func Func[In, Out any](name string, fn func(NodeContext, In) (Out, error), options ...NodeOption) Node[In, Out] {
	return funcNode[In, Out]{describe(name, options), fn}
}

// StreamFunc returns a stream node called name that delivers what stream yields and ends in what finalize folds.
func StreamFunc[In, Chunk, Out any](
	name string,
	stream func(NodeContext, In) iter.Seq2[Chunk, error],
	finalize func(NodeContext, In, iter.Seq[Chunk]) (Out, error),
	options ...NodeOption,
) StreamNode[In, Chunk, Out] {
	return streamFuncNode[In, Chunk, Out]{describe(name, options), stream, finalize}
}

func describe(name string, options []NodeOption) NodeInfo {
	info := NodeInfo{Name: name}
	for _, option := range options {
		option(&info)
	}
	return info
}

type funcNode[In, Out any] struct {
	info NodeInfo
	fn   func(NodeContext, In) (Out, error)
}

func (n funcNode[In, Out]) Info() NodeInfo                          { return n.info }
func (n funcNode[In, Out]) Run(ctx NodeContext, in In) (Out, error) { return n.fn(ctx, in) }

type streamFuncNode[In, Chunk, Out any] struct {
	info     NodeInfo
	stream   func(NodeContext, In) iter.Seq2[Chunk, error]
	finalize func(NodeContext, In, iter.Seq[Chunk]) (Out, error)
}

func (n streamFuncNode[In, Chunk, Out]) Info() NodeInfo { return n.info }

func (n streamFuncNode[In, Chunk, Out]) Stream(ctx NodeContext, in In) iter.Seq2[Chunk, error] {
	return n.stream(ctx, in)
}

func (n streamFuncNode[In, Chunk, Out]) Finalize(ctx NodeContext, in In, chunks iter.Seq[Chunk]) (Out, error) {
	return n.finalize(ctx, in, chunks)
}
