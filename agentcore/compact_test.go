package agentcore_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/workflowd/workflowd/agentcore"
	"github.com/workflowd/workflowd/agentcore/llm/scripted"
)

// shrunk is what a Run tells of compactions, and of the bills beside them.
func shrunk(t *testing.T, a *agentcore.Agent, in agentcore.Input) (lines []string, bills int) {
	t.Helper()
	for e, err := range a.Run(t.Context(), in, nil) {
		if err != nil {
			return append(lines, "error: "+err.Error()), bills
		}
		switch e := e.(type) {
		case agentcore.Compaction:
			line := "compaction " + string(e.Phase)
			if e.Auto {
				line += " auto"
			}
			if e.Summary != "" {
				line += " " + e.Summary
			}
			lines = append(lines, line)
		case agentcore.UsageReport:
			bills++
		}
	}
	return lines, bills
}

// Promise: P-500
// Promise: P-501
// Promise: P-502
// Promise: P-505
// Promise: P-506
// Promise: P-519
// Promise: P-527
func TestAPromptThatNamesACompactionIsOne(t *testing.T) {
	rows := []struct {
		in   agentcore.Input
		want []string
	}{
		{agentcore.Input{Prompt: "/compact"}, []string{"compaction start", "compaction end Short."}},
		{agentcore.Input{Prompt: "/summarize"}, []string{"compaction start", "compaction end Short."}},
		{agentcore.Input{Prompt: "mind the names", Compact: true}, []string{"compaction start", "compaction end Short."}},
		{agentcore.Input{Prompt: "/compact please"}, nil},
	}
	for _, r := range rows {
		model := scriptOf(say("First."), say("Short."))
		a := open(t, agentcore.Options{}, model)
		if _, _, err := follow(a, agentcore.Input{Prompt: "one"}, nil); err != nil {
			t.Fatal(err)
		}
		got, bills := shrunk(t, a, r.in)
		if d := cmp.Diff(r.want, got); d != "" || bills != 1 {
			t.Errorf("%q: %d bills, %s", r.in.Prompt, bills, d)
		}
		if r.in.Compact && !strings.Contains(model.Requests()[1].Messages[0].Text, "mind the names") {
			t.Error("the instructions are not in the request")
		}
	}
}

// A conversation far beyond the window, because the window became smaller: it is summarised in parts that fit, every part
// is billed, and what was billed for summaries says nothing about how full the context is.
// Promise: P-520
// Promise: P-525
// Promise: P-533
// Promise: P-534
// Promise: P-535
// Promise: P-547
func TestAHistoryBeyondTheWindowIsSummarisedInParts(t *testing.T) {
	const window = 6000
	requests := 0
	model := scripted.New(scripted.Func(func(r scripted.Request) (scripted.Response, error) {
		if strings.Contains(r.Messages[0].Text, "You write the summary") {
			requests++
			if size := len(r.Body)/4 + r.MaxTokens; size > window+200 { // the JSON around it counts too
				t.Errorf("summary request %d takes about %d tokens of %d", requests, size, window)
			}
			return scripted.Response{scripted.Text{Text: "Part."}, scripted.Usage{Input: 90_000, Output: 5}}, nil
		}
		return say("Fine."), nil
	}), scripted.Options{})
	a := open(t, agentcore.Options{DatabasePath: filepath.Join(t.TempDir(), "s.db")}, model)
	for range 4 {
		if _, _, err := follow(a, agentcore.Input{Prompt: strings.Repeat("word", 4000)}, nil); err != nil {
			t.Fatal(err)
		}
	}
	var used int64
	var lines []string
	bills := 0
	for e, err := range a.Run(t.Context(), agentcore.Input{Prompt: "and now?", ContextWindow: window}, nil) {
		if err != nil {
			t.Fatal(err)
		}
		switch e := e.(type) {
		case agentcore.Compaction:
			lines = append(lines, string(e.Phase))
			used = 0
		case agentcore.ContextUsage:
			if e.Total != window {
				t.Errorf("the total is %d, want %d", e.Total, window)
			}
			if used == 0 {
				used = e.Used
			}
		case agentcore.UsageReport:
			bills++
		}
	}
	if d := cmp.Diff([]string{"start", "end"}, lines); d != "" || requests < 4 || bills != requests+1 {
		t.Errorf("%d summary requests, %d bills, compactions: %s", requests, bills, d)
	}
	if used == 0 || used > window*2/3 {
		t.Errorf("behind the compaction the context takes %d tokens", used)
	}
}

// Promise: P-537
// Promise: P-541
func TestAnInputThatDoesNotFitAloneIsNamed(t *testing.T) {
	a := open(t, agentcore.Options{Window: 2000}, scriptOf())
	lines, _ := shrunk(t, a, agentcore.Input{Prompt: strings.Repeat("word", 3000)})
	if len(lines) != 1 || !strings.Contains(lines[0], "the input takes about 3000 tokens, more than the model's window of 2000: shorten it") {
		t.Errorf("told %q", lines)
	}
}

// Sixty rounds in a small window: it is compacted in mid-turn, more than once, and finishes with every call answered.
// Promise: P-524
func TestALongToolLoopFinishesInASmallWindow_Bug44(t *testing.T) {
	for _, path := range []string{"", filepath.Join(t.TempDir(), "s.db")} {
		rounds, summaries := 0, 0
		model := scripted.New(scripted.Func(func(r scripted.Request) (scripted.Response, error) {
			if strings.Contains(r.Messages[0].Text, "You write the summary") {
				summaries++
				return scripted.Response{scripted.Text{Text: "It goes on."}, scripted.NoUsage{}}, nil
			}
			calls := map[string]bool{}
			for _, m := range r.Messages {
				for _, c := range m.Calls {
					calls[c.ID] = true
				}
				if m.Role == "tool" && !calls[m.CallID] {
					t.Errorf("round %d: a result without its call", rounds)
				}
			}
			if rounds++; rounds > 60 {
				return scripted.Response{scripted.Text{Text: "Sixty."}, scripted.NoUsage{}}, nil
			}
			return scripted.Response{scripted.Call{Name: "ls", Args: `{"path":"` + strings.Repeat("./", 400) + `"}`}, scripted.NoUsage{}}, nil
		}), scripted.Options{})
		a := open(t, agentcore.Options{DatabasePath: path, Window: 6000}, model)
		_, text, err := follow(a, agentcore.Input{Prompt: "go"}, nil)
		if err != nil || text != "Sixty." || summaries < 2 {
			t.Errorf("%q: %q, %v, after %d rounds and %d summaries", path, text, err, rounds, summaries)
		}
	}
}
