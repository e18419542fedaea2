package compaction_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/workflowd/workflowd/agentcore/compaction"
	"github.com/workflowd/workflowd/agentcore/llm"
	"github.com/workflowd/workflowd/agentcore/tokens"
)

// Promise: P-040
// Promise: P-043
// Promise: P-522
// Promise: P-815
func TestAContextIsFullAtItsThreshold_Bug46(t *testing.T) {
	rows := []struct {
		name   string
		window int64
		output int
		s      compaction.Settings
		want   int64
	}{
		{"nine tenths of the window", 1000, 0, compaction.Settings{}, 900},
		{"a reserve brings it forward", 1000, 0, compaction.Settings{Reserve: 300}, 700},
		{"a small reserve leaves it", 1000, 0, compaction.Settings{Reserve: 10}, 900},
		{"room for the output is kept", 10_000, 4000, compaction.Settings{}, 6000},
		{"settings that leave no room are not meant", 1000, 2000, compaction.Settings{}, 250},
	}
	for _, r := range rows {
		t.Run(r.name, func(t *testing.T) {
			if got := compaction.Threshold(r.window, r.output, r.s); got != r.want {
				t.Errorf("threshold %d, want %d", got, r.want)
			}
			if compaction.Due(r.want-1, r.window, r.output, r.s) || !compaction.Due(r.want, r.window, r.output, r.s) {
				t.Error("it is not due at the threshold and not before")
			}
			r.s.Off = true
			if compaction.Due(r.window, r.window, r.output, r.s) {
				t.Error("switched off, it is due")
			}
		})
	}
	if compaction.Due(1<<40, 0, 0, compaction.Settings{}) {
		t.Error("a context without a known window is full")
	}
}

// words is a text of about n tokens.
func words(n int) string { return strings.Repeat("word", n) }

func user(id int64, n int) compaction.Item {
	return compaction.Item{ID: id, Turn: true, Message: llm.TextMessage(llm.RoleUser, words(n))}
}

func prompted(id int64, n int) compaction.Item { // a continuation prompt
	return compaction.Item{ID: id, Message: llm.TextMessage(llm.RoleUser, words(n))}
}

func answer(id int64, n int) compaction.Item {
	return compaction.Item{ID: id, Message: llm.TextMessage(llm.RoleAssistant, words(n))}
}

func calls(id int64, n int) compaction.Item {
	return compaction.Item{ID: id, Message: llm.Message{Role: llm.RoleAssistant, Blocks: []llm.Block{{Type: llm.ToolCall, Name: "read", Args: json.RawMessage(`{}`)}, {Type: llm.Text, Text: words(n)}}}}
}

func result(id int64, n int) compaction.Item {
	return compaction.Item{ID: id, Message: llm.TextMessage(llm.RoleToolResult, words(n))}
}

func summary(id int64, n int) compaction.Item {
	it := user(id, n)
	it.Fixed, it.Turn = true, false
	return it
}

// Promise: P-041
// Promise: P-536
// Promise: P-538
// Promise: P-539
// Promise: P-540
// Promise: P-541
func TestTheCutKeepsWholeTurnsWhereItCan_Bug43(t *testing.T) {
	rows := []struct {
		name  string
		items []compaction.Item
		from  int64 // 0 = no cut
	}{
		{"the next turn of the user behind the budget", []compaction.Item{user(1, 50), answer(2, 50), user(3, 50), answer(4, 60), user(5, 20), answer(6, 20)}, 5},
		{"a turn that begins the kept window", []compaction.Item{user(1, 50), answer(2, 50), user(3, 60), answer(4, 40)}, 3},
		{"in a long tool loop the nearest assistant message", []compaction.Item{user(1, 20), calls(2, 20), result(3, 60), calls(4, 20), result(5, 60), calls(6, 20), result(7, 60)}, 6},
		{"never a result", []compaction.Item{user(1, 20), calls(2, 20), result(3, 60), result(4, 60), answer(5, 10)}, 5},
		{"the newest message stays, with its call when it is a result", []compaction.Item{user(1, 20), answer(2, 20), user(3, 10), calls(4, 10), result(5, 900)}, 4},
		{"a huge last input stays", []compaction.Item{user(1, 20), answer(2, 20), user(3, 900)}, 3},
		{"a steer between a call and its late result cannot begin it", []compaction.Item{user(1, 50), calls(2, 10), result(4, 40), prompted(3, 50), answer(5, 10)}, 5},
		{"a continuation prompt is no turn", []compaction.Item{user(1, 50), answer(2, 60), prompted(3, 95), answer(4, 10)}, 4},
		{"nothing before the only turn", []compaction.Item{user(1, 900)}, 0},
		{"the summary of before does not count as something to summarise", []compaction.Item{summary(9, 200), user(3, 40), answer(4, 60)}, 0},
		{"what came after a summary is summarised with it", []compaction.Item{summary(9, 200), user(3, 50), answer(4, 60), user(10, 60), answer(11, 40)}, 10},
		{"nothing at all", nil, 0},
	}
	for _, r := range rows {
		t.Run(r.name, func(t *testing.T) {
			from, ok := compaction.Cut(r.items, 500, compaction.Settings{}) // keeps about 100 tokens
			if from != r.from || ok != (r.from != 0) {
				t.Errorf("cut at %d, %v; want %d", from, ok, r.from)
			}
		})
	}
}

// Whatever a conversation looks like: what is kept begins with a message of user or assistant, holds the newest message,
// and has each result with its call.
func TestEveryCutKeepsCallsAndResultsTogether(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var items []compaction.Item
		id := int64(0)
		size := func() int { return rapid.IntRange(1, 80).Draw(t, "size") }
		for range rapid.IntRange(1, 20).Draw(t, "steps") {
			id++
			switch rapid.IntRange(0, 2).Draw(t, "step") {
			case 0:
				items = append(items, user(id, size()))
			case 1:
				items = append(items, answer(id, size()))
			case 2:
				call := id
				items = append(items, calls(call, size()))
				for range rapid.IntRange(1, 3).Draw(t, "results") {
					id++
					items = append(items, result(id, size()))
				}
			}
		}
		from, ok := compaction.Cut(items, int64(rapid.IntRange(10, 2000).Draw(t, "window")), compaction.Settings{})
		if !ok {
			return
		}
		for i, it := range items {
			if it.ID == from && (i == 0 || it.Message.Role == llm.RoleToolResult) {
				t.Fatalf("the cut is at message %d, a %s", i, it.Message.Role)
			}
		}
		if from > items[len(items)-1].ID {
			t.Fatal("the newest message is not kept")
		}
	})
}

func TestATranscriptIsLabelledText(t *testing.T) {
	long := strings.Repeat("é", 3000)
	failed := llm.TextMessage(llm.RoleToolResult, "no such file")
	failed.ToolName, failed.IsError = "read", true
	read := llm.TextMessage(llm.RoleToolResult, long)
	read.ToolName = "read"
	got := compaction.Render([]llm.Message{
		llm.TextMessage(llm.RoleUser, "go"),
		{Role: llm.RoleAssistant, Blocks: []llm.Block{{Type: llm.Thinking, Text: "hm"}, {Type: llm.Text, Text: "I look."}, {Type: llm.ToolCall, Name: "read", Args: json.RawMessage(`{"path":"a"}`)}}},
		failed, read,
		{Role: llm.RoleUser, Blocks: []llm.Block{{Type: llm.Image, Data: []byte{1}}}},
		{Role: llm.RoleAssistant, Blocks: []llm.Block{{Type: llm.Native}}},
	})
	want := []string{"[user]\ngo\n\n", "[thinking]\nhm\n\n[assistant]\nI look.\n\n[call of read]\n{\"path\":\"a\"}\n\n", "[failed result of read]\nno such file\n\n",
		"[result of read]\n" + strings.Repeat("é", 1000) + " … (cut)\n\n", "[user]\n(an image)\n\n"}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

// Promise: P-533
func TestChunksFitAndLoseNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		pieces := rapid.SliceOfN(rapid.StringOfN(rapid.RuneFrom([]rune("ab é漢\n")), 0, 400, -1), 1, 12).Draw(t, "pieces")
		room := int64(rapid.IntRange(8, 120).Draw(t, "room"))
		chunks := compaction.Chunks(pieces, room)
		if strings.Join(chunks, "") != strings.Join(pieces, "") {
			t.Fatal("something is lost or twice")
		}
		for _, c := range chunks {
			if tokens.Text(c) > room || !utf8.ValidString(c) {
				t.Fatalf("a chunk of %d tokens, room for %d", tokens.Text(c), room)
			}
		}
	})
}

// Promise: P-533
// Promise: P-534
// Promise: P-535
func TestEveryRequestOfACompactionFitsTheWindowAndTheWorkEnds(t *testing.T) {
	const window = 2000
	room, err := compaction.Room(window, "mind the names")
	if err != nil {
		t.Fatal(err)
	}
	chunks := compaction.Chunks([]string{words(12_000)}, room)
	if len(chunks) < 8 {
		t.Fatalf("%d chunks: the text is too short for this test", len(chunks))
	}
	var w compaction.Work
	requests := 0
	for {
		raw, err := json.Marshal(w) // as a crash would find it
		if err != nil {
			t.Fatal(err)
		}
		w = compaction.Work{}
		if err := json.Unmarshal(raw, &w); err != nil {
			t.Fatal(err)
		}
		text, merge, done := w.Next(chunks)
		if done {
			break
		}
		requests++
		r := compaction.Request("m", window, "mind the names", text, merge)
		if used := tokens.Request(r) + int64(r.MaxTokens); used > window+16 || r.MaxTokens != compaction.SummaryLimit(window) {
			t.Errorf("request %d takes %d of %d tokens", requests, used, window)
		}
		if merge != (w.Level > 0) || merge && !strings.Contains(text, "[summary of part 1]") && w.Level == 1 && len(w.Outputs) == 0 {
			t.Errorf("request %d at level %d: merge %v of %.60q", requests, w.Level, merge, text)
		}
		if w, err = w.Took(chunks, fmt.Sprintf("summary %d: %s", requests, words(200)), room); err != nil {
			t.Fatal(err)
		}
		if requests > 100 {
			t.Fatal("the work does not end")
		}
	}
	if want := fmt.Sprintf("summary %d", requests); !strings.HasPrefix(w.Summary(), want) {
		t.Errorf("the result is %.40q, want the last one, %q", w.Summary(), want)
	}
	if requests <= len(chunks) {
		t.Errorf("%d requests for %d chunks: nothing was merged", requests, len(chunks))
	}
}

func TestSummariesThatDoNotShrinkAreNoEndlessWork(t *testing.T) {
	chunks := []string{"a", "b"}
	w, err := compaction.Work{}.Took(chunks, words(500), 100)
	if err != nil {
		t.Fatal(err)
	}
	if _, err = w.Took(chunks, words(500), 100); !errors.Is(err, compaction.ErrNoRoom) {
		t.Errorf("two summaries that are each too large = %v, want ErrNoRoom", err)
	}
	if _, err := compaction.Room(300, ""); !errors.Is(err, compaction.ErrNoRoom) {
		t.Errorf("a tiny window = %v, want ErrNoRoom", err)
	}
}

// Promise: P-511
// Promise: P-512
// Promise: P-514
// Promise: P-516
func TestOnlyAWholeSummaryCounts(t *testing.T) {
	r := compaction.Request("m", 100_000, "keep the names", "text\n", false)
	for _, word := range []string{"Goal", "Decisions", "Unfinished work", "keep the names"} {
		if !strings.Contains(r.System, word) {
			t.Errorf("the request does not ask for %q", word)
		}
	}
	if len(r.Tools) != 0 || r.CacheKey != "" {
		t.Errorf("a summary request has tools or a cache key: %+v", r)
	}
	text := llm.Block{Type: llm.Text, Text: " It is done. "}
	rows := []struct {
		name string
		m    llm.Message
		want string
	}{
		{"text and a normal end", llm.Message{Stop: llm.StopEnd, Blocks: []llm.Block{text}}, "It is done."},
		{"nothing", llm.Message{Stop: llm.StopEnd}, ""},
		{"white space", llm.Message{Stop: llm.StopEnd, Blocks: []llm.Block{{Type: llm.Text, Text: " \n"}}}, ""},
		{"a cut end", llm.Message{Stop: llm.StopLength, Blocks: []llm.Block{text}}, ""},
		{"a refusal", llm.Message{Stop: llm.StopRefusal, Blocks: []llm.Block{text}}, ""},
		{"a call", llm.Message{Stop: llm.StopToolUse, Blocks: []llm.Block{text, {Type: llm.ToolCall, Name: "x"}}}, ""},
		{"thoughts alone", llm.Message{Stop: llm.StopEnd, Blocks: []llm.Block{{Type: llm.Thinking, Text: "hm"}}}, ""},
	}
	for _, r := range rows {
		got, err := compaction.Valid(r.m)
		if got != r.want || (err == nil) != (r.want != "") || err != nil && !errors.Is(err, compaction.ErrSummary) {
			t.Errorf("%s: %q, %v; want %q", r.name, got, err, r.want)
		}
	}
}
