package agentcore_test

import (
	"context"
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/workflowd/workflowd/agentcore"
	"github.com/workflowd/workflowd/agentcore/control"
	"github.com/workflowd/workflowd/agentcore/fault"
	"github.com/workflowd/workflowd/agentcore/llm/scripted"
	"github.com/workflowd/workflowd/agentcore/registry"
	"github.com/workflowd/workflowd/agentcore/session"
	"github.com/workflowd/workflowd/agentcore/task"
	"github.com/workflowd/workflowd/agentcore/tool"
)

// told is what a Run tells: texts, calls and ends.
func told(a *agentcore.Agent, in agentcore.Input, during func(agentcore.Event)) (lines []string, err error) {
	for e, rerr := range a.Run(context.Background(), in, nil) {
		if rerr != nil {
			return lines, rerr
		}
		switch e := e.(type) {
		case agentcore.TextDelta:
			lines = append(lines, e.Text)
		case agentcore.ToolEvent:
			if e.Phase == agentcore.Start {
				lines = append(lines, "call "+e.Name)
			}
		case agentcore.TurnEnd:
			lines = append(lines, string(e.Status))
		}
		if during != nil {
			during(e)
		}
	}
	return lines, nil
}

// Promise: P-101
// Promise: P-112
func TestACommandSentFromTheEventLoopIsAnsweredInTheSameRun(t *testing.T) {
	a := open(t, agentcore.Options{Session: &agentcore.SessionOptions{}}, scriptOf(call("ls", `{"path":"."}`), say("First."), say("Second.")))
	sent := false
	got, err := told(a, agentcore.Input{RequestID: "r1", Prompt: "one"}, func(e agentcore.Event) {
		if sent {
			return
		}
		sent = true
		r, err := a.Control(t.Context(), control.Submit{RequestID: "r2", Prompt: "two"})
		if want := (control.Receipt{RequestID: "r2", Status: control.Accepted}); err != nil || r != want {
			t.Errorf("receipt %+v, %v, want %+v", r, err, want)
		}
	})
	if d := cmp.Diff([]string{"call ls", "First.", "answered", "Second.", "answered"}, got); err != nil || d != "" {
		t.Errorf("%v\n%s", err, d)
	}
}

// A steer joins the turn and is told with it, once.
// Promise: P-111
func TestASteerIsToldWithTheTurnItJoined(t *testing.T) {
	model := scriptOf(call("ls", `{"path":"."}`), say("Both."))
	a := open(t, agentcore.Options{Session: &agentcore.SessionOptions{}}, model)
	got, err := told(a, agentcore.Input{RequestID: "r1", Prompt: "one"}, func(e agentcore.Event) {
		if u, is := e.(agentcore.ContextUsage); is && u.Used > 0 && len(model.Requests()) == 0 {
			if _, err := a.Control(t.Context(), control.Submit{RequestID: "r2", Prompt: "two", Mode: control.Steer}); err != nil {
				t.Error(err)
			}
		}
	})
	if err != nil || strings.Count(strings.Join(got, " "), "Both.") != 1 {
		t.Errorf("told %q, %v", got, err)
	}
}

// Promise: P-100
// Promise: P-103
func TestACommandNeedsARun(t *testing.T) {
	snapshot := control.Cancel{RequestID: "c1", Scope: control.Foreground}
	refused := func(a *agentcore.Agent, when string) {
		t.Helper()
		if _, err := a.Control(t.Context(), snapshot); !fault.Is(err, fault.AgentNotReady) {
			t.Errorf("%s: %v, want AGENT_NOT_READY", when, err)
		}
	}
	a := open(t, agentcore.Options{Session: &agentcore.SessionOptions{}}, scriptOf(say("One.")))
	refused(a, "before a run")
	if _, err := told(a, agentcore.Input{Prompt: "one"}, nil); err != nil {
		t.Fatal(err)
	}
	refused(a, "after a run")
	off := open(t, agentcore.Options{}, scriptOf(say("One.")))
	if _, err := told(off, agentcore.Input{Prompt: "one"}, func(agentcore.Event) { refused(off, "with the protocol off") }); err != nil {
		t.Fatal(err)
	}
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	refused(a, "after Close")
}

func TestACommandThatThisBuildDoesNotCarryOutIsNamed(t *testing.T) {
	a := open(t, agentcore.Options{Session: &agentcore.SessionOptions{}}, scriptOf(say("One.")))
	_, err := told(a, agentcore.Input{Prompt: "one"}, func(agentcore.Event) {
		if _, err := a.Control(t.Context(), control.Plan{RequestID: "c1"}); !fault.Is(err, fault.Unsupported) || !strings.Contains(err.Error(), `"plan"`) {
			t.Errorf("plan = %v, want unsupported, by its name", err)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
}

type empty struct{}

// project is an extension with one of each: a task, a tool, a section and a hook.
func project(t *testing.T, release <-chan struct{}, cleaned *bool) agentcore.Extension {
	type run = task.Run[empty, empty, string]
	job := agentcore.DefineTask("app.job", 1, func(empty) (string, empty) { return "wait", empty{} },
		task.On("wait", func(ctx context.Context, r *run) error {
			select {
			case <-release:
			case <-ctx.Done():
				return context.Cause(ctx)
			}
			return r.Save(ctx, r.Complete("done"))
		}),
		task.OnAbort(func(ctx context.Context, r *run) error {
			*cleaned = true
			return r.Save(ctx, r.Cancelled())
		}))
	look := tool.New("look", "Look around.", func(context.Context, tool.Call, empty) (tool.Result, error) { return tool.Text("nothing here"), nil })
	return agentcore.Extension{Name: "app", Tasks: []task.Definition{job.Definition()}, Tools: []tool.Tool{look},
		Sections: []registry.Section{{Key: "rules", Text: "Be kind."}},
		Hooks: agentcore.Hooks{AfterTool: func(_ context.Context, _ registry.ToolCall, r tool.Result) (tool.Result, error) {
			return tool.Text("hook: " + r.Text()), nil
		}}}
}

// Promise: P-104
// Promise: P-151
// Promise: P-154
// Promise: P-201
// Promise: P-203
func TestAnExtensionTakesPartInATurnAndTheRunEndsWithItsWork(t *testing.T) {
	reg := agentcore.NewRegistry()
	release, cleaned := make(chan struct{}), false
	if err := reg.Install(project(t, release, &cleaned)); err != nil {
		t.Fatal(err)
	}
	model := scriptOf(call("look", `{}`), say("Done."))
	a := open(t, agentcore.Options{Session: &agentcore.SessionOptions{Registry: reg}}, model)
	var receipt control.Receipt
	got, err := told(a, agentcore.Input{Prompt: "go"}, func(e agentcore.Event) {
		switch e := e.(type) {
		case agentcore.ToolEvent:
			if e.Phase != agentcore.Start {
				return
			}
			var err error
			if receipt, err = a.Control(t.Context(), control.Task{RequestID: "t1", Name: "app.job", Input: json.RawMessage(`{}`), Background: true}); err != nil || receipt.TaskID == 0 {
				t.Errorf("receipt %+v, %v", receipt, err)
			}
		case agentcore.TurnEnd: // the answer is there, the task is not: the run must still be open
			select {
			case <-release:
				t.Error("the run ended its turn after the task")
			default:
				close(release)
			}
		}
	})
	if d := cmp.Diff([]string{"call look", "Done.", "answered"}, got); err != nil || d != "" {
		t.Errorf("%v\n%s", err, d)
	}
	last := model.Requests()[1]
	if !strings.Contains(last.Messages[0].Text, "<rules>\nBe kind.\n</rules>") {
		t.Errorf("the section is not in the prompt: %q", last.Messages[0].Text)
	}
	if got := last.Messages[len(last.Messages)-1].Text; got != "hook: nothing here" {
		t.Errorf("the model read %q", got)
	}
}

// Promise: P-335
func TestCancelUsesTheDefinitionsThatTheOwnerHas(t *testing.T) {
	reg := agentcore.NewRegistry()
	cleaned := false
	if err := reg.Install(project(t, nil, &cleaned)); err != nil {
		t.Fatal(err)
	}
	a := open(t, agentcore.Options{DatabasePath: filepath.Join(t.TempDir(), "s.db"), Session: &agentcore.SessionOptions{Registry: reg}}, scriptOf(say("Done.")))
	_, err := told(a, agentcore.Input{Prompt: "go"}, func(e agentcore.Event) {
		if _, is := e.(agentcore.TurnEnd); !is {
			return
		}
		for _, c := range []control.Command{control.Task{RequestID: "t1", Name: "app.job", Background: true}, control.Cancel{RequestID: "c1", Scope: control.All}} {
			if _, err := a.Control(t.Context(), c); err != nil {
				t.Error(err)
			}
		}
	})
	if err != nil || !cleaned {
		t.Errorf("the run ended in %v; cleaned up: %v", err, cleaned)
	}
}

// Promise: P-200
func TestWithoutOptionsNothingIsOffered(t *testing.T) {
	for name, o := range map[string]agentcore.Options{"no session": {}, "an empty session": {Session: &agentcore.SessionOptions{}}} {
		model := scriptOf(say("One."))
		a := open(t, o, model)
		if _, err := told(a, agentcore.Input{Prompt: "go"}, nil); err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff([]string{"read", "ls", "find", "grep", "write", "edit", "bash"}, model.Requests()[0].Tools); d != "" {
			t.Errorf("%s: tools offered: %s", name, d)
		}
	}
}

// Promise: P-222
func TestOneNameIsOneTool(t *testing.T) {
	extra := tool.New("look", "Mine.", func(context.Context, tool.Call, empty) (tool.Result, error) { return tool.Text("mine"), nil })
	reg := agentcore.NewRegistry()
	taken := agentcore.Extension{Name: "app", Tools: []tool.Tool{extra}}
	if err := reg.Install(agentcore.Extension{Name: "x", Tools: []tool.Tool{tool.New("read", "Mine.", func(context.Context, tool.Call, empty) (tool.Result, error) { return tool.Result{}, nil })}}); err == nil {
		t.Error("a tool with the name of a built-in one was installed")
	}
	a := open(t, agentcore.Options{ExtraTools: []tool.Tool{extra}, Session: &agentcore.SessionOptions{Registry: reg}}, scriptOf(say("One.")))
	if err := reg.Install(taken); err == nil {
		t.Error("a tool with the name of the agent's own was installed")
	}
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	reg = agentcore.NewRegistry()
	if err := reg.Install(taken); err != nil {
		t.Fatal(err)
	}
	_, err := agentcore.New(t.Context(), agentcore.Options{LLM: scripted.New(scripted.Responses(), scripted.Options{}).Provider(), Model: "m",
		ExtraTools: []tool.Tool{extra}, Session: &agentcore.SessionOptions{Registry: reg}})
	if !fault.Is(err, fault.InputValidation) || !strings.Contains(err.Error(), `"look"`) {
		t.Errorf("an own tool whose name an extension has = %v, want input_validation", err)
	}
}

// The kinds of the agent's own tasks are known, and nobody else's.
// Promise: P-203
// Promise: P-221
func TestTheAgentsOwnTasksCannotBeReplaced(t *testing.T) {
	for _, kind := range []string{agentcore.GenerationTask, agentcore.ToolTask} {
		d := agentcore.DefineTask(kind, 1, func(empty) (string, empty) { return "a", empty{} }, task.On("a", func(context.Context, *task.Run[empty, empty, string]) error { return nil }))
		if err := agentcore.NewRegistry().Install(agentcore.Extension{Name: "x", Tasks: []task.Definition{d.Definition()}}); err == nil {
			t.Errorf("%s was installed", kind)
		}
	}
	note := agentcore.DefineDoc(session.Doc[string]{Kind: "app.note", Version: 1, Scope: session.ScopeConversation})
	if err := agentcore.NewRegistry().Install(agentcore.Extension{Name: "x", Docs: []registry.Doc{note}}); err != nil {
		t.Error(err)
	}
}
