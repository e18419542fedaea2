package agentnode_test

import (
	"context"
	"encoding/json"
	"errors"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/workflowd/workflowd/agentcore"
	"github.com/workflowd/workflowd/agentcore/fault"
	"github.com/workflowd/workflowd/agentcore/llm/scripted"
	"github.com/workflowd/workflowd/agentcore/permission"
	"github.com/workflowd/workflowd/nodes/agentnode"
	"github.com/workflowd/workflowd/outputitems"
	"github.com/workflowd/workflowd/workflow"
	"github.com/workflowd/workflowd/workflow/standalone"
	"github.com/workflowd/workflowd/workflow/userinput"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// bench is a place for a node: a work directory, a store directory, a scripted model, and what the host was told.
type bench struct {
	t      *testing.T
	work   string
	store  string
	model  *scripted.Model
	run    workflow.RunInfo
	usage  map[string]workflow.Usage
	answer func(userinput.Request) (json.RawMessage, error)
}

func newBench(t *testing.T, responses ...scripted.Response) *bench {
	b := &bench{t: t, work: t.TempDir(), store: t.TempDir(), usage: map[string]workflow.Usage{}, run: workflow.RunInfo{RunID: "run_1", Path: "agent", Project: "p", Conversation: "c"}}
	if err := os.WriteFile(filepath.Join(b.work, "a.txt"), []byte("alpha\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	b.model = scripted.New(scripted.Responses(responses...), scripted.Options{})
	return b
}

func (b *bench) options() agentnode.Options {
	return agentnode.Options{Workdir: b.work, LLM: b.model.Provider(), Model: "m", Window: 1000}
}

// stream enters the node once, behind the chunks of earlier attempts, and returns the new chunks.
func (b *bench) stream(ctx context.Context, o agentnode.Options, in agentcore.Input, before []outputitems.Chunk) ([]outputitems.Chunk, error) {
	b.t.Helper()
	var raw []json.RawMessage
	for _, c := range before {
		line, err := json.Marshal(c)
		if err != nil {
			b.t.Fatal(err)
		}
		raw = append(raw, line)
	}
	nc := standalone.New(ctx, standalone.Options{Run: b.run, Storage: workflow.Storage{AgentStoreDir: b.store}, Chunks: raw, Answer: b.answer,
		Usage: func(id string, u workflow.Usage) error { b.usage[id] = u; return nil }})
	var out []outputitems.Chunk
	for c, err := range agentnode.New(o).Stream(nc, in) {
		if err != nil {
			return out, err
		}
		out = append(out, c)
	}
	return out, nil
}

func fold(t *testing.T, chunks ...[]outputitems.Chunk) agentnode.Payload {
	t.Helper()
	p, err := agentnode.New(agentnode.Options{}).Finalize(nil, agentcore.Input{}, all(chunks))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func all(chunks [][]outputitems.Chunk) iter.Seq[outputitems.Chunk] {
	return slices.Values(slices.Concat(chunks...))
}

// rows writes items as lines; the ring and the configuration are left out.
func rows(p agentnode.Payload) []string {
	var out []string
	for _, it := range p.Items {
		switch {
		case it.Metadata.Kind == outputitems.KindSession:
		case it.Metadata.PartType == outputitems.PartTool:
			var row agentnode.ToolRow
			if err := it.Content.(outputitems.JSON).Decode(&row); err != nil {
				out = append(out, err.Error())
			}
			out = append(out, "tool "+row.Tool+" "+string(it.Status))
		case it.Metadata.Plan:
			out = append(out, "plan "+it.Text())
		case it.Metadata.PartType != "":
			out = append(out, string(it.Metadata.PartType)+" "+it.Text())
		case it.Metadata.Kind != "":
			out = append(out, string(it.Metadata.Kind)+" "+it.Text())
		}
	}
	return out
}

func TestATurnBecomesItemsInSpokenOrder(t *testing.T) {
	// Promise: P-621, P-640, P-641, P-642, P-643, P-644, P-648, P-665, P-666
	b := newBench(t, scripted.Response{scripted.Thinking{Text: "hm"}, scripted.Text{Text: "I read it."}, scripted.Call{Name: "read", Args: `{"path":"a.txt"}`}}, scripted.Response{scripted.Text{Text: "It says alpha."}, scripted.Usage{Input: 70, Output: 5}})
	chunks, err := b.stream(t.Context(), b.options(), agentcore.Input{Prompt: "what does a.txt say?"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	p := fold(t, chunks)
	if d := cmp.Diff([]string{"reasoning hm", "text I read it.", "tool read completed", "text It says alpha."}, rows(p)); d != "" {
		t.Error(d)
	}
	if p.Answer() != "I read it.It says alpha." || p.ToolCallCount != 1 || p.Model != "m" || p.Workdir != b.work || p.Agent != permission.Build || p.SessionID == "" || p.ErrCode != 0 {
		t.Errorf("payload %+v", p)
	}
	if p.ContextUsage == nil || p.ContextUsage.Total != 1000 || p.ContextUsage.Used != 75 {
		t.Errorf("context usage %+v, want what the last response reported", p.ContextUsage)
	}
	if len(b.usage) != 2 {
		t.Errorf("%d bills, want one a model response: %v", len(b.usage), b.usage)
	}
}

func TestTheRingStandsBeforeTheFirstWord(t *testing.T) {
	// Promise: P-622
	b := newBench(t, scripted.Response{scripted.Text{Text: "Hello."}})
	chunks, err := b.stream(t.Context(), b.options(), agentcore.Input{Prompt: "hi"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	ring := slices.IndexFunc(chunks, func(c outputitems.Chunk) bool { return c.ItemID == outputitems.RingID("agent") })
	text := slices.IndexFunc(chunks, func(c outputitems.Chunk) bool { return c.Op() == outputitems.OpAppend })
	if ring < 0 || text < 0 || ring > text {
		t.Errorf("ring at %d, first word at %d", ring, text)
	}
}

// Promise: P-636, P-645
func TestEveryKeyConversationAndProjectHasItsOwnFile(t *testing.T) {
	b := newBench(t, scripted.Response{scripted.Text{Text: "1"}}, scripted.Response{scripted.Text{Text: "2"}}, scripted.Response{scripted.Text{Text: "3"}}, scripted.Response{scripted.Text{Text: "4"}})
	ids := map[string]bool{}
	for _, change := range []func(*agentnode.Options){func(*agentnode.Options) {}, func(o *agentnode.Options) { o.SessionKey = "other key ß" },
		func(*agentnode.Options) { b.run.Conversation = "d" }, func(*agentnode.Options) { b.run.Project = "q" }} {
		o := b.options()
		change(&o)
		chunks, err := b.stream(t.Context(), o, agentcore.Input{Prompt: "hi"}, nil)
		if err != nil {
			t.Fatal(err)
		}
		ids[fold(t, chunks).SessionID] = true
	}
	if len(ids) != 4 {
		t.Errorf("%d sessions for four places", len(ids))
	}
}

// INV-07: a turn told again after a crash adds only what the log lacks, wherever the log was cut.
// Promise: P-649, P-650
func TestATurnToldAgainAddsOnlyWhatTheLogLacks(t *testing.T) {
	b := newBench(t, scripted.Response{scripted.Text{Text: "I look at it. ", Chunks: 4}, scripted.Call{Name: "ls", Args: `{"path":"."}`}}, scripted.Response{scripted.Text{Text: "There is one file.", Chunks: 6}})
	in := agentcore.Input{Prompt: "what is here?"}
	whole, err := b.stream(t.Context(), b.options(), in, nil)
	if err != nil {
		t.Fatal(err)
	}
	want := fold(t, whole)
	for cut := range len(whole) + 1 {
		rest, err := b.stream(t.Context(), b.options(), in, whole[:cut])
		if err != nil {
			t.Fatalf("cut %d: %v", cut, err)
		}
		got := fold(t, whole[:cut], rest)
		if d := cmp.Diff(rows(want), rows(got)); d != "" || got.Answer() != want.Answer() {
			t.Errorf("cut %d: %s", cut, d)
		}
		if cut == len(whole) && len(rest) != 0 {
			t.Errorf("a finished turn added %d chunks", len(rest))
		}
	}
	if n := len(b.model.Requests()); n != 2 {
		t.Errorf("%d model requests, want 2: telling again asks nobody", n)
	}
}

func TestAPlanIsACardWaitsForItsDecisionAndIsRevised(t *testing.T) {
	// Promise: P-087, P-445, P-446, P-448, P-450, P-602, P-673, P-676, P-684
	b := newBench(t, scripted.Response{scripted.Text{Text: "Let me look. "}, scripted.Call{Name: "ls", Args: `{"path":"."}`}},
		scripted.Response{scripted.Text{Text: "1. Write b.txt"}}, scripted.Response{scripted.Text{Text: "1. Write c.txt"}})
	in := agentcore.Input{Prompt: "plan it", Agent: permission.Plan}
	first, err := b.stream(t.Context(), b.options(), in, nil)
	if !fault.Is(err, fault.UserInputRequired) {
		t.Fatalf("err = %v, want a pause", err)
	}
	if d := cmp.Diff([]string{"text Let me look. ", "tool ls completed", "text 1. Write b.txt", "plan 1. Write b.txt"}, rows(fold(t, first))); d != "" {
		t.Error(d)
	}
	var asked []string
	b.answer = func(r userinput.Request) (json.RawMessage, error) {
		asked = append(asked, r.Key)
		if len(asked) == 1 {
			return json.RawMessage(`{"decision":"deny","reason":"call it c.txt"}`), nil
		}
		return nil, standalone.ErrNoAnswer
	}
	second, err := b.stream(t.Context(), b.options(), in, first)
	if !fault.Is(err, fault.UserInputRequired) || len(asked) != 2 || asked[0] == asked[1] {
		t.Fatalf("err = %v, asked %q: a revision is a request of its own", err, asked)
	}
	revision := b.model.Requests()[2]
	if last := revision.LastUser(); !strings.Contains(last, "call it c.txt") || !strings.Contains(last, "1. Write b.txt") {
		t.Errorf("the revision does not see plan and instructions: %q", last)
	}
	if !strings.Contains(revision.System(), "plan mode") || revision.HasTool("write") || revision.HasTool("bash") {
		t.Errorf("the revision left plan mode: tools %q", revision.Tools)
	}
	b.answer = func(userinput.Request) (json.RawMessage, error) {
		return json.RawMessage(`{"decision":"approve"}`), nil
	}
	third, err := b.stream(t.Context(), b.options(), in, slices.Concat(first, second))
	if err != nil {
		t.Fatal(err)
	}
	got := fold(t, first, second, third)
	want := []string{"text Let me look. ", "tool ls completed", "text 1. Write b.txt", "plan 1. Write b.txt", "agent-notice Plan 1 was sent back for revision: call it c.txt",
		"text 1. Write c.txt", "plan 1. Write c.txt", "agent-notice Plan 2 was approved."}
	if d := cmp.Diff(want, rows(got)); d != "" {
		t.Error(d)
	}
	if got.Plan() != "1. Write c.txt" || len(b.model.Requests()) != 3 {
		t.Errorf("plan %q after %d requests", got.Plan(), len(b.model.Requests()))
	}
}

// Promise: P-664
func TestAFailureIsARowAndAStopIsNot(t *testing.T) {
	b := newBench(t, scripted.Response{scripted.Status{Code: 401, Message: "bad key"}})
	chunks, err := b.stream(t.Context(), b.options(), agentcore.Input{Prompt: "hi"}, nil)
	if !fault.Is(err, fault.ModelError) {
		t.Fatalf("err = %v", err)
	}
	if got := rows(fold(t, chunks)); len(got) != 1 || !strings.Contains(got[0], "bad key") {
		t.Errorf("rows %q, want the failure", got)
	}
	b = newBench(t, scripted.Response{scripted.Text{Text: "and so on"}, scripted.Stall{}})
	ctx, stop := context.WithCancelCause(t.Context())
	stop(fault.New(fault.ExecutionAborted, "enough"))
	chunks, err = b.stream(ctx, b.options(), agentcore.Input{Prompt: "hi"}, nil)
	if !fault.Is(err, fault.ExecutionAborted) && !errors.Is(err, context.Canceled) {
		t.Fatalf("err = %v, want a stop", err)
	}
	for _, row := range rows(fold(t, chunks)) {
		if strings.HasPrefix(row, string(outputitems.KindError)) {
			t.Errorf("a stop made an error row: %q", row)
		}
	}
}

// Promise: P-651
func TestWithoutAConversationAndAStoreTheSessionIsInMemory(t *testing.T) {
	b := newBench(t, scripted.Response{scripted.Text{Text: "1"}})
	b.run.Conversation, b.store = "", ""
	t.Chdir(t.TempDir())
	if _, err := b.stream(t.Context(), b.options(), agentcore.Input{Prompt: "hi"}, nil); err != nil {
		t.Fatal(err)
	}
	if left, err := os.ReadDir("."); err != nil || len(left) != 0 {
		t.Errorf("files appeared: %v, %v", left, err)
	}
}

func TestTheModelIsTheListsFirstTheNamedOneOrTheDemo(t *testing.T) {
	// Promise: P-840
	list := `[{"id":"one","provider":"x","baseUrl":"http://127.0.0.1:1/v1","model":"m1"},{"id":"two","provider":"y","baseUrl":"http://127.0.0.1:1/v1","model":"m2"}]`
	for _, c := range []struct{ env, model, want, provider, fails string }{
		{"", "", agentnode.DemoModel, "demo", ""},
		{list, "", "m1", "x", ""},
		{list, "two", "m2", "y", ""},
		{list, "three", "", "", `"three"`},
		{`[{"id":"one","modell":"m"}]`, "", "", "", "modell"},
	} {
		t.Setenv(agentnode.ModelsVariable, c.env)
		model, provider, err := agentnode.Options{Model: c.model}.ModelInUse()
		switch {
		case c.fails != "":
			if !fault.Is(err, fault.InputValidation) || !strings.Contains(err.Error(), c.fails) {
				t.Errorf("%+v: err = %v", c, err)
			}
		case err != nil || model != c.want || provider != c.provider:
			t.Errorf("%+v: %q from %q, %v", c, model, provider, err)
		}
	}
}
