package workflowd_test

import (
	"context"
	"fmt"
	"log"
	"strings"
	"testing"

	"github.com/workflowd/workflowd"
	"github.com/workflowd/workflowd/agentcore"
	"github.com/workflowd/workflowd/agentcore/fault"
	"github.com/workflowd/workflowd/agentcore/llm/scripted"
	"github.com/workflowd/workflowd/agentcore/tool"
	"github.com/workflowd/workflowd/executor"
	"github.com/workflowd/workflowd/nodes/agentnode"
	"github.com/workflowd/workflowd/workflow"
)

// Values pass between the facade and the packages behind it without conversion: this compiles as long as they do.
var (
	_ agentcore.Options            = workflowd.AgentOptions{}
	_ *agentcore.Agent             = (*workflowd.Agent)(nil)
	_ agentcore.Event              = workflowd.TextDelta{}
	_ tool.Tool                    = workflowd.Tool(nil)
	_ *fault.Error                 = (*workflowd.Error)(nil)
	_ agentnode.Node               = workflowd.NewAgentNode(workflowd.AgentNodeOptions{})
	_ workflow.Node[int, string]   = workflowd.Node[int, string](nil)
	_ *workflow.Workflow[int, int] = (*workflowd.Workflow[int, int])(nil)
	_ *executor.Engine             = (*workflowd.Engine)(nil)
	_ *executor.Run[string]        = (*workflowd.Run[string])(nil)
)

// A workflow of two nodes, run durably. A second start under the same id finds the first run.
func ExampleOpen() {
	ctx := context.Background()
	split := workflowd.Func("split", func(_ workflowd.NodeContext, text string) ([]string, error) { return strings.Fields(text), nil })
	count := workflowd.Func("count", func(_ workflowd.NodeContext, words []string) (int, error) { return len(words), nil })
	words := workflowd.MustDefine("words", 1, func(b *workflowd.Builder, in workflowd.Ref[string]) workflowd.Ref[int] {
		return workflowd.Then(b, workflowd.Then(b, in, split), count)
	})

	engine, err := workflowd.Open(ctx, "memory:") // or "sqlite:runs.db"
	if err != nil {
		log.Fatal(err)
	}
	defer engine.Close()
	counting, err := workflowd.Register(engine, words)
	if err != nil {
		log.Fatal(err)
	}
	run, err := counting.Start(ctx, "so much depends upon", workflowd.RequestID("first"))
	if err != nil {
		log.Fatal(err)
	}
	n, err := run.Result(ctx)
	fmt.Println(n, err)
	// Output: 4 <nil>
}

// An agent with a tool of the program's own. The model is a script here; name one with Model, or leave it to DemoModel.
func ExampleNewAgent() {
	type city struct {
		Name string `json:"name"`
	}
	weather := workflowd.NewTool("weather", "The weather in a city.",
		func(_ context.Context, _ workflowd.ToolCall, in city) (workflowd.ToolResult, error) {
			return workflowd.ToolText("rain in " + in.Name), nil
		}, workflowd.Replay(workflowd.Safe))

	ctx := context.Background()
	model := scripted.Provider(scripted.MustParse(`call weather {"name":"Bergen"} | text "Take an umbrella."`))
	agent, err := workflowd.NewAgent(ctx, workflowd.AgentOptions{Model: "script", LLM: model, ExtraTools: []workflowd.Tool{weather}})
	if err != nil {
		log.Fatal(err)
	}
	defer agent.Close()
	for event, err := range agent.Run(ctx, workflowd.Input{Prompt: "Do I need an umbrella in Bergen?"}, nil) {
		switch e := event.(type) {
		case workflowd.TextDelta:
			fmt.Print(e.Text)
		case workflowd.ToolEvent:
			if e.Result != nil {
				fmt.Println(e.Name, "said:", e.Result[0].Text)
			}
		}
		if err != nil {
			log.Fatal(err)
		}
	}
	// Output:
	// weather said: rain in Bergen
	// Take an umbrella.
}

func TestPromptReturnsWhatWasSaidLast(t *testing.T) {
	t.Chdir(t.TempDir())
	model := scripted.Provider(scripted.MustParse(`text "I look first. " | call ls {} | text "Nothing " | drop | text "is here."`))
	answer, err := workflowd.Prompt("what is here", workflowd.AgentOptions{Model: "m", LLM: model})
	if err != nil || answer != "Nothing is here." {
		t.Errorf("got %q, %v", answer, err)
	}
}

func TestPromptReportsFailureByKind(t *testing.T) {
	for name, c := range map[string]struct {
		prompt string
		o      workflowd.AgentOptions
		want   workflowd.ErrorKind
	}{
		"no prompt":       {"", workflowd.AgentOptions{}, fault.InputValidation},
		"unknown policy":  {"x", workflowd.AgentOptions{PermissionPolicy: "all"}, fault.InputValidation},
		"the model fails": {"x", workflowd.AgentOptions{Model: "m", LLM: scripted.Provider(scripted.MustParse(`status 401 "no"`))}, fault.ModelError},
	} {
		t.Run(name, func(t *testing.T) {
			if answer, err := workflowd.Prompt(c.prompt, c.o); workflowd.KindOf(err) != c.want || answer != "" {
				t.Errorf("got %q and kind %q (%v), want %q", answer, workflowd.KindOf(err), err, c.want)
			}
		})
	}
}
