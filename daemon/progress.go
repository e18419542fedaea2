package daemon

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"
	"unicode"

	"github.com/workflowd/workflowd/executor"
	"github.com/workflowd/workflowd/executor/runlog"
	"github.com/workflowd/workflowd/nodes/agentnode"
	"github.com/workflowd/workflowd/outputitems"
	"github.com/workflowd/workflowd/workflow"
	"github.com/workflowd/workflowd/workflow/graph"
)

// progress shows a run's events to a person: one line per node and tool, the answer as it comes. It folds the same items
// that any reader of the log folds.
type progress struct {
	out    io.Writer // people
	events io.Writer // nil unless every event is wanted as JSON
	live   bool      // the result goes to the same terminal: text is shown while it comes, and once
	graph  *graph.Graph
	acc    *outputitems.Accumulator
	began  map[string]time.Time
	said   string            // the newest complete text
	body   strings.Builder   // all complete texts
	asked  map[string]string // titles of requests by id
	held   string            // the same until something follows it: a plan or the result may show it better
	column int               // bytes of text on the current line
	open   string            // item whose text is on the current line
	told   map[string]bool   // items whose end was shown
}

func newProgress(s IO, g *graph.Graph, output string) *progress {
	p := &progress{
		out: s.Err, live: output == "text" && isTerminal(s.Err) && isTerminal(s.Out), graph: g, acc: &outputitems.Accumulator{},
		began: map[string]time.Time{}, asked: map[string]string{}, told: map[string]bool{},
	}
	if output == "jsonl" {
		p.events = s.Out
	}
	return p
}

func (p *progress) begin(run runlog.Run, resumed bool) {
	verb := "started"
	if resumed {
		verb = "carried on"
	}
	if run.Status.Terminal() {
		verb = "finished before"
	}
	fmt.Fprintf(p.out, "▸ %s %s  %s\n", run.Workflow, verb, run.ID)
}

// show takes one event in.
func (p *progress) show(e executor.Event) error {
	if p.events != nil {
		if err := json.NewEncoder(p.events).Encode(e); err != nil {
			return err
		}
	}
	switch e.Kind {
	case runlog.NodeStarted:
		if p.began[e.Node].IsZero() {
			p.began[e.Node] = e.At
		}
	case runlog.NodeSucceeded, runlog.NodeFailed, runlog.NodeAborted:
		if p.drawn(e.Node) {
			_, state, _ := strings.Cut(string(e.Kind), ".")
			p.newLine()
			p.print("▸ %-10s %-10s %s", e.Node, state, took(p.began[e.Node], e.At))
		}
	case runlog.NodeKept:
		return p.kept(e)
	case runlog.ItemOpen, runlog.ItemAppend, runlog.ItemSet, runlog.ItemDone:
		return p.item(e.Data)
	case runlog.RequestOpened:
		var q runlog.Request
		if err := json.Unmarshal(e.Data, &q); err != nil {
			return err
		}
		p.flush()
		p.asked[q.ID] = title(q)
	case runlog.RequestAnswered:
		var a struct {
			RequestID string `json:"requestId"`
			By        string `json:"by"`
		}
		if err := json.Unmarshal(e.Data, &a); err != nil {
			return err
		}
		p.line("  ✓ %s: answered by %s", p.asked[a.RequestID], a.By)
	case runlog.RunBlocked:
		var b struct {
			Reason string `json:"reason"`
		}
		if err := json.Unmarshal(e.Data, &b); err != nil {
			return err
		}
		p.line("! blocked: %s", b.Reason)
	}
	return nil
}

func (p *progress) kept(e executor.Event) error {
	var k struct {
		From string `json:"from"`
	}
	if err := json.Unmarshal(e.Data, &k); err != nil {
		return err
	}
	p.line("▸ %-10s kept from %s", e.Node, k.From)
	return nil
}

// drawn reports whether a node is worth a line: those with code of their own, of a map each element.
func (p *progress) drawn(path string) bool {
	path, _, _ = strings.Cut(path, "[")
	for _, n := range p.graph.Nodes {
		if n.Path == path {
			return n.Kind == graph.Func || n.Kind == graph.Stream || n.Kind == graph.Map
		}
	}
	return false
}

func took(from, to time.Time) string {
	if from.IsZero() {
		return ""
	}
	return fmt.Sprintf("%.2fs", to.Sub(from).Seconds())
}

func (p *progress) item(data json.RawMessage) error {
	c, err := outputitems.DecodeChunk(data)
	if err != nil {
		return err
	}
	changed, err := p.acc.Apply(c)
	if err != nil || !changed {
		return err
	}
	it, _ := p.acc.Item(c.ItemID)
	p.draw(c, it)
	return nil
}

func (p *progress) draw(c outputitems.Chunk, it outputitems.Item) {
	if append, ok := c.Change.(outputitems.AppendChange); ok && it.Metadata.PartType == outputitems.PartText && p.live {
		p.text(it.ID, append.Text)
		return
	}
	if !final(it.Status) || p.told[it.ID] {
		return
	}
	p.told[it.ID] = true
	switch {
	case it.Metadata.Plan && strings.TrimSpace(p.said) == it.Text() && p.live:
		p.line("└ the plan is above")
	case it.Metadata.Plan:
		p.held = "" // the card shows it
		p.line("┌ plan")
		for l := range strings.SplitSeq(strings.TrimSpace(it.Text()), "\n") {
			p.line("│ %s", l)
		}
		p.line("└")
	case it.Metadata.Kind == outputitems.KindNotice, it.Metadata.Kind == outputitems.KindError:
		p.line("  %s %s", mark(it.Status), it.Text())
	case it.Metadata.PartType == outputitems.PartTool:
		p.tool(it)
	case it.Metadata.PartType == outputitems.PartRetry:
		p.retry(it)
	case it.Metadata.PartType == outputitems.PartText:
		p.flush()
		p.said = it.Text()
		p.body.WriteString(p.said)
		if !p.live {
			p.held = strings.TrimSpace(p.said)
		}
	}
}

func final(s outputitems.Status) bool {
	return s != outputitems.StatusRunning && s != outputitems.StatusWaiting
}

func mark(s outputitems.Status) string {
	switch s {
	case outputitems.StatusFailed, outputitems.StatusInterrupted, outputitems.StatusCancelled:
		return "✗"
	case outputitems.StatusCompleted, outputitems.StatusRunning, outputitems.StatusWaiting:
	}
	return "✓"
}

// argumentWidth bounds a tool row's arguments, in bytes.
const argumentWidth = 60

func (p *progress) tool(it outputitems.Item) {
	var t agentnode.ToolRow
	j, ok := it.Content.(outputitems.JSON)
	if !ok || j.Decode(&t) != nil {
		return
	}
	args := string(t.Arguments)
	if len(args) > argumentWidth {
		args = strings.ToValidUTF8(args[:argumentWidth], "") + "…"
	}
	p.line("  %s %-5s %s  %dms %s", mark(it.Status), t.Tool, args, t.DurationMS, t.Code)
}

func (p *progress) retry(it outputitems.Item) {
	var r agentnode.RetryRow
	if j, ok := it.Content.(outputitems.JSON); ok && j.Decode(&r) == nil {
		p.line("  ⟳ carried on (%s) %d/%d: %s", r.Kind, r.Attempt, r.MaxAttempts, r.Reason)
	}
}

// text shows streaming text, indented.
func (p *progress) text(id, s string) {
	if p.open != id {
		p.flush()
		p.open = id
		fmt.Fprint(p.out, "  ")
	}
	fmt.Fprint(p.out, indent(clean(s)))
	p.column += len(s)
}

func indent(s string) string { return strings.ReplaceAll(s, "\n", "\n  ") }

// clean takes out what a terminal would obey instead of show: control characters other than line feed and tab.
func clean(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) && r != '\n' && r != '\t' {
			return -1
		}
		return r
	}, s)
}

// newLine ends a line of streamed text.
func (p *progress) newLine() {
	if p.column > 0 {
		fmt.Fprintln(p.out)
	}
	p.column, p.open = 0, ""
}

// flush shows what is held and ends the line.
func (p *progress) flush() {
	if p.held != "" {
		fmt.Fprintf(p.out, "  %s\n", indent(clean(p.held)))
		p.held = ""
	}
	p.newLine()
}

func (p *progress) line(format string, args ...any) {
	p.flush()
	p.print(format, args...)
}

func (p *progress) print(format string, args ...any) {
	fmt.Fprintln(p.out, strings.TrimRight(clean(fmt.Sprintf(format, args...)), " "))
}

// end prints what the run cost. It reports whether the result was shown already: text that is the whole of it came live.
// A last text that the result ends with is left to the result.
func (p *progress) end(run runlog.Run, usage []runlog.UsageRecord, result string) (shown bool) {
	if p.held != "" && strings.HasSuffix(strings.TrimSpace(result), p.held) {
		p.held = ""
	}
	var total workflow.Usage
	for _, u := range usage {
		total.Input += u.Usage.Input
		total.Output += u.Usage.Output
	}
	p.line("▸ %s %s in %s  %d model calls, %d tokens in, %d out", run.ID, run.Status, took(run.CreatedAt, run.FinishedAt), len(usage), total.Input, total.Output)
	return p.live && p.body.Len() > 0 && strings.Join(strings.Fields(result), "") == strings.Join(strings.Fields(p.body.String()), "")
}
