package protocol

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/workflowd/workflowd/agentcore/llm"
)

func TestCallIDsAreUniqueInTheOrderOfTheCalls(t *testing.T) {
	long := strings.Repeat("a", 60)
	ids := CallIDs{Max: 40}
	for _, step := range []struct{ raw, want string }{
		{"a", "a"}, {"a", "a_2"}, {"a_2", "a_2_2"}, {"a", "a_3"}, {"a_3", "a_3_2"}, {"|x", "call"}, {"", "call_2"},
		{long, long[:40]}, {long, long[:38] + "_2"}, {long[:38] + "_2", long[:38] + "_3"}, {"é", "__"}, {"functions.ls:0", "functions_ls_0"},
	} {
		if got := ids.Next(step.raw); got != step.want || len(got) > ids.Max {
			t.Fatalf("%q: got %q, want %q", step.raw, got, step.want)
		}
	}
}

func FuzzStringsAreValidJSON(f *testing.F) {
	f.Add("a\"\\\n\x00\xffé漢\u2028")
	f.Fuzz(func(t *testing.T, s string) {
		got := AppendString(nil, s)
		var back string
		if err := json.Unmarshal(got, &back); err != nil || !utf8.Valid(got) || back != strings.Join(strings.Split(s, ""), "") && back != string([]rune(s)) {
			t.Fatalf("%q: got %q, %q, %v", s, got, back, err)
		}
	})
}

func TestArgumentsAreAnObjectOrBad(t *testing.T) {
	for received, want := range map[string]struct{ args, bad string }{
		"":                 {"{}", ""},
		" ":                {"{}", ""},
		"null":             {"{}", ""},
		`"null"`:           {"{}", ""},
		`{"a":1}`:          {`{"a":1}`, ""},
		` {"a":1}` + "\n":  {`{"a":1}`, ""},
		`"{\"a\":1}"`:      {`{"a":1}`, ""},
		`"\"{}\""`:         {"", `"\"{}\""`},
		`[1]`:              {"", `[1]`},
		`{"a":`:            {"", `{"a":`},
		`1`:                {"", `1`},
		"{\"a\":\"\xff\"}": {"{\"a\":\"\uFFFD\"}", ""},
	} {
		args, bad := CallArgs(received)
		if string(args) != want.args || bad != want.bad {
			t.Errorf("%q: got %s, %q; want %s, %q", received, args, bad, want.args, want.bad)
		}
	}
}

func TestOddValuesCountAsAbsent(t *testing.T) {
	for raw, want := range map[string]Int{
		`1`: {1, true}, `"2"`: {2, true}, `3.0`: {3, true}, `0`: {0, true}, `-1`: {}, `null`: {}, `"x"`: {}, `[]`: {}, `{}`: {}, `1e300`: {}, `true`: {},
	} {
		var got struct{ N Int }
		if err := json.Unmarshal([]byte(`{"n":`+raw+`}`), &got); err != nil || got.N != want {
			t.Errorf("%s: got %+v, %v", raw, got.N, err)
		}
	}
	for raw, want := range map[string]Text{`"a"`: "a", `"\n🧭\ud83e\udded"`: "\n🧭🧭", `1`: "", `null`: "", `["a"]`: "", `"\ud83e"`: "\uFFFD"} {
		var got struct{ S Text }
		if err := json.Unmarshal([]byte(`{"s":`+raw+`}`), &got); err != nil || got.S != want {
			t.Errorf("%s: got %q, %v", raw, got.S, err)
		}
	}
	var got struct{ A, B int }
	if err := Decode([]byte(`{"a":"x","b":2}`), &got); err != nil || got.B != 2 {
		t.Errorf("an odd field cost the others: %+v, %v", got, err)
	}
	if err := Decode([]byte(`{"a":`), &got); err == nil {
		t.Error("half a document must be an error")
	}
}

// The fast path and encoding/json read a string the same way, or the fast path leaves it.
func FuzzCursorReadsStringsAsEncodingJSONDoes(f *testing.F) {
	for _, seed := range []string{`"a"`, `"\n\u0041\ud83e\udded"`, `"\ud83e"`, "\"\xff\"", `null`, `"a`, `"\x"`, "\"\t\""} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		var got string
		c := NewCursor(text)
		if !c.Text(&got) || !c.AtEnd() {
			return
		}
		var want string
		if err := json.Unmarshal(text, &want); err != nil || got != want {
			t.Fatalf("%q: got %q, want %q, %v", text, got, want, err)
		}
	})
}

func TestAFieldIsSetAndEveryOtherByteStays(t *testing.T) {
	for _, tc := range []struct{ raw, name, value, want string }{
		{`{}`, "a", `1`, `{"a":1}`},
		{`{ "a" : 1 , "b":[1, 2] }  `, "a", `{"x":2}`, `{ "a" : {"x":2} , "b":[1, 2] }  `},
		{`{"a":1}`, "b", `"é"`, `{"a":1,"b":"é"}`},
		{`{"a":1,"a":2}`, "a", `3`, `{"a":3,"a":2}`},
		{`[1]`, "a", `1`, `[1]`},
		{`{"a":`, "a", `1`, `{"a":`},
		{``, "a", `1`, ``},
	} {
		if got := SetField(json.RawMessage(tc.raw), tc.name, json.RawMessage(tc.value)); string(got) != tc.want {
			t.Errorf("%s: got %s, want %s", tc.raw, got, tc.want)
		}
	}
	if got := Field(json.RawMessage(`{"a":1,"b":`), "a"); string(got) != "1" {
		t.Errorf("a field in front of what is broken: got %s", got)
	}
	if got := Field(json.RawMessage(`{"a":1,"b":`), "b"); got != nil {
		t.Errorf("a broken field: got %s", got)
	}
}

func TestAResponseKeepsTheRulesOfAStream(t *testing.T) {
	var r Response
	text := r.Start(llm.Block{Type: llm.Text})
	call := r.Start(llm.Block{Type: llm.ToolCall, CallID: "c", Name: "ls"})
	twin := r.Start(llm.Block{Type: llm.ToolCall, CallID: "c", Name: "ls"})
	r.Grow(text, "a")
	r.Grow(text, "")
	r.Stop(text)
	r.Stop(text)
	r.Grow(text, "late")
	r.Grow(call, "{}")
	id := r.Block(twin).CallID
	r.Done(llm.StopToolUse, 0)
	r.Done(llm.StopEnd, 1)
	block := llm.Block{Type: llm.Text, Text: "a"}
	first := llm.Block{Type: llm.ToolCall, CallID: "c", Name: "ls", Args: json.RawMessage(`{}`)}
	second := llm.Block{Type: llm.ToolCall, CallID: id, Name: "ls", Args: json.RawMessage(`{}`)}
	want := []llm.StreamEvent{
		llm.BlockStart{Index: 0, Type: llm.Text}, llm.BlockStart{Index: 1, Type: llm.ToolCall, CallID: "c", Name: "ls"}, llm.BlockStart{Index: 2, Type: llm.ToolCall, CallID: id, Name: "ls"},
		llm.Delta{Index: 0, Text: "a"}, llm.BlockStop{Index: 0, Block: block}, llm.Delta{Index: 1, Text: "{}"},
		llm.BlockStop{Index: 1, Block: first}, llm.BlockStop{Index: 2, Block: second},
		llm.Done{Message: llm.Message{Role: llm.RoleAssistant, Origin: &r.Origin, Stop: llm.StopToolUse, Blocks: []llm.Block{block, first, second}}},
	}
	if diff := cmp.Diff(r.Take(), want); diff != "" || id == "c" || !strings.HasPrefix(id, MintedCall) {
		t.Fatalf("id %q (-got +want):\n%s", id, diff)
	}
}
