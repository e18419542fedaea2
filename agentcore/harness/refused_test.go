package harness_test

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"slices"
	"testing"

	"github.com/workflowd/workflowd/agentcore/harness"
	"github.com/workflowd/workflowd/agentcore/llm"
	"github.com/workflowd/workflowd/agentcore/session"
	"github.com/workflowd/workflowd/agentcore/session/sessiontest"
)

// halting says half of an answer, and the other half once the first was refused.
type halting struct{ refused chan struct{} }

func (halting) Origin(model string) llm.Origin { return llm.Origin{Provider: "halting", Model: model} }

func (p halting) Stream(context.Context, llm.Request) iter.Seq2[llm.StreamEvent, error] {
	return func(yield func(llm.StreamEvent, error) bool) {
		yield(llm.BlockStart{Index: 0, Type: llm.Text}, nil)
		yield(llm.Delta{Index: 0, Text: "One "}, nil)
		<-p.refused
		yield(llm.Delta{Index: 0, Text: "two."}, nil)
		m := llm.TextMessage(llm.RoleAssistant, "One two.")
		m.Stop = llm.StopEnd
		yield(llm.Done{Message: m}, nil)
	}
}

// A store that refuses a part of an answer for certain, a full disk for example, takes nothing away from the reader: the
// words come with the commit that ends the answer.
//
// Invariant: INV-02
func TestWordsWhoseCommitWasRefusedAreShownWithTheNext(t *testing.T) {
	model := halting{make(chan struct{})}
	storage := &sessiontest.Faulty{Storage: session.NewMemory()}
	h, err := harness.Open(t.Context(), storage, harness.Options{Resolve: func(context.Context, json.RawMessage) (harness.Setup, error) {
		return harness.Setup{Provider: model, Model: "m", System: "system"}, nil
	}}, session.Auto)
	if err != nil {
		t.Fatal(err)
	}
	refusals := 0
	storage.Before = func(b *session.Batch) error {
		partial := func(w session.DocumentWrite) bool { return w.Create && w.Address.Kind == "workflow.live" }
		if refusals > 0 || !slices.ContainsFunc(b.Documents, partial) {
			return nil
		}
		refusals++
		close(model.refused)
		return fmt.Errorf("no room: %w", session.ErrNoEffect)
	}
	story, err := run(t.Context(), h, "r1", "go", nil)
	if err != nil || !slices.Equal(story, []string{"text One two.", "answered"}) || refusals != 1 {
		t.Errorf("%q, %v, %d refusals", story, err, refusals)
	}
	if err := h.Close(); err != nil {
		t.Error(err)
	}
}
