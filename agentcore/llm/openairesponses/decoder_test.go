package openairesponses

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strconv"
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
	text, err := os.ReadFile(filepath.Join("testdata/wire/openai-responses", name+".sse"))
	if err != nil {
		t.Fatal(err)
	}
	return protocoltest.Run(t, freshDecoder(), bytes.NewReader(text))
}

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

func raw(s string) json.RawMessage { return json.RawMessage(s) }

const (
	created  = `{"type":"response.created","response":{"id":"r1"}}`
	openText = `{"type":"response.output_item.added","output_index":0,"item":{"type":"message","id":"msg_1","content":[]}}`
	word     = `{"type":"response.output_text.delta","output_index":0,"content_index":0,"delta":"x"}`
	finish   = `{"type":"response.completed","response":{"id":"r1","status":"completed"}}`
)

// Fault: end of stream without a terminal event, and errors inside the stream (bugs 4, 25).
func TestAnErrorSaysWhatTheResponseDidBefore(t *testing.T) {
	for name, want := range map[string]struct {
		class               llm.Class
		retryable, produced bool
	}{
		"cut-after-text":              {llm.Connection, true, true},
		"cut-before-anything":         {llm.Connection, true, false},
		"cut-behind-the-last-item":    {llm.Connection, true, true},
		"cut-inside-json":             {llm.Connection, true, true},
		"created-again-in-the-middle": {llm.Connection, true, true},
		"cancelled":                   {llm.Connection, true, false},
		"failed-rate-limit":           {llm.RateLimit, true, true},
		"failed-without-words":        {llm.Server, true, false},
		"error-event-flat":            {llm.Server, true, false},
		"error-event-nested":          {llm.Overflow, false, false},
		"error-without-type":          {llm.Server, true, false},
	} {
		got := recorded(t, name)
		if got.Err == nil || got.Err.Class != want.class || got.Err.Retryable() != want.retryable || got.Err.Produced != want.produced || !got.Err.Dispatched {
			t.Errorf("%s: got %+v", name, got.Err)
		}
	}
	if got := recorded(t, "failed-rate-limit"); got.Err.Usage == nil || got.Err.Usage.Total != 15 {
		t.Errorf("usage of a failed response is lost: %+v", got.Err.Usage)
	}
}

// Fault: final values only, or deltas that are not the truth (bugs 20). Text goes on by a delta; only what contradicts the
// deltas replaces them.
func TestWhatIsFinalCounts(t *testing.T) {
	for name, differs := range map[string]bool{"final-text-goes-on": false, "final-text-differs": true, "final-only-item-done": false, "final-only-response": false} {
		if got := recorded(t, name); (len(got.Differs) > 0) != differs {
			t.Errorf("%s: blocks %v differ from their deltas", name, got.Differs)
		}
	}
}

func TestItemsAreKeptForReplay(t *testing.T) {
	got := recorded(t, "final-only-item-done")
	want := []llm.Block{
		{Type: llm.Thinking, Text: "hm", Raw: raw(`{"type":"reasoning","id":"rs_1","summary":[{"type":"summary_text","text":"hm"}],"encrypted_content":"Q0k="}`)},
		{Type: llm.Text, Text: "Hi", Raw: raw(`{"type":"message","id":"msg_1"}`)},
		{Type: llm.ToolCall, CallID: "z", Name: "read", Args: raw(`{"path":"q"}`), Raw: raw(`{"type":"function_call","id":"fc_1"}`)},
	}
	if diff := cmp.Diff(got.Blocks, want); diff != "" {
		t.Fatalf("(-got +want):\n%s", diff)
	}
	got = recorded(t, "text-two-messages-interleaved")
	if string(got.Blocks[0].Raw) != `{"type":"message","id":"msg_b","phase":"final_answer"}` {
		t.Fatalf("got %s", got.Blocks[0].Raw)
	}
	if got = recorded(t, "item-never-done"); got.Blocks[0].Raw != nil || got.Blocks[1].Raw != nil {
		t.Fatalf("an item that was never done keeps %+v", got.Blocks)
	}
}

func TestASearchIsKeptAndUnderstood(t *testing.T) {
	// Promise: P-389
	got := recorded(t, "search")
	want := []llm.Block{
		{Type: llm.Native, CallID: "ws_1", Name: "web_search_call", Search: &llm.Search{Status: llm.SearchSuccess, Query: "what is go", Sources: []llm.Source{{URL: "https://go.dev"}}},
			Raw: raw(`{"type":"web_search_call","id":"ws_1","status":"completed","action":{"type":"search","query":"what is go","sources":[{"type":"url","url":"https://go.dev"}]}}`)},
		{Type: llm.Text, Text: "A language.", Raw: raw(`{"type":"message","id":"msg_1"}`), Sources: []llm.Source{{URL: "https://go.dev", Title: "Go"}}},
	}
	if diff := cmp.Diff(got.Blocks[1:], want); diff != "" {
		t.Fatalf("(-got +want):\n%s", diff)
	}
	for action, want := range map[string]llm.Search{
		`"status":"failed","action":{"type":"search","query":"q"}`: {Status: llm.SearchFailed, Query: "q", Error: "failed"},
		`"status":"searching"`: {Status: llm.SearchRunning},
		`"status":"completed","action":{"type":"open_page","url":"https://go.dev"}`:      {Status: llm.SearchSuccess, Sources: []llm.Source{{URL: "https://go.dev"}}},
		`"status":"completed","action":{"type":"search","query":"","queries":["a","b"]}`: {Status: llm.SearchSuccess, Query: "a"},
	} {
		got := run(t, created, `{"type":"response.output_item.done","output_index":0,"item":{"type":"web_search_call","id":"ws",`+action+`}}`, finish)
		if diff := cmp.Diff(got.Blocks[0].Search, &want); diff != "" {
			t.Errorf("%s (-got +want):\n%s", action, diff)
		}
	}
}

func TestLostCallsAreCounted(t *testing.T) {
	for name, want := range map[string]int{"calls-name-never": 1, "calls-name-late": 0, "calls-args": 0} {
		if got := recorded(t, name); got.Lost != want || got.Stop != llm.StopToolUse {
			t.Errorf("%s: got %d lost calls, stop %q", name, got.Lost, got.Stop)
		}
	}
}

func TestAConnectionThatBreaksIsARecoverableError(t *testing.T) {
	got := protocoltest.Run(t, freshDecoder(), io.MultiReader(body(created, openText, word), iotest.ErrReader(errors.New("reset"))))
	if got.Err == nil || got.Err.Class != llm.Connection || !got.Err.Produced || !strings.Contains(got.Err.Message, "reset") {
		t.Fatalf("got %v", got.Err)
	}
}

// Fault: a very long line (bugs 1).
func TestMegabytesInOneLineArrive(t *testing.T) {
	long := strings.Repeat("k", 3<<20)
	got := run(t, created, `{"type":"response.output_item.done","output_index":0,"item":{"type":"function_call","call_id":"a","name":"write","arguments":"{\"a\":\"`+long+`\"}"}}`, finish)
	if calls := got.Calls(); len(calls) != 1 || len(calls[0].Args) != len(long)+len(`{"a":""}`) {
		t.Fatalf("got %v, %d calls", got.Err, len(calls))
	}
}

func TestNumbersBeyondReasonCostNothing(t *testing.T) {
	got := run(t, created, openText,
		`{"type":"response.output_text.delta","sequence_number":999999999999,"output_index":0,"delta":"a"}`,
		`{"type":"response.output_text.delta","sequence_number":999999999999,"output_index":0,"delta":"a"}`,
		`{"type":"response.output_text.delta","sequence_number":-5,"output_index":0,"delta":"b"}`, finish)
	if got.Joined(llm.Text) != "aab" {
		t.Fatalf("got %q, %v", got.Joined(llm.Text), got.Err)
	}
}

func TestKeepAlivesAreNoEvents(t *testing.T) {
	d := newDecoder(here)
	for data, want := range map[string]bool{
		`{"type":"keepalive","sequence_number":3}`:                                   true,
		`{"type":"response.keepalive"}`:                                              true,
		`{"type":"response.output_text.delta","output_index":0,"delta":"keepalive"}`: false,
		word:              false,
		``:                false,
		`{"type":"keepal`: false,
	} {
		if got := d.Idle(sse.Event{Data: []byte(data)}); got != want {
			t.Errorf("%s: got %v", data, got)
		}
	}
}

func TestAWholeResponseIsUnderstood(t *testing.T) {
	d := newDecoder(here)
	err := d.Whole([]byte(`{"id":"r9","object":"response","status":"completed","output":[{"type":"message","id":"msg_1","content":[{"type":"output_text","text":"hello"}]},` +
		`{"type":"function_call","call_id":"a","name":"ls","arguments":"{}"}],"usage":{"input_tokens":3,"output_tokens":2,"total_tokens":5}}`))
	got := protocoltest.Fold(t, d.Take(), err)
	if got.Joined(llm.Text) != "hello" || len(got.Calls()) != 1 || got.Stop != llm.StopToolUse || got.Usage.Total != 5 || got.ID != "r9" {
		t.Fatalf("got %+v", got)
	}
	for text, class := range map[string]llm.Class{`{"error":{"code":"invalid_api_key","message":"x"}}`: llm.Auth, `{}`: llm.Server, `{"object":"response","status":"failed"}`: llm.Server} {
		d := newDecoder(here)
		if got := protocoltest.Fold(t, d.Take(), d.Whole([]byte(text))); got.Err == nil || got.Err.Class != class {
			t.Errorf("%s: got %v", text, got.Err)
		}
	}
}

var plainLines = []string{
	word,
	`{"type":"response.output_text.delta","content_index":0,"delta":"a\"\\\/\n\té🧭","item_id":"m","logprobs":[],"obfuscation":"kEE","output_index":12,"sequence_number":21}`,
	`{"content_index":0,"delta":" word","item_id":"m","logprobs":null,"output_index":0,"sequence_number":4,"type":"response.output_text.delta"}`,
	`{"type":"response.function_call_arguments.delta","delta":"{\"a\"","item_id":"fc_1","output_index":1,"sequence_number":3}`,
	`{"type":"response.reasoning_summary_text.delta","delta":"hm","output_index":0,"summary_index":1}`,
	`{ "type" : "response.refusal.delta" , "delta" : "No" , "output_index" : 0 }`,
	`{"type":"response.reasoning_text.delta","delta":null,"output_index":0}`,
}

var otherLines = []string{
	created, openText, finish,
	`{"type":"response.output_text.delta","delta":"x"}`,
	`{"type":"response.output_text.delta","output_index":0}`,
	`{"type":"response.output_text.delta","output_index":0,"delta":"\ud83d"}`,
	`{"type":"response.output_text.delta","output_index":0,"delta":"x","delta":"y"}`,
	`{"type":"response.output_text.delta","output_index":0,"delta":"x","logprobs":[1]}`,
	`{"type":"response.output_text.delta","output_index":0,"delta":{"stdout":"x"}}`,
	`{"type":"response.output_text.delta","output_index":0,"delta":"x","error":{}}`,
	`{"type":"response.output_text.delta","output_index":0,"delta":"x"}x`,
	`{"type":"response.shell_call_command.delta","output_index":0,"delta":"x"}`,
}

func TestTheFastPathTakesPlainPiecesAndNoOthers(t *testing.T) {
	var in event
	for _, line := range plainLines {
		if !parsePlain([]byte(line), &in) {
			t.Errorf("refused: %s", line)
		}
		samePaths(t, []byte(line))
	}
	for _, line := range otherLines {
		if parsePlain([]byte(line), &in) {
			t.Errorf("taken: %s", line)
		}
	}
}

// samePaths fails when the fast path accepts data and reads something else than encoding/json.
func samePaths(t *testing.T, data []byte) {
	t.Helper()
	var fast, slow event
	if !parsePlain(data, &fast) {
		return
	}
	if err := protocol.Decode(data, &slow); err != nil {
		t.Fatalf("%q: the fast path takes what is not JSON: %v", data, err)
	}
	slow.ItemID = "" // not needed where there is an index
	if diff := cmp.Diff(fast, slow); diff != "" {
		t.Fatalf("%q (-fast +slow):\n%s", data, diff)
	}
}

func FuzzFastPathEqualsSlowPath(f *testing.F) {
	for _, line := range append(append([]string(nil), plainLines...), otherLines...) {
		f.Add([]byte(line))
	}
	f.Fuzz(func(t *testing.T, data []byte) { samePaths(t, data) })
}

func FuzzDecoder(f *testing.F) {
	files, err := filepath.Glob("testdata/wire/openai-responses/[fir]*.sse")
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
		{"plain", openText, `{"type":"response.output_text.delta","content_index":0,"delta":" word","item_id":"msg_0f1a2b3c4d5e6f7a8b9c0d1e2f3a4b5c6d7e8f9a0b1c2d3e52","logprobs":[],"obfuscation":"RwyJIbCRCoa9","output_index":0,"sequence_number":21}`},
		{"escaped", openText, `{"type":"response.output_text.delta","content_index":0,"delta":"\n\"é\"","item_id":"m","output_index":0}`},
		{"arguments", `{"type":"response.output_item.added","output_index":0,"item":{"type":"function_call","call_id":"a","name":"ls"}}`,
			`{"type":"response.function_call_arguments.delta","delta":"\"a","item_id":"fc","output_index":0}`},
		{"slow", openText, `{"type":"response.output_text.delta","content_index":0,"delta":" word","output_index":0,"more":null}`},
	} {
		b.Run(tc.name, func(b *testing.B) {
			const deltas = 1000
			lines := append([]string{created, tc.start}, make([]string, deltas)...)
			for i := range deltas {
				lines[i+2] = strings.Replace(tc.delta, `"sequence_number":21`, `"sequence_number":`+strconv.Itoa(i+1), 1)
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
						b.Fatal("a delta is no keep-alive")
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
