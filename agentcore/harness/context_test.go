package harness

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/workflowd/workflowd/agentcore/llm"
	"github.com/workflowd/workflowd/agentcore/session"
)

func user(id session.EntryID, text string) item {
	return item{id: id, kind: kindUser, model: true, message: llm.TextMessage(llm.RoleUser, text)}
}

func said(id session.EntryID, stop llm.StopReason, blocks ...llm.Block) item {
	return item{id: id, kind: kindAssistant, model: true, message: llm.Message{Role: llm.RoleAssistant, Stop: stop, Blocks: blocks}}
}

func called(id, name string) llm.Block {
	return llm.Block{Type: llm.ToolCall, CallID: id, Name: name, Args: json.RawMessage(`{}`)}
}

func words(s string) llm.Block { return llm.Block{Type: llm.Text, Text: s} }

func result(id session.EntryID, call, text string) item {
	m := llm.TextMessage(llm.RoleToolResult, text)
	m.CallID = call
	return item{id: id, kind: kindToolResult, model: true, message: m}
}

// story writes a context as one line a message.
func story(c modelContext) []string {
	var out []string
	for _, m := range c.messages {
		s := string(m.Role) + " " + m.Text()
		for _, b := range m.Calls() {
			s += "call " + b.CallID + " " + b.Name + " "
		}
		if m.Role == llm.RoleToolResult {
			s += " for " + m.CallID
		}
		out = append(out, s)
	}
	return out
}

func TestDerive(t *testing.T) {
	cases := []struct {
		name   string
		items  []item
		cutoff session.EntryID
		want   []string
	}{
		{"results stand behind their calls in call order, whatever order they came in",
			[]item{user(1, "go"), said(2, llm.StopToolUse, called("a", "read"), called("b", "ls")), result(3, "2.1", "second"), user(4, "steer"), result(5, "2.0", "first")}, 5,
			[]string{"user go", "assistant call a read call b ls ", "toolResult first for a", "toolResult second for b", "user steer"}},
		{"a call without a result gets one that says so",
			[]item{user(1, "go"), said(2, llm.StopToolUse, called("a", "bash"))}, 2,
			[]string{"user go", "assistant call a bash ", "toolResult " + missingResult + " for a"}},
		{"a result without its call is left out", []item{user(1, "go"), result(2, "9.0", "lost")}, 2, []string{"user go"}},
		{"equal provider ids in two turns keep their own results",
			[]item{user(1, "x"), said(2, llm.StopToolUse, called("c1", "read")), result(3, "2.0", "one"), said(4, llm.StopToolUse, called("c1", "bash")), result(5, "4.0", "two")}, 5,
			[]string{"user x", "assistant call c1 read ", "toolResult one for c1", "assistant call c1 bash ", "toolResult two for c1"}},
		{"an interrupted answer keeps its text and loses its calls",
			[]item{user(1, "go"), said(2, llm.StopInterrupted, words("Half of"), called("a", "bash")), user(3, "carry on")}, 3,
			[]string{"user go", "assistant Half of", "user carry on"}},
		{"a call cut by the output limit is not replayed", []item{user(1, "go"), said(2, llm.StopLength, called("a", "write"))}, 2, []string{"user go"}},
		{"an aborted answer is invisible to the model", []item{user(1, "go"), said(2, llm.StopAborted, words("never mind")), user(3, "again")}, 3, []string{"user go", "user again"}},
		{"nothing behind the cutoff counts", []item{user(1, "go"), user(2, "later")}, 1, []string{"user go"}},
		{"a head marker starts the context anew, with itself first",
			[]item{user(1, "old"), user(2, "kept"), {id: 3, kind: "workflow.compaction", head: 2, model: true, message: llm.TextMessage(llm.RoleUser, "summary")}, user(4, "new")}, 4,
			[]string{"user summary", "user kept", "user new"}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			if d := cmp.Diff(c.want, story(derive(c.items, c.cutoff))); d != "" {
				t.Error(d)
			}
		})
	}
}

func TestTheNewestSystemPromptOfTheActiveRangeCounts(t *testing.T) {
	items := []item{{id: 1, kind: kindSystem, model: true, system: "one"}, user(2, "go"), {id: 3, kind: kindSystem, model: true, system: "two"}}
	if got := derive(items, 3).system; got != "two" {
		t.Errorf("system = %q, want two", got)
	}
	if got := derive(items, 2).system; got != "one" {
		t.Errorf("system before the change = %q, want one", got)
	}
}
