package outputitems_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/workflowd/workflowd/outputitems"
)

var words = rapid.SampledFrom([]string{"", "a", "ab", "é", "世界", "\U0001F600", "\n", "aa", "b"})

func drawJSON(t *rapid.T) outputitems.JSON {
	j, err := outputitems.NewJSON(rapid.SampledFrom([]any{nil, 1, "x", []any{1, nil}, object{"b": 1, "a": "<"}}).Draw(t, "json"))
	if err != nil {
		t.Fatal(err)
	}
	return j
}

func drawPatch(t *rapid.T) outputitems.Patch {
	patch := outputitems.Patch{}
	for _, name := range rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"x", "y", "é"}), 0, 3, rapid.ID).Draw(t, "names") {
		patch[name] = drawJSON(t)
	}
	return patch
}

// drawStream draws the life of one item as its producer sends it: every chunk is accepted when folded in order.
func drawStream(t *rapid.T, id string) []outputitems.Chunk {
	textual := rapid.Bool().Draw(t, "textual")
	chunks := []outputitems.Chunk{outputitems.OpenPart(id, outputitems.PartTool, outputitems.JSON{})}
	if textual {
		chunks[0] = outputitems.OpenText(id)
	}
	text := ""
	for range rapid.IntRange(0, 12).Draw(t, "length") {
		switch op := rapid.IntRange(0, 4).Draw(t, "op"); {
		case op <= 1 && textual:
			more := words.Draw(t, "text")
			chunks = append(chunks, outputitems.AppendText(id, len(text), more))
			text += more
		case op == 2 && textual:
			text = words.Draw(t, "text")
			chunks = append(chunks, outputitems.SetContent(id, outputitems.Text(text)))
		case op <= 2:
			chunks = append(chunks, outputitems.SetContent(id, drawJSON(t)))
		case op == 3:
			if patch := drawPatch(t); len(patch) > 0 {
				chunks = append(chunks, outputitems.SetMetadata(id, patch))
			}
		case op == 4:
			chunks = append(chunks, outputitems.SetStatus(id, rapid.SampledFrom([]outputitems.Status{outputitems.StatusRunning, outputitems.StatusWaiting}).Draw(t, "status")))
		}
	}
	if rapid.Bool().Draw(t, "closed") {
		chunks = append(chunks, outputitems.Done(id, rapid.SampledFrom(outputitems.Statuses()[2:]).Draw(t, "end")))
	}
	return chunks
}

// interleave draws one order of all chunks that keeps the order within each stream.
func interleave(t *rapid.T, streams [][]outputitems.Chunk) []outputitems.Chunk {
	rest := make([][]outputitems.Chunk, len(streams))
	copy(rest, streams)
	var out []outputitems.Chunk
	for len(rest) > 0 {
		i := rapid.IntRange(0, len(rest)-1).Draw(t, "stream")
		out = append(out, rest[i][0])
		if rest[i] = rest[i][1:]; len(rest[i]) == 0 {
			rest = append(rest[:i], rest[i+1:]...)
		}
	}
	return out
}

func drawStreams(t *rapid.T) [][]outputitems.Chunk {
	streams := make([][]outputitems.Chunk, rapid.IntRange(1, 4).Draw(t, "items"))
	for i := range streams {
		streams[i] = drawStream(t, fmt.Sprint("i", i))
	}
	return streams
}

func apply(t *rapid.T, a *outputitems.Accumulator, chunks ...outputitems.Chunk) {
	for i, c := range chunks {
		before := a.Items()
		changed, err := a.Apply(c)
		if err != nil {
			t.Fatalf("chunk %d, %+v: %v", i, c, err)
		}
		if d := cmp.Diff(before, a.Items()); changed != (d != "") {
			t.Fatalf("chunk %d, %+v: changed %v but the difference is\n%s", i, c, changed, d)
		}
	}
}

func equal(t *rapid.T, what string, want, got any) {
	if d := cmp.Diff(want, got); d != "" {
		t.Fatalf("%s (-want +got):\n%s", what, d)
	}
}

func TestAnyInterleavingGivesTheSameItems(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		streams := drawStreams(t)
		var once outputitems.Accumulator
		for _, s := range streams {
			apply(t, &once, s...)
		}
		var mixed outputitems.Accumulator
		order := interleave(t, streams)
		apply(t, &mixed, order...)
		seen := map[string]bool{}
		var opened []string
		for _, c := range order {
			if !seen[c.ItemID] {
				opened = append(opened, c.ItemID)
			}
			seen[c.ItemID] = true
		}
		for i, it := range mixed.Items() {
			equal(t, "order", opened[i], it.ID)
			want, _ := once.Item(it.ID)
			equal(t, it.ID, want, it)
		}
		equal(t, "number of items", once.Len(), mixed.Len())
	})
}

// What a reader got before it lost its connection comes again from any point, to the end: the items are as from one delivery.
func TestRepeatedDeliveryGivesTheSameItems(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		stream := interleave(t, drawStreams(t))
		var once, again outputitems.Accumulator
		apply(t, &once, stream...)
		for range rapid.IntRange(1, 3).Draw(t, "deliveries") {
			got := rapid.IntRange(0, len(stream)).Draw(t, "got")
			apply(t, &again, stream[:got]...)
		}
		apply(t, &again, stream...)
		from := rapid.IntRange(0, len(stream)).Draw(t, "from")
		apply(t, &again, stream[from:]...)
		equal(t, "items", once.Items(), again.Items())
	})
}

// Text cut in other places, with overlaps, is the same text.
func TestOverlappingAppendsGiveTheSameText(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var runes []rune
		for range rapid.IntRange(1, 30).Draw(t, "n") {
			runes = append(runes, []rune(words.Draw(t, "text"))...)
		}
		var a outputitems.Accumulator
		apply(t, &a, outputitems.OpenText("a"))
		for known := 0; known < len(runes); {
			from := rapid.IntRange(0, known).Draw(t, "from")
			to := rapid.IntRange(from, len(runes)).Draw(t, "to")
			apply(t, &a, outputitems.AppendText("a", len(string(runes[:from])), string(runes[from:to])))
			known = max(known, to)
		}
		equal(t, "text", string(runes), a.Text("a"))
	})
}

func TestDiffCarriesOneStateToAnother(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		stream := drawStream(t, "a")
		states := []outputitems.Item{{}}
		var a outputitems.Accumulator
		for _, c := range stream {
			apply(t, &a, c)
			states = append(states, a.Items()[0])
		}
		from := rapid.SampledFrom(states).Draw(t, "from")
		to := rapid.SampledFrom(states[1:]).Draw(t, "to")
		chunks, err := outputitems.Diff(from, to)
		if from.ID != "" && from.Status.Final() && cmp.Diff(from, to) != "" {
			if err == nil {
				t.Fatal("a closed item was reopened")
			}
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		delivered := &outputitems.Accumulator{}
		if from.ID != "" {
			if delivered, err = outputitems.NewAccumulator(from); err != nil {
				t.Fatal(err)
			}
		}
		for range 2 { // the second time is a repeat
			apply(t, delivered, chunks...)
			equal(t, "items", []outputitems.Item{to}, delivered.Items())
		}
		if none, err := outputitems.Diff(to, to); err != nil || len(none) != 0 {
			t.Fatalf("difference to itself: %v, %v", none, err)
		}
	})
}

func TestDiffSendsOnlyWhatIsMissing(t *testing.T) {
	state := func(chunks ...outputitems.Chunk) outputitems.Item { return fold(t, chunks...).Items()[0] }
	open := outputitems.OpenText("a")
	add := outputitems.AppendText("a", 0, "é")
	more := outputitems.AppendText("a", 2, "b")
	done := outputitems.Done("a", outputitems.StatusCompleted)
	got, err := outputitems.Diff(state(open, add), state(open, add, more, done))
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff([]outputitems.Chunk{more, done}, got); d != "" {
		t.Errorf("chunks (-want +got):\n%s", d)
	}
	for name, to := range map[string]outputitems.Item{
		"another id":     state(outputitems.OpenText("b")),
		"another kind":   state(outputitems.OpenReasoning("a")),
		"an invalid one": {ID: "a"},
	} {
		if chunks, err := outputitems.Diff(state(open), to); err == nil {
			t.Errorf("%s is reached by %v", name, chunks)
		}
	}
}

func TestChunksAndItemsRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		stream := drawStream(t, words.Filter(func(s string) bool { return s != "" }).Draw(t, "id"))
		var direct, wired outputitems.Accumulator
		for _, c := range stream {
			encoded, err := outputitems.EncodeChunk(c)
			if err != nil {
				t.Fatal(err)
			}
			decoded, err := outputitems.DecodeChunk(encoded)
			if err != nil {
				t.Fatalf("%s: %v", encoded, err)
			}
			apply(t, &direct, c)
			apply(t, &wired, decoded)
		}
		equal(t, "items", direct.Items(), wired.Items())
		encoded, err := outputitems.EncodeItem(direct.Items()[0])
		if err != nil {
			t.Fatal(err)
		}
		decoded, err := outputitems.DecodeItem(encoded)
		if err != nil {
			t.Fatal(err)
		}
		equal(t, "item", direct.Items()[0], decoded)
	})
}
