package demo

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/workflowd/workflowd/agentcore/llm/scripted"
	"github.com/workflowd/workflowd/agentcore/prompt"
)

// workspace answers tool calls like a directory would. A result in override wins.
type workspace struct {
	override map[string]string // tool name, or tool name + " " + path or command
}

func (w workspace) answer(c call) string {
	e := exchange{name: c.name, args: c.args}
	for _, key := range []string{c.name + " " + e.argument(pathNames), c.name + " " + e.argument(commandNames), c.name} {
		if r, ok := w.override[key]; ok {
			return r
		}
	}
	switch c.name {
	case "ls":
		return "Makefile\nREADME.md\ncmd/\ngo.mod\nmain.go\n"
	case "find":
		return "main.go\ncmd/tool/main.go\n"
	case "grep":
		return "cmd/tool/main.go:7: func main() { run() }\ncmd/tool/main.go:9: // func main ends\nmain.go:3: func main() {\n"
	case "read":
		if e.argument(pathNames) == "README.md" {
			return "# Ferry\n\nFerry moves *many* files from here to there — quickly.\n\n## Use\n"
		}
		return "package main\n\nfunc main() {\n}\n"
	case "write":
		return "Wrote 5 bytes to " + e.argument(pathNames) + "."
	case "bash":
		return "go version go1.26\n"
	}
	return "Accepted."
}

const (
	looking = "ls find grep read"
	all     = looking + " write bash"
)

// talk is a conversation with the demo model over plain requests.
type talk struct {
	t        *testing.T
	plan     bool
	tools    string // names, or a name=schema pair each
	ws       workspace
	messages []scripted.Message
	rounds   [][]call
}

var schemas = map[string]string{
	"ls":    `{"type":"object","properties":{"path":{"type":"string"}}}`,
	"find":  `{"type":"object","properties":{"pattern":{"type":"string"},"path":{"type":"string"}},"required":["pattern"]}`,
	"grep":  `{"type":"object","properties":{"pattern":{"type":"string"},"path":{"type":"string"},"ignoreCase":{"type":"boolean"}},"required":["pattern"]}`,
	"read":  `{"type":"object","properties":{"path":{"type":"string"},"limit":{"type":"integer"}},"required":["path"]}`,
	"write": `{"type":"object","properties":{"path":{"type":"string"},"content":{"type":"string"}}}`,
	"bash":  `{"type":"object","properties":{"command":{"type":"string"}}}`,
}

func (k *talk) request() scripted.Request {
	type function struct {
		Name       string          `json:"name"`
		Parameters json.RawMessage `json:"parameters"`
	}
	var body struct {
		Tools    []map[string]function `json:"tools"`
		Messages []scripted.Message    `json:"messages"`
	}
	body.Messages = k.messages
	for _, name := range strings.Fields(k.tools) {
		name, schema, own := strings.Cut(name, "=")
		if !own {
			schema = schemas[name]
		}
		body.Tools = append(body.Tools, map[string]function{"function": {name, json.RawMessage(schema)}})
	}
	raw, err := json.Marshal(body)
	if err != nil {
		k.t.Fatal(err)
	}
	var names []string
	for _, name := range strings.Fields(k.tools) {
		name, _, _ = strings.Cut(name, "=")
		names = append(names, name)
	}
	system := prompt.System(prompt.Sections{Workdir: "/w", Plan: k.plan, Tools: names})
	return scripted.Request{
		Model: Model, Tools: names, Body: raw,
		Messages: append([]scripted.Message{{Role: "system", Text: system}}, k.messages...),
	}
}

func (k *talk) user(text string) {
	k.messages = append(k.messages, scripted.Message{Role: "user", Text: text})
}

func (k *talk) assistant(text string) {
	k.messages = append(k.messages, scripted.Message{Role: "assistant", Text: text})
}

// next asks for one response.
func (k *talk) next() (text string, calls []scripted.ToolCall) {
	k.t.Helper()
	return words(respond(k.request(), 0))
}

func words(r scripted.Response) (text string, calls []scripted.ToolCall) {
	for _, step := range r {
		switch s := step.(type) {
		case scripted.Text:
			text += s.Text
		case scripted.Call:
			calls = append(calls, scripted.ToolCall{ID: s.ID, Name: s.Name, Args: s.Args})
		}
	}
	return text, calls
}

// round appends a response with calls and what the tools say.
func (k *talk) round(text string, calls []scripted.ToolCall) {
	k.messages = append(k.messages, scripted.Message{Role: "assistant", Text: text, Calls: calls})
	var made []call
	for _, c := range calls {
		made = append(made, call{c.Name, c.Args})
		k.messages = append(k.messages, scripted.Message{Role: "tool", CallID: c.ID, Text: k.ws.answer(call{c.Name, c.Args})})
	}
	k.rounds = append(k.rounds, made)
}

// run lets the model work until it answers, and returns the answer.
func (k *talk) run(user string) string {
	k.t.Helper()
	const most = 12
	k.user(user)
	k.rounds = nil
	for range most {
		text, calls := k.next()
		if len(calls) == 0 {
			k.assistant(text)
			return text
		}
		k.round(text, calls)
	}
	k.t.Fatalf("no answer after %d rounds", most)
	return ""
}

// story is the calls made, one round per line.
func (k *talk) story() string {
	var b strings.Builder
	for i, round := range k.rounds {
		if i > 0 {
			b.WriteByte('\n')
		}
		for j, c := range round {
			if j > 0 {
				b.WriteString(" | ")
			}
			fmt.Fprintf(&b, "%s %s", c.name, c.args)
		}
	}
	return b.String()
}
