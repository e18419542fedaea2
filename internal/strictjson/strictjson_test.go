package strictjson_test

import (
	"encoding/json"
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/workflowd/workflowd/internal/strictjson"
)

const limit = 1 << 12

type colour string

func (c *colour) UnmarshalText(text []byte) error {
	if string(text) != "red" {
		return errors.New("the only colour is red")
	}
	*c = "red"
	return nil
}

// nested decodes itself through the same door.
type nested struct{ N int }

func (n *nested) UnmarshalJSON(data []byte) error {
	var w struct {
		N int `json:"n"`
	}
	if err := strictjson.Decode(data, limit, &w); err != nil {
		return err
	}
	n.N = w.N
	return nil
}

type base struct {
	ID string `json:"id"`
}

type form struct {
	base
	Prompt   string             `json:"prompt"`
	Count    int8               `json:"count"`
	Ratio    float32            `json:"ratio"`
	On       bool               `json:"on"`
	Tags     []string           `json:"tags"`
	Pair     [2]int             `json:"pair"`
	Prices   map[string]float64 `json:"prices"`
	Child    *form              `json:"child"`
	Raw      json.RawMessage    `json:"raw"`
	Any      any                `json:"any"`
	Colour   colour             `json:"colour"`
	Nested   []nested           `json:"nested"`
	Number   json.Number        `json:"number"`
	Bytes    []byte             `json:"bytes"`
	Hidden   string             `json:"-"`
	internal string
}

func TestDecodeTakesWhatFits(t *testing.T) {
	const text = ` {"id":"a","prompt":"h\u00e9\ud83d\ude00/","count":-128,"ratio":1.5,"on":true,"tags":["x",""],"pair":[1,2],
		"prices":{"in":1,"out/":2e0},"child":{"prompt":"c","tags":null,"child":null},"raw":{"b": [1]},"any":{"k":[null,1]},
		"colour":"red","nested":[{"n":3},{}],"number":12345678901234567890,"bytes":"aGk="} `
	want := form{
		base: base{ID: "a"}, Prompt: "hé😀/", Count: -128, Ratio: 1.5, On: true, Tags: []string{"x", ""}, Pair: [2]int{1, 2},
		Prices: map[string]float64{"in": 1, "out/": 2}, Child: &form{Prompt: "c"}, Raw: json.RawMessage(`{"b": [1]}`),
		Any: map[string]any{"k": []any{nil, 1.0}}, Colour: "red", Nested: []nested{{3}, {}},
		Number: "12345678901234567890", Bytes: []byte("hi"),
	}
	var got form
	if err := strictjson.Decode([]byte(text), limit, &got); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(want, got, cmp.AllowUnexported(form{}, base{})); d != "" {
		t.Errorf("decoded (-want +got):\n%s", d)
	}
}

func TestDecodeRefuses(t *testing.T) {
	deep := strings.Repeat("[", strictjson.MaxDepth+1) + strings.Repeat("]", strictjson.MaxDepth+1)
	tests := []struct {
		name, text, pointer, detail string
	}{
		{"an unknown field, and names the nearest", `{"promt":1}`, "/promt", `unknown field; the nearest known one is "prompt"`},
		{"a name in another case", `{"Prompt":"x"}`, "/Prompt", `nearest known one is "prompt"`},
		{"a hidden field", `{"Hidden":"x"}`, "/Hidden", "unknown field"},
		{"an unexported field", `{"internal":"x"}`, "/internal", "unknown field"},
		{"an unknown field far down", `{"child":{"child":{"coun/t~":1}}}`, "/child/child/coun~1t~0", `"count"`},
		{"a repeated member", `{"on":true,"on":true}`, "/on", "appears twice"},
		{"a member repeated through an escape", `{"on":true,"\u006fn":true}`, "/on", "appears twice"},
		{"a repeated member of a map", `{"prices":{"a":1,"a":1}}`, "/prices/a", "appears twice"},
		{"a repeated member of raw text", `{"raw":[{"a":1,"a":1}]}`, "/raw/0/a", "appears twice"},
		{"a number for text", `{"prompt":12}`, "/prompt", "want a string, got the number 12"},
		{"text for a number, without repeating it", `{"count":"secret"}`, "/count", "want a whole number (int8), got a string"},
		{"a fraction for a whole number", `{"count":1.5}`, "/count", "got the number 1.5"},
		{"a number that does not fit", `{"count":128}`, "/count", "want a whole number (int8), got the number 128"},
		{"text for a json.Number", `{"number":"1"}`, "/number", "want a number, got a string"},
		{"null for a scalar", `{"on":null}`, "/on", "want true or false, got null"},
		{"null for a text type", `{"colour":null}`, "/colour", "want a string, got null"},
		{"a number for a text type", `{"colour":1}`, "/colour", "want a string, got the number 1"},
		{"an object for an array", `{"tags":{}}`, "/tags", "want an array, got an object"},
		{"an array for an object", `{"child":[]}`, "/child", "want an object, got an array"},
		{"an array for text", `{"prompt":[]}`, "/prompt", "want a string, got an array"},
		{"text for an object", `{"prices":"x"}`, "/prices", "want an object, got a string"},
		{"a wrong element", `{"tags":["a",1]}`, "/tags/1", "want a string"},
		{"a short fixed array", `{"pair":[1]}`, "/pair", "want 2 elements, got 1"},
		{"a long fixed array", `{"pair":[1,2,3]}`, "/pair", "want 2 elements, got more"},
		{"a number beyond a float", `{"any":[1e999]}`, "/any/0", "beyond a 64-bit float"},
		{"what a text type refuses", `{"colour":"blue"}`, "/colour", "the only colour is red"},
		{"what a nested door refuses", `{"nested":[{},{"m":1}]}`, "/nested/1/m", `"n"`},
		{"half a surrogate pair", `{"prompt":"\ud83d"}`, "/prompt", "half a surrogate pair"},
		{"a low surrogate alone", `{"prompt":"\ude00\ud83d"}`, "/prompt", "half a surrogate pair"},
		{"a high surrogate before other text", `{"any":"\ud83dxu1234"}`, "/any", "half a surrogate pair"},
		{"half a pair in a name", `{"any":{"\ud83d":1}}`, "/any", "half a surrogate pair"},
		{"text that is not UTF-8", "{\"prompt\":\"\xff\"}", "/prompt", "not UTF-8"},
		{"trailing data", `{} {}`, "", "after top-level value"},
		{"nothing", ``, "", "not JSON"},
		{"a cut text", `{"on":true`, "", "unexpected end of JSON input"},
		{"deep nesting", `{"any":` + deep + `}`, "/any" + strings.Repeat("/0", strictjson.MaxDepth-1), "nested deeper than 128"},
		{"excess size", `{"prompt":"` + strings.Repeat("x", limit) + `"}`, "", "4109 bytes are over the limit of 4096"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var v form
			err := strictjson.Decode([]byte(tt.text), limit, &v)
			e, ok := errors.AsType[*strictjson.Error](err)
			if !ok {
				t.Fatalf("error %v, want an *Error", err)
			}
			if e.Pointer != tt.pointer || !strings.Contains(e.Detail, tt.detail) {
				t.Errorf("got %q %q, want %q and ...%q...", e.Pointer, e.Detail, tt.pointer, tt.detail)
			}
			if strings.Contains(e.Error(), "secret") {
				t.Errorf("%q repeats a string value", e)
			}
		})
	}
}

func TestTheLimitItselfPasses(t *testing.T) {
	text := []byte(`"` + strings.Repeat("x", limit-2) + `"`)
	var s string
	if err := strictjson.Decode(text, limit, &s); err != nil || len(s) != limit-2 {
		t.Errorf("%d bytes: %v, read %d", len(text), err, len(s))
	}
	if err := strictjson.Decode(text, limit-1, &s); err == nil {
		t.Error("one byte over the limit passed")
	}
}

func TestTheDepthLimitItselfPasses(t *testing.T) {
	var v any
	text := strings.Repeat("[", strictjson.MaxDepth) + strings.Repeat("]", strictjson.MaxDepth)
	if err := strictjson.Decode([]byte(text), limit, &v); err != nil {
		t.Error(err)
	}
	if err := strictjson.CheckValue(v); err != nil {
		t.Error(err)
	}
	if err := strictjson.CheckValue([]any{v}); err == nil {
		t.Error("one level more passed")
	}
}

func TestDecodeNeedsAPointer(t *testing.T) {
	for _, into := range []any{nil, form{}, (*form)(nil)} {
		if err := strictjson.Decode([]byte(`{}`), limit, into); err == nil {
			t.Errorf("decode into %T passed", into)
		}
	}
}

func TestDecodedValuesDoNotAliasTheText(t *testing.T) {
	text := []byte(`{"prompt":"abc","raw":[1],"prices":{"k":1}}`)
	var v form
	if err := strictjson.Decode(text, limit, &v); err != nil {
		t.Fatal(err)
	}
	clear(text)
	if v.Prompt != "abc" || string(v.Raw) != "[1]" || v.Prices["k"] != 1 {
		t.Errorf("decoded value changed with the text: %+v", v)
	}
}

func TestCanonical(t *testing.T) {
	tests := []struct {
		name string
		in   any
		want string
	}{
		{"sorts members at every level", json.RawMessage(`{"b":{"z":1,"a":[{"d":1,"c":2}]},"a":null}`), `{"a":null,"b":{"a":[{"c":2,"d":1}],"z":1}}`},
		{"sorts the fields of a struct", struct{ B, A int }{1, 2}, `{"A":2,"B":1}`},
		{"drops white space", json.RawMessage(" [ 1 , { } , [ ] ] "), `[1,{},[]]`},
		{"escapes no HTML", "<a&b>\u2028", "\"<a&b>\u2028\""},
		{"undoes needless escapes", json.RawMessage(`"\u003ca\/\u00e9\ud83d\ude00\n\u0001\""`), "\"<a/é😀\\n\\u0001\\\"\""},
		{"leaves numbers as written", json.RawMessage(`[1.0,1e2,0.12345678901234567890]`), `[1.0,1e2,0.12345678901234567890]`},
		{"takes a nil message for null", json.RawMessage(nil), `null`},
		{"sorts names by their bytes", map[string]int{"é": 1, "z": 2, "": 3}, `{"":3,"z":2,"é":1}`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := strictjson.Canonical(tt.in)
			if err != nil || string(got) != tt.want {
				t.Errorf("got %s, %v, want %s", got, err, tt.want)
			}
		})
	}
	for name, bad := range map[string]any{
		"NaN": math.NaN(), "a channel": make(chan int), "a repeated member": json.RawMessage(`{"a":1,"a":1}`), "broken text": json.RawMessage(`{`),
	} {
		if got, err := strictjson.Canonical(bad); err == nil {
			t.Errorf("%s has the canonical form %s", name, got)
		}
	}
}

func TestDigestDependsOnTheValueAlone(t *testing.T) {
	digest := func(v any) string {
		t.Helper()
		d, err := strictjson.Digest(v)
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	one := digest(json.RawMessage(`{"a":1,"b":"<"}`))
	if two := digest(json.RawMessage(` {"b":"\u003c", "a":1}`)); one != two {
		t.Errorf("another spelling has digest %s, want %s", two, one)
	}
	if three := digest(json.RawMessage(`{"a":2,"b":"<"}`)); one == three {
		t.Error("another value has the same digest")
	}
	const empty = "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a" // sha256sum of {}
	if got := digest(struct{}{}); got != empty {
		t.Errorf("digest of {} is %s", got)
	}
}

type ownTime time.Time

type loop struct {
	Next *loop `json:"next"`
}

type byPointer struct{ N int }

func (*byPointer) MarshalJSON() ([]byte, error) { return []byte(`{"a":1,"a":2}`), nil }

func TestCheckValue(t *testing.T) {
	cycle := &loop{}
	cycle.Next = cycle
	var self any
	self = &self
	when := time.Unix(0, 0)
	good := map[string]any{
		"nothing": nil, "scalars": []any{true, 1, uint8(2), 1.5, "x", json.Number("7")}, "a struct": form{Tags: []string{"a"}},
		"no time": (*time.Time)(nil), "raw text": json.RawMessage(`{"a":[1]}`), "named keys": map[colour]int{"red": 1}, "bytes": []byte{0xff},
	}
	for name, v := range good {
		if err := strictjson.CheckValue(v); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	bad := []struct {
		name    string
		v       any
		pointer string
	}{
		{"NaN", map[string]any{"a/b": []float64{1, math.NaN()}}, "/a~1b/1"},
		{"infinity", struct {
			F float32 `json:"f"`
		}{float32(math.Inf(1))}, "/f"},
		{"a function", []any{func() {}}, "/0"},
		{"a channel", make(chan int), ""},
		{"a complex number", complex(1, 2), ""},
		{"a time", map[string]any{"at": when}, "/at"},
		{"a pointer to a time", &when, ""},
		{"a type made of time", ownTime(when), ""},
		{"a map with number keys", map[int]string{1: "a"}, ""},
		{"text that is not UTF-8", []string{"\xff"}, "/0"},
		{"a name that is not UTF-8", map[string]int{"\xff": 1}, ""},
		{"broken raw text", json.RawMessage(`{`), ""},
		{"an ambiguous encoder", &byPointer{}, ""},
		{"a cycle", cycle, strings.Repeat("/next", strictjson.MaxDepth)},
		{"a pointer to itself", self, ""},
	}
	for _, tt := range bad {
		t.Run(tt.name, func(t *testing.T) {
			e, ok := errors.AsType[*strictjson.Error](strictjson.CheckValue(tt.v))
			if !ok {
				t.Fatal("passed")
			}
			if tt.name != "an ambiguous encoder" && e.Pointer != tt.pointer {
				t.Errorf("pointer %q, want %q (%s)", e.Pointer, tt.pointer, e.Detail)
			}
		})
	}
}

// What passes the door must be one value for every reader: the canonical form is a fixed point and decodes to the same value.
func FuzzDecode(f *testing.F) {
	for _, s := range []string{
		`{"prompt":"a","tags":["x"],"child":{"on":true},"any":{"b":1,"a":[null]}}`, `{"raw":"\ud83d\ude00\u003c"}`, `[1e2]`, `{"a":1,"a":1}`,
		"\"\xff\"", `"\ud83d"`, `{"nested":[{"n":1}],"pair":[1,2],"bytes":"aGk="}`, `1e999`, ` null `, `{"prices":{"\u0061":0}}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var typed form
		if err := strictjson.Decode(data, limit, &typed); err == nil {
			var plain form
			if err := json.Unmarshal(data, &plain); err != nil {
				t.Fatalf("strict took what encoding/json refuses: %v", err)
			}
			if d := cmp.Diff(plain, typed, cmp.AllowUnexported(form{}, base{})); d != "" {
				t.Fatalf("differs from encoding/json (-plain +strict):\n%s", d)
			}
		}
		var v any
		if err := strictjson.Decode(data, limit, &v); err != nil {
			return
		}
		once, err := strictjson.Canonical(json.RawMessage(data))
		if err != nil {
			t.Fatalf("no canonical form of %q: %v", data, err)
		}
		twice, err := strictjson.Canonical(json.RawMessage(once))
		if err != nil || string(once) != string(twice) {
			t.Fatalf("canonical form %q becomes %q, %v", once, twice, err)
		}
		var again any
		if err := json.Unmarshal(once, &again); err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(v, again); d != "" {
			t.Fatalf("canonical form is another value:\n%s", d)
		}
	})
}
