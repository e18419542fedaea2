package daemon

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/workflowd/workflowd/executor"
	"github.com/workflowd/workflowd/executor/runlog"
	"github.com/workflowd/workflowd/nodes/agentnode"
	"github.com/workflowd/workflowd/outputitems"
	"github.com/workflowd/workflowd/workflow"
	"github.com/workflowd/workflowd/workflow/graph"
)

// story feeds events to a progress and returns what a reader of a log file sees.
type story struct {
	t   *testing.T
	p   *progress
	out bytes.Buffer
	seq executor.Seq
}

func newStory(t *testing.T) *story {
	s := &story{t: t}
	s.p = newProgress(IO{Err: &s.out}, &graph.Graph{Nodes: []graph.Node{{Path: "agent", Kind: graph.Stream}, {Path: "in", Kind: graph.Apply}}}, "text")
	return s
}

func (s *story) event(kind runlog.EventKind, node string, data any) {
	s.t.Helper()
	raw, err := json.Marshal(data)
	if err != nil {
		s.t.Fatal(err)
	}
	s.seq++
	if err := s.p.show(executor.Event{Seq: s.seq, At: time.Unix(int64(s.seq), 0), Kind: kind, Node: node, Data: raw}); err != nil {
		s.t.Fatal(err)
	}
}

func (s *story) chunks(chunks ...outputitems.Chunk) {
	s.t.Helper()
	for _, c := range chunks {
		raw, err := outputitems.EncodeChunk(c)
		if err != nil {
			s.t.Fatal(err)
		}
		s.event(runlog.ItemOpen, "agent", json.RawMessage(raw))
	}
}

func (s *story) text(id, text string, end outputitems.Status) {
	s.chunks(outputitems.OpenText(id), outputitems.AppendText(id, 0, text), outputitems.Done(id, end))
}

func (s *story) part(id string, kind outputitems.PartType, content any, end outputitems.Status) {
	s.t.Helper()
	j, err := outputitems.NewJSON(content)
	if err != nil {
		s.t.Fatal(err)
	}
	s.chunks(outputitems.OpenPart(id, kind, j), outputitems.Done(id, end))
}

func (s *story) reads(want string) {
	s.t.Helper()
	if diff := cmp.Diff(strings.TrimPrefix(want, "\n"), s.out.String()); diff != "" {
		s.t.Errorf("want (-), got (+):\n%s", diff)
	}
}

// Every kind of row has its line; text is whole, and control characters stay out.
func TestEachRowHasItsLine(t *testing.T) {
	s := newStory(t)
	s.p.begin(runlog.Run{ID: "run_1", Workflow: "w"}, false)
	s.event(runlog.NodeStarted, "in", nil)
	s.event(runlog.NodeSucceeded, "in", nil) // pure: no line
	s.event(runlog.NodeStarted, "agent", nil)
	s.text("a", "Half a sen\x1b[1m", outputitems.StatusInterrupted)
	s.part("b", outputitems.PartRetry, agentnode.RetryRow{Kind: "dropped", Attempt: 3, MaxAttempts: 10, Reason: "connection reset"}, outputitems.StatusCompleted)
	s.text("c", "tence.\nA second line.", outputitems.StatusCompleted)
	s.part("d", outputitems.PartTool, agentnode.ToolRow{Tool: "read", Arguments: json.RawMessage(`{"path":"` + strings.Repeat("漢", 40) + `"}`), DurationMS: 12}, outputitems.StatusCompleted)
	s.part("e", outputitems.PartTool, agentnode.ToolRow{Tool: "deploy", Arguments: json.RawMessage(`{}`), Code: "interrupted"}, outputitems.StatusInterrupted)
	s.chunks(outputitems.OpenNotice("f", "A notice."))
	failed, err := outputitems.OpenError("g", "model_error", "401: no")
	if err != nil {
		t.Fatal(err)
	}
	s.chunks(failed)
	s.event(runlog.NodeFailed, "agent", nil)
	s.p.end(runlog.Run{ID: "run_1", Status: runlog.Failed, CreatedAt: time.Unix(0, 0), FinishedAt: time.Unix(2, 5e8)},
		[]runlog.UsageRecord{{Usage: workflow.Usage{Input: 10, Output: 2}}, {Usage: workflow.Usage{Input: 5, Output: 1}}}, "")
	s.reads(`
▸ w started  run_1
  Half a sen[1m
  ⟳ carried on (dropped) 3/10: connection reset
  tence.
  A second line.
  ✓ read  {"path":"漢漢漢漢漢漢漢漢漢漢漢漢漢漢漢漢漢…  12ms
  ✗ deploy {}  0ms interrupted
  ✓ A notice.
  ✗ 401: no
▸ agent      failed     15.00s
▸ run_1 failed in 2.50s  2 model calls, 15 tokens in, 3 out
`)
}

// The elements of a map are shown as each of them ends.
func TestAMapShowsItsElements(t *testing.T) {
	s := newStory(t)
	s.p.graph.Nodes = append(s.p.graph.Nodes, graph.Node{Path: "each", Kind: graph.Map})
	s.event(runlog.NodeStarted, "each[0]", nil)
	s.event(runlog.NodeStarted, "each[1]", nil)
	s.event(runlog.NodeSucceeded, "each[1]", nil)
	s.event(runlog.NodeFailed, "each[0]", nil)
	s.reads(`
▸ each[1]    succeeded  1.00s
▸ each[0]    failed     3.00s
`)
}

// A plan is shown once, as the plan; the text it was made of is not shown beside it.
func TestAPlanIsShownOnce(t *testing.T) {
	s := newStory(t)
	s.text("a", "# Plan\n\n1. Do it.", outputitems.StatusCompleted)
	s.chunks(outputitems.OpenPlan("b", "# Plan\n\n1. Do it."))
	s.event(runlog.RequestOpened, "agent", runlog.Request{ID: "req_1", Title: "Approve the plan"})
	s.event(runlog.RequestAnswered, "agent", map[string]string{"requestId": "req_1", "by": "Ada"})
	s.reads(`
┌ plan
│ # Plan
│
│ 1. Do it.
└
  ✓ Approve the plan: answered by Ada
`)
}

// The answer belongs to stdout: what the result ends with is not shown as progress too, any other last text is.
func TestTheAnswerIsLeftToTheResult(t *testing.T) {
	for result, want := range map[string]string{
		"I look.\n\nIt is there.": "",
		"a report":                "  It is there.\n",
	} {
		s := newStory(t)
		s.text("a", "It is there.\n", outputitems.StatusCompleted)
		if shown := s.p.end(runlog.Run{ID: "run_1", Status: runlog.Succeeded, FinishedAt: time.Unix(1, 0), CreatedAt: time.Unix(0, 0)}, nil, result); shown {
			t.Errorf("result %q: nothing was shown live, so it is still to be printed", result)
		}
		s.reads(want + "▸ run_1 succeeded in 1.00s  0 model calls, 0 tokens in, 0 out\n")
	}
}
