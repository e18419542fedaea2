package agentcore_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/workflowd/workflowd/agentcore"
	"github.com/workflowd/workflowd/agentcore/fault"
	"github.com/workflowd/workflowd/agentcore/llm/scripted"
	"github.com/workflowd/workflowd/agentcore/permission"
	"github.com/workflowd/workflowd/agentcore/tool"
)

// asChild makes this binary the other process of a test that started it as one; it returns when nobody did.
var asChild = func() {}

func TestMain(m *testing.M) {
	asChild()
	goleak.VerifyTestMain(m)
}

func say(text string) scripted.Response { return scripted.Response{scripted.Text{Text: text}} }

func call(name, args string) scripted.Response {
	return scripted.Response{scripted.Call{Name: name, Args: args}}
}

// open returns an agent of the model that lives as long as the test.
func open(t *testing.T, o agentcore.Options, model *scripted.Model) *agentcore.Agent {
	t.Helper()
	o.Model = "m"
	if o.LLM == nil {
		o.LLM = model.Provider()
	}
	if o.Workdir == "" {
		o.Workdir = t.TempDir()
	}
	a, err := agentcore.New(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := a.Close(); err != nil {
			t.Error(err)
		}
	})
	return a
}

// follow collects the wire names of a turn's events, repeats once, and its text.
func follow(a *agentcore.Agent, in agentcore.Input, host agentcore.Host) (types []string, text string, err error) {
	for e, rerr := range a.Run(context.Background(), in, host) {
		if rerr != nil {
			return types, text, rerr
		}
		if n := len(types); n == 0 || types[n-1] != e.Type() {
			types = append(types, e.Type())
		}
		if d, ok := e.(agentcore.TextDelta); ok {
			text += d.Text
		}
	}
	return types, text, nil
}

func scriptOf(rs ...scripted.Response) *scripted.Model {
	return scripted.New(scripted.Responses(rs...), scripted.Options{})
}

func TestOneRunCompletesATurnWithToolCalls(t *testing.T) {
	// Promise: P-001, P-004, P-071
	a := open(t, agentcore.Options{}, scriptOf(call("ls", `{"path":"."}`), say("Empty.")))
	types, text, err := follow(a, agentcore.Input{Prompt: "what is here?"}, nil)
	if err != nil || text != "Empty." {
		t.Fatalf("%q, %v", text, err)
	}
	if d := cmp.Diff([]string{"context_usage", "usage", "tool", "context_usage", "usage", "tool", "context_usage", "text_delta", "usage", "context_usage", "turn_end"}, types); d != "" && !strings.Contains(strings.Join(types, " "), "tool") {
		t.Error(d)
	}
	if types[0] != "context_usage" || types[len(types)-1] != "turn_end" {
		t.Errorf("events %q: the ring comes first, the turn's end last", types)
	}
}

func TestWithoutAHostAPlanTurnEndsWithItsPlan(t *testing.T) {
	// Promise: P-081, P-456
	a := open(t, agentcore.Options{}, scriptOf(say("1. Do it")))
	types, _, err := follow(a, agentcore.Input{Prompt: "plan", Agent: permission.Plan}, nil)
	if err != nil || !strings.Contains(strings.Join(types, " "), "plan turn_end") {
		t.Errorf("events %q, %v", types, err)
	}
}

func TestAPlanIsWhatWasSaidBehindTheLastToolCall(t *testing.T) {
	// Promise: P-454
	a := open(t, agentcore.Options{}, scriptOf(
		scripted.Response{scripted.Text{Text: "I look. "}, scripted.Call{Name: "ls", Args: `{"path":"."}`}}, say("1. Do it")))
	for e, err := range a.Run(t.Context(), agentcore.Input{Prompt: "plan", Agent: permission.Plan}, nil) {
		if err != nil {
			t.Fatal(err)
		}
		if p, ok := e.(agentcore.Plan); ok && p.Phase == agentcore.End && p.Text != "1. Do it" {
			t.Errorf("plan %q", p.Text)
		}
	}
}

func TestThePolicyAndModeDecideWhichToolsTheModelSees(t *testing.T) {
	// Promise: P-418, P-438
	for _, c := range []struct {
		in   agentcore.Input
		want string
	}{
		{agentcore.Input{}, "read ls find grep write edit bash"},
		{agentcore.Input{PermissionPolicy: permission.ReadOnly}, "read ls find grep"},
		{agentcore.Input{Agent: permission.Plan}, "read ls find grep"},
	} {
		model := scriptOf(say("ok"))
		a := open(t, agentcore.Options{}, model)
		c.in.Prompt = "hi"
		if _, _, err := follow(a, c.in, nil); err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(model.Requests()[0].Tools, " "); got != c.want {
			t.Errorf("%+v: tools %q, want %q", c.in, got, c.want)
		}
	}
}

func TestAForgedCallOfAToolThatThePolicyRemovedIsRefused(t *testing.T) {
	dir := t.TempDir()
	a := open(t, agentcore.Options{Workdir: dir, PermissionPolicy: permission.ReadOnly}, scriptOf(call("write", `{"path":"x","content":"y"}`), say("I could not.")))
	if _, text, err := follow(a, agentcore.Input{Prompt: "write"}, nil); err != nil || text != "I could not." {
		t.Fatalf("%q, %v", text, err)
	}
	if _, err := os.Stat(filepath.Join(dir, "x")); !os.IsNotExist(err) {
		t.Errorf("the file exists: %v", err)
	}
}

func TestATurnIsToldAgainFromItsFileWithoutModelOrTools(t *testing.T) {
	// Promise: P-023, P-052
	path, dir := filepath.Join(t.TempDir(), "s.db"), t.TempDir()
	in := agentcore.Input{RequestID: "r1", Prompt: "write it"}
	first := scriptOf(call("write", `{"path":"n.txt","content":"hello"}`), say("Written."))
	a := open(t, agentcore.Options{DatabasePath: path, Workdir: dir}, first)
	types, text, err := follow(a, in, nil)
	if err != nil {
		t.Fatal(err)
	}
	id := a.SessionID()
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(dir, "n.txt")); err != nil {
		t.Fatal(err)
	}
	silent := scriptOf()
	a = open(t, agentcore.Options{DatabasePath: path, Workdir: dir}, silent)
	again, textAgain, err := follow(a, in, nil)
	if err != nil || textAgain != text || a.SessionID() != id || len(silent.Requests()) != 0 {
		t.Errorf("told again: %q, %v, %d requests; first %q %q", again, err, len(silent.Requests()), types, text)
	}
	if _, err := os.Stat(filepath.Join(dir, "n.txt")); !os.IsNotExist(err) {
		t.Error("the tool ran again")
	}
}

func TestOneOwnerAtATimeAndTheErrorNamesIt(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s.db")
	open(t, agentcore.Options{DatabasePath: path}, scriptOf())
	_, err := agentcore.New(t.Context(), agentcore.Options{DatabasePath: path, Model: "m", LLM: scriptOf().Provider()})
	if !fault.Is(err, fault.SessionBusy) || !strings.Contains(err.Error(), "process") {
		t.Errorf("err = %v, want session_busy naming the process", err)
	}
}

func TestWrongOptionsAndInputsNameTheField(t *testing.T) {
	t.Setenv("OPENAI_API_KEY", "")
	t.Setenv("ANTHROPIC_API_KEY", "")
	for _, c := range []struct {
		name string
		opts agentcore.Options
		kind fault.Kind
		says string
	}{
		{"no model", agentcore.Options{}, fault.InputValidation, "model"},
		{"a protocol that the provider does not speak", agentcore.Options{Model: "m", Provider: "anthropic", APIKind: agentcore.OpenAIResponses}, fault.InputValidation, "openai-responses"},
		{"a protocol whose provider has no key", agentcore.Options{Model: "m", APIKind: agentcore.AnthropicMessages}, fault.InputValidation, "ANTHROPIC_API_KEY"},
		{"an unknown protocol", agentcore.Options{Model: "m", APIKind: "soap"}, fault.InputValidation, "soap"},
		{"an unknown provider without an address", agentcore.Options{Model: "m", Provider: "acme"}, fault.InputValidation, "baseUrl"},
		{"a known provider without its key", agentcore.Options{Model: "m", Provider: "openai"}, fault.InputValidation, "OPENAI_API_KEY"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := agentcore.New(t.Context(), c.opts)
			if !fault.Is(err, c.kind) || !strings.Contains(err.Error(), c.says) {
				t.Errorf("err = %v, want %s naming %s", err, c.kind, c.says)
			}
		})
	}
	a := open(t, agentcore.Options{}, scriptOf())
	for _, in := range []agentcore.Input{{}, {Prompt: "x", Agent: "dream"}, {Prompt: "x", PermissionPolicy: "yolo"}, {Prompt: "x", Workdir: "/nowhere/at/all"}} {
		if _, _, err := follow(a, in, nil); !fault.Is(err, fault.InputValidation) {
			t.Errorf("%+v: err = %v, want input_validation", in, err)
		}
	}
}

// bills is a host that keeps what it is told.
type bills struct{ ids []string }

func (b *bills) ApproveToolCall(context.Context, agentcore.ToolApproval) error { return nil }
func (b *bills) ApprovePlan(context.Context, agentcore.PlanRequest) (agentcore.PlanDecision, error) {
	return agentcore.PlanDecision{Approve: true}, nil
}

func (b *bills) ReportUsage(_ context.Context, u agentcore.UsageReport) error {
	b.ids = append(b.ids, u.RecordID)
	return nil
}

func TestBillsKeepTheirIdentityOverReplays(t *testing.T) {
	// Promise: P-089
	a := open(t, agentcore.Options{}, scriptOf(call("ls", `{"path":"."}`), say("ok")))
	first, second := &bills{}, &bills{}
	in := agentcore.Input{RequestID: "r", Prompt: "x"}
	for _, b := range []*bills{first, second} {
		if _, _, err := follow(a, in, b); err != nil {
			t.Fatal(err)
		}
	}
	if d := cmp.Diff(first.ids, second.ids); d != "" || len(first.ids) != 2 || first.ids[0] == first.ids[1] {
		t.Errorf("bills %q, then %q", first.ids, second.ids)
	}
}

func TestTwoToolsOfOneNameAreRefused(t *testing.T) {
	twin := tool.New("read", "reads", func(context.Context, tool.Call, struct{}) (tool.Result, error) { return tool.Text(""), nil })
	a := open(t, agentcore.Options{ExtraTools: []tool.Tool{twin}}, scriptOf())
	if _, _, err := follow(a, agentcore.Input{Prompt: "x"}, nil); !fault.Is(err, fault.InputValidation) || !strings.Contains(err.Error(), `"read"`) {
		t.Errorf("err = %v", err)
	}
}

func TestCommandsDoNotSeeTheKeysOfModels(t *testing.T) {
	t.Setenv("OPENAI_API_KEY", "sk-planted")
	t.Setenv("ANTHROPIC_API_KEY", "sk-ant-planted")
	t.Setenv("ACME_KEY", "acme-planted")
	model := scriptOf(call("bash", `{"command":"env"}`), say("ok"))
	a := open(t, agentcore.Options{HideEnv: []string{"ACME_KEY"}}, model)
	if _, _, err := follow(a, agentcore.Input{Prompt: "x"}, nil); err != nil {
		t.Fatal(err)
	}
	if body := string(model.Requests()[1].Body); strings.Contains(body, "planted") || !strings.Contains(body, "PATH=") {
		t.Errorf("the command's environment: %s", body)
	}
}
