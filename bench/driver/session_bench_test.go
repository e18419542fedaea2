package main

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"

	"github.com/workflowd/workflowd/agentcore/harness"
	"github.com/workflowd/workflowd/agentcore/llm/scripted"
	"github.com/workflowd/workflowd/agentcore/session"
)

// BenchmarkSession is the work of one session without network and disk: what the loop itself costs.
func BenchmarkSession(b *testing.B) {
	w := &bench{want: parse("mock-t8-c200")}
	for b.Loop() {
		model := scripted.New(scripted.Func(func(r scripted.Request) (scripted.Response, error) {
			done := 0
			for _, m := range r.Messages {
				if m.Role == "tool" {
					done++
				}
			}
			if done < w.want.tools {
				return scripted.Response{scripted.Call{Name: "get_number", Args: fmt.Sprintf(`{"i":%d}`, done)}}, nil
			}
			return scripted.Response{scripted.Text{Text: w.want.text, Chunks: w.want.chunks}}, nil
		}), scripted.Options{})
		setup := harness.Setup{Provider: model.Provider(), Model: "m", System: "You are a helpful assistant.", Tools: []harness.Offered{{Tool: w.tool(&work{}, nil)}}}
		h, err := harness.Open(b.Context(), session.NewMemory(), harness.Options{Resolve: func(context.Context, json.RawMessage) (harness.Setup, error) { return setup, nil }}, session.Auto)
		if err != nil {
			b.Fatal(err)
		}
		for _, err := range h.Run(b.Context(), harness.Submit{RequestID: "r", Prompt: "Collect the numbers."}, nil) {
			if err != nil {
				b.Fatal(err)
			}
		}
		if err := h.Close(); err != nil {
			b.Fatal(err)
		}
	}
}
