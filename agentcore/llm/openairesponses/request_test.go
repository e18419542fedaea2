package openairesponses

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

// The blocks of answers, as they are stored.
var (
	thought   = llm.Block{Type: llm.Thinking, Text: "plan", Raw: raw(`{"type":"reasoning","id":"rs_1","summary":[{"type":"summary_text","text":"plan"}],"encrypted_content":"Q0k="}`)}
	silent    = llm.Block{Type: llm.Thinking, Raw: raw(`{"type":"reasoning","id":"rs_2","summary":[],"encrypted_content":"Q0o="}`)}
	byID      = llm.Block{Type: llm.Thinking, Raw: raw(`{"type":"reasoning","id":"rs_3","summary":[]}`)}
	unsaid    = llm.Block{Type: llm.Thinking, Text: "cut off"}
	spoken    = llm.Block{Type: llm.Text, Text: "Looking.", Raw: raw(`{"type":"message","id":"msg_1","phase":"commentary"}`)}
	spokenToo = llm.Block{Type: llm.Text, Text: " Still.", Raw: raw(`{"type":"message","id":"msg_1","phase":"commentary"}`)}
	answered  = llm.Block{Type: llm.Text, Text: "A language.", Raw: raw(`{"type":"message","id":"msg_2","phase":"final_answer"}`)}
	searched  = llm.Block{Type: llm.Native, CallID: "ws_1", Name: itemSearch, Raw: raw(`{"type":"web_search_call","id":"ws_1","status":"completed","action":{"type":"search","query":"go"}}`)}
	shell     = llm.Block{Type: llm.Native, Name: "local_shell_call", Raw: raw(`{"type":"local_shell_call","id":"lsh_1","call_id":"s","status":"completed"}`)}
	hosted    = llm.Block{Type: llm.Native, Name: "shell_call", Raw: raw(`{"type":"shell_call","id":"sh_1","call_id":"s"}`)}
	itsOutput = llm.Block{Type: llm.Native, Name: "shell_call_output", Raw: raw(`{"type":"shell_call_output","id":"sho_1","call_id":"s"}`)}
)

func callItem(id string) llm.Block {
	b := protocoltest.CallOf("c1", "ls", `{}`)
	b.Raw = raw(`{"type":"function_call","id":"` + id + `"}`)
	return b
}

func TestAHistoryBecomesARequest(t *testing.T) {
	// Promise: P-379
	// Promise: P-387
	// Promise: P-388
	// Promise: P-395
	// Promise: P-396
	// Promise: P-397
	hi := []llm.Message{protocoltest.User(protocoltest.Said("hi"))}
	list, more := protocoltest.User(protocoltest.Said("list")), protocoltest.User(protocoltest.Said("go on"))
	call, result := callItem("fc_1"), protocoltest.Result("c1", "a.txt")
	of := func(messages ...llm.Message) llm.Request { return llm.Request{Model: here.Model, Messages: messages} }
	ended := func(m llm.Message) llm.Message { return protocoltest.Stopped(m, llm.StopEnd) }
	cases := append(protocoltest.Cases(us),
		protocoltest.Case{Name: "tools effort limit search and cache key", Request: llm.Request{Model: here.Model, System: "Be brief.", Tools: protocoltest.Tools, WebSearch: true,
			Effort: llm.EffortUltra, MaxTokens: 100, CacheKey: "ses_1", Messages: hi}},
		protocoltest.Case{Name: "a model that does not reason", Request: llm.Request{Model: "gpt-4o", Effort: llm.EffortHigh, Messages: hi}},
		protocoltest.Case{Name: "effort off names no level", Request: llm.Request{Model: here.Model, Effort: llm.EffortOff, Messages: hi}},
		protocoltest.Case{Name: "items go back whole to the same model", Request: of(list, us.Said(thought, spoken, spokenToo, silent, call), result)},
		protocoltest.Case{Name: "items never go to another model", Request: of(list, us.Foreign(thought, spoken, call), result)},
		protocoltest.Case{Name: "reasoning alone stays away", Request: of(list, protocoltest.Stopped(us.Said(thought), llm.StopLength), more, us.Said(silent), more)},
		protocoltest.Case{Name: "reasoning that only the provider knows stays away with the ids", Request: of(list, us.Said(byID, spoken, call), result)},
		protocoltest.Case{Name: "reasoning of a message that was cut off stays away", Request: of(list, protocoltest.Stopped(us.Said(thought, spoken), llm.StopInterrupted), more, us.Said(unsaid, spoken), more)},
		protocoltest.Case{Name: "ids that the endpoint refuses are left out", Request: of(list, us.Said(callItem("62bf2bb7-56af"), protocoltest.CallOf("c2", "ls", `{}`)), result, protocoltest.Result("c2", "b.txt"), us.Said(callItem("fc_1_")), result, us.Said(callItem("fc_"+strings.Repeat("a", 62))), result)},
		protocoltest.Case{Name: "a search goes back to the same model", Request: of(list, ended(us.Said(thought, searched, answered)), more)},
		protocoltest.Case{Name: "a search never goes to another model", Request: of(list, ended(us.Foreign(thought, searched, answered)), more)},
		protocoltest.Case{Name: "no item goes back twice", Request: of(list, ended(us.Said(thought, spoken)), more, ended(us.Said(thought, spoken)), more, ended(us.Said(searched, searched)), more)},
		protocoltest.Case{Name: "an item that waits for an output stays away", Request: of(list, ended(us.Said(thought, shell, answered)), more)},
		protocoltest.Case{Name: "an item goes back with its output", Request: of(list, ended(us.Said(hosted, itsOutput, answered)), more)},
	)
	for _, tc := range cases {
		t.Run(tc.Name, func(t *testing.T) {
			got := encode(tc.Request, here)
			checkRequest(t, got)
			protocoltest.Golden(t, tc.Name, got)
		})
	}
}

var (
	callID = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)
	itemID = map[string]*regexp.Regexp{
		itemCall:    regexp.MustCompile(`^fc_[A-Za-z0-9_-]{0,60}[A-Za-z0-9-]$`),
		itemMessage: regexp.MustCompile(`^msg_[A-Za-z0-9_-]{0,59}[A-Za-z0-9-]$`),
	}
)

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
		Store *bool
		Input []struct {
			Type, Role, ID, Name, Arguments string
			CallID                          string          `json:"call_id"`
			Content                         json.RawMessage `json:"content"`
			Output                          json.RawMessage `json:"output"`
			Encrypted                       string          `json:"encrypted_content"`
		}
	}
	if err := json.Unmarshal(body, &req); err != nil {
		t.Fatalf("%v", err)
	}
	if req.Store == nil || *req.Store {
		t.Fatalf("the provider is asked to store")
	}
	used, ids := map[string]bool{}, map[string]bool{}
	var due []string
	for i, m := range req.Input {
		if re := itemID[m.Type]; m.ID != "" && (ids[m.ID] || re != nil && !re.MatchString(m.ID)) {
			t.Fatalf("item %d: id %q is refused or not unique", i, m.ID)
		}
		ids[m.ID] = m.ID != ""
		switch m.Type {
		case itemMessage:
			if string(m.Content) == "[]" || m.Role != "assistant" && len(due) > 0 {
				t.Fatalf("item %d is a %s with %s, due are %q", i, m.Role, m.Content, due)
			}
		case itemReasoning:
			if m.Encrypted == "" || i == len(req.Input)-1 || req.Input[i+1].Role == "user" {
				t.Fatalf("item %d: reasoning with %q and nothing behind it", i, m.Encrypted)
			}
		case itemCall:
			if !callID.MatchString(m.CallID) || used[m.CallID] || !callID.MatchString(m.Name) {
				t.Fatalf("item %d: call %q %q is refused or not unique", i, m.CallID, m.Name)
			}
			used[m.CallID] = true
			due = append(due, m.CallID)
			var args map[string]any
			if err := json.Unmarshal([]byte(m.Arguments), &args); err != nil || args == nil {
				t.Fatalf("item %d: arguments %q are no object: %v", i, m.Arguments, err)
			}
		case "function_call_output":
			if len(due) == 0 || due[0] != m.CallID || string(m.Output) == `""` || string(m.Output) == "[]" {
				t.Fatalf("item %d answers %q with %s, due are %q", i, m.CallID, m.Output, due)
			}
			due = due[1:]
		}
	}
	if len(due) > 0 {
		t.Fatalf("results of %q are missing", due)
	}
}

func TestAnyHistoryGivesAValidRequest(t *testing.T) {
	messages := protocoltest.AnyMessages(us, string(searched.Raw), string(shell.Raw), string(byID.Raw))
	rapid.Check(t, func(t *rapid.T) {
		checkRequest(t, encode(llm.Request{Model: here.Model, Messages: messages.Draw(t, "messages"), Effort: llm.EffortHigh}, here))
	})
}

// Every turn repeats the bytes of the one before up to the end of its input, so that a prompt cache hits.
func TestTheRequestOfATurnBeginsWithTheOneBefore(t *testing.T) {
	req := llm.Request{Model: here.Model, System: "Be brief.", CacheKey: "ses_1", Tools: protocoltest.Tools}
	var before []byte
	for turn := range 50 {
		req.MaxTokens = 100 + turn
		req.Messages = append(req.Messages, protocoltest.User(protocoltest.Said(fmt.Sprintf("turn %d", turn)), protocoltest.Image("x")))
		got := encode(req, here)
		checkRequest(t, got)
		if !bytes.HasPrefix(got, before) {
			t.Fatalf("turn %d:\n%s\ndoes not begin with\n%s", turn, got, before)
		}
		before = bytes.Clone(got[:bytes.LastIndex(got, []byte(`],"max_output_tokens"`))])
		own := func(b llm.Block) llm.Block { // every answer has items of its own
			b.Raw = bytes.ReplaceAll(b.Raw, []byte(`_1"`), fmt.Appendf(nil, `_1%d"`, turn))
			return b
		}
		req.Messages = append(req.Messages,
			us.Said(own(thought), own(spoken), protocoltest.CallOf("0", "ls", `{}`), protocoltest.CallOf("0", "ls", `{"a":1}`)),
			protocoltest.Result("0", "a.txt"), protocoltest.Result("0", "b.txt", protocoltest.Image("y")))
	}
}

func TestNothingInvalidReachesTheWire(t *testing.T) {
	for name, tc := range protocoltest.Odd {
		body := encode(llm.Request{Model: "m", System: tc.In, Messages: []llm.Message{protocoltest.User(protocoltest.Said(tc.In)), us.Said(protocoltest.CallOf("c", "ls", `{}`)), protocoltest.Result("c", tc.In)}}, here)
		checkRequest(t, body)
		var back struct {
			Instructions string
			Input        []struct {
				Content []struct{ Text string }
				Output  string
			}
		}
		if err := json.Unmarshal(body, &back); err != nil || len(back.Input) != 3 {
			t.Fatalf("%s: %v in %s", name, err, body)
		}
		if diff := cmp.Diff([]string{back.Instructions, back.Input[0].Content[0].Text, back.Input[2].Output}, []string{tc.Want, tc.Want, tc.Want}); diff != "" {
			t.Errorf("%s (-got +want):\n%s", name, diff)
		}
	}
}

func TestALevelConvergesToOneThatTheModelKnows(t *testing.T) {
	// Promise: P-375
	for _, tc := range []struct {
		model       string
		level, want llm.Effort
	}{
		{"gpt-5", llm.EffortMinimal, llm.EffortMinimal},
		{"gpt-5-mini-2025-08-07", llm.EffortXHigh, llm.EffortHigh},
		{"gpt-5.1", llm.EffortMinimal, llm.EffortLow},
		{"gpt-5.1", llm.EffortMax, llm.EffortHigh},
		{"gpt-5.1-codex-max", llm.EffortMax, llm.EffortXHigh},
		{"openai/gpt-5.6-sol", llm.EffortUltra, llm.EffortXHigh},
		{"gpt-5-pro", llm.EffortLow, llm.EffortHigh},
		{"gpt-5-codex", llm.EffortMinimal, llm.EffortLow},
		{"o3-mini", llm.EffortMinimal, llm.EffortLow},
		{"o4-mini", llm.EffortMedium, llm.EffortMedium},
		{"gpt-4o-mini", llm.EffortHigh, ""},
		{"gpt-4.1", llm.EffortHigh, ""},
		{"gpt-3.5-turbo", llm.EffortHigh, ""},
		{"gpt-5-chat-latest", llm.EffortHigh, ""},
		{"grok-4.3", llm.EffortXHigh, llm.EffortXHigh},
		{"o300", llm.EffortMinimal, llm.EffortMinimal},
		{"gpt-5", "", ""},
		{"gpt-5", llm.EffortOff, ""},
	} {
		if got := effortOf(tc.model, tc.level); got != tc.want {
			t.Errorf("%s at %s: got %q, want %q", tc.model, tc.level, got, tc.want)
		}
	}
}

func TestALongCacheKeyIsShortenedTheSameWayEachTime(t *testing.T) {
	key := func(k string) string {
		var req struct {
			Key string `json:"prompt_cache_key"`
		}
		if err := json.Unmarshal(encode(llm.Request{Model: "m", CacheKey: k}, here), &req); err != nil {
			t.Fatal(err)
		}
		return req.Key
	}
	long := strings.Repeat("k", 65)
	if a, b := key(long), key(long); a != b || a == "" || len(a) > 64 || a == key(long+"x") || key("short") != "short" {
		t.Fatalf("got %q, %q", a, b)
	}
}

func FuzzEncoder(f *testing.F) {
	f.Add("a", "c1", `{"a":1}`, `{"type":"reasoning","id":"rs_1","encrypted_content":"s"}`, 1)
	f.Add("\xff", "", `[`, `[]`, 5)
	f.Fuzz(func(t *testing.T, text, id, args, kept string, kind int) {
		if strings.Contains(kept, `"id"`) && strings.Count(kept, "reasoning")+strings.Count(kept, "_call") > 1 {
			return // one item twice is not what a provider sends
		}
		kinds := []llm.BlockType{llm.Text, llm.Thinking, llm.ToolCall, llm.Refusal, llm.Native, llm.Image}
		b := llm.Block{Type: kinds[uint(kind)%uint(len(kinds))], Text: text, CallID: id, Name: text, Args: raw(args), Raw: raw(kept), Data: []byte(text)}
		m := us.Said(b, protocoltest.Said(text))
		body := encode(llm.Request{Model: here.Model, System: text, CacheKey: id, Messages: []llm.Message{protocoltest.User(b, protocoltest.Said(text)), m, protocoltest.Result(id, text, b)}}, here)
		if !utf8.Valid(body) || !json.Valid(body) {
			t.Fatalf("no valid JSON in UTF-8: %q", body)
		}
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
