package harness

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/workflowd/workflowd/agentcore/fault"
	"github.com/workflowd/workflowd/agentcore/llm"
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
		Kind: taskTool, Version: taskVersion,
		Phases:  map[string]task.Phase{phaseApprove: h.approve, phaseExecute: h.execute},
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
func checkCalls(m llm.Message, tools []Offered) []call {
	var calls []call
	for i, b := range m.Blocks {
		if b.Type != llm.ToolCall {
			continue
		}
		c := call{index: i, block: b}
		for j := range tools {
			if tools[j].Spec().Name == b.Name {
				c.tool = &tools[j]
			}
		}
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
func (h *Harness) startRound(ctx context.Context, inv *task.Invocation, g genState, setup Setup, st *stream, m llm.Message) error {
	calls := checkCalls(m, setup.Tools)
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
			in := toolInput{g.Conversation, g.Submission, g.Entry, c.index, c.block.Name}
			if c.code != "" {
				last = h.appendResult(tx, in, tool.Fail(c.text), c.code, 0, 0)
				continue
			}
			phase := phaseExecute
			if c.tool.Own && asks {
				phase = phaseApprove
			} else if c.tool.Replay() != tool.Safe {
				tx.Sync() // the intent of an effect that must not repeat
			}
			on = append(on, tx.CreateTask(session.Task{Conversation: g.Conversation, Kind: taskTool, Version: taskVersion, Owner: inv.Task().ID,
				Status: session.TaskPending, Phase: phase, Input: mustJSON(in), Checkpoint: mustJSON(toolState{c.args, string(c.tool.Replay())})}))
		}
		if len(on) == 0 {
			return task.Settle{Outcome: session.Outcome{Status: session.Completed}}, bound(tx, last)
		}
		wait := g.after(last)
		wait.Entry = g.Entry
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

// approve asks the host, then commits the intent.
func (h *Harness) approve(ctx context.Context, inv *task.Invocation) error {
	in, s, err := h.callOf(inv)
	if err != nil {
		return err
	}
	if host := h.currentHost(); host != nil {
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
	if err := json.Unmarshal(inv.Task().Input, &in); err != nil {
		return in, s, fmt.Errorf("task %d: input: %w", inv.Task().ID, err)
	}
	in.Conversation = inv.Task().Conversation
	return in, s, inv.Decode(&s)
}

// interruptedText is what the model reads about a call whose outcome a crash left unknown.
const interruptedText = "This call was interrupted while it ran, and its outcome is unknown. It was not run again. Look at what it may have changed before you decide what to do."

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
	var t *Offered
	for i := range setup.Tools {
		if setup.Tools[i].Spec().Name == in.Name {
			t = &setup.Tools[i]
		}
	}
	switch {
	case inv.Recovered() && (t == nil || s.Replay != string(tool.Safe) || t.Replay() != tool.Safe):
		return h.settleCall(ctx, inv, in, tool.Fail(interruptedText), codeInterrupted, 0)
	case t == nil:
		return h.settleCall(ctx, inv, in, tool.Fail("The tool is no longer available."), codeUnavailable, 0)
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
			return h.endByTool(tx, gen, g)
		}
	}
	bound, err := h.roundBoundary(tx, g)
	if err != nil {
		return nil, err
	}
	return func(tx *session.Tx, last session.EntryID) error {
		gen.Checkpoint = nil
		tx.PutTask(task.After(gen, task.Settle{Outcome: session.Outcome{Status: session.Completed}}, false))
		return bound(tx, last)
	}, nil
}

// allTerminate reports whether every other call of the round asked to end the turn.
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
	return true, nil
}

// endByTool ends the turn with the assistant message that made the calls as its answer.
func (h *Harness) endByTool(tx *session.Tx, gen session.Task, g genState) (func(*session.Tx, session.EntryID) error, error) {
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
		tx.PutTask(task.After(gen, task.Settle{Outcome: session.Outcome{Status: session.Completed}}, false))
		return h.placeFrom(tx, queue, atEnd)
	}, nil
}

// tools ends a round whose last call was settled by the scheduler or found settled at open.
func (h *Harness) tools(ctx context.Context, inv *task.Invocation) error {
	g, err := generationOf(inv.Task())
	if err != nil {
		return err
	}
	_, err = inv.Commit(ctx, func(tx *session.Tx) (task.Next, error) {
		entries, err := tx.Entries(session.EntryQuery{Conversation: g.Conversation, Limit: 1})
		if err != nil {
			return nil, err
		}
		bound, err := h.roundBoundary(tx, g)
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

// faultTool gives a call that ended by a defect its one result.
func (h *Harness) faultTool(tx *session.Tx, t session.Task, o session.Outcome) error {
	var in toolInput
	if err := json.Unmarshal(t.Input, &in); err != nil {
		return err
	}
	in.Conversation = t.Conversation
	h.appendResult(tx, in, tool.Fail(clip("The call failed inside the host: "+o.Error)), codeToolError, t.ID, 0)
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
