package workflow_test

import (
	"context"
	"encoding/json"
	"errors"
	"iter"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/workflowd/workflowd/agentcore/fault"
	"github.com/workflowd/workflowd/outputitems"
	"github.com/workflowd/workflowd/workflow"
	"github.com/workflowd/workflowd/workflow/standalone"
	"github.com/workflowd/workflowd/workflow/userinput"
)

func counter(options ...workflow.NodeOption) workflow.StreamNode[int, int, int] {
	return workflow.StreamFunc("count",
		func(ctx workflow.NodeContext, to int) iter.Seq2[int, error] {
			return func(yield func(int, error) bool) {
				next := 1
				for n := range workflow.Committed[int](ctx) {
					next = n + 1
				}
				for ; next <= to; next++ {
					if !yield(next, nil) {
						return
					}
				}
			}
		},
		func(_ workflow.NodeContext, _ int, chunks iter.Seq[int]) (int, error) {
			sum := 0
			for n := range chunks {
				sum += n
			}
			return sum, nil
		}, options...)
}

func TestAStreamNodeRunsWithoutAnEngine(t *testing.T) {
	got, err := workflow.RunStreamNode(standalone.New(t.Context(), standalone.Options{}), counter(), 4)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(workflow.Result[int]{Output: 10, Chunks: 4}, got); diff != "" {
		t.Error(diff)
	}
}

func TestAStreamNodeGoesOnBehindCommittedChunks(t *testing.T) {
	ctx := standalone.New(t.Context(), standalone.Options{Chunks: []json.RawMessage{[]byte("1"), []byte("2")}})
	got, err := workflow.RunStreamNode(ctx, counter(workflow.ResumeAfterCrash()), 4)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(workflow.Result[int]{Output: 10, Chunks: 2}, got); diff != "" {
		t.Error(diff)
	}
}

func TestItemsOfASingleNodeAreShownAsTheyCome(t *testing.T) {
	var shown []string
	node := workflow.StreamFunc("items",
		func(workflow.NodeContext, string) iter.Seq2[outputitems.Chunk, error] {
			return func(yield func(outputitems.Chunk, error) bool) {
				_ = yield(outputitems.Chunk{ItemID: "a"}, nil) && yield(outputitems.Chunk{ItemID: "b"}, nil)
			}
		},
		func(_ workflow.NodeContext, _ string, chunks iter.Seq[outputitems.Chunk]) (string, error) {
			all := ""
			for c := range chunks {
				all += c.ItemID
			}
			return all, nil
		})
	ctx := standalone.New(t.Context(), standalone.Options{Emit: func(c outputitems.Chunk) error {
		shown = append(shown, c.ItemID)
		return nil
	}})
	got, err := workflow.RunStreamNode(ctx, node, "")
	if err != nil || got.Output != "ab" {
		t.Fatalf("got %v, %v", got, err)
	}
	if diff := cmp.Diff([]string{"a", "b"}, shown); diff != "" {
		t.Error(diff)
	}
}

func TestAskIsTypedOnBothSides(t *testing.T) {
	type question struct {
		Text string `json:"text"`
	}
	var asked userinput.Request
	ctx := standalone.New(t.Context(), standalone.Options{Answer: func(r userinput.Request) (json.RawMessage, error) {
		asked = r
		return json.RawMessage(`{"yes":true}`), nil
	}})
	got, err := workflow.Ask[question, struct {
		Yes bool `json:"yes"`
	}](ctx, "sure", question{"Sure?"})
	if err != nil || !got.Yes {
		t.Fatalf("got %v, %v", got, err)
	}
	want := `{"type":"object","properties":{"yes":{"type":"boolean"}},"additionalProperties":false,"required":["yes"]}`
	var gotSchema, wantSchema any
	if err := errors.Join(json.Unmarshal(asked.Schema, &gotSchema), json.Unmarshal([]byte(want), &wantSchema)); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(wantSchema, gotSchema); diff != "" {
		t.Error(diff)
	}
	if string(asked.Payload) != `{"text":"Sure?"}` {
		t.Errorf("payload %s", asked.Payload)
	}
}

func TestWithoutAnAnswerTheNodeParks(t *testing.T) {
	ctx := standalone.New(t.Context(), standalone.Options{})
	_, err := ctx.ToolPermissions().Approve(workflow.ToolCall{ID: "7.0", Name: "deploy"})
	required, ok := errors.AsType[*userinput.Required](err)
	if !ok || !fault.Is(err, fault.UserInputRequired) || required.Request.Kind != userinput.Approval {
		t.Errorf("got %v", err)
	}
}

func TestOnceRunsAnEffectOnce(t *testing.T) {
	ctx, runs := standalone.New(t.Context(), standalone.Options{}), 0
	for range 2 {
		got, err := workflow.Once(ctx, "charge", func(context.Context) (int, error) { runs++; return 42, nil })
		if err != nil || got != 42 {
			t.Fatalf("got %v, %v", got, err)
		}
	}
	if runs != 1 {
		t.Errorf("the effect ran %d times", runs)
	}
}
