package openaicompletions

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/workflowd/workflowd/agentcore/llm"
	"github.com/workflowd/workflowd/agentcore/llm/protocol/protocoltest"
)

var (
	here = llm.Origin{API: API, Provider: "p", Model: "m"}
	us   = protocoltest.Writer(here)
)

func TestAHistoryBecomesARequest(t *testing.T) {
	// Promise: P-054
	// Promise: P-374
	// Promise: P-376
	// Promise: P-571
	thinking := llm.Block{Type: llm.Thinking, Text: "plan: list", Field: "reasoning_content"}
	details := llm.Block{Type: llm.Thinking, Raw: json.RawMessage(`[{"type":"reasoning.encrypted","data":"Q0k="}]`)}
	hi := []llm.Message{protocoltest.User(protocoltest.Said("hi"))}
	list := protocoltest.User(protocoltest.Said("list"))
	call := protocoltest.CallOf("c1", "ls", `{}`)
	cases := append(protocoltest.Cases(us),
		protocoltest.Case{Name: "tools effort limit and cache key elsewhere",
			Request: llm.Request{Model: "m", Tools: protocoltest.Tools, Effort: llm.EffortLow, MaxTokens: 100, CacheKey: "ses_1", Messages: hi}},
		protocoltest.Case{Name: "effort off names no level", Request: llm.Request{Model: "m", Effort: llm.EffortOff, Messages: hi}},
		protocoltest.Case{Name: "thinking goes back in its field to the same origin", Request: llm.Request{Model: "m",
			Messages: []llm.Message{list, us.Said(thinking, details, call), protocoltest.Result("c1", "a.txt")}}},
		protocoltest.Case{Name: "thinking never goes to another model", Request: llm.Request{Model: "m",
			Messages: []llm.Message{list, us.Foreign(thinking, details, call), protocoltest.Result("c1", "a.txt")}}},
	)
	for _, tc := range cases {
		t.Run(tc.Name, func(t *testing.T) {
			got := encode(tc.Request, here, quirks{})
			checkRequest(t, got)
			protocoltest.Golden(t, tc.Name, got)
		})
	}
	const openai = "tools effort limit and cache key at OpenAI"
	t.Run(openai, func(t *testing.T) {
		protocoltest.Golden(t, openai, encode(llm.Request{Model: "m", Tools: protocoltest.Tools, Effort: llm.EffortUltra, MaxTokens: 100, CacheKey: "ses_1", Messages: hi},
			here, quirks{completionTokens: true, cacheKey: true, noEmptyTools: true}))
	})
}

var callID = regexp.MustCompile(`^[A-Za-z0-9_-]{1,40}$`)

// checkRequest checks what every request must keep, whatever the history.
func checkRequest(t interface {
	Helper()
	Fatalf(string, ...any)
}, body []byte) {
	t.Helper()
	if !utf8.Valid(body) || !json.Valid(body) {
		t.Fatalf("no valid JSON in UTF-8: %q", body)
	}
	var req struct {
		Messages []struct {
			Role       string
			Content    json.RawMessage
			ToolCallID string `json:"tool_call_id"`
			ToolCalls  []struct {
				ID       string
				Function struct{ Arguments string }
			} `json:"tool_calls"`
		}
	}
	if err := json.Unmarshal(body, &req); err != nil {
		t.Fatalf("%v", err)
	}
	used := map[string]bool{}
	var due []string
	for i, m := range req.Messages {
		if m.Role == "tool" {
			if len(due) == 0 || due[0] != m.ToolCallID {
				t.Fatalf("message %d answers %q, due are %q", i, m.ToolCallID, due)
			}
			due = due[1:]
			continue
		}
		if len(due) > 0 {
			t.Fatalf("message %d is a %s, results of %q are due", i, m.Role, due)
		}
		if string(m.Content) == `""` || string(m.Content) == `[]` || string(m.Content) == "null" && len(m.ToolCalls) == 0 {
			t.Fatalf("message %d is empty", i)
		}
		for _, c := range m.ToolCalls {
			if !callID.MatchString(c.ID) || used[c.ID] {
				t.Fatalf("message %d: call id %q is refused or not unique", i, c.ID)
			}
			used[c.ID] = true
			due = append(due, c.ID)
			var args map[string]any
			if err := json.Unmarshal([]byte(c.Function.Arguments), &args); err != nil || args == nil {
				t.Fatalf("message %d: arguments %q are no object: %v", i, c.Function.Arguments, err)
			}
		}
	}
	if len(due) > 0 {
		t.Fatalf("results of %q are missing", due)
	}
}

func TestAnyHistoryGivesAValidRequest(t *testing.T) {
	messages := protocoltest.AnyMessages(us)
	rapid.Check(t, func(t *rapid.T) {
		checkRequest(t, encode(llm.Request{Model: "m", Messages: messages.Draw(t, "messages")}, here, quirks{}))
	})
}

// Every turn repeats the bytes of the one before up to the end of its messages, so that a prompt cache hits.
func TestTheRequestOfATurnBeginsWithTheOneBefore(t *testing.T) {
	req := llm.Request{Model: "m", System: "Be brief.", CacheKey: "ses_1", MaxTokens: 100, Tools: []llm.ToolSpec{{Name: "ls", Schema: json.RawMessage(`{"type":"object"}`)}}}
	var before []byte
	for turn := range 50 {
		req.MaxTokens = 100 + turn
		req.Messages = append(req.Messages, protocoltest.User(protocoltest.Said(fmt.Sprintf("turn %d", turn)), protocoltest.Image("x")))
		got := encode(req, here, quirks{cacheKey: true})
		checkRequest(t, got)
		if !bytes.HasPrefix(got, before) {
			t.Fatalf("turn %d:\n%s\ndoes not begin with\n%s", turn, got, before)
		}
		end := bytes.LastIndex(got, []byte(`],"max_tokens"`))
		before = bytes.Clone(got[:end])
		req.Messages = append(req.Messages,
			us.Said(llm.Block{Type: llm.Thinking, Text: "hm", Field: "reasoning"}, protocoltest.Said("ok"), protocoltest.CallOf("0", "ls", `{}`), protocoltest.CallOf("0", "ls", `{"a":1}`)),
			protocoltest.Result("0", "a.txt"), protocoltest.Result("0", "b.txt", protocoltest.Image("y")))
	}
}

func TestNothingInvalidReachesTheWire(t *testing.T) {
	for name, tc := range protocoltest.Odd {
		body := encode(llm.Request{Model: "m", System: tc.In, Messages: []llm.Message{protocoltest.User(protocoltest.Said(tc.In)), us.Said(protocoltest.CallOf("c", "ls", `{}`)), protocoltest.Result("c", tc.In)}}, here, quirks{})
		checkRequest(t, body)
		var back struct{ Messages []struct{ Content *string } }
		if err := json.Unmarshal(body, &back); err != nil || len(back.Messages) != 4 {
			t.Fatalf("%s: %v in %s", name, err, body)
		}
		for _, i := range []int{0, 1, 3} {
			if got := *back.Messages[i].Content; got != tc.Want {
				t.Errorf("%s: message %d is %q, want %q", name, i, got, tc.Want)
			}
		}
	}
}

func TestTheDialectDependsOnTheHost(t *testing.T) {
	for base, want := range map[string]quirks{
		"https://api.openai.com/v1":                     {completionTokens: true, cacheKey: true, noEmptyTools: true},
		"https://mine.openai.azure.com/openai":          {completionTokens: true, noEmptyTools: true},
		"https://notapi.openai.com.example.org/v1":      {},
		"http://127.0.0.1:8080/v1":                      {},
		"https://evilapi.openai.com/v1":                 {},
		"https://API.OPENAI.COM/v1":                     {completionTokens: true, cacheKey: true, noEmptyTools: true},
		"https://openrouter.ai/api/v1?x=api.openai.com": {},
	} {
		u, err := url.Parse(base)
		if err != nil {
			t.Fatal(err)
		}
		if got := quirksOf(u); got != want {
			t.Errorf("%s: got %+v, want %+v", base, got, want)
		}
	}
}

func BenchmarkEncode(b *testing.B) {
	req := llm.Request{Model: "m", System: strings.Repeat("Be brief. ", 300)}
	for range 100 {
		req.Messages = append(req.Messages, protocoltest.User(protocoltest.Said("please go on")), us.Said(protocoltest.Said("ok"), protocoltest.CallOf("c", "ls", `{"path":"a/b/c"}`)), protocoltest.Result("c", strings.Repeat("some output line\n", 30)))
	}
	b.ReportAllocs()
	for b.Loop() {
		b.SetBytes(int64(len(encode(req, here, quirks{}))))
	}
}
