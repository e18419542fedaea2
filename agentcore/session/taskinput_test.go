package session_test

import (
	"encoding/json"
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/workflowd/workflowd/agentcore/session"
)

// Promise: P-153
func TestATaskInputMayHave256KiB(t *testing.T) {
	fits := json.RawMessage(`"` + strings.Repeat("x", 262144-2) + `"`)
	got, err := session.TaskInput(fits)
	if err != nil || len(got) != session.MaxTaskInput {
		t.Errorf("262144 bytes: %d, %v", len(got), err)
	}
	got[1] = 'y'
	if fits[1] != 'x' {
		t.Error("the input shares the caller's memory")
	}
	if _, err := session.TaskInput(append(fits[:len(fits)-1], `x"`...)); !errors.Is(err, session.ErrTaskInput) {
		t.Errorf("one byte more: %v, want ErrTaskInput", err)
	}
	if _, err := session.TaskInput(strings.Repeat("x", 262144-1)); !errors.Is(err, session.ErrTaskInput) {
		t.Errorf("a Go string that takes one byte more: %v, want ErrTaskInput", err)
	}
}

// Promise: P-156
func TestATaskInputThatIsNoStrictJSONLeavesNoTrace(t *testing.T) {
	s := open(t, session.NewMemory())
	say(t, s, session.Root, "r1")
	type loop struct{ Next *loop }
	ring := &loop{}
	ring.Next = ring
	// start is what a command does: the request and its task in one commit, the input checked ahead of it.
	start := func(v any) error {
		input, err := session.TaskInput(v)
		if err != nil {
			return err
		}
		_, err = s.Commit(t.Context(), func(tx *session.Tx) error {
			if _, err := tx.SubmissionByRequest(session.Root, "r"); !errors.Is(err, session.ErrNotFound) {
				t.Errorf("the refused request was recorded: %v", err)
			}
			tx.CreateSubmission(session.Submission{Conversation: session.Root, RequestID: "r", Status: session.SubmissionPlaced, Payload: input})
			tx.CreateTask(session.Task{Conversation: session.Root, Kind: "app.job", Status: session.TaskPending, Input: input})
			return nil
		})
		return err
	}
	raw := func(text string) json.RawMessage { return json.RawMessage(text) }
	for name, v := range map[string]any{
		"a NaN": math.NaN(), "an infinity inside": map[string]any{"a": []float64{1, math.Inf(1)}}, "a time": time.Unix(0, 0),
		"a function": func() {}, "a channel": make(chan int), "keys that are numbers": map[int]string{1: "a"}, "a ring": ring,
		"bytes that are no text": "\xff", "a raw NaN": raw(`{"a":NaN}`), "half a surrogate pair": raw(`"\ud83d"`), "its other half": raw(`["\ude00"]`),
		"raw bytes that are no text": raw("\"\xff\""), "a member twice": raw(`{"a":1,"a":2}`), "a number beyond all": raw(`1e999`),
		"two values": raw(`1 2`), "nothing": raw(``), "half a value": raw(`{"a":`), "too deep": raw(strings.Repeat("[", 200) + strings.Repeat("]", 200)),
	} {
		if err := start(v); !errors.Is(err, session.ErrTaskInput) {
			t.Errorf("%s: %v, want ErrTaskInput", name, err)
		}
	}
	if err := start(map[string]any{"b": 1, "a": []any{"<é>", nil, 1.5, true}}); err != nil {
		t.Fatalf("the same request with a good input: %v", err)
	}
	view(t, s, func(tx *session.Tx) error {
		tasks, err := tx.Tasks(session.TaskQuery{})
		if err != nil || len(tasks) != 1 || string(tasks[0].Input) != `{"a":["<é>",null,1.5,true],"b":1}` {
			t.Errorf("the task is %+v, %v", tasks, err)
		}
		return nil
	})
}

func FuzzTaskInput(f *testing.F) {
	for _, text := range []string{`{"a":[1,"\ud83d\ude00"]}`, `"\ud83d"`, `{"a":1,"a":2}`, `1e400`, "\"\xff\"", `[[[`, ``} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		got, err := session.TaskInput(json.RawMessage(text))
		if err != nil {
			return
		}
		var v any
		if json.Unmarshal(got, &v) != nil {
			t.Fatalf("%q passed and cannot be read", text)
		}
		again, err := session.TaskInput(v)
		if err != nil {
			t.Fatalf("%q passed, its value does not: %v", text, err)
		}
		if twice, err := session.TaskInput(again); err != nil || string(twice) != string(again) {
			t.Fatalf("%s does not pass as it is: %s, %v", again, twice, err)
		}
	})
}
