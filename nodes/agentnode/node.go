package agentnode

import (
	"context"
	"fmt"
	"iter"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/workflowd/workflowd/agentcore"
	"github.com/workflowd/workflowd/agentcore/fault"
	"github.com/workflowd/workflowd/agentcore/llm"
	"github.com/workflowd/workflowd/agentcore/permission"
	"github.com/workflowd/workflowd/outputitems"
	"github.com/workflowd/workflowd/store/sessionstore"
	"github.com/workflowd/workflowd/workflow"
)

// Node is an agent as a stream node. It goes on behind its committed chunks after a crash or a pause.
type Node struct {
	opts Options
	// more looks at what a turn came to. It returns nil when that will do, a further input of the same node, or an error
	// when a further one has been tried.
	more func(agentcore.Input, *projector) (*agentcore.Input, error)
}

var _ workflow.StreamNode[agentcore.Input, outputitems.Chunk, Payload] = Node{}

// New returns an agent node. What is wrong with its options is reported by the first run, before anything is stored.
func New(opts Options) Node { return Node{opts: opts} }

// Info describes the node.
func (n Node) Info() workflow.NodeInfo {
	return workflow.NodeInfo{Name: n.opts.name(), Type: "agent", Description: "An agent with tools", Version: 1, Resumes: true, SessionKey: n.opts.key()}
}

// Stream runs one turn. Its request id follows from the run, the node and the visit, so that every attempt is the same
// turn. A pause and a stop end it without an error row; any other failure adds one.
func (n Node) Stream(ctx workflow.NodeContext, in agentcore.Input) iter.Seq2[outputitems.Chunk, error] {
	return func(yield func(outputitems.Chunk, error) bool) {
		run := ctx.Run()
		p, err := newProjector(n.opts.key(), fmt.Sprintf("%s#%d", run.RunID, run.Visit), workflow.Committed[outputitems.Chunk](ctx))
		if err != nil {
			yield(outputitems.Chunk{}, err)
			return
		}
		w := &writer{ctx: ctx, p: p, yield: yield}
		err = n.turn(ctx, in, w)
		if err == nil || w.stopped {
			return
		}
		if ctx.Err() != nil && shown(err) { // whatever broke on the way, the reason is the stop
			err = context.Cause(ctx)
		} else if shown(err) {
			c, rowErr := outputitems.OpenError(p.id("error", strconv.Itoa(ctx.Run().Attempt)), string(fault.KindOf(err)), err.Error())
			if rowErr == nil && !w.write("", p.broken()) || !w.write("", []outputitems.Chunk{c}) {
				return
			}
		}
		yield(outputitems.Chunk{}, err)
	}
}

// shown reports whether a failure gets a row: pauses, stops and departures of the host do not.
func shown(err error) bool {
	switch fault.KindOf(err) {
	case fault.UserInputRequired, fault.ExecutionAborted, fault.Suspended, fault.OwnerLost:
		return false
	}
	return true
}

func (n Node) turn(ctx workflow.NodeContext, in agentcore.Input, w *writer) (err error) {
	path := n.databasePath(ctx)
	opts, err := n.opts.in(ctx).agent(path)
	if err != nil {
		return err
	}
	agent, err := agentcore.New(ctx, opts)
	if err != nil {
		return err
	}
	defer func() {
		if cerr := agent.Close(); err == nil {
			err = cerr
		}
	}()
	run := ctx.Run()
	in.RequestID = fmt.Sprintf("%s/%s#%d", run.RunID, run.Path, run.Visit)
	if err := n.configure(opts, in, agent.SessionID(), w); err != nil || w.stopped {
		return err
	}
	turn, cancel := turnContext(ctx)
	defer cancel()
	say := func(in agentcore.Input) error {
		for e, err := range agent.Run(turn, in, host{ctx, n.opts, mode(opts, in)}) {
			if err != nil {
				return err
			}
			if err := w.event(e); err != nil || w.stopped {
				return err
			}
		}
		return nil
	}
	if err := say(in); err != nil || w.stopped || n.more == nil {
		return err
	}
	next, err := n.more(in, w.p)
	if err != nil || next == nil {
		return err
	}
	if err := say(*next); err != nil || w.stopped {
		return err
	}
	_, err = n.more(*next, w.p)
	return err
}

func mode(o agentcore.Options, in agentcore.Input) permission.Mode {
	if in.Agent != "" {
		return in.Agent
	}
	return o.Mode
}

// turnContext is ctx with the causes the agent knows: a host that leaves or loses the run suspends, all else stops.
func turnContext(ctx workflow.NodeContext) (context.Context, context.CancelFunc) {
	turn, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		switch ctx.Abort().Cause() {
		case fault.Suspended, fault.OwnerLost:
			cancel(agentcore.ErrSuspend)
		default:
			cancel(context.Cause(ctx))
		}
	})
	return turn, func() {
		stop()
		cancel(nil)
	}
}

// databasePath selects the session's file by project, conversation and session key. A run of an engine outside any
// conversation gets one of its own; a node outside both keeps its session in memory, for nothing would find the file again.
func (n Node) databasePath(ctx workflow.NodeContext) string {
	if n.opts.DatabasePath != "" {
		return n.opts.DatabasePath
	}
	dir := ctx.Storage().AgentStoreDir
	if dir == "" {
		dir = n.opts.StoreDir
	}
	run := ctx.Run()
	if dir == "" && run.Conversation == "" {
		return ""
	}
	if dir == "" {
		dir = filepath.FromSlash(DefaultStoreDir)
	}
	project, conversation, key := run.Project, run.Conversation, n.opts.key()
	if project == "" {
		project = DefaultProject
	}
	if conversation == "" {
		conversation = run.RunID
	}
	if run.Element > 0 {
		key += fmt.Sprintf("[%d]", run.Element)
	}
	return sessionstore.DatabasePath(dir, project, conversation, key)
}

// config is the content of the turn's first item: what it runs with, so that Finalize needs nothing else.
type config struct {
	Prompt    string          `json:"prompt"`
	Workdir   string          `json:"workdir"`
	Provider  string          `json:"provider"`
	Model     string          `json:"model"`
	Effort    string          `json:"effort"`
	Agent     permission.Mode `json:"agent"`
	SessionID string          `json:"sessionId"`
}

const memberConfig = "turnConfig" // metadata member that marks the configuration item

func (n Node) configure(o agentcore.Options, in agentcore.Input, sessionID string, w *writer) error {
	r, err := o.Resolved(in)
	if err != nil {
		return err
	}
	c := config{in.Prompt, r.Workdir, r.Provider, r.Model, string(r.Effort), r.Mode, sessionID}
	j, err := outputitems.NewJSON(c)
	if err != nil {
		return err
	}
	mark, err := outputitems.NewJSON(true)
	if err != nil {
		return err
	}
	id := w.p.id("config")
	if _, known := w.p.acc.Item(id); known {
		return nil // as the first attempt had it: a resumed run keeps its snapshot
	}
	it := outputitems.Item{ID: id, Status: outputitems.StatusCompleted, ContentType: outputitems.TypeJSON, Content: j,
		Metadata: outputitems.Metadata{Kind: outputitems.KindSession, Extra: map[string]outputitems.JSON{memberConfig: mark}}}
	w.write("", []outputitems.Chunk{outputitems.Open(it)})
	return nil
}

// Finalize folds the committed chunks into the payload. It reads nothing but them.
func (n Node) Finalize(_ workflow.NodeContext, in agentcore.Input, chunks iter.Seq[outputitems.Chunk]) (Payload, error) {
	acc := &outputitems.Accumulator{}
	for c := range chunks {
		if _, err := acc.Apply(c); err != nil {
			return Payload{}, err
		}
	}
	p := Payload{Prompt: in.Prompt, Items: []outputitems.Item{}}
	for it := range slices.Values(acc.Items()) {
		p.Items = append(p.Items, it)
		if err := p.take(it); err != nil {
			return p, err
		}
	}
	return p, nil
}

func (p *Payload) take(it outputitems.Item) error {
	if j, ok := it.Content.(outputitems.JSON); ok && it.Metadata.Extra[memberConfig] != (outputitems.JSON{}) {
		var c config
		if err := j.Decode(&c); err != nil {
			return err
		}
		p.Prompt, p.Workdir, p.Provider, p.Model, p.Agent, p.SessionID = c.Prompt, c.Workdir, c.Provider, c.Model, c.Agent, c.SessionID
		p.Effort = llm.Effort(c.Effort)
		return nil
	}
	if it.Metadata.PartType == outputitems.PartTool {
		p.ToolCallCount++
	}
	if r, ok := it.Ring(); ok {
		p.ContextUsage = &ContextUsage{Used: int64(r.Value), Total: int64(r.Total)}
	}
	return nil
}

// writer passes fresh chunks to the run, each live one with its source.
type writer struct {
	ctx     workflow.NodeContext
	p       *projector
	yield   func(outputitems.Chunk, error) bool
	stopped bool
}

func (w *writer) event(e agentcore.Event) error {
	chunks, err := w.p.chunks(e)
	if err != nil {
		return err
	}
	source := ""
	if c := e.At(); c.Index >= 0 && c.Seq > 0 {
		source = fmt.Sprintf("%s/%d.%d", c.Store, c.Seq, c.Index)
	}
	w.write(source, chunks)
	return nil
}

// write yields what is new. It reports whether the run still listens.
func (w *writer) write(source string, chunks []outputitems.Chunk) bool {
	fresh, err := w.p.fresh(chunks...)
	if err != nil {
		w.stopped = true
		w.yield(outputitems.Chunk{}, err)
		return false
	}
	for i, c := range fresh {
		if source != "" {
			w.ctx.Journal().Source(fmt.Sprintf("%s.%d", source, i))
		}
		if !w.yield(c, nil) {
			w.stopped = true
			return false
		}
	}
	return true
}
