package workflowtest

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/workflowd/workflowd/executor"
	"github.com/workflowd/workflowd/executor/runlog"
	"github.com/workflowd/workflowd/workflow"
)

// Log is what happened in the run so far, for people: one line per event with the time since its start, without ids.
// Chunks in a row are counted behind the first ones.
//
//	 0s run.queued
//	 0s node.started charge
//	 0s node.sleeping charge until 30s, node_failed: the bank is closed
//	30s node.started charge attempt 2
func (r *Run[Out]) Log() string { return r.b.log(r.id) }

// WantNodes checks which nodes were entered so far, in order, each attempt once: "charge", "each[0]", and "review#2" for
// the second visit, in a loop. Steps that decide inline are no nodes. Branches that run beside each other may begin in any
// order: for them there is WantTimes.
func (r *Run[Out]) WantNodes(paths ...string) {
	r.b.t.Helper()
	var got []string
	for _, e := range r.b.events(r.id) {
		if e.Kind == runlog.NodeStarted {
			got = append(got, place(e))
		}
	}
	if !slices.Equal(got, paths) {
		r.b.t.Errorf("nodes entered:\n got %s\nwant %s\n%s", strings.Join(got, " "), strings.Join(paths, " "), r.Log())
	}
}

// WantTimes checks how often the node at path was entered so far: attempts of all its visits, and of all elements when
// path is that of a Map. A node that was not reached was entered 0 times.
func (r *Run[Out]) WantTimes(path string, times int) {
	r.b.t.Helper()
	got := 0
	for _, e := range r.b.events(r.id) {
		base, _, _ := strings.Cut(e.Node, "[")
		if e.Kind == runlog.NodeStarted && (e.Node == path || base == path) {
			got++
		}
	}
	if got != times {
		r.b.t.Errorf("node %q: entered %d times, want %d\n%s", path, got, times, r.Log())
	}
}

// WantLog checks that the log so far holds these lines in this order, others between them. A line is what Log shows
// without its time, from the beginning as far as it matters: "node.failed charge", "node.started charge (attempt 2)",
// "node.retracted draft", "run.succeeded".
func (r *Run[Out]) WantLog(lines ...string) {
	r.b.t.Helper()
	events := r.b.events(r.id)
	at := 0
	for i, line := range lines {
		want := strings.Fields(line)
		for at < len(events) && !begins(strings.Fields(describe(events, at)), want) {
			at++
		}
		if at == len(events) {
			behind := "from the start on"
			if i > 0 {
				behind = fmt.Sprintf("behind %q", lines[i-1])
			}
			r.b.t.Errorf("log: no %q %s\n%s", line, behind, r.Log())
			return
		}
		at++
	}
}

func begins(all, with []string) bool {
	return len(all) >= len(with) && slices.Equal(all[:len(with)], with)
}

// events returns the log of a run.
func (b *bench) events(id executor.RunID) []runlog.Event {
	b.t.Helper()
	events, err := b.store.Load().Events(id, 0, 0)
	if err != nil {
		b.t.Errorf("log of run %s: %v", id, err)
	}
	return events
}

// log renders the log of a run.
func (b *bench) log(id executor.RunID) string {
	b.t.Helper()
	events := b.events(id)
	var lines []string
	row := 0 // chunks of one node, one behind the other
	for i, e := range events {
		if i == 0 || !e.Kind.Chunk() || !events[i-1].Kind.Chunk() || events[i-1].Node != e.Node {
			row = 0
		}
		row++
		more := fmt.Sprintf("%10s … %d more chunks of %s", "", row-shownChunks, e.Node)
		switch {
		case row <= shownChunks:
			lines = append(lines, fmt.Sprintf("%10s %s", since(events, e.At), describe(events, i)))
		case row == shownChunks+1:
			lines = append(lines, more)
		default:
			lines[len(lines)-1] = more
		}
	}
	return strings.Join(lines, "\n")
}

// logs renders the logs of all runs.
func (b *bench) logs() string {
	b.t.Helper()
	runs, err := b.store.Load().Runs(runlog.RunQuery{})
	if err != nil {
		return err.Error()
	}
	var all []string
	for _, run := range slices.Backward(runs) {
		all = append(all, b.log(run.ID))
	}
	return strings.Join(all, "\n\n")
}

// since is a time in a log as what has passed since the log began.
func since(events []runlog.Event, at time.Time) string { return at.Sub(events[0].At).String() }

// place is the node of an event, with its visit unless that is the first.
func place(e runlog.Event) string {
	if e.Visit > 1 {
		return fmt.Sprintf("%s#%d", e.Node, e.Visit)
	}
	return e.Node
}

// describe is an event in one line.
func describe(events []runlog.Event, i int) string {
	e := events[i]
	parts := []string{string(e.Kind)}
	if e.Node != "" {
		parts = append(parts, place(e))
	}
	if d := details(events, e); d != "" {
		parts = append(parts, d)
	}
	if e.Attempt > 1 {
		parts = append(parts, fmt.Sprintf("(attempt %d)", e.Attempt))
	}
	return strings.Join(parts, " ")
}

// eventData is what the data of events may hold that matters to people.
type eventData struct {
	Reason  string            `json:"reason"`
	Until   time.Time         `json:"until"`
	Failure *workflow.Failure `json:"failure"`
	For     []string          `json:"for"`
	Key     string            `json:"key"`
	Payload json.RawMessage   `json:"payload"`
	Answer  json.RawMessage   `json:"answer"`
	Topic   string            `json:"topic"`
	Usage   workflow.Usage    `json:"usage"`
	Kind    string            `json:"kind"` // of a failure
	Message string            `json:"message"`
}

// details says what an event's data hold that matters to people.
func details(events []runlog.Event, e runlog.Event) string {
	if e.Kind.Chunk() {
		return short(e.Data)
	}
	var d eventData
	if len(e.Data) > 0 && json.Unmarshal(e.Data, &d) != nil {
		return short(e.Data)
	}
	switch e.Kind {
	case runlog.RunBlocked, runlog.RunPaused, runlog.RunAborted, runlog.RunCancelling, runlog.NodeAborted:
		return d.Reason
	case runlog.RunFailed, runlog.NodeFailed:
		return d.Kind + ": " + d.Message
	case runlog.RunSleeping, runlog.NodeSleeping:
		text := "until " + since(events, d.Until)
		if d.Failure != nil {
			text += ", " + string(d.Failure.Kind) + ": " + d.Failure.Message
		}
		return text
	case runlog.NodeWaiting:
		for i, wait := range d.For {
			if topic, signal := strings.CutPrefix(wait, "signal:"); signal {
				d.For[i] = fmt.Sprintf("signal %q", topic)
			} else {
				d.For[i] = "an answer"
			}
		}
		return "for " + strings.Join(d.For, ", ")
	case runlog.NodeRetracted:
		void := 0
		for _, old := range events {
			if old.Kind.Chunk() && old.Node == e.Node && old.Visit == e.Visit && old.Seq >= e.Retract && old.Seq < e.Seq {
				void++
			}
		}
		return fmt.Sprintf("%d chunks", void)
	case runlog.RequestOpened:
		return d.Key + " " + short(d.Payload)
	case runlog.RequestAnswered:
		return short(d.Answer)
	case runlog.RunSignalled:
		return d.Topic
	case runlog.UsageRecorded:
		return fmt.Sprintf("%d tokens in, %d out", d.Usage.Input, d.Usage.Output)
	default:
		return ""
	}
}

// short is JSON cut to the width of a line.
func short(raw json.RawMessage) string { return cut(string(raw), shownData) }

// cut returns the first n bytes of text at most, up to a rune's edge.
func cut(text string, n int) string {
	if len(text) <= n {
		return text
	}
	return strings.ToValidUTF8(text[:n], "") + "…"
}
