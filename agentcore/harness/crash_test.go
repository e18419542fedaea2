package harness_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/workflowd/workflowd/agentcore/harness"
	"github.com/workflowd/workflowd/agentcore/llm/scripted"
	"github.com/workflowd/workflowd/agentcore/session"
	"github.com/workflowd/workflowd/agentcore/tool"
)

var errPowerCut = errors.New("power cut")

// cutting lets a number of commits through, then fails every one with an unknown effect. With late set, the first failing
// commit did land: the caller just never learns it.
type cutting struct {
	session.Storage
	left *atomic.Int64
	late bool
}

func (c cutting) Commit(b *session.Batch) error {
	switch n := c.left.Add(-1); {
	case n >= 0:
		return c.Storage.Commit(b)
	case n == -1 && c.late:
		return errors.Join(c.Storage.Commit(b), errPowerCut)
	}
	return errPowerCut
}

const fullAnswer = "The answer has a beginning, a middle and an end, and every word of it counts exactly once."

// steady is a model whose words depend on the request alone: two calls, then the answer, carried on behind what is there.
func steady(req scripted.Request) (scripted.Response, error) {
	said := ""
	results := 0
	for _, m := range req.Messages {
		switch m.Role {
		case "assistant":
			if len(m.Calls) == 0 {
				said += m.Text
			}
		case "tool":
			results++
		}
	}
	if results == 0 {
		calls := scripted.Response{scripted.Call{Name: "read", Args: `{"n":1}`}, scripted.Call{Name: "bash", Args: `{"n":2}`}}
		if said == "" {
			return append(scripted.Response{scripted.Text{Text: "I look. "}}, calls...), nil
		}
		return calls, nil
	}
	return scripted.Response{scripted.Text{Text: strings.TrimPrefix(fullAnswer, strings.TrimPrefix(said, "I look. ")), Chunks: 12}}, nil
}

// INV-04, INV-05: whatever commit a turn dies at, it ends with the same words, and what must not repeat does not.
// Promise: P-053, P-460, P-462, P-463, P-464, P-483, P-486, P-592, P-593
func TestATurnSurvivesADeathAtEveryCommit(t *testing.T) {
	for _, late := range []bool{false, true} {
		deaths := 0
		for cut := int64(0); ; cut++ {
			if !dieAt(t, cut, late) {
				break
			}
			deaths++
		}
		if deaths < 5 {
			t.Errorf("late=%v: only %d deaths; the turn has at least five commits", late, deaths)
		}
	}
}

// dieAt runs the turn with the store failing after cut commits, then again on the same store. It reports whether the cut
// was reached.
func dieAt(t *testing.T, cut int64, late bool) bool {
	t.Helper()
	memory := session.NewMemory()
	model := scripted.New(scripted.Func(steady), scripted.Options{})
	var read, bash atomic.Int64
	open := func(s session.Storage) *harness.Harness {
		h, err := harness.Open(context.Background(), s, harness.Options{Resolve: func(context.Context, json.RawMessage) (harness.Setup, error) {
			return harness.Setup{Provider: model.Provider(), Model: "m", System: "system", Window: 1000, Tools: []harness.Offered{
				{Tool: echo{"read", tool.Safe, &read, nil}}, {Tool: echo{"bash", tool.Never, &bash, nil}},
			}}, nil
		}}, session.Auto)
		if err != nil {
			t.Fatal(err)
		}
		return h
	}
	left := &atomic.Int64{}
	left.Store(cut)
	h := open(cutting{memory, left, late})
	_, err := run(t.Context(), h, "r1", "go", nil)
	h.Close()
	died := left.Load() < 0
	if died && err == nil {
		t.Errorf("cut %d late=%v: the turn ended well although its store died", cut, late)
	}
	h = open(memory.Reopen())
	defer h.Close()
	story, err := run(t.Context(), h, "r1", "go", nil)
	if err != nil {
		t.Fatalf("cut %d late=%v: after reopening: %v\n%q", cut, late, err, story)
	}
	text, calls, results := "", 0, 0
	for _, line := range story {
		switch verb, rest, _ := strings.Cut(line, " "); verb {
		case "text":
			text += rest
		case "call":
			calls++
		case "result":
			results++
		}
	}
	if want := "I look. " + fullAnswer; text != want {
		t.Errorf("cut %d late=%v: text %q, want %q", cut, late, text, want)
	}
	if calls != 2 || results != 2 || bash.Load() > 1 || story[len(story)-1] != "answered" {
		t.Errorf("cut %d late=%v: %d calls, %d results, bash ran %d times\n%q", cut, late, calls, results, bash.Load(), story)
	}
	again, err := run(t.Context(), h, "r1", "go", nil)
	if err != nil || strings.Join(again, "|") != strings.Join(story, "|") {
		t.Errorf("cut %d late=%v: told again %q, %v; want %q", cut, late, again, err, story)
	}
	return died
}
