package llm

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestAnAssemblerHoldsWhatCameSoFar(t *testing.T) {
	var a Assembler
	if !a.Empty() || len(a.Blocks()) != 0 {
		t.Fatal("a new assembler must be empty")
	}
	call := Block{Type: ToolCall, CallID: "c", Name: "ls", Args: []byte(`{}`)}
	steps := []struct {
		ev   StreamEvent
		want []Block
	}{
		{BlockStart{Index: 0, Type: Thinking}, []Block{}},
		{Delta{Index: 0, Text: "hm"}, []Block{{Type: Thinking, Text: "hm"}}},
		{BlockStart{Index: 1, Type: Text}, []Block{{Type: Thinking, Text: "hm"}}},
		{Delta{Index: 1, Text: "Hel"}, []Block{{Type: Thinking, Text: "hm"}, {Type: Text, Text: "Hel"}}},
		{Delta{Index: 1, Text: "lo"}, []Block{{Type: Thinking, Text: "hm"}, {Type: Text, Text: "Hello"}}},
		{BlockStop{Index: 0, Block: Block{Type: Thinking, Text: "hm", Field: "reasoning"}}, []Block{{Type: Thinking, Text: "hm", Field: "reasoning"}, {Type: Text, Text: "Hello"}}},
		{BlockStart{Index: 2, Type: ToolCall, CallID: "c", Name: "ls"}, []Block{{Type: Thinking, Text: "hm", Field: "reasoning"}, {Type: Text, Text: "Hello"}}},
		{Delta{Index: 2, Text: "{}"}, []Block{{Type: Thinking, Text: "hm", Field: "reasoning"}, {Type: Text, Text: "Hello"}}},
		{BlockStop{Index: 2, Block: call}, []Block{{Type: Thinking, Text: "hm", Field: "reasoning"}, {Type: Text, Text: "Hello"}, call}},
	}
	var earlier []Block
	for i, s := range steps {
		a.Add(s.ev)
		got := a.Blocks()
		if diff := cmp.Diff(got, s.want); diff != "" {
			t.Fatalf("step %d (-got +want):\n%s", i, diff)
		}
		if i == 3 {
			earlier = got
		}
	}
	if earlier[1].Text != "Hel" {
		t.Fatalf("an earlier partial changed to %q", earlier[1].Text)
	}
	if a.Empty() {
		t.Fatal("text is content")
	}
	a.Add(Done{Message: Message{Blocks: []Block{call}}})
	if diff := cmp.Diff(a.Partial(Origin{Model: "m"}, StopEnd), Message{Role: RoleAssistant, Blocks: []Block{call}, Origin: &Origin{Model: "m"}, Stop: StopEnd}); diff != "" {
		t.Fatalf("after Done (-got +want):\n%s", diff)
	}
}

func TestInterleavedBlocksKeepTheirOwnText(t *testing.T) {
	var a Assembler
	var want []Block
	for i := range 20 {
		a.Add(BlockStart{Index: i, Type: Text})
		want = append(want, Block{Type: Text, Text: "xxxxxxxxxxxxxxxxxxxx"[i:]})
		for j := range i + 1 {
			a.Add(Delta{Index: j, Text: "x"})
		}
	}
	if diff := cmp.Diff(a.Blocks(), want); diff != "" {
		t.Fatalf("(-got +want):\n%s", diff)
	}
}

func TestAStartedCallIsContentAlthoughItHasNoBlockYet(t *testing.T) {
	var a Assembler
	a.Add(BlockStart{Index: 0, Type: ToolCall, CallID: "c", Name: "ls"})
	if a.Empty() || len(a.Blocks()) != 0 {
		t.Fatalf("got empty %v, blocks %v", a.Empty(), a.Blocks())
	}
}

func TestEffortIsParsedAndFolded(t *testing.T) {
	// Promise: P-373
	for _, level := range []Effort{"", EffortOff, EffortMinimal, EffortLow, EffortMedium, EffortHigh, EffortXHigh, EffortMax, EffortUltra} {
		got, err := ParseEffort(string(level))
		if err != nil || got != level {
			t.Fatalf("%q: got %q, %v", level, got, err)
		}
		want := level
		if level == EffortUltra {
			want = EffortMax
		}
		if got.Fold() != want {
			t.Fatalf("%q folds to %q, want %q", level, got.Fold(), want)
		}
		if got.Named() == (level == "" || level == EffortOff) {
			t.Fatalf("%q: Named is %v", level, got.Named())
		}
	}
	if _, err := ParseEffort("High"); err == nil {
		t.Fatal("an unknown level must be an error")
	}
}
