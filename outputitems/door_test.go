package outputitems_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/workflowd/workflowd/outputitems"
)

// Promise: P-604, P-662, P-663, P-668
func TestTheDoorRefusesItems(t *testing.T) {
	const ring = `"id":"r","status":"running","contentType":"json","display":{"type":"ring","placement":"composer-right"}`
	const retry = `"id":"r","status":"running","contentType":"json","metadata":{"kind":"agent-part","partType":"retry"}`
	tests := []struct {
		name, doc, pointer, detail string
		schemaToo                  bool
	}{
		{"an unknown member", `{"id":"a","statuz":"running"}`, "/statuz", `"status"`, true},
		{"an unknown kind", `{"id":"a","status":"running","contentType":"text","content":"","metadata":{"kind":"agent-thing"}}`, "/metadata/kind", "agent-thing", true},
		{"a null kind", `{"id":"a","status":"running","contentType":"text","content":"","metadata":{"kind":null}}`, "/metadata/kind", "null", true},
		{"an unknown part type", `{"id":"a","status":"running","contentType":"text","content":"","metadata":{"kind":"agent-part","partType":"image"}}`, "/metadata/partType", "image", true},
		{"a part without a type", `{"id":"a","status":"running","contentType":"text","content":"","metadata":{"kind":"agent-part"}}`, "/metadata/partType", "not one of", true},
		{"a part type elsewhere", `{"id":"a","status":"running","contentType":"text","content":"","metadata":{"kind":"agent-notice","partType":"tool"}}`, "/metadata/partType", "only an agent-part", true},
		{"a plan that is no notice", `{"id":"a","status":"running","contentType":"text","content":"","metadata":{"plan":true}}`, "/metadata/plan", "only an agent-notice", false},
		{"a plan flag of another type", `{"id":"a","status":"running","contentType":"text","content":"","metadata":{"plan":"yes"}}`, "/metadata/plan", "want true or false", true},
		{"a null in metadata", `{"id":"a","status":"running","contentType":"text","content":"","metadata":{"x":null}}`, "/metadata/x", "null removes", true},
		{"metadata that is null", `{"id":"a","status":"running","contentType":"text","content":"","metadata":null}`, "/metadata", "null", true},
		{"an unknown status", `{"id":"a","status":"done","contentType":"text","content":""}`, "/status", "done", true},
		{"a missing status", `{"id":"a","contentType":"text","content":""}`, "/status", "not one of", true},
		{"an unknown content type", `{"id":"a","status":"running","contentType":"html","content":""}`, "/contentType", "html", true},
		{"a missing content", `{"id":"a","status":"running","contentType":"json"}`, "/content", "missing", true},
		{"text that is no string", `{"id":"a","status":"running","contentType":"markdown","content":{}}`, "/content", "want a string, got an object", true},
		{"text that is null", `{"id":"a","status":"running","contentType":"markdown","content":null}`, "/content", "want a string, got null", true},
		{"a repeated member deep in content", `{"id":"a","status":"running","contentType":"json","content":{"a":[{"b":1,"b":2}]}}`, "/content/a/0/b", "twice", false},
		{"an empty id", `{"id":"","status":"running","contentType":"text","content":""}`, "/id", "missing", true},
		{"a long id", `{"id":"` + strings.Repeat("i", outputitems.MaxIDBytes+1) + `","status":"running","contentType":"text","content":""}`, "/id", "over the limit", false},
		{"an unknown display", `{"id":"a","status":"running","contentType":"json","content":{},"display":{"type":"bar","placement":"composer-right"}}`, "/display/type", "bar", true},
		{"an unknown placement", `{"id":"a","status":"running","contentType":"json","content":{},"display":{"type":"ring","placement":"left"}}`, "/display/placement", "left", true},
		{"half a display", `{"id":"a","status":"running","contentType":"json","content":{},"display":{"type":"ring"}}`, "/display/placement", "missing", true},
		{"a ring of text", `{"id":"r","status":"running","contentType":"text","content":"","display":{"type":"ring","placement":"composer-right"}}`, "/content", "ring", true},
		{"a ring without a total", `{` + ring + `,"content":{"value":1,"unit":"tokens"}}`, "/content/total", "above 0", true},
		{"a ring below zero", `{` + ring + `,"content":{"value":-1,"total":1,"unit":"tokens"}}`, "/content/value", "0 or more", true},
		{"a ring without a unit", `{` + ring + `,"content":{"value":1,"total":1}}`, "/content/unit", "1 to 32 bytes", true},
		{"a ring with more in it", `{` + ring + `,"content":{"value":1,"total":1,"unit":"tokens","model":"m"}}`, "/content/model", "unknown field", true},
		{"a retry of no kind", `{` + retry + `,"content":{"attempt":1}}`, "/content/kind", "got null", true},
		{"a retry of unknown kind", `{` + retry + `,"content":{"kind":"again"}}`, "/content/kind", "again", true},
		{"a collapsed answer", `{"id":"a","status":"running","contentType":"markdown","content":"","metadata":{"kind":"agent-answer"}}`, "/metadata/kind", "expanded markdown", false},
		{"an answer that is no markdown", `{"id":"a","status":"running","contentType":"text","content":"","expanded":true,"metadata":{"kind":"agent-answer"}}`, "/metadata/kind", "expanded markdown", false},
		{"a session of text", `{"id":"a","status":"running","contentType":"text","content":"","metadata":{"kind":"agent-session"}}`, "/contentType", "holds JSON", false},
		{"a text row of JSON", `{"id":"a","status":"running","contentType":"json","content":"","metadata":{"kind":"agent-part","partType":"text"}}`, "/contentType", "markdown", false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := outputitems.DecodeItem([]byte(tt.doc))
			refused(t, err, tt.pointer, tt.detail)
			refusedBySchema(t, "item", tt.doc, tt.schemaToo)
		})
	}
}

// Promise: P-604
func TestTheDoorRefusesChunks(t *testing.T) {
	tests := []struct {
		name, doc, pointer, detail string
		schemaToo                  bool
	}{
		{"no item", `{"op":"done","status":"failed"}`, "/itemId", "missing", true},
		{"an empty item id", `{"itemId":"","op":"done","status":"failed"}`, "/itemId", "missing", true},
		{"no operation", `{"itemId":"a","status":"failed"}`, "/op", "missing", true},
		{"an unknown operation", `{"itemId":"a","op":"close"}`, "/op", "close", true},
		{"an open without a type", `{"itemId":"a","op":"open","text":""}`, "/contentType", "missing", true},
		{"an open with an offset", `{"itemId":"a","op":"open","contentType":"text","offset":0}`, "/offset", "op open takes no such member", true},
		{"an open with text and content", `{"itemId":"a","op":"open","contentType":"text","text":"","content":""}`, "/content", "exclude", true},
		{"an open of text with JSON", `{"itemId":"a","op":"open","contentType":"text","content":"x"}`, "/content", "holds text", false},
		{"an open of JSON with text", `{"itemId":"a","op":"open","contentType":"json","text":"x"}`, "/text", "holds JSON", false},
		{"an open of unknown kind", `{"itemId":"a","op":"open","contentType":"text","metadata":{"kind":"x"}}`, "/metadata/kind", "not one of", true},
		{"an append without an offset", `{"itemId":"a","op":"append","text":"x"}`, "/offset", "missing", true},
		{"an append without text", `{"itemId":"a","op":"append","offset":0}`, "/text", "missing", true},
		{"an append of null", `{"itemId":"a","op":"append","offset":0,"text":null}`, "/text", "got null", true},
		{"an append at a negative offset", `{"itemId":"a","op":"append","offset":-1,"text":"x"}`, "/offset", "negative", true},
		{"an append at half a byte", `{"itemId":"a","op":"append","offset":0.5,"text":"x"}`, "/offset", "whole number", true},
		{"an append of half a surrogate pair", `{"itemId":"a","op":"append","offset":0,"text":"\ud83d"}`, "/text", "surrogate", false},
		{"an append with content", `{"itemId":"a","op":"append","offset":0,"text":"x","content":1}`, "/content", "takes no such member", true},
		{"a set of nothing", `{"itemId":"a","op":"set"}`, "", "changes nothing", true},
		{"a set of a final status", `{"itemId":"a","op":"set","status":"failed"}`, "/status", "needs op done", true},
		{"a set of the kind", `{"itemId":"a","op":"set","metadata":{"kind":"agent-notice"}}`, "/metadata/kind", "fixed", true},
		{"a set of the part type", `{"itemId":"a","op":"set","metadata":{"partType":null}}`, "/metadata/partType", "fixed", true},
		{"a set of the plan flag", `{"itemId":"a","op":"set","metadata":{"plan":true}}`, "/metadata/plan", "fixed", true},
		{"a set of no metadata", `{"itemId":"a","op":"set","metadata":null}`, "/metadata", "null", true},
		{"a set of the fold state", `{"itemId":"a","op":"set","text":"x","expanded":true}`, "/expanded", "takes no such member", true},
		{"a done without a status", `{"itemId":"a","op":"done"}`, "/status", "missing", true},
		{"a done with an open status", `{"itemId":"a","op":"done","status":"waiting"}`, "/status", "final", true},
		{"trailing data", `{"itemId":"a","op":"done","status":"failed"}]`, "", "after top-level value", false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := outputitems.DecodeChunk([]byte(tt.doc))
			refused(t, err, tt.pointer, tt.detail)
			refusedBySchema(t, "chunk", tt.doc, tt.schemaToo)
		})
	}
}

func refused(t *testing.T, err error, pointer, detail string) {
	t.Helper()
	e, ok := errors.AsType[*outputitems.Error](err)
	if !ok {
		t.Fatalf("error %v, want an *Error", err)
	}
	if e.Pointer != pointer || !strings.Contains(e.Detail, detail) {
		t.Errorf("got %q %q, want %q and ...%q...", e.Pointer, e.Detail, pointer, detail)
	}
}

// refusedBySchema checks that the schema refuses doc where it can say so, and that the table is honest where it cannot.
func refusedBySchema(t *testing.T, def, doc string, want bool) {
	t.Helper()
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader([]byte(doc)))
	if err != nil {
		return // no JSON document at all
	}
	if got := compiled(t, def).Validate(v) != nil; got != want {
		t.Errorf("schema refuses: %v, want %v", got, want)
	}
}

func TestGoValuesAreCheckedLikeTheWire(t *testing.T) {
	bad := map[string]outputitems.Chunk{
		"no change":               {ItemID: "a"},
		"text that is not UTF-8":  outputitems.AppendText("a", 0, "\xff"),
		"set text not UTF-8":      outputitems.SetContent("a", outputitems.Text("\xff")),
		"an id that is not UTF-8": outputitems.AppendText("\xff", 0, "x"),
		"a kind of its own":       {ItemID: "a", Change: outputitems.OpenChange{ContentType: outputitems.TypeText, Metadata: outputitems.Metadata{Kind: "mine"}}},
		"a reserved member": {ItemID: "a", Change: outputitems.OpenChange{ContentType: outputitems.TypeText,
			Metadata: outputitems.Metadata{Extra: map[string]outputitems.JSON{"kind": mustJSON(t, "agent-answer")}}}},
		"too much text":     outputitems.AppendText("a", 0, strings.Repeat("x", outputitems.MaxContentBytes+1)),
		"too much metadata": outputitems.SetMetadata("a", outputitems.Patch{"x": mustJSON(t, strings.Repeat("x", outputitems.MaxMetadataBytes))}),
	}
	for name, c := range bad {
		t.Run(name, func(t *testing.T) {
			if _, err := outputitems.EncodeChunk(c); err == nil {
				t.Error("encoded")
			}
			var a outputitems.Accumulator
			_, err := a.Apply(c)
			if e, ok := errors.AsType[*outputitems.ApplyError](err); !ok || e.Reason != outputitems.Invalid {
				t.Errorf("applied with error %v", err)
			}
		})
	}
	for name, v := range map[string]any{"NaN": math.NaN(), "a time": time.Unix(0, 0), "a function": func() {}, "number keys": map[int]int{1: 1}} {
		if j, err := outputitems.NewJSON(v); err == nil {
			t.Errorf("%s is %s", name, j)
		}
	}
}

// The longest content that is allowed still passes the door when every byte of it is escaped.
func TestTheLongestTextRoundTrips(t *testing.T) {
	c := outputitems.AppendText("a", 0, strings.Repeat("\x01", outputitems.MaxContentBytes))
	encoded, err := outputitems.EncodeChunk(c)
	if err != nil {
		t.Fatal(err)
	}
	decoded, err := outputitems.DecodeChunk(encoded)
	if err != nil || decoded != c {
		t.Errorf("decoded differs: %v", err)
	}
}

func TestForeignMetadataRoundTrips(t *testing.T) {
	const doc = `{"id":"a","status":"running","contentType":"json","content":{"n":1.0,"big":12345678901234567890,"h":"<&>"},"expanded":false,` +
		`"metadata":{"plan":false,"kind":"agent-notice","usage":{"output":12,"input":3.50},"finishReason":"stop"}}`
	item, err := outputitems.DecodeItem([]byte(doc))
	if err != nil {
		t.Fatal(err)
	}
	plain, err := json.Marshal([]outputitems.Item{item}) // escapes HTML on the way
	if err != nil {
		t.Fatal(err)
	}
	var again []outputitems.Item
	if err := json.Unmarshal(plain, &again); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff([]outputitems.Item{item}, again); d != "" {
		t.Errorf("item changed through encoding/json:\n%s", d)
	}
	encoded, err := outputitems.EncodeItem(again[0])
	want := `{"id":"a","status":"running","contentType":"json","content":{"big":12345678901234567890,"h":"<&>","n":1.0},"expanded":false,` +
		`"metadata":{"kind":"agent-notice","finishReason":"stop","usage":{"input":3.50,"output":12}}}`
	if err != nil || string(encoded) != want {
		t.Errorf("got  %s, %v\nwant %s", encoded, err, want)
	}
}

func TestChunksPassThroughEncodingJSON(t *testing.T) {
	want := []outputitems.Chunk{outputitems.AppendText("a", 3, "<b>"), outputitems.SetContent("a", mustJSON(t, object{"h": "<&>"})), outputitems.Done("a", outputitems.StatusFailed)}
	encoded, err := json.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	var got []outputitems.Chunk
	if err := json.Unmarshal(encoded, &got); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("chunks changed:\n%s", d)
	}
	if _, err := json.Marshal(outputitems.Chunk{ItemID: "a"}); err == nil {
		t.Error("a chunk without a change was encoded")
	}
}

func TestAMalformedChunkIsRefusedWithItsPointer(t *testing.T) {
	_, err := fold(t, outputitems.OpenText("a")).Apply(outputitems.SetContent("a", outputitems.Text("\xff")))
	refused(t, err, "/text", "not UTF-8")
	_, err = fold(t, mustChunk(t)(outputitems.OpenRing("k", 0, 1))).Apply(outputitems.SetContent(outputitems.RingID("k"), mustJSON(t, object{"value": 1})))
	refused(t, err, "/content/total", "above 0")
}

func TestANestedDoorKeepsThePointer(t *testing.T) {
	var payload struct {
		Items []outputitems.Item `json:"items"`
	}
	err := json.Unmarshal([]byte(`{"items":[{"id":"a","status":"running","contentType":"json","content":1,"display":{"type":"pie"}}]}`), &payload)
	refused(t, err, "/display/type", "pie")
}

// Promise: P-618
func TestRingsOfDifferentSessionKeysAreDifferent(t *testing.T) {
	seen := map[string]string{}
	for _, key := range []string{"", "agent", "a b", "a_b", "a  b", " a b", "A b", "世界", "世 界", "e\u0301", "\u00e9", "agent\x00", "agent/1", strings.Repeat("k", 500), strings.Repeat("k", 501)} {
		id := outputitems.RingID(key)
		if other, taken := seen[id]; taken {
			t.Errorf("keys %q and %q share ring %s", key, other, id)
		}
		seen[id] = key
		if again := outputitems.RingID(key); again != id {
			t.Errorf("key %q has rings %s and %s", key, id, again)
		}
	}
	const known = "itm_8QPGPDVMP2DB81EPC5ETPHQYW4" // recorded once; stored conversations refer to it
	if got := outputitems.RingID("main"); got != known {
		t.Errorf("ring of main is %s, want %s", got, known)
	}
}

// Promise: P-617, P-620
func TestAHostDrawsARingFromDisplayAndContentAlone(t *testing.T) {
	must := mustChunk(t)
	a := fold(t, must(outputitems.OpenRing("a b", 0, 100)), must(outputitems.SetRing("a b", 120, 100)))
	item, ok := a.Item(outputitems.RingID("a b"))
	if !ok || item.Display != (outputitems.Display{Type: outputitems.DisplayRing, Placement: outputitems.PlaceComposerRight}) {
		t.Fatalf("item %+v", item)
	}
	if d := cmp.Diff(outputitems.Metadata{}, item.Metadata); d != "" {
		t.Errorf("the ring carries agent-specific metadata:\n%s", d)
	}
	ring, ok := item.Ring()
	if want := (outputitems.Ring{Value: 120, Total: 100, Unit: "tokens"}); !ok || ring != want {
		t.Errorf("ring %+v, want %+v", ring, want)
	}
	if _, ok := fold(t, outputitems.OpenAnswer("x")).Items()[0].Ring(); ok {
		t.Error("an answer is a ring")
	}
}

func TestRingNumbersOutOfRangeAreRefused(t *testing.T) {
	for _, bad := range [][2]float64{{-1, 1}, {math.NaN(), 1}, {math.Inf(1), 1}, {0, 0}, {0, -1}, {0, math.NaN()}, {0, math.Inf(1)}} {
		if _, err := outputitems.ContextRing("k", bad[0], bad[1]); err == nil {
			t.Errorf("ring of %v passed", bad)
		}
		if _, err := outputitems.SetRing("k", bad[0], bad[1]); err == nil {
			t.Errorf("set ring of %v passed", bad)
		}
	}
}
