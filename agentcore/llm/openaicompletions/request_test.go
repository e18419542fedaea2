package openaicompletions

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/workflowd/workflowd/agentcore/llm"
)

var update = flag.Bool("update", false, "rewrite the golden files")

var here = llm.Origin{API: API, Provider: "p", Model: "m"}

func user(blocks ...llm.Block) llm.Message { return llm.Message{Role: llm.RoleUser, Blocks: blocks} }

func said(s string) llm.Block { return llm.Block{Type: llm.Text, Text: s} }

func image(data string) llm.Block {
	return llm.Block{Type: llm.Image, Data: []byte(data), MimeType: "image/png"}
}

func callOf(id, name, args string) llm.Block {
	return llm.Block{Type: llm.ToolCall, CallID: id, Name: name, Args: json.RawMessage(args)}
}

func assistant(blocks ...llm.Block) llm.Message {
	origin := here
	return llm.Message{Role: llm.RoleAssistant, Blocks: blocks, Origin: &origin, Stop: llm.StopToolUse}
}

func result(id, text string, more ...llm.Block) llm.Message {
	return llm.Message{Role: llm.RoleToolResult, CallID: id, Blocks: append([]llm.Block{said(text)}, more...)}
}

// stopped returns m with another stop reason.
func stopped(m llm.Message, stop llm.StopReason) llm.Message {
	m.Stop = stop
	return m
}

func foreign(m llm.Message) llm.Message {
	m.Origin = &llm.Origin{API: API, Provider: "p", Model: "another"}
	return m
}

func TestAHistoryBecomesARequest(t *testing.T) {
	// Promise: P-054
	// Promise: P-374
	// Promise: P-376
	// Promise: P-571
	thinking := llm.Block{Type: llm.Thinking, Text: "plan: list", Field: "reasoning_content"}
	details := llm.Block{Type: llm.Thinking, Raw: json.RawMessage(`[{"type":"reasoning.encrypted","data":"Q0k="}]`)}
	tools := []llm.ToolSpec{{Name: "ls", Description: "List \"files\"", Schema: json.RawMessage(`{"type":"object","properties":{"path":{"type":"string"}}}`)}, {Name: "ping"}}
	for _, tc := range []struct {
		name string // of the golden file too
		req  llm.Request
		q    quirks
	}{
		{name: "a system prompt and a user", req: llm.Request{Model: "m", System: "Be brief.", Messages: []llm.Message{user(said("hi"))}}},
		{name: "tools effort limit and cache key at OpenAI", q: quirks{completionTokens: true, cacheKey: true, noEmptyTools: true},
			req: llm.Request{Model: "m", Tools: tools, Effort: llm.EffortUltra, MaxTokens: 100, CacheKey: "ses_1", Messages: []llm.Message{user(said("hi"))}}},
		{name: "tools effort limit and cache key elsewhere",
			req: llm.Request{Model: "m", Tools: tools, Effort: llm.EffortLow, MaxTokens: 100, CacheKey: "ses_1", Messages: []llm.Message{user(said("hi"))}}},
		{name: "effort off names no level", req: llm.Request{Model: "m", Effort: llm.EffortOff, Messages: []llm.Message{user(said("hi"))}}},
		{name: "images of a user", req: llm.Request{Model: "m", Messages: []llm.Message{user(said("what is this?"), image("abc"), llm.Block{Type: llm.Image})}}},
		{name: "a round of tools", req: llm.Request{Model: "m", Tools: tools, Messages: []llm.Message{
			user(said("list")), assistant(said("Let me look."), callOf("c1", "ls", `{"path":"x"}`), callOf("c2", "ping", `{}`)),
			result("c1", "a.txt"), result("c2", ""), stopped(assistant(said("done")), llm.StopEnd)}}},
		{name: "thinking goes back in its field to the same origin", req: llm.Request{Model: "m", Messages: []llm.Message{
			user(said("list")), assistant(thinking, details, callOf("c1", "ls", `{}`)), result("c1", "a.txt")}}},
		{name: "thinking never goes to another model", req: llm.Request{Model: "m", Messages: []llm.Message{
			user(said("list")), foreign(assistant(thinking, details, callOf("c1", "ls", `{}`))), result("c1", "a.txt")}}},
		{name: "results are adjacent and in call order", req: llm.Request{Model: "m", Messages: []llm.Message{
			user(said("list")), assistant(callOf("c1", "ls", `{}`), callOf("c2", "ping", `{}`)),
			result("c2", "pong"), user(said("stop after this")), result("c1", "a.txt"), user(said("and tell me"))}}},
		{name: "a missing result is made up and a lone one dropped", req: llm.Request{Model: "m", Messages: []llm.Message{
			result("c0", "from nowhere"), user(said("list")), assistant(callOf("c1", "ls", `{}`), callOf("c2", "ping", `{}`)),
			result("c1", "a.txt"), result("c1", "twice"), user(said("go on")), assistant(callOf("c3", "ls", `{}`))}}},
		{name: "calls of an unfinished message without result are dropped", req: llm.Request{Model: "m", Messages: []llm.Message{
			user(said("list")), stopped(assistant(said("I will"), callOf("c1", "ls", `{}`)), llm.StopInterrupted), user(said("go on")),
			stopped(assistant(callOf("c2", "ls", `{}`)), llm.StopLength), user(said("shorter")),
			stopped(assistant(callOf("c3", "ls", `{}`), callOf("c4", "ping", `{}`)), llm.StopAborted), result("c3", "a.txt")}}},
		{name: "empty messages are removed", req: llm.Request{Model: "m", Messages: []llm.Message{
			user(), user(said("")), user(said("hi")), assistant(), assistant(thinking), user(said("still there?"))}}},
		{name: "images of results follow as a user", req: llm.Request{Model: "m", Messages: []llm.Message{
			user(said("look")), assistant(callOf("c1", "read", `{}`), callOf("c2", "read", `{}`)),
			result("c1", "", image("abc")), result("c2", "a picture", image("def")), user(said("well?"))}}},
		{name: "call ids of other protocols", req: llm.Request{Model: "m", Messages: []llm.Message{
			user(said("x")), assistant(callOf("call_1|fc_aaa", "ls", `{}`), callOf("call_1|fc_bbb", "ls", `{}`), callOf("functions.ls:0", "ls", `{}`),
				callOf(strings.Repeat("a", 94), "ls", `{}`), callOf(strings.Repeat("a", 93)+"b", "ls", `{}`), callOf("x\ny", "ls", `{}`), callOf("", "ls", `{}`)),
			result("call_1|fc_bbb", "second"), result("call_1|fc_aaa", "first"), result("functions.ls:0", "third"), result(strings.Repeat("a", 94), "fourth"),
			result(strings.Repeat("a", 93)+"b", "fifth"), result("x\ny", "sixth"), result("", "seventh")}}},
		{name: "the same call id in two turns", req: llm.Request{Model: "m", Messages: []llm.Message{
			user(said("x")), assistant(callOf("call_1", "read", `{"path":"a"}`)), result("call_1", "A"),
			assistant(callOf("call_1", "bash", `{"command":"touch b"}`)), user(said("go on"))}}},
		{name: "two calls of one message with the same id", req: llm.Request{Model: "m", Messages: []llm.Message{
			user(said("x")), assistant(callOf("0", "read", `{"path":"a"}`), callOf("0", "read", `{"path":"b"}`)), result("0", "A"), result("0", "B")}}},
		{name: "bad arguments go back as an object", req: llm.Request{Model: "m", Messages: []llm.Message{
			user(said("x")), assistant(llm.Block{Type: llm.ToolCall, CallID: "c1", Name: "ls", BadArgs: "[1]"}, callOf("c2", "ls", `{"a"`)),
			result("c1", "an object is needed"), result("c2", "an object is needed")}}},
		{name: "a refusal stays in the history as words", req: llm.Request{Model: "m", Messages: []llm.Message{
			user(said("x")), stopped(assistant(llm.Block{Type: llm.Refusal, Text: "No."}), llm.StopRefusal), user(said("why?"))}}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := encode(tc.req, here, tc.q)
			checkRequest(t, got)
			var shown bytes.Buffer
			if err := json.Indent(&shown, got, "", "  "); err != nil {
				t.Fatal(err)
			}
			shown.WriteByte('\n')
			golden(t, strings.ReplaceAll(tc.name, " ", "-")+".json", shown.Bytes())
		})
	}
}

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", "request", name)
	if *update {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(got), string(want)); diff != "" {
		t.Fatalf("%s (-got +want):\n%s", path, diff)
	}
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
	ids := rapid.SampledFrom([]string{"", "c1", "c1|x", "c1_2", "c2", "a:b", strings.Repeat("z", 50), strings.Repeat("z", 51)})
	block := rapid.Custom(func(t *rapid.T) llm.Block {
		return llm.Block{
			Type:   rapid.SampledFrom([]llm.BlockType{llm.Text, llm.Thinking, llm.ToolCall, llm.Image, llm.Refusal, llm.Native}).Draw(t, "type"),
			Text:   string(rapid.SliceOfN(rapid.Byte(), 0, 6).Draw(t, "text")),
			CallID: ids.Draw(t, "id"),
			Name:   rapid.SampledFrom([]string{"", "ls", "\xff"}).Draw(t, "name"),
			Args:   json.RawMessage(rapid.SampledFrom([]string{"", "{}", `{"a":"\ud83d"}`, `[`, "null", "{\"a\":\"\xff\"}"}).Draw(t, "args")),
			Data:   []byte(rapid.SampledFrom([]string{"", "x"}).Draw(t, "data")),
			Field:  rapid.SampledFrom([]string{"", "reasoning", "other"}).Draw(t, "field"),
			Raw:    json.RawMessage(rapid.SampledFrom([]string{"", "[]", `[{"a":1}]`, "{}", "["}).Draw(t, "raw")),
		}
	})
	message := rapid.Custom(func(t *rapid.T) llm.Message {
		m := llm.Message{
			Role:   rapid.SampledFrom([]llm.Role{llm.RoleUser, llm.RoleAssistant, llm.RoleToolResult, "other"}).Draw(t, "role"),
			CallID: ids.Draw(t, "callId"),
			Stop:   rapid.SampledFrom([]llm.StopReason{"", llm.StopToolUse, llm.StopInterrupted, llm.StopLength}).Draw(t, "stop"),
			Blocks: rapid.SliceOfN(block, 0, 4).Draw(t, "blocks"),
		}
		if rapid.Bool().Draw(t, "here") {
			m.Origin = &llm.Origin{API: API, Provider: "p", Model: "m"}
		}
		return m
	})
	rapid.Check(t, func(t *rapid.T) {
		list := rapid.SliceOfN(message, 0, 12).Draw(t, "messages")
		checkRequest(t, encode(llm.Request{Model: "m", Messages: list}, here, quirks{}))
	})
}

// Every turn repeats the bytes of the one before up to the end of its messages, so that a prompt cache hits.
func TestTheRequestOfATurnBeginsWithTheOneBefore(t *testing.T) {
	req := llm.Request{Model: "m", System: "Be brief.", CacheKey: "ses_1", MaxTokens: 100, Tools: []llm.ToolSpec{{Name: "ls", Schema: json.RawMessage(`{"type":"object"}`)}}}
	var before []byte
	for turn := range 50 {
		req.MaxTokens = 100 + turn
		req.Messages = append(req.Messages, user(said(fmt.Sprintf("turn %d", turn)), image("x")))
		got := encode(req, here, quirks{cacheKey: true})
		checkRequest(t, got)
		if !bytes.HasPrefix(got, before) {
			t.Fatalf("turn %d:\n%s\ndoes not begin with\n%s", turn, got, before)
		}
		end := bytes.LastIndex(got, []byte(`],"max_tokens"`))
		before = bytes.Clone(got[:end])
		req.Messages = append(req.Messages,
			assistant(llm.Block{Type: llm.Thinking, Text: "hm", Field: "reasoning"}, said("ok"), callOf("0", "ls", `{}`), callOf("0", "ls", `{"a":1}`)),
			result("0", "a.txt"), result("0", "b.txt", image("y")))
	}
}

func TestNothingInvalidReachesTheWire(t *testing.T) {
	for name, tc := range map[string]struct{ in, want string }{
		"cut rune":            {"a\xf0\x9f\xa7", "a\uFFFD\uFFFD\uFFFD"},
		"bytes of no text":    {"\xff\xfe\x80", "\uFFFD\uFFFD\uFFFD"},
		"encoded surrogate":   {"\xed\xa0\xbd", "\uFFFD\uFFFD\uFFFD"},
		"controls":            {"\x00\x1b[31m\x7f\t\r\n", "\x00\x1b[31m\x7f\t\r\n"},
		"separators and HTML": {"\u2028<&>", "\u2028<&>"},
		"the real U+FFFD":     {"\uFFFD", "\uFFFD"},
	} {
		body := encode(llm.Request{Model: "m", System: tc.in, Messages: []llm.Message{user(said(tc.in)), assistant(callOf("c", "ls", `{}`)), result("c", tc.in)}}, here, quirks{})
		checkRequest(t, body)
		var back struct{ Messages []struct{ Content *string } }
		if err := json.Unmarshal(body, &back); err != nil || len(back.Messages) != 4 {
			t.Fatalf("%s: %v in %s", name, err, body)
		}
		for _, i := range []int{0, 1, 3} {
			if got := *back.Messages[i].Content; got != tc.want {
				t.Errorf("%s: message %d is %q, want %q", name, i, got, tc.want)
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
		req.Messages = append(req.Messages, user(said("please go on")), assistant(said("ok"), callOf("c", "ls", `{"path":"a/b/c"}`)), result("c", strings.Repeat("some output line\n", 30)))
	}
	b.ReportAllocs()
	for b.Loop() {
		b.SetBytes(int64(len(encode(req, here, quirks{}))))
	}
}
