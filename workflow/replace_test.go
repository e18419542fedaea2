package workflow_test

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/workflowd/workflowd/workflow"
	"github.com/workflowd/workflowd/workflow/standalone"
)

type noteKey struct{}

// noted is a context with a note in it.
type noted struct{ workflow.NodeContext }

func (n noted) Value(key any) any {
	if key == (noteKey{}) {
		return "noted"
	}
	return n.NodeContext.Value(key)
}

func TestReplacedCodeLeavesTheGraphAndTheOriginalAlone(t *testing.T) {
	noting := workflow.Func("note", func(ctx workflow.NodeContext, s string) (string, error) {
		if v, there := ctx.Value(noteKey{}).(string); there {
			return v, nil
		}
		return s, nil
	})
	w := workflow.MustDefine("note", 1, func(b *workflow.Builder, in workflow.Ref[string]) workflow.Ref[string] {
		return workflow.Apply(b, workflow.Then(b, in, noting), func(s string) string { return s })
	})
	run := func(w *workflow.Workflow[string, string]) string {
		t.Helper()
		out, err := w.Definition().Run(standalone.New(context.Background(), standalone.Options{}), 0, json.RawMessage(`"in"`))
		if err != nil {
			t.Fatal(err)
		}
		return string(out)
	}
	other := w.Replace(0, func(workflow.NodeContext, json.RawMessage) (json.RawMessage, error) {
		return json.RawMessage(`"other"`), nil
	})
	within := w.Within(0, func(ctx workflow.NodeContext) workflow.NodeContext { return noted{ctx} })
	for got, want := range map[string]string{run(w): `"in"`, run(other): `"other"`, run(within): `"noted"`} {
		if got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	if a, b := w.Definition().Graph().Fingerprint, other.Definition().Graph().Fingerprint; a != b {
		t.Errorf("the graph became another one: %s and %s", a, b)
	}
	inline := w.Replace(1, func(workflow.NodeContext, json.RawMessage) (json.RawMessage, error) { panic("no code to replace") })
	if out, err := inline.Definition().Pure(1, []json.RawMessage{json.RawMessage(`"x"`)}); err != nil || string(out) != `"x"` {
		t.Errorf("a pure step: %s, %v", out, err)
	}
}
