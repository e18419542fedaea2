//go:build unix

package crash

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/workflowd/workflowd/agentcore"
	"github.com/workflowd/workflowd/agentcore/llm"
	"github.com/workflowd/workflowd/agentcore/llm/demo"
	"github.com/workflowd/workflowd/agentcore/tool"
	"github.com/workflowd/workflowd/daemon"
	"github.com/workflowd/workflowd/daemon/stock"
	"github.com/workflowd/workflowd/nodes/agentnode"
	"github.com/workflowd/workflowd/workflow"
)

// scenario is a command whose story is known.
type scenario struct {
	name     string
	workflow string
	args     func(p *place) []string
	dataDir  func(p *place) string
	// unsafe are the calls that must never run twice, by tool, in the order in which the model makes them.
	unsafe []string
}

// sideLog is where the commands of the agent leave a trace, written is what the agent writes. Both are in the working
// directory.
const (
	sideLog     = "side.log"
	written     = "ferries.txt"
	writtenText = "The ferry leaves at 9:40."
)

const agentPrompt = "Look around, then write " + written + ": " + writtenText + "\nThen run `echo one >> " + sideLog + " && echo the first is noted` and " +
	"run `echo two >> " + sideLog + " && echo the second is noted`"

// scenarios are the commands that are killed. Together they pass every fault point.
var scenarios = []scenario{
	{
		name: "agent", workflow: "agent", unsafe: []string{"write", "bash", "bash"},
		args: func(p *place) []string {
			return []string{"run", "agent", "--data-dir", p.data, "--request-id", "k1", "-i", "prompt=" + agentPrompt}
		},
		dataDir: func(p *place) string { return p.data },
	},
	{
		name: "demo", workflow: "demo",
		args:    func(p *place) []string { return []string{"run", "demo", "--demo-dir", p.data} },
		dataDir: func(p *place) string { return filepath.Join(p.data, "data") },
	},
	{
		name: "hand", workflow: "hand", unsafe: []string{handTool},
		args: func(p *place) []string {
			return []string{"run", "hand", "--data-dir", p.data, "--request-id", "k1", "--yes", "-i", "prompt=What does this folder keep?"}
		},
		dataDir: func(p *place) string { return p.data },
	},
}

func (s scenario) command(p *place, pace string, more ...string) []string {
	return append(append(s.args(p), "--pace", pace), more...)
}

// handTool is a tool of the host's own; the demo model calls whatever has this name.
const handTool = "submit_answer"

// hand is a workflow for the edges that the stock ones do not have: effects of a node beside and inside the store, a result that
// another node takes, a tool of the host's own, and a connection that drops once in every process.
func hand() daemon.Part {
	return daemon.Workflow("An agent with a tool of its host", func(o agentnode.Options) (*workflow.Workflow[stock.AgentRequest, agentnode.Payload], error) {
		o.Model, o.Window, o.LLM = demo.Model, demo.ContextWindow, &dropping{Provider: demo.New(demo.Options{Pace: o.DemoPace})}
		o.ExtraTools = []tool.Tool{tool.New(handTool, "Takes the answer.", takeAnswer)}
		return workflow.Define("hand", 1, func(b *workflow.Builder, in workflow.Ref[stock.AgentRequest]) workflow.Ref[agentnode.Payload] {
			first := workflow.Then(b, in, measure("measured"))
			again := workflow.Join2(b, in, first, func(r stock.AgentRequest, _ int) stock.AgentRequest { return r })
			second := workflow.Then(b, again, measure("taken"))
			input := workflow.Join2(b, workflow.Then(b, in, noted), second, func(i agentcore.Input, _ int) agentcore.Input { return i })
			return workflow.Then(b, workflow.ThenStream(b, input, agentnode.New(o)), handed)
		})
	}, agentnode.Payload.Answer)
}

type answerTaken struct {
	Summary string `json:"summary"`
}

func takeAnswer(_ context.Context, _ tool.Call, a answerTaken) (tool.Result, error) {
	if a.Summary == "" {
		return tool.Fail("the summary is empty"), nil
	}
	return tool.Text("Taken."), appendLine(sideLog, "taken")
}

var noted = workflow.Func("input", func(ctx workflow.NodeContext, r stock.AgentRequest) (agentcore.Input, error) {
	_, err := ctx.Journal().Once("note", true, func(context.Context) (json.RawMessage, error) {
		return json.RawMessage(`true`), os.WriteFile("../noted", []byte(r.Prompt), 0o600)
	})
	if err != nil {
		return agentcore.Input{}, err
	}
	times, err := workflow.InTx(ctx, "count", func(_ context.Context, tx workflow.Tx) (int64, error) { return count(tx, ctx.Run().RunID) })
	if err == nil && times != 1 {
		err = fmt.Errorf("counted %d times", times)
	}
	return agentcore.Input{Prompt: r.Prompt}, err
})

// count notes that it was called for a run and returns how often it was.
func count(tx workflow.Tx, run string) (n int64, err error) {
	if _, err := tx.Exec(`CREATE TABLE IF NOT EXISTS app_count (run TEXT) STRICT`); err != nil {
		return 0, err
	}
	if _, err := tx.Exec(`INSERT INTO app_count VALUES (?)`, run); err != nil {
		return 0, err
	}
	for row, err := range tx.Query(`SELECT count(*) FROM app_count WHERE run = ?`, run) {
		if err != nil {
			return 0, err
		}
		n = row[0].(int64) //nolint:forcetypeassert // a count is one
	}
	return n, nil
}

// measure returns a node whose result others of the same input take.
func measure(name string) workflow.Node[stock.AgentRequest, int] {
	return workflow.Func(name, func(_ workflow.NodeContext, r stock.AgentRequest) (int, error) {
		return len(r.Prompt), nil
	}, workflow.Cache("length", 0))
}

var handed = workflow.Func("output", func(_ workflow.NodeContext, p agentnode.Payload) (agentnode.Payload, error) { return p, nil })

func appendLine(name, line string) error {
	f, err := os.OpenFile(name, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteString(line + "\n")
	return errors.Join(err, f.Close())
}

// dropping loses the connection of its first request before anything came.
type dropping struct {
	llm.Provider
	dropped atomic.Bool
}

func (d *dropping) Stream(ctx context.Context, req llm.Request) iter.Seq2[llm.StreamEvent, error] {
	if d.dropped.Swap(true) {
		return d.Provider.Stream(ctx, req)
	}
	return func(yield func(llm.StreamEvent, error) bool) {
		yield(nil, &llm.Error{Class: llm.Connection, Message: "connection reset", RetryAfter: time.Millisecond})
	}
}
