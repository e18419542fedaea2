package outputitems_test

import (
	"bytes"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/workflowd/workflowd/outputitems"
)

func FuzzDecodeChunk(f *testing.F) {
	for _, s := range []string{
		`{"itemId":"a","op":"open","contentType":"markdown","text":"x","expanded":true,"metadata":{"kind":"agent-answer"}}`,
		`{"itemId":"a","op":"open","contentType":"json","content":{"value":1,"total":2,"unit":"tokens"},"display":{"type":"ring","placement":"composer-right"}}`,
		`{"itemId":"a","op":"append","offset":3,"text":"\u003cé"}`, `{"itemId":"a","op":"set","metadata":{"x":null,"y":[1e2]},"status":"waiting"}`,
		`{"itemId":"a","op":"set","content":null}`, `{"itemId":"a","op":"done","status":"cancelled"}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		chunk, err := outputitems.DecodeChunk(data)
		if err != nil {
			return
		}
		encoded, err := outputitems.EncodeChunk(chunk)
		if err != nil {
			t.Fatalf("decoded %q does not encode: %v", data, err)
		}
		decoded, err := outputitems.DecodeChunk(encoded)
		if err != nil {
			t.Fatalf("encoded %q does not decode: %v", encoded, err)
		}
		if d := cmp.Diff(chunk, decoded); d != "" {
			t.Fatalf("chunk changed:\n%s", d)
		}
		a := fold(t, outputitems.OpenText("a"), outputitems.AppendText("a", 0, "abc"))
		before := a.Items()
		changed, err := a.Apply(chunk)
		if err == nil {
			if repeated, err := a.Apply(chunk); err != nil || repeated {
				t.Fatalf("repeat of %s: changed %v, %v", encoded, repeated, err)
			}
		}
		if d := cmp.Diff(before, a.Items()); changed != (d != "") {
			t.Fatalf("changed %v, %v, difference:\n%s", changed, err, d)
		}
	})
}

func FuzzDecodeItem(f *testing.F) {
	for _, s := range []string{
		`{"id":"a","status":"running","contentType":"text","content":"x"}`,
		`{"id":"a","status":"failed","contentType":"json","content":{"kind":"length"},"expanded":true,"metadata":{"kind":"agent-part","partType":"retry","x":{"b":1,"a":2}}}`,
		`{"id":"a","status":"completed","contentType":"markdown","content":"","metadata":{"kind":"agent-notice","plan":true}}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		item, err := outputitems.DecodeItem(data)
		if err != nil {
			return
		}
		encoded, err := outputitems.EncodeItem(item)
		if err != nil {
			t.Fatalf("decoded %q does not encode: %v", data, err)
		}
		decoded, err := outputitems.DecodeItem(encoded)
		if err != nil {
			t.Fatalf("encoded %q does not decode: %v", encoded, err)
		}
		if d := cmp.Diff(item, decoded); d != "" {
			t.Fatalf("item changed:\n%s", d)
		}
		again, err := outputitems.EncodeItem(decoded)
		if err != nil || !bytes.Equal(encoded, again) {
			t.Fatalf("encodings %q and %q, %v", encoded, again, err)
		}
		if got := fold(t, outputitems.Open(item)).Items()[0]; cmp.Diff(item, got) != "" {
			t.Fatalf("opened item differs:\n%s", cmp.Diff(item, got))
		}
	})
}
