package openaicompletions

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/workflowd/workflowd/agentcore/llm"
	"github.com/workflowd/workflowd/agentcore/llm/protocol/protocoltest"
	"github.com/workflowd/workflowd/internal/sse"
)

func chunkLine(delta string) string {
	return `{"id":"chatcmpl-9e97f9ca","object":"chat.completion.chunk","created":1786403070,"model":"m-1","system_fingerprint":"fp_1","choices":[{"index":0,"delta":` +
		delta + `,"logprobs":null,"finish_reason":null}],"usage":null}`
}

var plainLines = []string{
	chunkLine(`{"content":" word"}`),
	chunkLine(`{"role":"assistant","content":"","refusal":null}`),
	chunkLine(`{"content":"a\"\\\/\n\t\b\f\ré🧭漢字"}`),
	chunkLine(`{"reasoning_content":"hm","content":null}`),
	chunkLine(`{"reasoning":"hm","content":""}`),
	chunkLine(`{"tool_calls":[{"index":0,"function":{"arguments":"{\"a\":1"}}]}`),
	chunkLine(`{"tool_calls":[{"index":12,"id":"c1","type":"function","function":{"name":"ls","arguments":""}}]}`),
	`{ "choices": [ { "delta": { "content": "x" }, "index": 0 } ] }`,
}

var otherLines = []string{
	chunkLine(`{"content":"\ud83d"}`),
	chunkLine("{\"content\":\"\xff\"}"),
	chunkLine(`{"content":"a","content":"b"}`),
	chunkLine(`{"Content":"a"}`),
	chunkLine(`{"content":"a","tool_calls":[]}`),
	chunkLine(`{"content":["a"]}`),
	`{"choices":[{"index":1,"delta":{"content":"x"}}]}`,
	`{"choices":[{"index":0,"delta":{"content":"x"},"finish_reason":"stop"}]}`,
	`{"choices":[{"index":0,"delta":{"content":"x"}}],"error":{"message":"m"}}`,
	`{"choices":[],"usage":{"prompt_tokens":1}}`,
	`{"choices":[{"index":0,"delta":{"content":"x"}}]`,
	`{"object":"error","choices":[{"index":0,"delta":{"content":"x"}}]}`,
	`{"choices":[{"index":0,"delta":{"content":"x"}}]} x`,
	`{"created":01,"choices":[{"index":0,"delta":{"content":"x"}}]}`,
}

func TestTheFastPathTakesCommonChunksAndNoOthers(t *testing.T) {
	var p plain
	for _, line := range plainLines {
		if !p.parse([]byte(line), true) {
			t.Errorf("refused: %s", line)
		}
		samePaths(t, []byte(line))
	}
	for _, line := range otherLines {
		if p.parse([]byte(line), true) {
			t.Errorf("taken: %s", line)
		}
	}
}

// samePaths fails when the fast path accepts data and reads something else than encoding/json.
func samePaths(t *testing.T, data []byte) {
	t.Helper()
	var p plain
	if !p.parse(data, true) {
		return
	}
	slow, err := decodeChunk(data)
	if err != nil {
		t.Fatalf("%q: the fast path takes what is not JSON: %v", data, err)
	}
	if !reflect.DeepEqual(p.chunk, slow) {
		t.Fatalf("%q:\nfast %+v\nslow %+v", data, p.chunk, slow)
	}
}

// Chunks put together from likely and unlikely parts, which random bytes would rarely form.
func TestFastAndSlowPathAgreeOnAnyMixOfFields(t *testing.T) {
	values := rapid.SampledFrom([]string{`"x"`, `""`, `null`, `0`, `1`, `00`, `-1`, `1.5`, `[]`, `{}`, `"\u0041\n"`, `"\ud83e\udded"`, `"\ud83e"`, `"é"`, "\"\xff\"", "\"\t\"", `true`,
		`"chat.completion.chunk"`, `"error"`, `[{"index":0,"function":{"arguments":"a"}}]`, `[{"index":1,"id":"i","type":"function","function":{"name":"n","arguments":null}},{}]`, `[{"index":3,"function":{}}]`})
	fields := func(keys ...string) *rapid.Generator[string] {
		pair := rapid.Custom(func(t *rapid.T) string {
			return `"` + rapid.SampledFrom(keys).Draw(t, "key") + `":` + values.Draw(t, "value")
		})
		return rapid.Custom(func(t *rapid.T) string {
			return strings.Join(rapid.SliceOfN(pair, 0, 4).Draw(t, "fields"), rapid.SampledFrom([]string{",", " , "}).Draw(t, "comma"))
		})
	}
	top := fields("id", "object", "created", "model", "usage", "choices", "provider", "error", "x_groq", "ID")
	ofChoice := fields("index", "finish_reason", "logprobs", "delta", "usage", "message")
	ofDelta := fields("content", "role", "refusal", "reasoning", "reasoning_content", "reasoning_text", "tool_calls", "function_call", "Content")
	join := func(a, b string) string {
		if a == "" || b == "" {
			return a + b
		}
		return a + "," + b
	}
	mix := rapid.Custom(func(t *rapid.T) string {
		choice := join(ofChoice.Draw(t, "choice"), `"delta":{`+ofDelta.Draw(t, "delta")+`}`)
		return "{" + join(top.Draw(t, "top"), `"choices":[{`+choice+`}]`) + "}"
	})
	const mixes = 5000
	taken := 0
	var p plain
	for i := range mixes {
		data := []byte(mix.Example(i))
		if p.parse(data, true) {
			taken++
		}
		samePaths(t, data)
	}
	if taken < mixes/100 {
		t.Fatalf("the fast path took %d of %d mixes", taken, mixes)
	}
}

func FuzzFastPathEqualsSlowPath(f *testing.F) {
	for _, line := range append(append([]string(nil), plainLines...), otherLines...) {
		f.Add([]byte(line))
	}
	f.Fuzz(func(t *testing.T, data []byte) { samePaths(t, data) })
}

func FuzzDecoder(f *testing.F) {
	files, err := filepath.Glob("testdata/wire/openai-completions/call*.sse")
	if err != nil || len(files) == 0 {
		f.Fatal(files, err)
	}
	for _, name := range files {
		body, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(body)
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		whole := run(t, bytes.NewReader(body)) // checks the rules of every stream
		if diff := protocoltest.Diff(run(t, bytes.NewReader(body)), whole); diff != "" {
			t.Fatalf("not deterministic:\n%s", diff)
		}
	})
}

// raws returns what the thinking of o keeps for replay.
func raws(o protocoltest.Outcome) []string {
	var out []string
	for _, b := range o.Blocks {
		if b.Type == llm.Thinking && b.Raw != nil {
			out = append(out, string(b.Raw))
		}
	}
	return out
}

func TestThinkingKeepsItsFieldAndItsDetails(t *testing.T) {
	body := `data: {"choices":[{"delta":{"reasoning":"Let ","reasoning_details":[{"type":"reasoning.text","text":"Let ","format":"f","index":0}]}}]}

data: {"choices":[{"delta":{"reasoning":"me","reasoning_details":[{"type":"reasoning.text","text":"me","format":"f","index":0}]}}]}

data: {"choices":[{"delta":{"reasoning":"","reasoning_details":[{"type":"reasoning.text","signature":"sig","index":0},{"type":"reasoning.encrypted","data":"Q0k=","index":1}]}}]}

data: {"choices":[{"delta":{"content":"x"},"finish_reason":"stop"}]}

`
	got := run(t, strings.NewReader(body))
	want := []string{`[{"format":"f","index":0,"signature":"sig","text":"Let me","type":"reasoning.text"},{"type":"reasoning.encrypted","data":"Q0k=","index":1}]`}
	if diff := cmp.Diff(raws(got), want); diff != "" || got.Joined(llm.Thinking) != "Let me" {
		t.Fatalf("thinking %q (-got +want):\n%s", got.Joined(llm.Thinking), diff)
	}
	apart := `data: {"choices":[{"delta":{"reasoning_details":[{"type":"reasoning.text","text":"a","index":0},{"type":"reasoning.text","text":"b","index":1}]}}]}` + "\n\ndata: [DONE]\n\n"
	if got := run(t, strings.NewReader(apart)); len(raws(got)) != 1 || strings.Count(raws(got)[0], "reasoning.text") != 2 || got.Joined(llm.Thinking) != "ab" {
		t.Fatalf("details with an index each were joined: %q", raws(got))
	}
	lone := `data: {"choices":[{"delta":{"reasoning_details":[{ "type":"reasoning.encrypted", "data":"Q0k=" }]}}]}` + "\n\ndata: [DONE]\n\n"
	if got := run(t, strings.NewReader(lone)); len(raws(got)) != 1 || raws(got)[0] != `[{ "type":"reasoning.encrypted", "data":"Q0k=" }]` {
		t.Fatalf("a detail in one piece changed: %q", raws(got))
	}
}

func TestLostCallsAreCounted(t *testing.T) {
	for name, want := range map[string]int{"call-name-never-comes": 1, "call-of-unknown-type": 1, "calls-no-index": 0, "finish-tool-calls-without-call": 0} {
		body, err := os.ReadFile(filepath.Join("testdata/wire/openai-completions", name+".sse"))
		if err != nil {
			t.Fatal(err)
		}
		got := run(t, bytes.NewReader(body))
		if got.Lost != want || got.Stop != llm.StopToolUse {
			t.Errorf("%s: got %d lost calls, stop %q", name, got.Lost, got.Stop)
		}
	}
}

func TestAnErrorSaysWhatTheResponseDidBefore(t *testing.T) {
	usage := `data: {"choices":[],"usage":{"prompt_tokens":7,"completion_tokens":3}}` + "\n\n"
	got := run(t, strings.NewReader(usage+`data: {"error":{"message":"gone"}}`+"\n\n"))
	if got.Err == nil || got.Err.Produced || !got.Err.Dispatched || got.Err.Usage == nil || got.Err.Usage.Total != 10 {
		t.Fatalf("got %+v", got.Err)
	}
}

func TestAConnectionThatBreaksBehindTheFinishReasonIsNoLoss(t *testing.T) {
	broken := iotest.ErrReader(errors.New("reset"))
	text := `data: {"choices":[{"delta":{"content":"x"}}]}` + "\n\n"
	got := run(t, io.MultiReader(strings.NewReader(text+`data: {"choices":[{"finish_reason":"stop"}]}`+"\n\n"), broken))
	if got.Err != nil || got.Joined(llm.Text) != "x" || got.Stop != llm.StopEnd {
		t.Fatalf("got %+v, %v", got, got.Err)
	}
	got = run(t, io.MultiReader(strings.NewReader(text), broken))
	if got.Err == nil || got.Err.Class != llm.Connection || !got.Err.Produced || !strings.Contains(got.Err.Message, "reset") {
		t.Fatalf("got %v", got.Err)
	}
}

func TestAMegabyteInOneDeltaArrives(t *testing.T) {
	long := strings.Repeat("k", 1_500_000)
	got := run(t, strings.NewReader("data: "+chunkLine(`{"content":"`+long+`"}`)+"\n\n"+`data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`+"\n\ndata: [DONE]\n\n"))
	if got.Joined(llm.Text) != long || got.Stop != llm.StopEnd {
		t.Fatalf("got %d bytes, stop %q, %v", len(got.Joined(llm.Text)), got.Stop, got.Err)
	}
}

func BenchmarkDelta(b *testing.B) {
	for _, tc := range []struct{ name, delta string }{
		{"plain", `{"content":" word"}`},
		{"escaped", `{"content":"\n\"é\""}`},
		{"arguments", `{"tool_calls":[{"index":0,"function":{"arguments":"\"a"}}]}`},
		{"slow", `{"content":" word","annotations":null}`},
	} {
		b.Run(tc.name, func(b *testing.B) {
			const deltas = 1000
			var body strings.Builder
			fmt.Fprintf(&body, "data: %s\n\n", chunkLine(`{"tool_calls":[{"index":0,"id":"c","function":{"name":"ls","arguments":""}}]}`))
			for range deltas {
				fmt.Fprintf(&body, "data: %s\n\n", chunkLine(tc.delta))
			}
			src := strings.NewReader(body.String())
			b.ReportAllocs()
			for b.Loop() {
				src.Reset(body.String())
				d, r := newDecoder(here), sse.NewReader(src)
				for {
					ev, err := r.Next()
					if err != nil {
						break
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
