package anthropic

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"

	"github.com/workflowd/workflowd/agentcore/llm"
	"github.com/workflowd/workflowd/agentcore/llm/protocol"
	"github.com/workflowd/workflowd/agentcore/llm/protocol/protocoltest"
	"github.com/workflowd/workflowd/internal/sse"
)

// recorded decodes one of the streams in testdata.
func recorded(t *testing.T, name string) protocoltest.Outcome {
	t.Helper()
	body, err := os.ReadFile(filepath.Join("testdata/wire/anthropic-messages", name+".sse"))
	if err != nil {
		t.Fatal(err)
	}
	return protocoltest.Run(t, freshDecoder(), bytes.NewReader(body))
}

// run decodes data events.
func run(t *testing.T, events ...string) protocoltest.Outcome {
	t.Helper()
	return protocoltest.Run(t, freshDecoder(), body(events...))
}

func body(events ...string) io.Reader {
	var b strings.Builder
	for _, ev := range events {
		b.WriteString("data: " + ev + "\n\n")
	}
	return strings.NewReader(b.String())
}

const (
	begin     = `{"type":"message_start","message":{"id":"m1","content":[],"usage":{"input_tokens":10,"output_tokens":1}}}`
	openText  = `{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}`
	word      = `{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"x"}}`
	closeZero = `{"type":"content_block_stop","index":0}`
	reason    = `{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":2}}`
	finish    = `{"type":"message_stop"}`
)

// Fault: overloaded_error after the text has begun, and end of stream without a terminal event (bugs 4, 25).
func TestAnErrorSaysWhatTheResponseDidBefore(t *testing.T) {
	for name, want := range map[string]struct {
		class               llm.Class
		retryable, produced bool
	}{
		"error-overloaded-after-text":            {llm.Server, true, true},
		"error-overloaded-before-output":         {llm.Server, true, false},
		"error-invalid-request":                  {llm.Invalid, false, false},
		"error-without-type":                     {llm.Server, true, false},
		"cut-after-text":                         {llm.Connection, true, true},
		"cut-before-anything":                    {llm.Connection, true, false},
		"cut-behind-the-stop-reason":             {llm.Connection, true, true},
		"cut-inside-a-call":                      {llm.Connection, true, true},
		"cut-inside-json":                        {llm.Connection, true, true},
		"start-of-another-message":               {llm.Connection, true, true},
		"start-of-another-message-before-output": {llm.Connection, true, false},
		"start-of-a-block-twice":                 {llm.Connection, true, true},
		"context-window-exceeded":                {llm.Overflow, false, true},
	} {
		got := recorded(t, name)
		if got.Err == nil || got.Err.Class != want.class || got.Err.Retryable() != want.retryable || got.Err.Produced != want.produced || !got.Err.Dispatched {
			t.Errorf("%s: got %+v, retryable %v", name, got.Err, got.Err.Retryable())
		}
		if name != "error-overloaded-before-output" && (got.Err.Usage == nil || got.Err.Usage.Input != 10) {
			t.Errorf("%s: usage that was reported is lost: %+v", name, got.Err.Usage)
		}
	}
}

// Fault: order of thinking, redacted thinking and calls (bugs 28). The same history goes back.
func TestBlocksComeBackTheWayTheyCame(t *testing.T) {
	got := recorded(t, "blocks-keep-their-order")
	want := []llm.Block{
		{Type: llm.Thinking, Text: "t1", Raw: json.RawMessage(`{"type":"thinking","signature":"abcd"}`)},
		{Type: llm.ToolCall, CallID: "A", Name: "ls", Args: json.RawMessage(`{}`)},
		{Type: llm.Thinking, Raw: json.RawMessage(`{"type":"redacted_thinking","data":"ZZ"}`)},
		{Type: llm.Thinking, Raw: json.RawMessage(`{"type":"thinking","signature":"ef"}`)},
		{Type: llm.ToolCall, CallID: "B", Name: "find", Args: json.RawMessage(`{"pattern":"x"}`)},
	}
	if diff := cmp.Diff(got.Blocks, want); diff != "" {
		t.Fatalf("(-got +want):\n%s", diff)
	}
	stored, err := json.Marshal(llm.Message{Role: llm.RoleAssistant, Origin: &here, Stop: got.Stop, Blocks: got.Blocks})
	if err != nil {
		t.Fatal(err)
	}
	var again llm.Message
	if err := json.Unmarshal(stored, &again); err != nil {
		t.Fatal(err)
	}
	sent := encode(llm.Request{Model: here.Model, Messages: []llm.Message{llm.TextMessage(llm.RoleUser, "go"), again}}, here)
	const exact = `"content":[{"type":"thinking","thinking":"t1","signature":"abcd"},{"type":"tool_use","id":"A","name":"ls","input":{}},` +
		`{"type":"redacted_thinking","data":"ZZ"},{"type":"thinking","thinking":"","signature":"ef"},{"type":"tool_use","id":"B","name":"find","input":{"pattern":"x"}}]`
	if !strings.Contains(string(sent), exact) {
		t.Fatalf("got %s", sent)
	}
}

func TestThinkingThatWasCutOffKeepsNothingForReplay(t *testing.T) {
	if b := recorded(t, "thinking-without-signature").Blocks[0]; b.Raw != nil {
		t.Fatalf("got %s", b.Raw)
	}
}

func TestASearchIsKeptAndUnderstood(t *testing.T) {
	// Promise: P-389
	got := recorded(t, "search")
	source := llm.Source{URL: "https://go.dev", Title: "Go"}
	cited := source
	cited.CitedText = "Go is a language"
	want := []llm.Block{
		{Type: llm.Native, CallID: "s1", Name: "server_tool_use", Search: &llm.Search{Status: llm.SearchRunning, Query: "what is go"},
			Raw: json.RawMessage(`{"type":"server_tool_use","id":"s1","name":"web_search","input":{"query":"what is go"}}`)},
		{Type: llm.Native, CallID: "s1", Name: "web_search_tool_result", Search: &llm.Search{Status: llm.SearchSuccess, Query: "what is go", Sources: []llm.Source{source}},
			Raw: json.RawMessage(`{"type":"web_search_tool_result","tool_use_id":"s1","content":[{"type":"web_search_result","url":"https://go.dev","title":"Go","encrypted_content":"Zm9v","page_age":null}]}`)},
		{Type: llm.Text, Text: "A language.", Sources: []llm.Source{cited},
			Raw: json.RawMessage(`[{"type":"web_search_result_location","url":"https://go.dev","title":"Go","cited_text":"Go is a language","encrypted_index":"Eo8="}]`)},
	}
	if diff := cmp.Diff(got.Blocks, want); diff != "" {
		t.Fatalf("(-got +want):\n%s", diff)
	}
	if b := recorded(t, "citations-in-the-start").Blocks[0]; len(b.Sources) != 1 || b.Sources[0].URL != "https://go.dev" || len(b.Raw) == 0 {
		t.Fatalf("got %+v", b)
	}
	failed := recorded(t, "search-failed").Blocks[1].Search
	if diff := cmp.Diff(failed, &llm.Search{Status: llm.SearchFailed, Query: "q", Error: "max_uses_exceeded"}); diff != "" {
		t.Fatalf("(-got +want):\n%s", diff)
	}
}

func TestUnknownBlocksAreKeptWhole(t *testing.T) {
	got := recorded(t, "unknown-events-blocks-and-deltas")
	want := []string{
		`{"type":"compaction","content":"summary","more":1,"encrypted_content":"Q0="}`,
		`{"type":"hologram","data":"x","text":"never shown"}`,
	}
	for i, raw := range want {
		if b := got.Blocks[i]; b.Type != llm.Native || string(b.Raw) != raw || b.Search != nil {
			t.Errorf("block %d: got %s", i, b.Raw)
		}
	}
}

func TestLostCallsAreCounted(t *testing.T) {
	for name, want := range map[string]int{"call-without-name": 1, "tool-use-without-call": 0, "calls-args": 0} {
		if got := recorded(t, name); got.Lost != want || got.Stop != llm.StopToolUse {
			t.Errorf("%s: got %d lost calls, stop %q", name, got.Lost, got.Stop)
		}
	}
}

func TestARefusalSaysWhy(t *testing.T) {
	if got := recorded(t, "refusal-before-output"); got.Stop != llm.StopRefusal || got.Why != "no" {
		t.Fatalf("got stop %q, why %q", got.Stop, got.Why)
	}
}

func TestAConnectionThatBreaksIsARecoverableError(t *testing.T) {
	broken := io.MultiReader(body(begin, openText, word, closeZero, reason), iotest.ErrReader(errors.New("reset")))
	got := protocoltest.Run(t, freshDecoder(), broken)
	if got.Err == nil || got.Err.Class != llm.Connection || !got.Err.Produced || !strings.Contains(got.Err.Message, "reset") {
		t.Fatalf("got %v", got.Err)
	}
}

// Fault: a very long line (bugs 1).
func TestMegabytesInOneLineArrive(t *testing.T) {
	long := strings.Repeat("k", 3<<20)
	got := run(t, begin, `{"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"a","name":"write","input":{}}}`,
		`{"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":"{\"a\":\"`+long+`\"}"}}`, closeZero, reason, finish)
	if calls := got.Calls(); len(calls) != 1 || len(calls[0].Args) != len(long)+len(`{"a":""}`) {
		t.Fatalf("got %v, %d calls", got.Err, len(calls))
	}
	got = run(t, begin, openText, `{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"`+strings.Repeat("x", sse.MaxEvent)+`"}}`)
	if got.Err == nil || got.Err.Class != llm.Invalid || !strings.Contains(got.Err.Message, "bytes") {
		t.Fatalf("beyond the limit: got %v", got.Err)
	}
}

func TestPingsAreNoEvents(t *testing.T) {
	d := newDecoder(here)
	for data, want := range map[string]bool{
		`{"type":"ping"}`:      true,
		`{ "type": "ping" }  `: true,
		word:                   false,
		`{"type":"content_block_delta","delta":"ping"}`: false,
		``:             false,
		`[DONE]`:       false,
		`{"type":"pin`: false,
	} {
		if got := d.Idle(sse.Event{Data: []byte(data)}); got != want {
			t.Errorf("%s: got %v", data, got)
		}
	}
	if !d.Idle(sse.Event{Type: "ping", Data: []byte(`{"type": "ping"}`)}) || d.Idle(sse.Event{Fault: []byte("ping")}) {
		t.Error("the name of the event decides where there is one")
	}
}

func TestAWholeMessageIsUnderstood(t *testing.T) {
	d := newDecoder(here)
	err := d.Whole([]byte(`{"type":"message","id":"m9","role":"assistant","content":[{"type":"text","text":"hello"},{"type":"tool_use","id":"a","name":"ls","input":{}}],` +
		`"stop_reason":"tool_use","usage":{"input_tokens":3,"output_tokens":2}}`))
	got := protocoltest.Fold(t, d.Take(), err)
	if got.Joined(llm.Text) != "hello" || len(got.Calls()) != 1 || got.Stop != llm.StopToolUse || got.Usage.Total != 5 || got.ID != "m9" {
		t.Fatalf("got %+v", got)
	}
	for text, class := range map[string]llm.Class{`{"type":"error","error":{"type":"overloaded_error","message":"x"}}`: llm.Server, `{}`: llm.Server} {
		d := newDecoder(here)
		if got := protocoltest.Fold(t, d.Take(), d.Whole([]byte(text))); got.Err == nil || got.Err.Class != class {
			t.Errorf("%s: got %v", text, got.Err)
		}
	}
}

var plainLines = []string{
	word,
	`{"type":"content_block_delta","index":12,"delta":{"type":"thinking_delta","thinking":"a\"\\\/\n\t\b\f\ré🧭漢字"}}  `,
	`{"delta":{"partial_json":"{\"a\":1","type":"input_json_delta"},"index":1,"type":"content_block_delta"}`,
	`{ "type" : "content_block_delta" , "index" : 0 , "delta" : { "type" : "text_delta" , "text" : "" } }`,
	`{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":null}}`,
}

var otherLines = []string{
	begin, openText, closeZero, reason, finish,
	`{"type":"content_block_delta","index":0,"delta":{"type":"signature_delta","signature":"s"}}`,
	`{"type":"content_block_delta","delta":{"type":"text_delta","text":"x"}}`,
	`{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"\ud83d"}}`,
	`{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"x","more":1}}`,
	`{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"x"},"error":{"message":"m"}}`,
	`{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"x"},"delta":{}}`,
	`{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"x"}}x`,
	`{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"x","text":"y"}}`,
	`{"type":"content_block_delta","index":-1,"delta":{"type":"text_delta","text":"x"}}`,
	`{"type":"content_block_delta","index":0,"delta":{"text":"x"}}`,
}

func TestTheFastPathTakesPlainPiecesAndNoOthers(t *testing.T) {
	for _, line := range plainLines {
		if _, ok := parsePlain([]byte(line)); !ok {
			t.Errorf("refused: %s", line)
		}
		samePaths(t, []byte(line))
	}
	for _, line := range otherLines {
		if _, ok := parsePlain([]byte(line)); ok {
			t.Errorf("taken: %s", line)
		}
	}
}

// samePaths fails when the fast path accepts data and reads something else than encoding/json.
func samePaths(t *testing.T, data []byte) {
	t.Helper()
	p, ok := parsePlain(data)
	if !ok {
		return
	}
	var in event
	var of delta
	if err := protocol.Decode(data, &in); err != nil {
		t.Fatalf("%q: the fast path takes what is not JSON: %v", data, err)
	}
	if err := protocol.Decode(in.Delta, &of); err != nil {
		t.Fatalf("%q: %v", data, err)
	}
	text := map[protocol.Text]protocol.Text{deltaText: of.Text, deltaThinking: of.Thinking, deltaInput: of.Input}[of.Type]
	if in.Type != eventBlockDelta || p != (plain{in.Index, string(of.Type), string(text)}) || len(in.Error) > 0 {
		t.Fatalf("%q: fast %+v, slow %+v %+v", data, p, in, of)
	}
}

func FuzzFastPathEqualsSlowPath(f *testing.F) {
	for _, line := range append(append([]string(nil), plainLines...), otherLines...) {
		f.Add([]byte(line))
	}
	f.Fuzz(func(t *testing.T, data []byte) { samePaths(t, data) })
}

func FuzzDecoder(f *testing.F) {
	files, err := filepath.Glob("testdata/wire/anthropic-messages/[bsu]*.sse")
	if err != nil || len(files) == 0 {
		f.Fatal(files, err)
	}
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		whole := protocoltest.Run(t, freshDecoder(), bytes.NewReader(text)) // checks the rules of every stream
		if diff := protocoltest.Diff(protocoltest.Run(t, freshDecoder(), bytes.NewReader(text)), whole); diff != "" {
			t.Fatalf("not deterministic:\n%s", diff)
		}
		origin := here
		encode(llm.Request{Model: "m", Messages: []llm.Message{{Role: llm.RoleAssistant, Origin: &origin, Stop: llm.StopEnd, Blocks: whole.Blocks}}}, here)
	})
}

func BenchmarkDelta(b *testing.B) {
	for _, tc := range []struct{ name, start, delta string }{
		{"plain", openText, `{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":" word"}        }`},
		{"escaped", openText, `{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"\n\"é\""}}`},
		{"arguments", `{"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"a","name":"ls","input":{}}}`,
			`{"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":"\"a"}}`},
		{"slow", openText, `{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":" word","more":null}}`},
	} {
		b.Run(tc.name, func(b *testing.B) {
			const deltas = 1000
			lines := append([]string{begin, tc.start}, make([]string, deltas)...)
			for i := range deltas {
				lines[i+2] = tc.delta
			}
			text, err := io.ReadAll(body(lines...))
			if err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			for b.Loop() {
				d, r := newDecoder(here), sse.NewReader(bytes.NewReader(text))
				for {
					ev, err := r.Next()
					if err != nil {
						break
					}
					if d.Idle(ev) {
						b.Fatal("a delta is no ping")
					}
					if err := d.Event(ev); err != nil {
						b.Fatal(err)
					}
					d.Forget()
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/deltas, "ns/delta")
		})
	}
}
