package session

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"
)

func TestOpsChangeWhatTheyNameAndKeepTheRest(t *testing.T) {
	for _, test := range []struct{ name, value, ops, want string }{
		{"no step keeps every byte", ` {"b": 1.50, "a":[ ]} `, `[]`, ` {"b": 1.50, "a":[ ]} `},
		{"set replaces a member and keeps the order", `{"b":1,"a":2}`, `[{"op":"set","path":"/b","value":{"x":null}}]`, `{"b":{"x":null},"a":2}`},
		{"set adds a member at the end", `{"b":1}`, `[{"op":"set","path":"/a","value":2}]`, `{"b":1,"a":2}`},
		{"set without a value removes a member", `{"b":1,"a":2,"c":3}`, `[{"op":"set","path":"/a"}]`, `{"b":1,"c":3}`},
		{"set null stores null", `{"b":1}`, `[{"op":"set","path":"/b","value":null}]`, `{"b":null}`},
		{"set at the root", `{"b":1}`, `[{"op":"set","value":[1]}]`, `[1]`},
		{"set an element", `[1,2,3]`, `[{"op":"set","path":"/1","value":"x"}]`, `[1,"x",3]`},
		{"numbers keep their spelling", `{"n":1.0,"big":12345678901234567890,"e":1e2,"x":0}`, `[{"op":"set","path":"/x","value":1}]`,
			`{"n":1.0,"big":12345678901234567890,"e":1e2,"x":1}`},
		{"a deep path", `{"a":[{"b":{"c":1}}]}`, `[{"op":"set","path":"/a/0/b/c","value":2}]`, `{"a":[{"b":{"c":2}}]}`},
		{"escapes in a pointer", `{"a/b":1,"m~n":2,"~1":3}`, `[{"op":"set","path":"/a~1b","value":9},{"op":"set","path":"/m~0n","value":8},{"op":"set","path":"/~01","value":7}]`,
			`{"a/b":9,"m~n":8,"~1":7}`},
		{"the empty key", `{"":1}`, `[{"op":"set","path":"/","value":2}]`, `{"":2}`},
		{"a key is not an index", `{"0":1}`, `[{"op":"set","path":"/0","value":2}]`, `{"0":2}`},
		{"append", `{"t":"ab"}`, `[{"op":"append","path":"/t","value":"c\"é"},{"op":"append","path":"/t","value":""}]`, `{"t":"abc\"é"}`},
		{"append to the root", `"a"`, `[{"op":"append","value":"b"}]`, `"ab"`},
		{"append to an escaped string", `{"t":"\u00e9\n"}`, `[{"op":"append","path":"/t","value":"<\n"}]`, `{"t":"\u00e9\n<\n"}`},
		{"two halves of a pair stay two", `{"t":"\ud83d"}`, `[{"op":"append","path":"/t","value":"\ude00"}]`, `{"t":"\ud83d�"}`},
		{"trim writes the string anew", `{"t":"\u00e9\"x"}`, `[{"op":"trim","path":"/t","n":1}]`, `{"t":"é\""}`},
		{"quotes and brackets inside strings", `{"a\\":"]}\"","b":["{\\\"",[]],"c":1}`, `[{"op":"set","path":"/b/1","value":2},{"op":"set","path":"/c","value":3}]`,
			`{"a\\":"]}\"","b":["{\\\"",2],"c":3}`},
		{"trim counts bytes of UTF-8", `{"t":"aéb"}`, `[{"op":"trim","path":"/t","n":3}]`, `{"t":"a"}`},
		{"trim all and nothing", `["ab","cd"]`, `[{"op":"trim","path":"/0","n":2},{"op":"trim","path":"/1"}]`, `["","cd"]`},
		{"splice inserts", `[1,4]`, `[{"op":"splice","path":"/1","value":[2,3]}]`, `[1,2,3,4]`},
		{"splice removes", `{"l":[1,2,3,4]}`, `[{"op":"splice","path":"/l/1","n":2}]`, `{"l":[1,4]}`},
		{"splice replaces", `[1,2,3]`, `[{"op":"splice","path":"/0","n":3,"value":[9]}]`, `[9]`},
		{"splice at the end", `[1]`, `[{"op":"splice","path":"/1","value":[2]},{"op":"splice","path":"/-","value":[3]}]`, `[1,2,3]`},
		{"splice nothing", `[]`, `[{"op":"splice","path":"/0"}]`, `[]`},
		{"replace takes the whole document", `[1]`, `[{"op":"replace","value":{"t":""}},{"op":"append","path":"/t","value":"x"}]`, `{"t":"x"}`},
		{"steps see what earlier ones did", `{"l":[]}`, `[{"op":"splice","path":"/l/-","value":[{"t":"a"}]},{"op":"append","path":"/l/0/t","value":"b"},{"op":"set","path":"/l/0/n","value":1}]`,
			`{"l":[{"t":"ab","n":1}]}`},
		{"whitespace inside goes only where a step went", `{ "a" : [ 1 , 2 ] , "b" : 3 }`, `[{"op":"set","path":"/b","value":4}]`, `{"a":[ 1 , 2 ],"b":4}`},
	} {
		ops, err := ParseOps([]byte(test.ops))
		if err != nil {
			t.Errorf("%s: %v", test.name, err)
			continue
		}
		value := []byte(test.value)
		got, err := ApplyOps(value, ops)
		if err != nil || string(got) != test.want {
			t.Errorf("%s: got %s, %v, want %s", test.name, got, err, test.want)
		}
		if string(value) != test.value {
			t.Errorf("%s: the argument changed to %s", test.name, value)
		}
	}
}

func TestAStepThatDoesNotFitNamesItsPlace(t *testing.T) {
	for _, test := range []struct{ name, value, op, path string }{
		{"unknown verb", `{}`, `{"op":"move","path":"/a"}`, "/a"},
		{"no verb", `{}`, `{}`, ""},
		{"a pointer without its slash", `{"a":1}`, `{"op":"set","path":"a","value":1}`, "a"},
		{"a bad escape", `{"a":1}`, `{"op":"set","path":"/a~2","value":1}`, "/a~2"},
		{"a lone tilde at the end", `{"a":1}`, `{"op":"set","path":"/a~","value":1}`, "/a~"},
		{"a missing parent", `{"a":{}}`, `{"op":"set","path":"/a/b/c","value":1}`, "/a/b"},
		{"a scalar parent", `{"a":1}`, `{"op":"set","path":"/a/b","value":1}`, "/a"},
		{"below a scalar", `{"a":true}`, `{"op":"append","path":"/a/b","value":"x"}`, "/a"},
		{"removing what is not there", `{}`, `{"op":"set","path":"/a"}`, "/a"},
		{"removing an element by set", `[1]`, `{"op":"set","path":"/0"}`, "/0"},
		{"removing the root", `[1]`, `{"op":"set"}`, ""},
		{"an index beyond the end", `[1]`, `{"op":"set","path":"/1","value":1}`, "/1"},
		{"an index with a zero before", `[1,2]`, `{"op":"set","path":"/01","value":1}`, "/01"},
		{"a negative index", `[1]`, `{"op":"set","path":"/-1","value":1}`, "/-1"},
		{"the end is no element", `[1]`, `{"op":"set","path":"/-","value":1}`, "/-"},
		{"an index that overflows", `[1]`, `{"op":"set","path":"/99999999999999999999","value":1}`, "/99999999999999999999"},
		{"a deep index beyond the end", `{"a":[[1]]}`, `{"op":"append","path":"/a/3/0","value":"x"}`, "/a/3"},
		{"append to a number", `{"a":1}`, `{"op":"append","path":"/a","value":"x"}`, "/a"},
		{"append to nothing", `{}`, `{"op":"append","path":"/a","value":"x"}`, "/a"},
		{"append a number", `{"a":""}`, `{"op":"append","path":"/a","value":1}`, "/a"},
		{"append null", `{"a":""}`, `{"op":"append","path":"/a","value":null}`, "/a"},
		{"append without a value", `{"a":""}`, `{"op":"append","path":"/a"}`, "/a"},
		{"trim more than there is", `{"a":"xy"}`, `{"op":"trim","path":"/a","n":3}`, "/a"},
		{"trim a negative number", `{"a":"xy"}`, `{"op":"trim","path":"/a","n":-1}`, "/a"},
		{"trim through a rune", `{"a":"é"}`, `{"op":"trim","path":"/a","n":1}`, "/a"},
		{"trim an object", `{"a":{}}`, `{"op":"trim","path":"/a","n":1}`, "/a"},
		{"splice without an index", `[1]`, `{"op":"splice","n":1}`, ""},
		{"splice an object", `{"a":{}}`, `{"op":"splice","path":"/a/0","n":1}`, "/a"},
		{"splice beyond the end", `[1]`, `{"op":"splice","path":"/2"}`, "/2"},
		{"splice more than there is", `[1]`, `{"op":"splice","path":"/0","n":2}`, "/0"},
		{"splice so much that it overflows", `[1]`, `{"op":"splice","path":"/1","n":9223372036854775807}`, "/1"},
		{"splice a negative number", `[1]`, `{"op":"splice","path":"/0","n":-1}`, "/0"},
		{"splice in no array", `[1]`, `{"op":"splice","path":"/0","value":{}}`, "/0"},
		{"replace below the root", `{"a":1}`, `{"op":"replace","path":"/a","value":1}`, "/a"},
		{"replace with nothing", `{"a":1}`, `{"op":"replace"}`, ""},
		{"a member that appears twice", `{"a":{"x":1,"x":2}}`, `{"op":"set","path":"/a/x","value":1}`, "/a"},
	} {
		ops, err := ParseOps([]byte(`[{"op":"trim","path":"","n":0},` + test.op + `]`))
		if err != nil {
			t.Errorf("%s: %v", test.name, err)
			continue
		}
		ops[0] = Op{Op: OpSet, Value: json.RawMessage(test.value)}
		got, err := ApplyOps(json.RawMessage(`null`), ops)
		misfit, ok := errors.AsType[*OpError](err)
		if !ok || got != nil {
			t.Errorf("%s: got %s, %v, want an OpError", test.name, got, err)
			continue
		}
		if misfit.Index != 1 || misfit.Path != test.path || misfit.Op != ops[1].Op || misfit.Reason == "" {
			t.Errorf("%s: got %+v, want place %q", test.name, *misfit, test.path)
		}
	}
}

func TestWhatIsNoDeltaIsRefused(t *testing.T) {
	for _, text := range []string{``, `{}`, `"x"`, `[{"op":"set","path":"/a","values":1}]`, `[{"op":1}]`, `[] []`, `[{"op":"set"}`, `[{"n":1.5}]`} {
		if ops, err := ParseOps([]byte(text)); err == nil {
			t.Errorf("%q: got %+v", text, ops)
		}
	}
	if _, err := ApplyOps(json.RawMessage(`{"a":`), nil); err == nil {
		t.Error("a value that is not JSON was taken")
	}
	if _, err := ApplyOps(json.RawMessage(`1`), []Op{{Op: OpReplace, Value: json.RawMessage(`{`)}}); err == nil {
		t.Error("a step whose value is not JSON was taken")
	}
}

func TestTheResultSharesNothingWithTheArguments(t *testing.T) {
	for _, ops := range [][]Op{nil, {{Op: OpReplace, Value: json.RawMessage(`{"a":"new"}`)}}, {{Op: OpSet, Path: "/a", Value: json.RawMessage(`"new"`)}}} {
		value := json.RawMessage(`{"a":"old"}`)
		got, err := ApplyOps(value, ops)
		if err != nil {
			t.Fatal(err)
		}
		want := string(got)
		for i := range value {
			value[i] = '#'
		}
		for _, op := range ops {
			for i := range op.Value {
				op.Value[i] = '#'
			}
		}
		if string(got) != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

func TestReplayNeedsABaseAndDeltasThatFit(t *testing.T) {
	appended := []byte(`[{"op":"append","path":"/t","value":"b"}]`)
	got, err := Replay(json.RawMessage(`{"t":"a"}`), [][]byte{appended, appended})
	if err != nil || string(got) != `{"t":"abb"}` {
		t.Errorf("got %s, %v", got, err)
	}
	for name, run := range map[string]func() (json.RawMessage, error){
		"no base":      func() (json.RawMessage, error) { return Replay(nil, [][]byte{appended}) },
		"no delta":     func() (json.RawMessage, error) { return Replay(json.RawMessage(`{"t":""}`), [][]byte{[]byte(`x`)}) },
		"a misfit":     func() (json.RawMessage, error) { return Replay(json.RawMessage(`{}`), [][]byte{appended}) },
		"a broken one": func() (json.RawMessage, error) { return Replay(json.RawMessage(`{"t":`), nil) },
	} {
		if got, err := run(); !errors.Is(err, ErrCorrupt) || got != nil {
			t.Errorf("%s: got %s, %v, want ErrCorrupt", name, got, err)
		}
	}
}

// FuzzApplyOps: no input may panic; a result is JSON; steps applied one list at a time give the same as all at once.
func FuzzApplyOps(f *testing.F) {
	f.Add(`{"a":["x",{"b":"é"}],"n":1.0}`, `[{"op":"append","path":"/a/0","value":"y"},{"op":"trim","path":"/a/1/b","n":2}]`)
	f.Add(`[1,2,3]`, `[{"op":"splice","path":"/1","n":1,"value":[{}]},{"op":"set","path":"/1/k","value":null},{"op":"set","path":"/1/k"}]`)
	f.Add(`{"~":"\ud800"}`, `[{"op":"append","path":"/~0","value":"\udc00"},{"op":"replace","value":0}]`)
	f.Fuzz(func(t *testing.T, value, delta string) {
		ops, err := ParseOps([]byte(delta))
		if err != nil {
			return
		}
		got, err := ApplyOps(json.RawMessage(value), ops)
		if err != nil {
			if got != nil {
				t.Fatalf("a result beside %v", err)
			}
			return
		}
		if !json.Valid(got) {
			t.Fatalf("not JSON: %q", got)
		}
		single := json.RawMessage(value)
		for i := range ops {
			if single, err = ApplyOps(single, ops[i:i+1]); err != nil {
				t.Fatalf("step %d alone: %v", i, err)
			}
		}
		var a, b bytes.Buffer
		if json.Compact(&a, got) != nil || json.Compact(&b, single) != nil || a.String() != b.String() {
			t.Fatalf("at once %s, one by one %s", &a, &b)
		}
	})
}

// BenchmarkApplyOps is a live document of 32 KiB that one delta of 60 bytes is appended to.
func BenchmarkApplyOps(b *testing.B) {
	value := json.RawMessage(`{"run":{"inputs":[1,2,3]},"text":"` + strings.Repeat("word ", 32<<10/5) + `"}`)
	ops := []Op{{Op: OpAppend, Path: "/text", Value: json.RawMessage(`"` + strings.Repeat("x", 60) + `"`)}}
	b.SetBytes(int64(len(value)))
	for b.Loop() {
		if _, err := ApplyOps(value, ops); err != nil {
			b.Fatal(err)
		}
	}
}
