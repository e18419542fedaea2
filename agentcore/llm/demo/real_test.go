package demo_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/workflowd/workflowd/agentcore/env/local"
	"github.com/workflowd/workflowd/agentcore/llm"
	"github.com/workflowd/workflowd/agentcore/llm/demo"
	"github.com/workflowd/workflowd/agentcore/llm/llmtest"
	"github.com/workflowd/workflowd/agentcore/permission"
	"github.com/workflowd/workflowd/agentcore/prompt"
	"github.com/workflowd/workflowd/agentcore/tool"
	"github.com/workflowd/workflowd/agentcore/tool/builtin"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// session lets the demo model work with the built-in tools in a directory.
type session struct {
	dir   string
	plan  bool
	model llm.Provider
	tools map[string]tool.Tool
	req   llm.Request
	usage llm.Usage
}

func open(t *testing.T, mode permission.Mode) *session {
	t.Helper()
	s := &session{dir: t.TempDir(), model: demo.New(demo.Options{}), tools: map[string]tool.Tool{}}
	for name, text := range map[string]string{
		"README.md": "# Ferry\n\nFerry moves files from here to there.\n", "go.mod": "module ferry\n",
		"main.go": "package main\n\nfunc main() { sail() }\n", "boat/boat.go": "package boat\n\n// Sail moves a boat.\nfunc Sail() {}\n",
	} {
		path := filepath.Join(s.dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	environment, err := local.New(local.Options{Dir: s.dir})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := environment.Cleanup(context.Background()); err != nil {
			t.Error(err)
		}
	})
	guard, err := permission.New(permission.Reach{Workdir: s.dir})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := guard.Close(); err != nil {
			t.Error(err)
		}
	})
	set, err := builtin.Set(builtin.Options{Env: environment, Guard: guard, Mode: mode})
	if err != nil {
		t.Fatal(err)
	}
	s.req = llm.Request{Model: demo.Model, System: prompt.System(prompt.Sections{Workdir: s.dir, Plan: mode == permission.Plan})}
	for _, tl := range set {
		s.tools[tl.Spec().Name] = tl
		s.req.Tools = append(s.req.Tools, tl.Spec())
	}
	return s
}

// run returns the answer to a prompt and the results by the name of the tool.
func (s *session) run(t *testing.T, text string) (answer llm.Message, results map[string]string) {
	t.Helper()
	const most = 12
	results = map[string]string{}
	s.req.Messages = append(s.req.Messages, llm.TextMessage(llm.RoleUser, text))
	for range most {
		got := llmtest.Follow(t.Context(), t, s.model, s.req)
		if got.Err != nil {
			t.Fatal(got.Err)
		}
		m := got.Done.Message
		s.usage = s.usage.Add(*m.Usage)
		s.req.Messages = append(s.req.Messages, m)
		if len(m.Calls()) == 0 {
			return m, results
		}
		for _, c := range m.Calls() {
			r := s.call(t, c)
			results[c.Name] += r.Text()
			s.req.Messages = append(s.req.Messages, llm.Message{
				Role: llm.RoleToolResult, CallID: c.CallID, ToolName: c.Name, IsError: r.IsError, Blocks: r.Blocks,
			})
		}
	}
	t.Fatalf("no answer after %d rounds", most)
	return llm.Message{}, nil
}

func (s *session) call(t *testing.T, c llm.Block) tool.Result {
	t.Helper()
	args, err := s.tools[c.Name].Prepare(c.Args)
	if err != nil {
		t.Fatalf("the demo model calls %s with arguments that do not fit: %v", c.Name, err)
	}
	r, err := s.tools[c.Name].Execute(t.Context(), tool.Call{ID: c.CallID, Name: c.Name, Args: args})
	if err != nil {
		return tool.Fail(err.Error())
	}
	return r
}

func TestAPlanOverRealFilesQuotesThem(t *testing.T) {
	s := open(t, permission.Plan)
	m, _ := s.run(t, "Add a second boat")
	answer := m.Text()
	for _, want := range []string{
		"# Plan: Add a second boat", "`README.md` (3 lines, headed \"Ferry\")", "1 match of `func main` in 1 file, first at `main.go:3`", "`go test ./...`",
		"`ls` showed 3 files and 1 folder: `README.md`, `go.mod`, `main.go` and `boat`", "`find` gave 2 files for `**/*.go`", "Ferry moves files from here to there.",
	} {
		if !strings.Contains(answer, want) {
			t.Errorf("the plan lacks %q:\n%s", want, answer)
		}
	}
	if m.Stop != llm.StopEnd || m.Origin.Provider != demo.Name || m.Usage.Input <= 0 || m.Usage.Output < int64(len(answer)/8) {
		t.Errorf("stop %q, origin %+v, usage %+v", m.Stop, m.Origin, m.Usage)
	}
}

func TestDeedsHappenInRealFiles(t *testing.T) {
	s := open(t, permission.Build)
	m, _ := s.run(t, "write notes/a.txt: ahoy\nrun `cat notes/a.txt && exit 3`\nwrite ../outside.txt: no")
	answer := m.Text()
	if got, err := os.ReadFile(filepath.Join(s.dir, "notes", "a.txt")); err != nil || string(got) != "ahoy" {
		t.Errorf("notes/a.txt = %q, %v", got, err)
	}
	for _, want := range []string{"3 of 3 requested tool calls were called. 2 results report an error.", "> `ahoy`", "> `[exit code 3]`"} {
		if !strings.Contains(answer, want) {
			t.Errorf("the answer lacks %q:\n%s", want, answer)
		}
	}
}

func TestAQuestionIsAnsweredFromRealFiles(t *testing.T) {
	s := open(t, permission.Build)
	m, results := s.run(t, "Who moves a boat?")
	if want := "`boat/boat.go:3`: `// Sail moves a boat.`"; !strings.Contains(m.Text(), want) {
		t.Errorf("the answer lacks %q:\n%s\n%v", want, m.Text(), results)
	}
	if m, _ := s.run(t, "Where is xyzzy?"); !strings.Contains(m.Text(), "I found no line about \"Where is xyzzy?\"") {
		t.Errorf("answer:\n%s", m.Text())
	}
}

func TestAnEmptyDirectoryIsNoProblem(t *testing.T) {
	s := open(t, permission.Plan)
	for _, name := range []string{"README.md", "go.mod", "main.go", "boat"} {
		if err := os.RemoveAll(filepath.Join(s.dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	if m, _ := s.run(t, "Begin"); !strings.Contains(m.Text(), "the directory is empty") {
		t.Errorf("answer:\n%s", m.Text())
	}
}

func TestAnEffortAddsReasoningOnceAndCountsIt(t *testing.T) {
	s := open(t, permission.Build)
	s.req.Effort = llm.EffortHigh
	m, _ := s.run(t, "Who moves a boat?")
	if m.Thinking() == "" || m.Usage.Reasoning <= 0 || m.Usage.Reasoning >= m.Usage.Output {
		t.Errorf("thinking %q, usage %+v", m.Thinking(), m.Usage)
	}
	half := m.Text()[:len(m.Text())/2]
	s.req.Messages[len(s.req.Messages)-1] = llm.Message{Role: llm.RoleAssistant, Origin: m.Origin, Stop: llm.StopInterrupted,
		Blocks: []llm.Block{m.Blocks[0], {Type: llm.Text, Text: half}}}
	s.req.Messages = append(s.req.Messages, llm.TextMessage(llm.RoleUser, prompt.ContinueDropped(true)))
	rest := llmtest.Follow(t.Context(), t, s.model, s.req)
	if rest.Err != nil || half+rest.Done.Message.Text() != m.Text() || rest.Done.Message.Thinking() != "" {
		t.Errorf("carried on with %+v, %v", rest.Done, rest.Err)
	}
}

func TestPaceIsThePauseBetweenDeltas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const pace = 20 * time.Millisecond
		start, deltas := time.Now(), 0
		for ev, err := range demo.New(demo.Options{Pace: pace}).Stream(t.Context(), llm.Request{Model: demo.Model,
			Messages: []llm.Message{llm.TextMessage(llm.RoleUser, "Hello")}}) {
			if err != nil {
				t.Fatal(err)
			}
			if _, ok := ev.(llm.Delta); ok {
				deltas++
			}
		}
		if took := time.Since(start); deltas < 10 || took != time.Duration(deltas)*pace {
			t.Errorf("%d deltas took %v", deltas, took)
		}
	})
}
