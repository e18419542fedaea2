package demo

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/workflowd/workflowd/agentcore/llm/scripted"
	"github.com/workflowd/workflowd/agentcore/prompt"
)

const lookAround = `ls {"path":"."}
find {"path":".","pattern":"**/*.go"} | grep {"ignoreCase":true,"path":".","pattern":"func main"}
read {"limit":120,"path":"README.md"} | read {"limit":120,"path":"cmd/tool/main.go"}`

func TestTheStoryOfATurn(t *testing.T) {
	interrupted := "This call was interrupted while it ran, and its outcome is unknown. It was not run again."
	for _, tt := range []struct {
		name     string
		plan     bool
		tools    string
		override map[string]string
		prompt   string
		story    string
		says     []string // in the answer
		not      []string
	}{
		{
			name: "a plan looks around and quotes what it saw", plan: true, tools: looking, prompt: "Add a flag",
			story: lookAround,
			says: []string{"# Plan: Add a flag\n", "`README.md` (5 lines, headed \"Ferry\")", "3 matches of `func main` in 2 files, first at `cmd/tool/main.go:7`",
				"`make test`", "`ls` showed 4 files and 1 folder: `Makefile`, `README.md`", "`find` gave 2 files for `**/*.go`"},
		},
		{
			name: "a plan changes nothing even when write is offered", plan: true, tools: all, prompt: "write a.txt: hi",
			story: lookAround, says: []string{`write a.txt: "hi"`},
		},
		{
			name: "deeds are done in order, one round each", tools: all, prompt: "Please write a.txt: hello there, then run `go version` and write b/c.txt: \"x y\".",
			story: lookAround + "\n" + `write {"content":"hello there","path":"a.txt"}` + "\n" + `bash {"command":"go version"}` + "\n" + `write {"content":"x y","path":"b/c.txt"}`,
			says:  []string{"3 of 3 requested tool calls were called.", `1. Write a.txt: "hello there": it said "Wrote 5 bytes to a.txt."`, "2. Run `go version`: it said \"go version go1.26\""},
			not:   []string{"error", "interrupted"},
		},
		{
			name: "an interrupted call is reported as the tool told it", tools: all, prompt: "run `make`", override: map[string]string{"bash": interrupted},
			story: lookAround + "\n" + `bash {"command":"make"}`,
			says:  []string{"1 call was interrupted: what came of it is unknown, and I did not try again.", `interrupted; the tool said "This call was interrupted`},
		},
		{
			name: "a failed call is reported with the words of the tool", tools: all, prompt: "run `false`", override: map[string]string{"bash": "oh no\nCommand exited with code 1"},
			story: lookAround + "\n" + `bash {"command":"false"}`,
			says:  []string{"1 result reports an error.", "> `oh no`\n   > `Command exited with code 1`"},
		},
		{
			name: "what no tool is offered for is not claimed", tools: looking, prompt: "run `make`",
			story: lookAround, says: []string{"0 of 1 requested tool call was called.", "Not done: run `make`. The tool `bash` was not offered to me."},
		},
		{
			name: "a question is answered with quotes from the best match", tools: all, prompt: "What does the main function do?",
			story: `ls {"path":"."}
find {"path":".","pattern":"**/*.go"} | grep {"ignoreCase":true,"path":".","pattern":"main|function"}
read {"limit":120,"path":"cmd/tool/main.go"} | read {"limit":120,"path":"README.md"}`,
			says: []string{"`cmd/tool/main.go:7`: `func main() { run() }`"},
		},
		{
			name: "a file that the prompt names is read first", tools: looking, prompt: "Explain main.go",
			story: `ls {"path":"."}
find {"path":".","pattern":"**/*.go"} | grep {"ignoreCase":true,"path":".","pattern":"main"}
read {"limit":120,"path":"main.go"} | read {"limit":120,"path":"cmd/tool/main.go"}`,
			says: []string{"`main.go`"},
		},
		{
			name: "an empty directory is said to be empty", plan: true, tools: looking, prompt: "Start", override: map[string]string{"ls": "(empty directory)"},
			story: `ls {"path":"."}`, says: []string{"`ls` answered \"(empty directory)\""},
		},
		{
			name: "a listing that fails is quoted, and the search goes on", tools: looking, prompt: "", override: map[string]string{"ls": "ls .: permission denied"},
			story: `ls {"path":"."}
find {"path":".","pattern":"**/*"} | grep {"ignoreCase":true,"path":".","pattern":"title|name"}
read {"limit":120,"path":"cmd/tool/main.go"}`,
			says: []string{`answered "ls .: permission denied"`},
		},
		{
			name: "without tools it says so", tools: "", prompt: "Hello", story: "",
			says: []string{"this request offers me no tools", `You asked: "Hello"`},
		},
		{
			name: "argument names follow the offered schema", tools: `ls={"properties":{"dir":{}}} bash={"properties":{"cmd":{}}}`, prompt: "run `id`",
			story: `ls {"dir":"."}` + "\n" + `bash {"cmd":"id"}`, says: []string{"1 of 1"},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			k := &talk{t: t, plan: tt.plan, tools: tt.tools, ws: workspace{tt.override}}
			answer := k.run(tt.prompt)
			if diff := cmp.Diff(tt.story, k.story()); diff != "" {
				t.Errorf("story (-want +got):\n%s", diff)
			}
			for _, want := range tt.says {
				if !strings.Contains(answer, want) {
					t.Errorf("the answer lacks %q:\n%s", want, answer)
				}
			}
			for _, bad := range tt.not {
				if strings.Contains(strings.ToLower(answer), bad) {
					t.Errorf("the answer says %q:\n%s", bad, answer)
				}
			}
			if !strings.HasSuffix(answer, "\n"+signature) {
				t.Errorf("the answer does not end with who wrote it:\n%s", answer)
			}
		})
	}
}

func TestAPlanHasSixToTwelveLines(t *testing.T) {
	for _, p := range []string{"Add a flag", "write a: 1\nwrite b: 2\nwrite c: 3\nwrite d: 4\nrun `make`", ""} {
		k := &talk{t: t, plan: true, tools: looking}
		body, _, _ := strings.Cut(k.run(p), "\n## ")
		lines := 0
		for line := range strings.Lines(body) {
			if strings.TrimSpace(line) != "" {
				lines++
			}
		}
		if lines < 6 || lines > 12 {
			t.Errorf("the plan for %q has %d lines:\n%s", p, lines, body)
		}
	}
}

func TestADeclinedPlanIsRevisedByItsInstructions(t *testing.T) {
	k := &talk{t: t, plan: true, tools: looking}
	first := k.run("Add a flag")
	second := k.run(prompt.RevisePlan(1, first, "Use the ferry package.\nKeep it short."))
	for _, want := range []string{"# Revised plan: Add a flag\n", `"Use the ferry package. Keep it short."`} {
		if !strings.Contains(second, want) {
			t.Errorf("the revision lacks %q:\n%s", want, second)
		}
	}
	if !strings.Contains(k.story(), `"pattern":"ferry|package|Keep"`) {
		t.Errorf("the revision did not search for the words of its instructions:\n%s", k.story())
	}
	third := k.run(prompt.RevisePlan(2, second, ""))
	if !strings.HasPrefix(third, "# Revised plan: Add a flag\n") {
		t.Errorf("a second revision lost the goal:\n%s", third)
	}
}

func TestEachTurnBeginsAnew(t *testing.T) {
	k := &talk{t: t, tools: all}
	k.run("run `one`")
	k.run("run `two`")
	if got, want := k.story(), lookAround+"\n"+`bash {"command":"two"}`; got != want {
		t.Errorf("story of the second turn:\n%s\nwant:\n%s", got, want)
	}
}

func TestAPlanIsSentIn120To200Deltas(t *testing.T) {
	k := &talk{t: t, plan: true, tools: looking}
	k.run("Add a flag")
	k.messages = k.messages[:len(k.messages)-1]
	for _, step := range respond(k.request(), 0) {
		if text, ok := step.(scripted.Text); ok && (text.Chunks < 120 || text.Chunks > 200 || len(text.Text) < text.Chunks) {
			t.Errorf("the plan of %d bytes comes in %d deltas", len(text.Text), text.Chunks)
		}
	}
}

func TestEqualRequestsGetEqualResponses(t *testing.T) {
	k := &talk{t: t, tools: all}
	k.user("run `make`")
	ids := map[string]bool{}
	for range 5 {
		if diff := cmp.Diff(respond(k.request(), 0), respond(k.request(), 0)); diff != "" {
			t.Fatalf("two responses to one request differ:\n%s", diff)
		}
		text, calls := k.next()
		for _, c := range calls {
			if ids[c.ID] {
				t.Errorf("call id %q comes twice in a turn", c.ID)
			}
			ids[c.ID] = true
		}
		k.round(text, calls)
	}
}

func TestTheOutputLimitCutsTheAnswerAndTheRestFollows(t *testing.T) {
	k := &talk{t: t, tools: ""}
	k.user("Hello")
	whole, _ := k.next()
	limited := k.request()
	limited.MaxTokens = 10
	r := respond(limited, 0)
	part, _ := words(r)
	if _, ok := r[1].(scripted.Length); !ok || len(part) != 40 {
		t.Fatalf("with a limit of 10 tokens the response is %v", r)
	}
	k.assistant(part)
	k.user(prompt.ContinueLength())
	if rest, _ := k.next(); part+rest != whole {
		t.Errorf("rest = %q, behind %q", rest, part)
	}
}
