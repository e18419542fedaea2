package agentnode_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/workflowd/workflowd/agentcore"
	"github.com/workflowd/workflowd/agentcore/fault"
	"github.com/workflowd/workflowd/agentcore/llm/scripted"
	"github.com/workflowd/workflowd/nodes/agentnode"
	"github.com/workflowd/workflowd/outputitems"
	"github.com/workflowd/workflowd/workflow"
	"github.com/workflowd/workflowd/workflow/standalone"
)

type verdict struct {
	Summary string   `json:"summary"`
	Risks   []string `json:"risks"`
}

// judge runs a typed node once over the script.
func judge(t *testing.T, responses ...scripted.Response) (verdict, *scripted.Model, error) {
	t.Helper()
	b := newBench(t, responses...)
	n := agentnode.Typed[string, verdict]("judge", b.options(), func(s string) agentcore.Input { return agentcore.Input{Prompt: s} })
	ctx := standalone.New(t.Context(), standalone.Options{Run: b.run, Storage: workflow.Storage{AgentStoreDir: b.store}})
	var chunks []outputitems.Chunk
	for c, err := range n.Stream(ctx, "judge it") {
		if err != nil {
			return verdict{}, b.model, err
		}
		chunks = append(chunks, c)
	}
	out, err := n.Finalize(ctx, "judge it", slices.Values(chunks))
	return out, b.model, err
}

func submit(args string) scripted.Response {
	return scripted.Response{scripted.Call{Name: agentnode.SubmitTool, Args: args}}
}

var good = verdict{Summary: "fine", Risks: []string{"none"}}

const goodJSON = `{"summary":"fine","risks":["none"]}`

func TestATypedAnswerIsWhatTheModelHandsOver(t *testing.T) {
	got, model, err := judge(t, scripted.Response{scripted.Call{Name: "ls", Args: `{"path":"."}`}}, submit(goodJSON))
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(good, got); d != "" {
		t.Error(d)
	}
	if n := len(model.Requests()); n != 2 {
		t.Errorf("%d requests: handing over ends the turn", n)
	}
}

func TestAnAnswerThatDoesNotFitGoesBackToTheModel(t *testing.T) {
	got, model, err := judge(t, submit(`{"summary":7}`), submit(goodJSON))
	if err != nil || cmp.Diff(good, got) != "" {
		t.Fatalf("%+v, %v", got, err)
	}
	if results := model.Requests()[1].Results(); len(results) != 1 || !strings.Contains(results[0].Text, "summary") {
		t.Errorf("the model does not read what was wrong: %+v", results)
	}
}

func TestATurnWithoutTheAnswerIsAskedOnceMore(t *testing.T) {
	got, _, err := judge(t, scripted.Response{scripted.Text{Text: "It is fine."}}, submit(goodJSON))
	if err != nil || cmp.Diff(good, got) != "" {
		t.Errorf("%+v, %v", got, err)
	}
	_, model, err := judge(t, scripted.Response{scripted.Text{Text: "It is fine."}}, scripted.Response{scripted.Text{Text: "Still fine."}})
	if !fault.Is(err, fault.ModelError) || len(model.Requests()) != 2 {
		t.Errorf("%v after %d requests, want a model error after two", err, len(model.Requests()))
	}
}
