package harness

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"time"

	"github.com/workflowd/workflowd/agentcore/fault"
	"github.com/workflowd/workflowd/agentcore/llm"
	"github.com/workflowd/workflowd/agentcore/registry"
	"github.com/workflowd/workflowd/agentcore/session"
	"github.com/workflowd/workflowd/agentcore/task"
	"github.com/workflowd/workflowd/agentcore/tool"
	"github.com/workflowd/workflowd/internal/faultpoint"
)

var (
	pointApproved  = faultpoint.New("harness.approval.committed")
	pointExecute   = faultpoint.New("harness.tool.before")
	pointExecuted  = faultpoint.New("harness.tool.after")
	pointToolDone  = faultpoint.New("harness.result.committed")
	pointRoundDone = faultpoint.New("harness.round.finished")
)

func (h *Harness) toolTask() task.Definition {
	return task.Definition{
		Kind: TaskTool, Version: taskVersion, MaxRestarts: math.MaxInt, // counted; execute gives up, so that the model hears of it
		Phases:  map[string]task.Phase{phaseApprove: h.step(h.approve), phaseExecute: h.step(h.execute)},
		Abort:   h.abortTool,
		Cleanup: h.faultTool,
	}
}

// call is one call of a response with what is known of it before anything runs.
type call struct {
	index int
	block llm.Block
	tool  *Offered
	args  json.RawMessage
	code  string // set: it does not run, and why
	text  string // what the model is told then
}

// checkCalls looks every call of m up and prepares its arguments. It has no effects.
func checkCalls(m llm.Message, setup Setup) []call {
	var calls []call
	for i, b := range m.Blocks {
		if b.Type != llm.ToolCall {
			continue
		}
		c := call{index: i, block: b}
		c.tool = setup.tool(b.Name)
		switch {
		case c.tool == nil:
			c.code, c.text = codeUnavailable, fmt.Sprintf("There is no tool %q here. Use one of the tools you were given.", b.Name)
		case b.BadArgs != "":
			c.code, c.text = codeArguments, fmt.Sprintf("The arguments are not a JSON object, so nothing was run. Received: %s", clip(b.BadArgs))
		default:
			args, err := c.tool.Prepare(b.Args)
			if err != nil {
				c.code, c.text = codeArguments, err.Error()
			}
			c.args = args
		}
		calls = append(calls, c)
	}
	return calls
}

// startRound commits the assistant's entry together with the intents of its calls. Calls that ask nobody start without
// another commit.
func (h *Harness) startRound(ctx context.Context, inv *task.Invocation, g genState, setup Setup, chain registry.Chain, st *stream, m llm.Message) error {
	calls := checkCalls(m, setup)
	asks := h.currentHost() != nil
	_, err := inv.Commit(ctx, func(tx *session.Tx) (task.Next, error) {
		bound, err := h.roundBoundary(tx, g)
		if err != nil {
			return nil, err
		}
		if err := h.appendAnswer(tx, g, st, m, ""); err != nil {
			return nil, err
		}
		if st.window > 0 && m.Usage != nil {
			tx.Publish(published{g.Submission, ContextUsage{Used: m.Usage.Total, Total: st.window}})
		}
		var on []session.TaskID
		last := g.Entry
		for _, c := range calls {
			tx.Publish(published{g.Submission, toolStart(g.Entry, c.index, c.block)})
		}
		for _, c := range calls {
			in := toolInput{g.Conversation, g.Submission, g.Entry, c.index, c.block.Name}
			if c.code != "" {
				last = h.appendResult(tx, in, tool.Fail(c.text), c.code, 0, 0)
				continue
			}
			phase := phaseExecute
			if c.tool.Own && asks || chain.BeforeToolSet() {
				phase = phaseApprove
			} else if c.tool.Replay() != tool.Safe {
				tx.Sync() // the intent of an effect that must not repeat
			}
			on = append(on, tx.CreateTask(session.Task{Conversation: g.Conversation, Kind: TaskTool, Version: taskVersion, Owner: inv.Task().ID,
				Status: session.TaskPending, Phase: phase, Input: mustJSON(in), Checkpoint: mustJSON(toolState{c.args, string(c.tool.Replay())})}))
		}
		wait := g.after(last)
		wait.Entry = g.Entry
		if len(on) == 0 && chain.AfterToolsSet() {
			return task.Continue{Phase: phaseTools, Checkpoint: mustJSON(wait)}, nil
		}
		if len(on) == 0 {
			return task.Settle{Outcome: session.Outcome{Status: session.Completed}}, bound(tx, last)
		}
		return task.Wait{On: on, Phase: phaseTools, Checkpoint: mustJSON(wait)}, nil
	})
	if err == nil {
		pointRound.Hit()
	}
	return err
}

func toolStart(entry session.EntryID, index int, b llm.Block) Tool {
	args := b.Args
	if b.BadArgs != "" {
		args = mustJSON(b.BadArgs)
	}
	return Tool{Phase: Start, Entry: entry, Index: index, ToolCallID: toolCallID(entry, index), Name: b.Name, Args: args}
}

// appendResult writes a call's one result and publishes its end.
func (h *Harness) appendResult(tx *session.Tx, in toolInput, r tool.Result, code string, by session.TaskID, d time.Duration) session.EntryID {
	id := toolCallID(in.Entry, in.Index)
	m := llm.Message{Role: llm.RoleToolResult, CallID: id, ToolName: in.Name, IsError: r.IsError, Blocks: r.Blocks}
	data := entryData{Submission: in.Submission, Call: &callData{Entry: in.Entry, Index: in.Index, Name: in.Name, Code: code, Details: r.Details, DurationMS: d.Milliseconds()}}
	if r.Usage != nil {
		data.Usage = []usageRecord{{RecordID: h.sess.StoreID() + "/tool/" + id, Usage: *r.Usage}}
	}
	entry := h.say(tx, in.Conversation, session.Entry{Kind: kindToolResult, ByTask: by}, m, data)
	tx.Publish(published{in.Submission, Tool{Phase: End, Entry: in.Entry, Index: in.Index, ToolCallID: id, Name: in.Name,
		Result: r.Blocks, IsError: r.IsError, Code: code, Details: r.Details, Duration: d}})
	return entry
}

// approve lets hooks and the host decide, then commits the intent. What they decide before a crash they are asked again.
func (h *Harness) approve(ctx context.Context, inv *task.Invocation) error {
	in, s, err := h.callOf(inv)
	if err != nil {
		return err
	}
	published := h.publication()
	setup, err := h.resolved(ctx, in.Conversation, in.Submission)
	if err != nil {
		return h.settleCall(ctx, inv, in, tool.Fail(err.Error()), codeUnavailable, 0)
	}
	t := extended(setup, published).tool(in.Name)
	if t == nil {
		return h.settleCall(ctx, inv, in, tool.Fail(goneText), codeUnavailable, 0)
	}
	args, code, text, err := decideCall(ctx, h.chain(published), t, in, s.Args)
	switch {
	case err != nil:
		return err
	case code != "":
		return h.settleCall(ctx, inv, in, tool.Fail(text), code, 0)
	}
	s.Args = args
	if host := h.currentHost(); host != nil && t.Own {
		err = host.Approve(ctx, Approval{ToolCallID: h.sess.StoreID() + "/" + toolCallID(in.Entry, in.Index), Task: inv.Task().ID, Name: in.Name, Args: s.Args})
	}
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case fault.Is(err, fault.UserInputRequired):
		h.show(in.Submission, Paused{Err: err})
		return task.ErrPark
	case err != nil:
		return h.settleCall(ctx, inv, in, tool.Fail(clip(err.Error())), codeDenied, 0)
	}
	_, err = inv.Commit(ctx, func(tx *session.Tx) (task.Next, error) {
		tx.Sync() // a person's decision, and the intent
		return task.Continue{Phase: phaseExecute, Checkpoint: mustJSON(s)}, nil
	})
	if err == nil {
		pointApproved.Hit()
	}
	return err
}

func (h *Harness) callOf(inv *task.Invocation) (toolInput, toolState, error) {
	var in toolInput
	var s toolState
	if err := stored(inv.Task().Input, &in, "input of task", inv.Task().ID); err != nil {
		return in, s, err
	}
	in.Conversation = inv.Task().Conversation
	return in, s, inv.Decode(&s)
}

// goneText is what the model reads about a call whose tool was there when it was asked for.
const goneText = "The tool is no longer available."

// interruptedText is what the model reads about a call whose outcome a crash left unknown.
const interruptedText = "This call was interrupted while it ran, and its outcome is unknown. It was not run again. Look at what it may have changed before you decide what to do."

// deadlyText is what the model reads about a call that took the process down each time.
const deadlyText = "The program ended %d times while this call ran, so it was not run again. Its outcome is unknown. Do it another way."

// execute runs a call whose intent is committed. After a restart it runs again only when the recorded and the present
// policy are both safe.
func (h *Harness) execute(ctx context.Context, inv *task.Invocation) error {
	in, s, err := h.callOf(inv)
	if err != nil {
		return err
	}
	setup, err := h.resolved(ctx, in.Conversation, in.Submission)
	if err != nil {
		return h.settleCall(ctx, inv, in, tool.Fail(err.Error()), codeUnavailable, 0)
	}
	published := h.publication()
	t := extended(setup, published).tool(in.Name)
	switch {
	case inv.Recovered() && inv.Task().Starts > MaxToolRestarts:
		return h.settleCall(ctx, inv, in, tool.Fail(fmt.Sprintf(deadlyText, MaxToolRestarts)), codeInterrupted, 0)
	case inv.Recovered() && (t == nil || s.Replay != string(tool.Safe) || t.Replay() != tool.Safe):
		return h.settleCall(ctx, inv, in, tool.Fail(interruptedText), codeInterrupted, 0)
	case t == nil:
		return h.settleCall(ctx, inv, in, tool.Fail(goneText), codeUnavailable, 0)
	}
	out := h.newOutput(inv, in)
	c := tool.Call{ID: h.sess.StoreID() + "/" + toolCallID(in.Entry, in.Index), Name: in.Name, Args: s.Args, Emit: out.emit}
	pointExecute.HitBy(c.ID)
	begun := time.Now()
	result, err := runTool(ctx, t, c, out)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	pointExecuted.Hit()
	code := ""
	if err != nil {
		code, result = codeToolError, tool.Fail(clip(err.Error()))
	} else if result, err = h.chain(published).AfterTool(ctx, registry.ToolCall{ID: toolCallID(in.Entry, in.Index), Name: in.Name, Args: s.Args}, result); err != nil {
		return err
	}
	return h.settleCall(ctx, inv, in, tool.Bound(result), code, time.Since(begun))
}

// runTool executes with live output. A panic of the tool is its error.
func runTool(ctx context.Context, t *Offered, c tool.Call, out *output) (r tool.Result, err error) {
	out.start(ctx)
	defer out.stop()
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("the tool crashed: %v", p)
		}
	}()
	return t.Execute(ctx, c)
}

// settleCall commits a call's result. The last one of a round prepares the next request in the same commit.
func (h *Harness) settleCall(ctx context.Context, inv *task.Invocation, in toolInput, r tool.Result, code string, d time.Duration) error {
	finished := false
	_, err := inv.Commit(ctx, func(tx *session.Tx) (task.Next, error) {
		end, err := h.roundEnd(tx, inv.Task(), r.Terminate)
		if err != nil {
			return nil, err
		}
		entry := h.appendResult(tx, in, r, code, inv.Task().ID, d)
		if !inv.Recovered() || code != "" {
			tx.Sync()
		}
		if end != nil {
			finished = true
			if err := end(tx, entry); err != nil {
				return nil, err
			}
		}
		status := session.Completed
		if code != "" {
			status = session.Failed
		}
		return task.Settle{Outcome: session.Outcome{Status: status, Result: mustJSON(toolOutcome{r.Terminate})}}, nil
	})
	if err == nil {
		pointToolDone.Hit()
		if finished {
			pointRoundDone.Hit()
		}
	}
	return err
}

// roundEnd reads what the end of a round depends on. It returns nil when other calls of the round are live, or when the
// generation is being stopped; else the step that ends it.
func (h *Harness) roundEnd(tx *session.Tx, self session.Task, terminate bool) (func(*session.Tx, session.EntryID) error, error) {
	gen, ok := tx.LiveTask(self.Owner)
	if !ok || gen.Abort || gen.Phase != phaseTools {
		return nil, nil
	}
	for _, t := range tx.LiveTasks() {
		if t.Owner == gen.ID && t.ID != self.ID {
			return nil, nil
		}
	}
	if h.chain(h.publication()).AfterToolsSet() {
		return nil, nil // the generation goes on by itself: hooks are told outside of commits
	}
	g, err := generationOf(gen)
	if err != nil {
		return nil, err
	}
	if terminate {
		all, err := h.allTerminate(tx, gen.ID, self.ID)
		if err != nil {
			return nil, err
		}
		if all {
			end, err := h.endByTool(tx, g)
			return settling(gen, end), err
		}
	}
	bound, err := h.roundBoundary(tx, g)
	if err != nil {
		return nil, err
	}
	return settling(gen, bound), nil
}

// settling ends the generation with a step of its boundary.
func settling(gen session.Task, step func(*session.Tx, session.EntryID) error) func(*session.Tx, session.EntryID) error {
	return func(tx *session.Tx, last session.EntryID) error {
		gen.Checkpoint = nil
		tx.PutTask(task.After(gen, task.Settle{Outcome: session.Outcome{Status: session.Completed}}, false))
		return step(tx, last)
	}
}

// allTerminate reports whether every call of the round that ran, self apart, asked to end the turn.
func (h *Harness) allTerminate(tx *session.Tx, gen, self session.TaskID) (bool, error) {
	tasks, err := tx.Tasks(session.TaskQuery{Owner: gen})
	if err != nil {
		return false, err
	}
	for _, t := range tasks {
		var o toolOutcome
		if t.ID != self && (t.Outcome == nil || json.Unmarshal(t.Outcome.Result, &o) != nil || !o.Terminate) {
			return false, nil
		}
	}
	return len(tasks) > 0, nil
}

// endByTool ends the turn with the assistant message that made the calls as its answer.
func (h *Harness) endByTool(tx *session.Tx, g genState) (func(*session.Tx, session.EntryID) error, error) {
	open, err := h.inputsOf(tx, g)
	if err != nil {
		return nil, err
	}
	queue, err := h.queue(tx, g.Conversation)
	if err != nil {
		return nil, err
	}
	return func(tx *session.Tx, _ session.EntryID) error {
		h.settleAll(tx, open, session.SubmissionAnswered, g.Entry, "", "")
		tx.Sync()
		return h.placeFrom(tx, queue, atEnd)
	}, nil
}

// tools ends a round that its last call has not ended: hooks are to be told first, or the scheduler settled the call.
func (h *Harness) tools(ctx context.Context, inv *task.Invocation) error {
	g, err := generationOf(inv.Task())
	if err != nil {
		return err
	}
	round, terminate, err := h.outcomesOf(ctx, g, inv.Task().ID)
	if err != nil {
		return err
	}
	if err := h.chain(h.publication()).AfterTools(ctx, round); err != nil {
		return err
	}
	boundary := h.roundBoundary
	if terminate {
		boundary = h.endByTool
	}
	_, err = inv.Commit(ctx, func(tx *session.Tx) (task.Next, error) {
		entries, err := tx.Entries(session.EntryQuery{Conversation: g.Conversation, Limit: 1})
		if err != nil {
			return nil, err
		}
		bound, err := boundary(tx, g)
		if err != nil {
			return nil, err
		}
		return task.Settle{Outcome: session.Outcome{Status: session.Completed}}, bound(tx, entries[0].ID)
	})
	return err
}

// abortTool gives a stopped call its one result.
func (h *Harness) abortTool(ctx context.Context, inv *task.Invocation) error {
	in, _, err := h.callOf(inv)
	if err != nil {
		return err
	}
	_, err = inv.Commit(ctx, func(tx *session.Tx) (task.Next, error) {
		h.appendResult(tx, in, tool.Fail("This call was stopped by the user before it finished."), codeAborted, inv.Task().ID, 0)
		return task.Settle{Outcome: session.Outcome{Status: session.Aborted, Reason: inv.Task().AbortReason}}, nil
	})
	return err
}

// mayHaveRunText is what the model reads behind a defect that may have come after the effect, a result that could not be
// stored for example.
const mayHaveRunText = "\nIt may have run before that. Look at what it may have changed before you decide what to do."

// faultTool gives a call that ended by a defect its one result.
func (h *Harness) faultTool(tx *session.Tx, t session.Task, o session.Outcome) error {
	var in toolInput
	if err := stored(t.Input, &in, "input of task", t.ID); err != nil {
		return err
	}
	in.Conversation = t.Conversation
	text := clip("The call failed inside the host: " + o.Error)
	if t.Phase == phaseExecute {
		text += mayHaveRunText
	}
	h.appendResult(tx, in, tool.Fail(text), codeToolError, t.ID, 0)
	return nil
}

// clipMark marks text that was cut.
const clipMark = " … (cut)"

// clip bounds what a failure tells the model, at a rune's edge.
func clip(s string) string {
	if len(s) <= MaxErrorText {
		return s
	}
	n := MaxErrorText
	for n > 0 && s[n]&0xC0 == 0x80 {
		n--
	}
	return s[:n] + clipMark
}
