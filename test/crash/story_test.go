//go:build unix

package crash

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/workflowd/workflowd/agentcore/llm"
	"github.com/workflowd/workflowd/agentcore/llm/demo"
)

// story is what a session tells, without the traces of interruptions: pieces of one answer are one, prompts that ask for
// the rest are left out, and so are the numbers of entries.
type story struct {
	Inputs []string
	Steps  []step
}

// step is one response of the model with the results of its calls, in the order of the calls.
type step struct {
	Text    string
	Calls   []string // name and arguments
	Results []result
}

type result struct {
	Text        string
	Interrupted bool // a kill left the outcome unknown: the text is not compared
}

// storyOf reads the story.
func storyOf(t *testing.T, s sessionState) story {
	t.Helper()
	var st story
	where := map[string]*result{} // by presentation id
	open := false                 // the last step goes on
	for _, e := range s.entries {
		switch e.Kind {
		case "workflow.user":
			st.Inputs, open = append(st.Inputs, e.message.Text()), false
		case "workflow.continuation":
			open = true
		case "workflow.assistant":
			if !open {
				st.Steps = append(st.Steps, step{})
			}
			last := &st.Steps[len(st.Steps)-1]
			last.Text += e.message.Text()
			if n := len(e.message.Calls()); n > 0 {
				last.Results = make([]result, n)
			}
			for i, b := range e.message.Blocks {
				if b.Type == llm.ToolCall {
					where[fmt.Sprintf("%d.%d", e.ID, i)] = &last.Results[len(last.Calls)]
					last.Calls = append(last.Calls, b.Name+" "+string(b.Args))
				}
			}
			open = false
		case "workflow.tool-result":
			r := where[e.message.CallID]
			if r == nil || r.Text != "" || e.data.Call == nil {
				t.Fatalf("result %d: of call %q, which has none open", e.ID, e.message.CallID)
			}
			*r = result{e.message.Text(), e.data.Call.Code == "interrupted"}
			if r.Interrupted != (e.data.Call.Code != "") || r.Interrupted && !e.message.IsError {
				t.Fatalf("result %d of %s: code %q, error %t", e.ID, e.data.Call.Name, e.data.Call.Code, e.message.IsError)
			}
		case "workflow.system":
		default:
			t.Fatalf("entry %d is a %q", e.ID, e.Kind)
		}
	}
	for i, s := range st.Steps {
		for j, r := range s.Results {
			if r.Text == "" {
				t.Fatalf("step %d: call %q has no result", i, s.Calls[j])
			}
		}
	}
	return st
}

// interrupted counts the calls whose outcome is unknown, by the tool's name.
func (st story) interrupted() map[string]int {
	n := map[string]int{}
	for _, s := range st.Steps {
		for i, r := range s.Results {
			if r.Interrupted {
				name, _, _ := strings.Cut(s.Calls[i], " ")
				n[name]++
			}
		}
	}
	return n
}

// answer is the text of the last step.
func (st story) answer() string { return st.Steps[len(st.Steps)-1].Text }

// expected is the baseline's story for the case that the calls which got interrupts in st were interrupted: their results
// are st's, and the last answer is what the model, a pure function of the request, says to them.
func (b *baseline) expected(t *testing.T, st story) story {
	t.Helper()
	want := story{Inputs: b.story.Inputs}
	for i, s := range b.story.Steps {
		s.Results = append([]result(nil), s.Results...)
		for j := range s.Results {
			if i < len(st.Steps) && j < len(st.Steps[i].Results) && st.Steps[i].Results[j].Interrupted {
				s.Results[j] = st.Steps[i].Results[j]
			}
		}
		want.Steps = append(want.Steps, s)
	}
	if len(st.interrupted()) > 0 {
		want.Steps[len(want.Steps)-1].Text = b.told(t, want)
	}
	return want
}

// told asks the demo model for the last answer of a story.
func (b *baseline) told(t *testing.T, st story) string {
	t.Helper()
	req := llm.Request{Model: demo.Model, System: b.system}
	for _, name := range []string{"ls", "find", "grep", "read", "write", "bash", handTool} {
		if name == handTool && b.s.workflow != "hand" {
			continue
		}
		req.Tools = append(req.Tools, llm.ToolSpec{Name: name, Schema: json.RawMessage(`{"type":"object"}`)})
	}
	for _, in := range st.Inputs {
		req.Messages = append(req.Messages, llm.TextMessage(llm.RoleUser, in))
	}
	for i, s := range st.Steps[:len(st.Steps)-1] {
		said := llm.TextMessage(llm.RoleAssistant, s.Text)
		said.Stop = llm.StopToolUse
		var results []llm.Message
		for j, c := range s.Calls {
			name, args, _ := strings.Cut(c, " ")
			id := fmt.Sprintf("call_%d_%d", i, j)
			said.Blocks = append(said.Blocks, llm.Block{Type: llm.ToolCall, CallID: id, Name: name, Args: json.RawMessage(args)})
			r := llm.TextMessage(llm.RoleToolResult, s.Results[j].Text)
			r.CallID, r.ToolName, r.IsError = id, name, s.Results[j].Interrupted
			results = append(results, r)
		}
		req.Messages = append(append(req.Messages, said), results...)
	}
	for e, err := range demo.New(demo.Options{}).Stream(context.Background(), req) {
		must(t, err)
		if done, ok := e.(llm.Done); ok {
			return done.Message.Text()
		}
	}
	t.Fatal("the demo model did not end")
	return ""
}
