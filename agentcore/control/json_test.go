package control_test

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/workflowd/workflowd/agentcore/control"
	"github.com/workflowd/workflowd/agentcore/fault"
	"github.com/workflowd/workflowd/agentcore/session"
)

func one[T any](v T) *T { return &v }

// commands has one of each, every member set.
var commands = []control.Command{
	control.Submit{RequestID: "r1", TargetID: 7, Prompt: "go", Images: []control.Image{{Data: []byte{1, 2}, MimeType: "image/png"}}, Mode: control.Steer},
	control.Withdraw{RequestID: "r2", TargetID: 7, InputID: "r1"},
	control.Promote{RequestID: "r3", TargetID: 7, InputID: "r1"},
	control.Compact{RequestID: "r4", TargetID: 7, Instructions: "keep names"},
	control.Reset{RequestID: "r5", TargetID: 7, Handoff: "go on here"},
	control.Fork{RequestID: "r6", TargetID: 7, EntryID: 12},
	control.Delete{RequestID: "r7", TargetID: 7},
	control.Configure{RequestID: "r8", TargetID: 7, ExpectedVersion: 3, Model: &control.ModelRef{Provider: "p", ModelID: "m"}, Effort: one("high")},
	control.Plan{RequestID: "r9", TargetID: 7, ExpectedVersion: 1, Items: []control.PlanItem{{ID: "a", Text: "look", Status: "in_progress"}}},
	control.Cancel{RequestID: "r10", TargetID: 7, Scope: control.OneTask, TaskID: 9},
	control.Snapshot{RequestID: "r11", TargetID: 7},
	control.Task{RequestID: "r12", TargetID: 7, Name: "app.timer", Input: json.RawMessage(`{"wakeAt":5}`), Background: true},
}

// Promise: P-817
func TestTheTwelveCommandsHaveTheirDocumentedJSON(t *testing.T) {
	var lines strings.Builder
	for _, c := range commands {
		raw, err := control.Encode(c)
		if err != nil {
			t.Fatal(err)
		}
		lines.Write(append(raw, '\n'))
		back, err := control.Decode(raw)
		if diff := cmp.Diff(c, back); err != nil || diff != "" {
			t.Errorf("%s: %v (-want +got):\n%s", c.Type(), err, diff)
		}
		if c.Head().TargetID != 7 || c.Head().RequestID == "" {
			t.Errorf("%s: head %+v", c.Type(), c.Head())
		}
	}
	golden, err := os.ReadFile("testdata/commands.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(golden), lines.String()); diff != "" {
		t.Errorf("testdata/commands.jsonl (-want +got):\n%s", diff)
	}
}

// Promise: P-105
// Promise: P-110
// Promise: P-137
// Promise: P-143
// Promise: P-148
// Promise: P-223
func TestWhatNoSessionCanCarryOutIsRefusedWithItsPlace(t *testing.T) {
	rows := []struct{ name, raw, want string }{
		{"an unknown type", `{"type":"install","requestId":"r"}`, `/type: "install" is none of cancel, compact,`},
		{"no type", `{"requestId":"r"}`, `/type: ""`},
		{"an unknown member", `{"type":"reset","requestId":"r","code":"x"}`, "/code"},
		{"a member of another command", `{"type":"reset","requestId":"r","prompt":"x"}`, "/prompt"},
		{"no request id", `{"type":"snapshot"}`, "/requestId: must not be empty"},
		{"a target that is no number", `{"type":"snapshot","requestId":"r","targetId":"x"}`, "/targetId"},
		{"a negative target", `{"type":"snapshot","requestId":"r","targetId":-1}`, "/targetId"},
		{"nothing to say", `{"type":"submit","requestId":"r","prompt":""}`, "/prompt"},
		{"an unknown mode", `{"type":"submit","requestId":"r","prompt":"x","mode":"loud"}`, `/mode: "loud"`},
		{"withdraw of nothing", `{"type":"withdraw","requestId":"r"}`, "/inputId"},
		{"promote of nothing", `{"type":"promote","requestId":"r"}`, "/inputId"},
		{"a fork at nothing", `{"type":"fork","requestId":"r"}`, "/entryId"},
		{"delete without a target", `{"type":"delete","requestId":"r"}`, "/targetId"},
		{"delete of the main conversation", `{"type":"delete","requestId":"r","targetId":1}`, "/targetId"},
		{"a plan item of unknown status", `{"type":"plan","requestId":"r","expectedVersion":0,"items":[{"id":"a","text":"b","status":"done"}]}`, "/items/0/status"},
		{"cancel of an unknown scope", `{"type":"cancel","requestId":"r","scope":"everything"}`, "/scope"},
		{"cancel of no task", `{"type":"cancel","requestId":"r","scope":"task"}`, "/taskId"},
		{"cancel of all and of a task", `{"type":"cancel","requestId":"r","scope":"all","taskId":3}`, "/taskId"},
		{"a task without a name", `{"type":"task","requestId":"r"}`, "/name"},
		{"a task with code in its input's place", `{"type":"task","requestId":"r","name":"a","phases":{}}`, "/phases"},
		{"the same member twice", `{"type":"reset","requestId":"r","requestId":"s"}`, "requestId"},
		{"no JSON", `{"type":"reset"`, "unexpected end"},
	}
	for _, r := range rows {
		t.Run(r.name, func(t *testing.T) {
			c, err := control.Decode([]byte(r.raw))
			if !fault.Is(err, fault.InputValidation) || !strings.Contains(err.Error(), r.want) {
				t.Errorf("Decode = %v, %v, want input_validation with %q", c, err, r.want)
			}
		})
	}
}

// Promise: P-153
func TestTheInputOfATaskIsBounded(t *testing.T) {
	of := func(n int) json.RawMessage { return json.RawMessage(`"` + strings.Repeat("x", n-2) + `"`) }
	if err := control.Check(control.Task{RequestID: "r", Name: "a", Input: of(session.MaxTaskInput)}); err != nil {
		t.Errorf("%d bytes: %v", session.MaxTaskInput, err)
	}
	if err := control.Check(control.Task{RequestID: "r", Name: "a", Input: of(session.MaxTaskInput + 1)}); !fault.Is(err, fault.InputValidation) {
		t.Errorf("one byte more = %v, want input_validation", err)
	}
}

// Promise: P-107
func TestACopySharesNothingWithTheCallers(t *testing.T) {
	for _, c := range commands {
		before, err := control.Encode(c)
		if err != nil {
			t.Fatal(err)
		}
		copied := control.Clone(c)
		switch c := c.(type) {
		case control.Submit:
			defer func(b byte) { c.Images[0].Data[0] = b }(c.Images[0].Data[0])
			c.Images[0].Data[0] = 9
		case control.Configure:
			defer func(m control.ModelRef, e string) { *c.Model, *c.Effort = m, e }(*c.Model, *c.Effort)
			*c.Model, *c.Effort = control.ModelRef{}, "low"
		case control.Plan:
			defer func(i control.PlanItem) { c.Items[0] = i }(c.Items[0])
			c.Items[0].Text = "other"
		case control.Task:
			defer func(b byte) { c.Input[1] = b }(c.Input[1])
			c.Input[1] = ' '
		}
		after, err := control.Encode(copied)
		if err != nil || string(after) != string(before) {
			t.Errorf("%s: the copy became %s, %v", c.Type(), after, err)
		}
	}
}

func FuzzDecode(f *testing.F) {
	for _, c := range commands {
		raw, err := control.Encode(c)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(raw)
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		c, err := control.Decode(raw)
		if err != nil {
			if !fault.Is(err, fault.InputValidation) {
				t.Errorf("%q: %v is of no kind", raw, err)
			}
			return
		}
		again, err := control.Encode(c)
		if err != nil {
			t.Fatalf("%q was read and cannot be written: %v", raw, err)
		}
		back, err := control.Decode(again)
		if diff := cmp.Diff(c, back); err != nil || diff != "" {
			t.Errorf("%q: %v %s", raw, err, diff)
		}
	})
}
