package anthropic

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/workflowd/workflowd/agentcore/llm"
	"github.com/workflowd/workflowd/agentcore/llm/protocol/protocoltest"
)

var us = protocoltest.Writer(here)

func raw(s string) json.RawMessage { return json.RawMessage(s) }

// The blocks of a search, as they are stored.
var (
	searching = llm.Block{Type: llm.Native, CallID: "s1", Name: kindServerTool, Raw: raw(`{"type":"server_tool_use","id":"s1","name":"web_search","input":{"query":"go"}}`)}
	foundIt   = llm.Block{Type: llm.Native, CallID: "s1", Name: kindSearchResult, Raw: raw(`{"type":"web_search_tool_result","tool_use_id":"s1","content":[{"type":"web_search_result","url":"u","encrypted_content":"Zm9v"}]}`)}
	cites     = llm.Block{Type: llm.Text, Text: "A language.", Raw: raw(`[{"type":"web_search_result_location","url":"u","encrypted_index":"Eo8="}]`)}
	thought   = llm.Block{Type: llm.Thinking, Text: "plan: list", Raw: raw(`{"type":"thinking","signature":"abcd"}`)}
	redacted  = llm.Block{Type: llm.Thinking, Raw: raw(`{"type":"redacted_thinking","data":"ZZ"}`)}
	unsigned  = llm.Block{Type: llm.Thinking, Text: "cut off"}
	blank     = llm.Block{Type: llm.Thinking, Text: "blank", Raw: raw(`{"type":"thinking","signature":""}`)}
)

func TestAHistoryBecomesARequest(t *testing.T) {
	// Promise: P-380
	// Promise: P-387
	// Promise: P-388
	// Promise: P-395
	// Promise: P-396
	// Promise: P-397
	hi := []llm.Message{protocoltest.User(protocoltest.Said("hi"))}
	list := protocoltest.User(protocoltest.Said("list"))
	call, result := protocoltest.CallOf("c1", "ls", `{}`), protocoltest.Result("c1", "a.txt")
	failed := protocoltest.Result("c1", "no such file")
	failed.IsError = true
	more := protocoltest.User(protocoltest.Said("go on"))
	of := func(messages ...llm.Message) llm.Request { return llm.Request{Model: here.Model, Messages: messages} }
	cases := append(protocoltest.Cases(us),
		protocoltest.Case{Name: "tools system and search", Request: llm.Request{Model: here.Model, System: "Be brief.", Tools: protocoltest.Tools, WebSearch: true, MaxTokens: 100, CacheKey: "ses_1", Messages: hi}},
		protocoltest.Case{Name: "tools without system carry the cache mark", Request: llm.Request{Model: here.Model, Tools: protocoltest.Tools, Messages: hi}},
		protocoltest.Case{Name: "thinking goes back to the same model", Request: of(list, us.Said(thought, redacted, protocoltest.Said("Looking."), call), result)},
		protocoltest.Case{Name: "thinking never goes to another model", Request: of(list, us.Foreign(thought, redacted, call), result)},
		protocoltest.Case{Name: "thinking without signature or at the end of a message stays away", Request: of(list, us.Said(unsigned, blank, protocoltest.Said("ok"), thought), more, us.Said(thought), more)},
		protocoltest.Case{Name: "nothing but spaces is nothing", Request: of(list, us.Said(protocoltest.Said(" \n"), call), protocoltest.Result("c1", " \n"), protocoltest.User(protocoltest.Said("\t")), more)},
		protocoltest.Case{Name: "a failed call says so", Request: of(list, us.Said(call), failed)},
		protocoltest.Case{Name: "a search goes back to the same model", Request: of(list, protocoltest.Stopped(us.Said(searching, foundIt, cites), llm.StopEnd), more)},
		protocoltest.Case{Name: "a search never goes to another model", Request: of(list, protocoltest.Stopped(us.Foreign(searching, foundIt, cites), llm.StopEnd), more)},
		protocoltest.Case{Name: "a search of a message that was cut off stays away", Request: of(list, protocoltest.Stopped(us.Said(searching, foundIt, cites), llm.StopInterrupted), more)},
		protocoltest.Case{Name: "a pause goes on where it was", Request: of(list, protocoltest.Stopped(us.Said(thought, protocoltest.Said("Searching."), searching), llm.StopPause))},
		protocoltest.Case{Name: "two answers in a row are one message", Request: of(list, protocoltest.Stopped(us.Said(searching), llm.StopPause), protocoltest.Stopped(us.Said(foundIt, cites), llm.StopEnd), more)},
	)
	for _, tc := range cases {
		t.Run(tc.Name, func(t *testing.T) {
			got := encode(tc.Request, here)
			checkRequest(t, got)
			protocoltest.Golden(t, tc.Name, got)
		})
	}
}

// failer is what checkRequest needs of a test.
type failer interface {
	Helper()
	Fatalf(string, ...any)
}

type sentBlock struct {
	Type      string
	Text      string
	ID        string
	Name      string
	ToolUseID string          `json:"tool_use_id"`
	Input     json.RawMessage `json:"input"`
	Content   json.RawMessage `json:"content"`
	Cache     json.RawMessage `json:"cache_control"`
}

var callID, toolName = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`), regexp.MustCompile(`^[A-Za-z0-9_-]{1,128}$`)

// checkRequest checks what every request must keep, whatever the history.
func checkRequest(t failer, body []byte) {
	t.Helper()
	if !utf8.Valid(body) || !json.Valid(body) {
		t.Fatalf("no valid JSON in UTF-8: %q", body)
	}
	var req struct {
		MaxTokens int `json:"max_tokens"`
		Thinking  *struct {
			Type   string
			Budget int `json:"budget_tokens"`
		}
		Messages []struct {
			Role    string
			Content []sentBlock
		}
	}
	if err := json.Unmarshal(body, &req); err != nil {
		t.Fatalf("%v", err)
	}
	if req.MaxTokens <= 0 || req.Thinking != nil && req.Thinking.Budget > 0 && (req.Thinking.Budget < minBudget || req.Thinking.Budget >= req.MaxTokens) {
		t.Fatalf("limit %d, thinking %+v", req.MaxTokens, req.Thinking)
	}
	used := map[string]bool{}
	var due []string
	role, marks := "", 0
	for i, m := range req.Messages {
		if m.Role == role || len(m.Content) == 0 || i == 0 && m.Role != "user" {
			t.Fatalf("message %d is a %s behind a %s with %d blocks", i, m.Role, role, len(m.Content))
		}
		role = m.Role
		for j, b := range m.Content {
			if len(b.Cache) > 0 {
				marks++
				if i < len(req.Messages)-2 || j != len(m.Content)-1 || m.Role != "user" {
					t.Fatalf("message %d: block %d has the cache mark", i, j)
				}
			}
			if b.Type == "tool_result" {
				if len(due) == 0 || due[0] != b.ToolUseID || string(b.Content) == `""` || string(b.Content) == "[]" {
					t.Fatalf("message %d answers %q with %s, due are %q", i, b.ToolUseID, b.Content, due)
				}
				due = due[1:]
				continue
			}
			if m.Role == "user" && len(due) > 0 {
				t.Fatalf("message %d has a %s, results of %q are due", i, b.Type, due)
			}
			switch b.Type {
			case "text":
				if strings.TrimSpace(b.Text) == "" {
					t.Fatalf("message %d has an empty text", i)
				}
			case "tool_use":
				if !callID.MatchString(b.ID) || used[b.ID] || !toolName.MatchString(b.Name) || len(b.Input) == 0 || b.Input[0] != '{' {
					t.Fatalf("message %d: call %q %q %s is refused or not unique", i, b.ID, b.Name, b.Input)
				}
				used[b.ID] = true
				due = append(due, b.ID)
			}
		}
		if last := m.Content[len(m.Content)-1].Type; strings.HasSuffix(last, "thinking") {
			t.Fatalf("message %d ends in thoughts", i)
		}
	}
	if len(due) > 0 {
		t.Fatalf("results of %q are missing", due)
	}
	if len(req.Messages) > 0 && marks != 1 {
		t.Fatalf("%d cache marks", marks)
	}
}

func TestAnyHistoryGivesAValidRequest(t *testing.T) {
	messages := protocoltest.AnyMessages(us, string(thought.Raw), string(redacted.Raw), string(searching.Raw), string(cites.Raw))
	efforts := rapid.SampledFrom([]llm.Effort{"", llm.EffortOff, llm.EffortHigh})
	rapid.Check(t, func(t *rapid.T) {
		req := llm.Request{Model: here.Model, Messages: messages.Draw(t, "messages"), Effort: efforts.Draw(t, "effort"), MaxTokens: rapid.SampledFrom([]int{0, 1, 5000}).Draw(t, "limit")}
		checkRequest(t, encode(req, here))
	})
}

// Every turn repeats the bytes of the one before up to the end of its messages, so that a prompt cache hits; the mark that
// says so moves on.
func TestTheRequestOfATurnBeginsWithTheOneBefore(t *testing.T) {
	req := llm.Request{Model: here.Model, System: "Be brief.", MaxTokens: 100, Tools: protocoltest.Tools}
	var before []byte
	for turn := range 50 {
		req.Messages = append(req.Messages, protocoltest.User(protocoltest.Said(fmt.Sprintf("turn %d", turn)), protocoltest.Image("x")))
		got := encode(req, here)
		checkRequest(t, got)
		messages := bytes.Index(got, []byte(`"messages":`))
		plain := append(bytes.Clone(got[:messages]), bytes.ReplaceAll(got[messages:], []byte(cached), nil)...)
		if !bytes.HasPrefix(plain, before) {
			t.Fatalf("turn %d:\n%s\ndoes not begin with\n%s", turn, plain, before)
		}
		before = bytes.TrimSuffix(plain, []byte(`]}]}`))
		req.Messages = append(req.Messages,
			us.Said(thought, protocoltest.Said("ok"), protocoltest.CallOf("0", "ls", `{}`), protocoltest.CallOf("0", "ls", `{"a":1}`)),
			protocoltest.Result("0", "a.txt"), protocoltest.Result("0", "b.txt", protocoltest.Image("y")))
	}
}

func TestNothingInvalidReachesTheWire(t *testing.T) {
	for name, tc := range protocoltest.Odd {
		body := encode(llm.Request{Model: "m", System: tc.In, Messages: []llm.Message{protocoltest.User(protocoltest.Said(tc.In)), us.Said(protocoltest.CallOf("c", "ls", `{}`)), protocoltest.Result("c", tc.In)}}, here)
		checkRequest(t, body)
		var back struct {
			System   []struct{ Text string }
			Messages []struct {
				Content []struct{ Text, Content string }
			}
		}
		if err := json.Unmarshal(body, &back); err != nil || len(back.Messages) != 3 {
			t.Fatalf("%s: %v in %s", name, err, body)
		}
		if diff := cmp.Diff([]string{back.System[0].Text, back.Messages[0].Content[0].Text, back.Messages[2].Content[0].Content}, []string{tc.Want, tc.Want, tc.Want}); diff != "" {
			t.Errorf("%s (-got +want):\n%s", name, diff)
		}
	}
}

func TestAModelIsAskedToThinkInItsOwnWay(t *testing.T) {
	// Promise: P-375
	// Promise: P-377
	for _, tc := range []struct {
		model  string
		effort llm.Effort
		limit  int
		want   string // of the body, between the model and the stream
	}{
		{"claude-3-haiku-20240307", llm.EffortHigh, 0, `4096,"stream":true,`},
		{"claude-3-5-sonnet-20241022", "", 0, `8192,"stream":true,`},
		{"claude-2.1", llm.EffortMax, 0, `4096,"stream":true,`},
		{"claude-3-7-sonnet-latest", llm.EffortLow, 0, `34048,"stream":true,"thinking":{"type":"enabled","budget_tokens":2048},`},
		{"claude-sonnet-4-5-20250929", "", 0, `32000,"stream":true,"thinking":{"type":"disabled"},`},
		{"claude-sonnet-4-5-20250929", llm.EffortOff, 500, `500,"stream":true,"thinking":{"type":"disabled"},`},
		{"claude-sonnet-4-5", llm.EffortMinimal, 100, `1124,"stream":true,"thinking":{"type":"disabled"},`},
		{"claude-sonnet-4-5", llm.EffortMinimal, 2000, `3024,"stream":true,"thinking":{"type":"enabled","budget_tokens":1024},`},
		{"vendor/claude-haiku-4.5", llm.EffortMedium, 1000, `9192,"stream":true,"thinking":{"type":"enabled","budget_tokens":8168},`},
		{"claude-sonnet-4-5", llm.EffortMax, 0, `48384,"stream":true,"thinking":{"type":"enabled","budget_tokens":16384},`},
		{"claude-opus-4-1-20250805", llm.EffortHigh, 0, `32000,"stream":true,"thinking":{"type":"enabled","budget_tokens":16384},`},
		{"claude-opus-4-20250514", llm.EffortHigh, 40000, `40000,"stream":true,"thinking":{"type":"enabled","budget_tokens":16384},`},
		{"claude-opus-4-6", llm.EffortXHigh, 0, `32000,"stream":true,"thinking":{"type":"adaptive"},"output_config":{"effort":"high"},`},
		{"anthropic.claude-sonnet-4-6-v1:0", llm.EffortUltra, 0, `32000,"stream":true,"thinking":{"type":"adaptive"},"output_config":{"effort":"max"},`},
		{"claude-opus-4-6", "", 0, `32000,"stream":true,"thinking":{"type":"disabled"},`},
		{"claude-opus-4-8", llm.EffortMinimal, 9, `9,"stream":true,"thinking":{"type":"adaptive","display":"summarized"},"output_config":{"effort":"low"},`},
		{"claude-opus-4-7", llm.EffortXHigh, 0, `32000,"stream":true,"thinking":{"type":"adaptive","display":"summarized"},"output_config":{"effort":"xhigh"},`},
		{"claude-opus-5", "", 0, `32000,"stream":true,"thinking":{"type":"disabled"},`},
		{"claude-opus-5-5", "", 0, `32000,"stream":true,"thinking":{"type":"adaptive","display":"summarized"},"output_config":{"effort":"low"},`},
		{"claude-fable-5", llm.EffortOff, 0, `32000,"stream":true,"thinking":{"type":"adaptive","display":"summarized"},"output_config":{"effort":"low"},`},
		{"claude-mythos-preview", llm.EffortHigh, 0, `32000,"stream":true,"thinking":{"type":"adaptive","display":"summarized"},"output_config":{"effort":"high"},`},
		{"claude-sonnet-5-5", "", 0, `32000,"stream":true,"thinking":{"type":"between_tools"},`},
		{"claude-sonnet-5", "", 0, `32000,"stream":true,"thinking":{"type":"disabled"},`},
		{"glm-5", llm.EffortHigh, 0, `48384,"stream":true,"thinking":{"type":"enabled","budget_tokens":16384},`},
		{"kimi-k2", "", 0, `32000,"stream":true,"thinking":{"type":"disabled"},`},
	} {
		got := string(encode(llm.Request{Model: tc.model, Effort: tc.effort, MaxTokens: tc.limit, Messages: []llm.Message{protocoltest.User(protocoltest.Said("hi"))}}, here))
		if want := `{"model":"` + tc.model + `","max_tokens":` + tc.want + `"messages":`; !strings.HasPrefix(got, want) {
			t.Errorf("%s at %q:\ngot  %s\nwant %s", tc.model, tc.effort, got, want)
		}
	}
}

// A model that thinks by budget refuses to begin with that in the middle of a round of tools.
func TestARoundThatBeganWithoutThoughtsGoesOnWithoutThem(t *testing.T) {
	round := func(m llm.Message) string {
		return string(encode(llm.Request{Model: here.Model, Effort: llm.EffortHigh, Messages: []llm.Message{protocoltest.User(protocoltest.Said("go")), m, protocoltest.Result("c", "ok")}}, here))
	}
	call := protocoltest.CallOf("c", "ls", `{}`)
	for name, tc := range map[string]struct {
		m    llm.Message
		want string
	}{
		"with thoughts":       {us.Said(thought, call), `"type":"enabled"`},
		"redacted":            {us.Said(redacted, call), `"type":"enabled"`},
		"without":             {us.Said(call), `"type":"disabled"`},
		"thoughts behind":     {us.Said(protocoltest.Said("x"), thought, call), `"type":"disabled"`},
		"of another model":    {us.Foreign(thought, call), `"type":"disabled"`},
		"an answer, no round": {us.Said(protocoltest.Said("x")), `"type":"enabled"`},
	} {
		if got := round(tc.m); !strings.Contains(got, `"thinking":{`+tc.want) {
			t.Errorf("%s: got %s", name, got)
		}
	}
}

func FuzzEncoder(f *testing.F) {
	f.Add("a", "c1", `{"a":1}`, `{"type":"thinking","signature":"s"}`, 1)
	f.Add("\xff", "", `[`, `[]`, 5)
	f.Fuzz(func(t *testing.T, text, id, args, kept string, kind int) {
		kinds := []llm.BlockType{llm.Text, llm.Thinking, llm.ToolCall, llm.Refusal, llm.Native, llm.Image}
		b := llm.Block{Type: kinds[uint(kind)%uint(len(kinds))], Text: text, CallID: id, Name: text, Args: raw(args), Raw: raw(kept), Data: []byte(text)}
		m := us.Said(b, protocoltest.Said(text), b)
		checkRequest(t, encode(llm.Request{Model: here.Model, System: text, Messages: []llm.Message{protocoltest.User(b, protocoltest.Said(text)), m, protocoltest.Result(id, text, b)}}, here))
	})
}

func BenchmarkEncode(b *testing.B) {
	req := llm.Request{Model: here.Model, System: strings.Repeat("Be brief. ", 300)}
	for range 100 {
		req.Messages = append(req.Messages, protocoltest.User(protocoltest.Said("please go on")),
			us.Said(thought, protocoltest.Said("ok"), protocoltest.CallOf("c", "ls", `{"path":"a/b/c"}`)), protocoltest.Result("c", strings.Repeat("some output line\n", 30)))
	}
	b.ReportAllocs()
	for b.Loop() {
		b.SetBytes(int64(len(encode(req, here))))
	}
}
