package outputitems_test

import (
	"errors"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/workflowd/workflowd/outputitems"
)

func TestApply(t *testing.T) {
	open := outputitems.OpenText("a")
	add := func(offset int, text string) outputitems.Chunk { return outputitems.AppendText("a", offset, text) }
	setText := func(text string) outputitems.Chunk { return outputitems.SetContent("a", outputitems.Text(text)) }
	meta := func(name string, v any) outputitems.Chunk {
		return outputitems.SetMetadata("a", outputitems.Patch{name: mustJSON(t, v)})
	}
	data := outputitems.OpenPart("a", outputitems.PartTool, mustJSON(t, 1))
	setData := func(v any) outputitems.Chunk { return outputitems.SetContent("a", mustJSON(t, v)) }
	done := outputitems.Done("a", outputitems.StatusCompleted)
	waiting := outputitems.SetStatus("a", outputitems.StatusWaiting)

	type chunks = []outputitems.Chunk
	tests := []struct {
		name    string
		before  chunks
		chunk   outputitems.Chunk
		changed bool
		refusal outputitems.ApplyError // Reason "" means accepted; Cause is not compared
		content string
	}{
		{name: "open adds an item", chunk: open, changed: true, content: `""`},
		{name: "an equal open changes nothing", before: chunks{open}, chunk: open, content: `""`},
		{name: "an equal open changes nothing later either", before: chunks{open, add(0, "x"), waiting, done}, chunk: open, content: `"x"`},
		{name: "another open is refused", before: chunks{open}, chunk: outputitems.OpenReasoning("a"), refusal: outputitems.ApplyError{Op: "open", Reason: outputitems.Reopened}, content: `""`},
		{name: "a chunk needs an open", chunk: add(0, "x"), refusal: outputitems.ApplyError{Op: "append", Reason: outputitems.NotOpen}},
		{name: "append adds at the end, counted in bytes", before: chunks{open, add(0, "é")}, chunk: add(2, "x"), changed: true, content: `"éx"`},
		{name: "a repeat changes nothing", before: chunks{open, add(0, "abc")}, chunk: add(1, "b"), content: `"abc"`},
		{name: "an overlap adds the rest", before: chunks{open, add(0, "abc")}, chunk: add(1, "bcde"), changed: true, content: `"abcde"`},
		{name: "an empty append changes nothing", before: chunks{open, add(0, "abc")}, chunk: add(3, ""), content: `"abc"`},
		{name: "a gap is refused", before: chunks{open, add(0, "abc")}, chunk: add(4, "x"), refusal: outputitems.ApplyError{Op: "append", Reason: outputitems.Gap, Offset: 4, Length: 3}, content: `"abc"`},
		{name: "nor does one beyond the end", before: chunks{open}, chunk: add(1, ""), content: `""`},
		{name: "other bytes are refused, where they begin", before: chunks{open, add(0, "abc")}, chunk: add(0, "abXd"), refusal: outputitems.ApplyError{Op: "append", Reason: outputitems.Contradiction, Offset: 2, Length: 3}, content: `"abc"`},
		{name: "an offset inside a character is refused", before: chunks{open, add(0, "é")}, chunk: add(1, "é"), refusal: outputitems.ApplyError{Op: "append", Reason: outputitems.Contradiction, Offset: 1, Length: 2}, content: `"é"`},
		{name: "JSON takes no append", before: chunks{data}, chunk: add(0, "x"), refusal: outputitems.ApplyError{Op: "append", Reason: outputitems.Invalid}, content: `1`},
		{name: "set replaces JSON", before: chunks{data}, chunk: setData(object{"b": 1, "a": 2}), changed: true, content: `{"a":2,"b":1}`},
		{name: "an equal set changes nothing", before: chunks{data}, chunk: setData(1), content: `1`},
		{name: "set replaces text", before: chunks{open, add(0, "abc")}, chunk: setText("x"), changed: true, content: `"x"`},
		{name: "a repeated append of replaced text changes nothing", before: chunks{open, add(0, "abc"), setText("x")}, chunk: add(0, "abc"), content: `"x"`},
		{name: "nor does one behind the new end", before: chunks{open, add(0, "abc"), setText("x")}, chunk: add(2, "c"), content: `"x"`},
		{name: "a repeat of text that was set and appended to at once changes nothing", before: chunks{open, setText("abc"), add(1, "bc"), setText(""), done}, chunk: add(1, "bc"), content: `""`},
		{name: "replaced text is no licence for other bytes", before: chunks{open, add(0, "abc"), setText("x")}, chunk: add(2, "d"), refusal: outputitems.ApplyError{Op: "append", Reason: outputitems.Gap, Offset: 2, Length: 1}, content: `"x"`},
		{name: "appends go on behind replaced text", before: chunks{open, add(0, "abc"), setText("x")}, chunk: add(1, "y"), changed: true, content: `"xy"`},
		{name: "text takes no JSON", before: chunks{open}, chunk: setData(1), refusal: outputitems.ApplyError{Op: "set", Reason: outputitems.Invalid}, content: `""`},
		{name: "JSON takes no text", before: chunks{data}, chunk: setText("x"), refusal: outputitems.ApplyError{Op: "set", Reason: outputitems.Invalid}, content: `1`},
		{name: "set moves an item to waiting", before: chunks{open}, chunk: waiting, changed: true, content: `""`},
		{name: "set merges metadata", before: chunks{open, meta("x", 1)}, chunk: meta("y", 2), changed: true, content: `""`},
		{name: "equal metadata changes nothing", before: chunks{open, meta("x", 1)}, chunk: meta("x", 1), content: `""`},
		{name: "null removes a member", before: chunks{open, meta("x", 1)}, chunk: meta("x", nil), changed: true, content: `""`},
		{name: "removing nothing changes nothing", before: chunks{open}, chunk: meta("x", nil), content: `""`},
		{name: "done closes", before: chunks{open}, chunk: done, changed: true, content: `""`},
		{name: "a repeated done changes nothing", before: chunks{open, done}, chunk: done, content: `""`},
		{name: "another final status is refused", before: chunks{open, done}, chunk: outputitems.Done("a", outputitems.StatusFailed), refusal: outputitems.ApplyError{Op: "done", Reason: outputitems.Closed}, content: `""`},
		{name: "new text after done is refused", before: chunks{open, add(0, "a"), done}, chunk: add(1, "b"), refusal: outputitems.ApplyError{Op: "append", Reason: outputitems.Closed, Offset: 1, Length: 1}, content: `"a"`},
		{name: "known text after done changes nothing", before: chunks{open, add(0, "a"), done}, chunk: add(0, "a"), content: `"a"`},
		{name: "an older set after done is a repeat", before: chunks{data, setData(2), setData(3), done}, chunk: setData(2), content: `3`},
		{name: "a new set after done is refused", before: chunks{data, setData(2), setData(3), done}, chunk: setData(4), refusal: outputitems.ApplyError{Op: "set", Reason: outputitems.Closed}, content: `3`},
		{name: "a new set that is no change is accepted after done", before: chunks{data, done}, chunk: setData(1), content: `1`},
		{name: "an older status after done is a repeat", before: chunks{open, waiting, done}, chunk: waiting, content: `""`},
		{name: "a new status after done is refused", before: chunks{open, done}, chunk: waiting, refusal: outputitems.ApplyError{Op: "set", Reason: outputitems.Closed}, content: `""`},
		{name: "an item can be opened closed", before: chunks{outputitems.OpenNotice("a", "n")}, chunk: add(1, "x"), refusal: outputitems.ApplyError{Op: "append", Reason: outputitems.Closed, Offset: 1, Length: 1}, content: `"n"`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			a := fold(t, tt.before...)
			before := a.Items()
			changed, err := a.Apply(tt.chunk)
			want := tt.refusal
			if got, ok := errors.AsType[*outputitems.ApplyError](err); ok {
				want.ItemID, want.Cause = "a", got.Cause
				if d := cmp.Diff(want, *got); d != "" {
					t.Errorf("refusal (-want +got):\n%s", d)
				}
				if (got.Cause != nil) != (got.Reason == outputitems.Invalid) || !strings.Contains(got.Error(), `"a"`) {
					t.Errorf("refusal %v with cause %v", got, got.Cause)
				}
			} else if err != nil || want.Reason != "" {
				t.Fatalf("error %v, want %q", err, want.Reason)
			}
			after := a.Items()
			if d := cmp.Diff(before, after); changed != tt.changed || changed != (d != "") {
				t.Errorf("changed %v, want %v; difference:\n%s", changed, tt.changed, d)
			}
			if tt.content == "" {
				return
			}
			if got := mustJSON(t, after[0].Content).String(); got != tt.content {
				t.Errorf("content %s, want %s", got, tt.content)
			}
		})
	}
}

func TestRefusalsNameItemAndOffsets(t *testing.T) {
	a := fold(t, outputitems.OpenText("itm_1"), outputitems.AppendText("itm_1", 0, "abc"))
	_, err := a.Apply(outputitems.AppendText("itm_1", 7, "x"))
	if want := `append item "itm_1": gap: the chunk begins at byte 7, the known text ends at 3`; err.Error() != want {
		t.Errorf("got  %s\nwant %s", err, want)
	}
	_, err = a.Apply(outputitems.AppendText("itm_1", 1, "x"))
	if want := `append item "itm_1": contradiction: byte 1 differs from the known text of 3 bytes`; err.Error() != want {
		t.Errorf("got  %s\nwant %s", err, want)
	}
}

func TestItemsKeepTheOrderOfOpening(t *testing.T) {
	a := fold(t, outputitems.OpenText("b"), outputitems.OpenText("a"), outputitems.AppendText("a", 0, "x"), outputitems.OpenText("b"), outputitems.OpenText("c"))
	var order []string
	for _, it := range a.Items() {
		order = append(order, it.ID)
	}
	if d := cmp.Diff([]string{"b", "a", "c"}, order); d != "" {
		t.Error(d)
	}
	if _, ok := a.Item("d"); ok || a.Len() != 3 || a.Text("a") != "x" || a.Text("d") != "" {
		t.Errorf("lookups: %d items, texts %q %q", a.Len(), a.Text("a"), a.Text("d"))
	}
}

func TestSnapshotsDoNotChangeLater(t *testing.T) {
	patch := outputitems.Patch{"x": mustJSON(t, 1)}
	a := fold(t, outputitems.OpenText("a"), outputitems.AppendText("a", 0, "abc"))
	if _, err := a.Apply(outputitems.Chunk{ItemID: "a", Change: outputitems.SetChange{Metadata: patch}}); err != nil {
		t.Fatal(err)
	}
	first := a.Items()
	want := cmp.Diff(nil, first)
	patch["x"] = mustJSON(t, 9)
	mine, _ := a.Item("a")
	mine.Metadata.Extra["y"] = mustJSON(t, 2)
	for _, c := range []outputitems.Chunk{outputitems.AppendText("a", 3, "def"), outputitems.SetMetadata("a", outputitems.Patch{"x": mustJSON(t, 3)})} {
		if _, err := a.Apply(c); err != nil {
			t.Fatal(err)
		}
	}
	if got := cmp.Diff(nil, first); got != want {
		t.Errorf("snapshot changed:\n%s\nwas\n%s", got, want)
	}
	now, _ := a.Item("a")
	if d := cmp.Diff(map[string]outputitems.JSON{"x": mustJSON(t, 3)}, now.Metadata.Extra); d != "" || now.Text() != "abcdef" {
		t.Errorf("text %q, metadata:\n%s", now.Text(), d)
	}
}

func TestAnAccumulatorGoesOnFromItems(t *testing.T) {
	items := fold(t, outputitems.OpenText("a"), outputitems.AppendText("a", 0, "abc"), outputitems.OpenNotice("n", "x")).Items()
	a, err := outputitems.NewAccumulator(items...)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []outputitems.Chunk{outputitems.OpenText("a"), outputitems.AppendText("a", 2, "cd"), outputitems.OpenNotice("n", "x")} {
		if _, err := a.Apply(c); err != nil {
			t.Errorf("%s: %v", c.Op(), err)
		}
	}
	if got := a.Text("a"); got != "abcd" {
		t.Errorf("text %q", got)
	}
	if _, err := a.Apply(outputitems.OpenReasoning("a")); err == nil {
		t.Error("another item under a known id passed")
	}
	if _, err := outputitems.NewAccumulator(items[0], items[0]); err == nil {
		t.Error("two items of one id passed")
	}
	if _, err := outputitems.NewAccumulator(outputitems.Item{}); err == nil {
		t.Error("an invalid item passed")
	}
}

// Promise: P-660, P-666, P-667
func TestBodyIsTheTextRowsInOrder(t *testing.T) {
	text := func(id, s string) []outputitems.Chunk {
		return []outputitems.Chunk{outputitems.OpenText(id), outputitems.AppendText(id, 0, s)}
	}
	a := fold(t, outputitems.OpenSession("s", mustJSON(t, object{"turns": []any{"snapshot"}})))
	stream := append(text("t1", "Let me look. "), outputitems.OpenPart("c", outputitems.PartTool, mustJSON(t, object{"tool": "bash"})))
	stream = append(stream, outputitems.OpenReasoning("r"), outputitems.AppendText("r", 0, "thinking"))
	stream = append(stream, outputitems.OpenNotice("n", "approved"), outputitems.OpenPlan("p", "1. plan"))
	stream = append(stream, text("t2", "All pass.")...)
	stream = append(stream, outputitems.AppendText("t1", 13, "Now. "),
		outputitems.SetMetadata("t2", outputitems.Patch{"finishReason": mustJSON(t, "stop"), "usage": mustJSON(t, object{"output": 7})}))
	for _, c := range stream {
		if _, err := a.Apply(c); err != nil {
			t.Fatal(err)
		}
	}
	if got, want := outputitems.Body(a.Items()), "Let me look. Now. All pass."; got != want {
		t.Errorf("body %q, want %q", got, want)
	}
	last, _ := a.Item("t2")
	if !last.Expanded || last.Metadata.PartType != outputitems.PartText {
		t.Errorf("response metadata moved the answer: %+v", last)
	}
}

func TestBodyOfAHostDrivenRunIsItsAnswer(t *testing.T) {
	a := fold(t, outputitems.OpenAnswer("x"), outputitems.AppendText("x", 0, "before "), outputitems.OpenPart("c", outputitems.PartTool, outputitems.JSON{}),
		outputitems.AppendText("x", 7, "after"))
	if got := outputitems.Body(a.Items()); got != "before after" {
		t.Errorf("body %q", got)
	}
}

func TestRetryRowsOfTheSameAttemptStayApart(t *testing.T) {
	row := func(id string) outputitems.Chunk {
		return outputitems.OpenPart(id, outputitems.PartRetry, mustJSON(t, object{"kind": outputitems.RetryDropped, "attempt": 1}))
	}
	if items := fold(t, row("r1"), row("r2"), row("r1")).Items(); len(items) != 2 || items[0].Content != items[1].Content {
		t.Errorf("rows %v", items)
	}
}

const manyAppends = 200_000

// Memory moved by n appends must be a multiple of n; copying the text each time would move n*n/2 bytes, 20 GB here.
func TestManyAppendsAreLinear(t *testing.T) {
	chunks := make([]outputitems.Chunk, manyAppends)
	for i := range chunks {
		chunks[i] = outputitems.AppendText("a", i, "x")
	}
	a := fold(t, outputitems.OpenText("a"))
	const perAppend = 64 // bytes; a growing buffer moves about 6
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for _, c := range chunks {
		if _, err := a.Apply(c); err != nil {
			t.Fatal(err)
		}
	}
	size := len(a.Text("a"))
	runtime.ReadMemStats(&after)
	if moved := after.TotalAlloc - before.TotalAlloc; size != manyAppends || moved > manyAppends*perAppend {
		t.Errorf("%d appends made %d bytes of text and allocated %d bytes", manyAppends, size, moved)
	}
}

func BenchmarkAccumulator(b *testing.B) {
	b.Run("append", func(b *testing.B) {
		var a outputitems.Accumulator
		n := 0
		for i := 0; b.Loop(); i++ {
			if n == 0 || n == manyAppends {
				a, n = outputitems.Accumulator{}, 0
				if _, err := a.Apply(outputitems.OpenText("a")); err != nil {
					b.Fatal(err)
				}
			}
			if _, err := a.Apply(outputitems.AppendText("a", n, "x")); err != nil {
				b.Fatal(err)
			}
			n++
		}
	})
	b.Run("repeat", func(b *testing.B) {
		a := fold(b, outputitems.OpenText("a"), outputitems.AppendText("a", 0, strings.Repeat("x", manyAppends)))
		for i := 0; b.Loop(); i++ {
			if changed, err := a.Apply(outputitems.AppendText("a", i%manyAppends, "x")); err != nil || changed {
				b.Fatal(changed, err)
			}
		}
	})
	b.Run("ring", func(b *testing.B) {
		a := fold(b, mustChunk(b)(outputitems.OpenRing("k", 0, 200000)))
		for i := 0; b.Loop(); i++ {
			c, err := outputitems.SetRing("k", float64(i), 200000)
			if err != nil {
				b.Fatal(err)
			}
			if _, err := a.Apply(c); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("items", func(b *testing.B) {
		a := fold(b, outputitems.OpenText("a"), outputitems.AppendText("a", 0, strings.Repeat("x", manyAppends)))
		for b.Loop() {
			if len(a.Items()) != 1 {
				b.Fatal("items")
			}
		}
	})
}

func BenchmarkCodec(b *testing.B) {
	c := outputitems.AppendText("itm_8QPGPDVMP2DB81EPC5ETPHQYW4", 1234, "a few words ")
	encoded, err := outputitems.EncodeChunk(c)
	if err != nil {
		b.Fatal(err)
	}
	b.Run("encode append", func(b *testing.B) {
		for b.Loop() {
			if _, err := outputitems.EncodeChunk(c); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("decode append", func(b *testing.B) {
		for b.Loop() {
			if _, err := outputitems.DecodeChunk(encoded); err != nil {
				b.Fatal(err)
			}
		}
	})
}
