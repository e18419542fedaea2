package protocol

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/workflowd/workflowd/agentcore/llm"
)

var here = llm.Origin{API: "a", Provider: "p", Model: "m"}

func assistant(stop llm.StopReason, ids ...string) llm.Message {
	m := llm.Message{Role: llm.RoleAssistant, Origin: &here, Stop: stop}
	for _, id := range ids {
		m.Blocks = append(m.Blocks, llm.Block{Type: llm.ToolCall, CallID: id, Name: "ls"})
	}
	return m
}

func result(id, said string) llm.Message {
	return llm.Message{Role: llm.RoleToolResult, CallID: id, Blocks: []llm.Block{{Type: llm.Text, Text: said}}}
}

func user(said string) llm.Message { return llm.TextMessage(llm.RoleUser, said) }

// tell writes steps as words.
func tell(req llm.Request) string {
	var out []string
	for s := range Steps(req, here, 40) {
		if s.Assistant == nil {
			out = append(out, "user "+JoinText(s.User))
			continue
		}
		out = append(out, fmt.Sprintf("assistant same=%v ended=%v", s.Same, s.Ended))
		for _, c := range s.Calls {
			out = append(out, c.ID+"="+c.Said(NoOutput))
		}
	}
	return strings.Join(out, " | ")
}

func TestAHistoryIsRepairedBeforeItIsSent(t *testing.T) {
	foreign := assistant(llm.StopToolUse, "c1")
	foreign.Origin = &llm.Origin{API: "a", Provider: "p", Model: "another"}
	unsigned := assistant(llm.StopEnd)
	unsigned.Origin = nil
	for _, tc := range []struct {
		name string
		list []llm.Message
		want string
	}{
		{"results stand in call order, users behind them", []llm.Message{
			user("go"), assistant(llm.StopToolUse, "c1", "c2"), result("c2", "two"), user("steer"), result("c1", "one")},
			"user go | assistant same=true ended=true | c1=one | c2=two | user steer"},
		{"a missing result is said, a lone one dropped, a second one too", []llm.Message{
			result("c0", "from nowhere"), assistant(llm.StopToolUse, "c1", "c2"), result("c1", "one"), result("c1", "twice")},
			"assistant same=true ended=true | c1=one | c2=" + LostResult},
		{"calls that never ran are dropped", []llm.Message{
			assistant(llm.StopInterrupted, "c1"), assistant(llm.StopLength, "c2"), assistant(llm.StopRefusal, "c3"), assistant(llm.StopAborted, "c4", "c5"), result("c4", "ran")},
			"assistant same=true ended=false | assistant same=true ended=false | assistant same=true ended=false | assistant same=true ended=false | c4=ran"},
		{"a result never answers the call of another message", []llm.Message{
			assistant(llm.StopToolUse, "c1"), assistant(llm.StopToolUse, "c1"), result("c1", "second")},
			"assistant same=true ended=true | c1=" + LostResult + " | assistant same=true ended=true | c1_2=second"},
		{"origins are told apart", []llm.Message{foreign, unsigned}, "assistant same=false ended=true | c1=" + LostResult + " | assistant same=false ended=true"},
		{"a result without text says so", []llm.Message{assistant(llm.StopToolUse, "c1"), result("c1", "")}, "assistant same=true ended=true | c1=" + NoOutput},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if diff := cmp.Diff(tell(llm.Request{Messages: tc.list}), tc.want); diff != "" {
				t.Fatalf("(-got +want):\n%s", diff)
			}
		})
	}
}

func TestAModelThatSeesNoImagesGetsAPlaceholder(t *testing.T) {
	picture := llm.Block{Type: llm.Image, Data: []byte("x"), MimeType: "image/png"}
	shown := result("c1", "a picture")
	shown.Blocks = append(shown.Blocks, picture)
	asked := user("what is this?")
	asked.Blocks = append(asked.Blocks, picture)
	req := llm.Request{TextOnly: true, Messages: []llm.Message{asked, assistant(llm.StopToolUse, "c1"), shown}}
	want := "user what is this?\n" + NoImage + " | assistant same=true ended=true | c1=a picture\n" + NoImage
	if diff := cmp.Diff(tell(req), want); diff != "" {
		t.Fatalf("(-got +want):\n%s", diff)
	}
	if asked.Blocks[1].Type != llm.Image || shown.Blocks[1].Type != llm.Image {
		t.Fatal("the stored history changed")
	}
	req.TextOnly = false
	for s := range Steps(req, here, 40) {
		if s.Assistant == nil && !HasImages(s.User) {
			t.Fatal("the image is gone although the model sees images")
		}
	}
}
