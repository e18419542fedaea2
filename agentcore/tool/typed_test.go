package tool_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/workflowd/workflowd/agentcore/llm"
	"github.com/workflowd/workflowd/agentcore/tool"
)

type deploy struct {
	Version string  `json:"version" jsonschema:"description=Tag to deploy,pattern=^v[0-9]"`
	Retries int     `json:"retries,omitempty"`
	Ratio   float64 `json:"ratio,omitempty"`
	Note    *string `json:"note,omitempty"`
}

func newDeploy(opts ...tool.Option) tool.Tool {
	return tool.New("deploy", "Deploy a tagged version.", func(_ context.Context, call tool.Call, in deploy) (tool.Result, error) {
		call.Output("deploying " + in.Version)
		return tool.Text(fmt.Sprintf("%s %d", in.Version, in.Retries)), nil
	}, opts...)
}

func TestATypedToolDeclaresItselfWithAClosedSchema(t *testing.T) {
	got := newDeploy().Spec()
	want := llm.ToolSpec{Name: "deploy", Description: "Deploy a tagged version.", Schema: json.RawMessage(
		`{"properties":{"version":{"type":"string","pattern":"^v[0-9]","description":"Tag to deploy"},"retries":{"type":"integer"},` +
			`"ratio":{"type":"number"},"note":{"type":"string"}},"additionalProperties":false,"type":"object","required":["version"]}`)}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("spec (-want +got):\n%s", diff)
	}
}

// Promise: P-468. Promise: P-469.
func TestReplayIsNeverUnlessDeclaredSafe(t *testing.T) {
	for _, tt := range []struct {
		name string
		opts []tool.Option
		want tool.ReplayPolicy
	}{
		{"nothing declared", nil, tool.Never},
		{"declared safe", []tool.Option{tool.Replay(tool.Safe)}, tool.Safe},
		{"an unknown policy counts as never", []tool.Option{tool.Replay("perhaps")}, tool.Never},
	} {
		if got := newDeploy(tt.opts...).Replay(); got != tt.want {
			t.Errorf("%s: got %q, want %q", tt.name, got, tt.want)
		}
	}
}

func TestPrepareNormalisesWhatMeansTheSame(t *testing.T) {
	optional := tool.New("list", "", func(context.Context, tool.Call, struct {
		Path string `json:"path,omitempty"`
	}) (tool.Result, error) {
		return tool.Result{}, nil
	})
	for _, tt := range []struct {
		name, args, want string
		tool             tool.Tool
	}{
		{"no arguments are an empty object", ``, `{}`, optional},
		{"null is an empty object", ` null `, `{}`, optional},
		{"spaces go", "{ \"version\" : \"v1\" }", `{"version":"v1"}`, newDeploy()},
		{"a null for an optional property is absent", `{"version":"v1","retries":null,"note":null}`, `{"version":"v1"}`, newDeploy()},
		{"a whole float is an integer", `{"version":"v1.0","retries":3.0}`, `{"version":"v1.0","retries":3}`, newDeploy()},
		{"an exponent is an integer", `{"version":"v1 \"2.0\"","retries":1e2}`, `{"version":"v1 \"2.0\"","retries":100}`, newDeploy()},
		{"a lone surrogate becomes U+FFFD", `{"version":"v1\ud83d","note":"\udc00\ud83e\udded\\ud83d\ud83d\u0041"}`, `{"version":"v1\ufffd","note":"\ufffd\ud83e\udded\\ud83d\ufffd\u0041"}`, newDeploy()},
		{"invalid UTF-8 becomes U+FFFD", "{\"version\":\"v1\xff\"}", "{\"version\":\"v1\uFFFD\"}", newDeploy()},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := tt.tool.Prepare(json.RawMessage(tt.args))
			if err != nil {
				t.Fatal(err)
			}
			if string(got) != tt.want {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
			again, err := tt.tool.Prepare(got)
			if err != nil || string(again) != string(got) {
				t.Errorf("prepared twice: got %s, %v", again, err)
			}
		})
	}
}

func TestRefusedArgumentsNameEveryPointerAndWhatWasReceived(t *testing.T) {
	for _, tt := range []struct{ name, args, want string }{
		{"missing and unknown", `{"verson":"v1"}`, "the arguments of deploy were refused, nothing ran:\n  /version: required, but missing\n  /verson: unknown property\nreceived: {\"verson\":\"v1\"}"},
		{"case counts", `{"version":"v1","Version":"v2"}`, "the arguments of deploy were refused, nothing ran:\n  /Version: unknown property\nreceived: {\"version\":\"v1\",\"Version\":\"v2\"}"},
		{"a null for a required property", `{"version":null}`, "the arguments of deploy were refused, nothing ran:\n  /version: got null, want string\nreceived: {\"version\":null}"},
		{"a fraction", `{"version":"v1","retries":1.5}`, "the arguments of deploy were refused, nothing ran:\n  /retries: got number, want integer\nreceived: {\"version\":\"v1\",\"retries\":1.5}"},
		{"an integer that no int holds", `{"version":"v1","retries":1e30}`, "the arguments of deploy were refused, nothing ran:\n  /retries: number 1e30 does not fit a value of type int\nreceived: {\"version\":\"v1\",\"retries\":1e30}"},
		{"a JSON text in a JSON string", `"{\"version\":\"v1\"}"`, "the arguments of deploy were refused, nothing ran:\n  (root): the arguments must be one JSON object\nreceived: \"{\\\"version\\\":\\\"v1\\\"}\""},
		{"two objects", `{"version":"v1"}{}`, "the arguments of deploy were refused, nothing ran:\n  (root): the arguments are not valid JSON: invalid character '{' after top-level value\nreceived: {\"version\":\"v1\"}{}"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := newDeploy().Prepare(json.RawMessage(tt.args))
			if err == nil {
				t.Fatalf("accepted as %s", got)
			}
			if _, ok := errors.AsType[*tool.ArgumentError](err); !ok {
				t.Errorf("got a %T, want an *ArgumentError", err)
			}
			if diff := cmp.Diff(tt.want, err.Error()); diff != "" {
				t.Errorf("text (-want +got):\n%s", diff)
			}
		})
	}
}

func TestARefusalIsBoundedAndValidText(t *testing.T) {
	_, err := newDeploy().Prepare(json.RawMessage(`{"` + strings.Repeat("é", 1<<20) + `":1}`))
	if err == nil {
		t.Fatal("accepted")
	}
	if n := len(err.Error()); n > 2*tool.MaxEchoBytes || !utf8.ValidString(err.Error()) {
		t.Errorf("text has %d bytes, valid %v", n, utf8.ValidString(err.Error()))
	}
}

// Promise: P-412.
func TestRepairRunsBeforeValidation(t *testing.T) {
	d := newDeploy(tool.PrepareArguments(func(args json.RawMessage) (json.RawMessage, error) {
		return json.RawMessage(strings.Replace(string(args), `"tag"`, `"version"`, 1)), nil
	}))
	got, err := d.Prepare(json.RawMessage(`{"tag":"v1"}`))
	if err != nil || string(got) != `{"version":"v1"}` {
		t.Errorf("got %s, %v", got, err)
	}
	bad := newDeploy(tool.PrepareArguments(func(json.RawMessage) (json.RawMessage, error) { return nil, errors.New("hopeless") }))
	if _, err := bad.Prepare(json.RawMessage(`{"version":"v1"}`)); err == nil || !strings.Contains(err.Error(), "hopeless") {
		t.Errorf("a failed repair: got %v", err)
	}
}

func TestExecuteRunsWithTheRecordedArguments(t *testing.T) {
	var live []string
	res, err := newDeploy().Execute(t.Context(), tool.Call{Name: "deploy", Args: json.RawMessage(`{"version":"v2","retries":4}`),
		Emit: func(s string) { live = append(live, s) }})
	if err != nil || res.Text() != "v2 4" {
		t.Errorf("got %q, %v", res.Text(), err)
	}
	if diff := cmp.Diff([]string{"deploying v2"}, live); diff != "" {
		t.Errorf("live output (-want +got):\n%s", diff)
	}
}

// Promise: P-413.
func TestStructuredOutputThatDoesNotFitIsDroppedAndReported(t *testing.T) {
	give := json.RawMessage(`{"n":1}`)
	counter := tool.New("count", "", func(context.Context, tool.Call, struct{}) (tool.Result, error) {
		r := tool.Text("done")
		r.Structured = give
		return r, nil
	}, tool.OutputSchema(json.RawMessage(`{"type":"object","properties":{"n":{"type":"integer"}}}`)))
	res, err := counter.Execute(t.Context(), tool.Call{Args: json.RawMessage(`{}`)})
	if err != nil || string(res.Structured) != `{"n":1}` || res.Text() != "done" {
		t.Errorf("fitting output: got %s %q, %v", res.Structured, res.Text(), err)
	}
	give = json.RawMessage(`{"n":"one"}`)
	res, err = counter.Execute(t.Context(), tool.Call{Args: json.RawMessage(`{}`)})
	if err != nil || res.Structured != nil || !strings.Contains(res.Text(), "invalid_structured_output") || !strings.Contains(res.Text(), "/n: ") {
		t.Errorf("violating output: got %s %q, %v", res.Structured, res.Text(), err)
	}
}

func TestAToolThatCannotBeDeclaredIsAMistakeOfTheProgram(t *testing.T) {
	for _, name := range []string{"", "has space", "a/b", strings.Repeat("x", tool.MaxNameBytes+1)} {
		t.Run(name, func(t *testing.T) {
			if _, err := tool.FromSchema(llm.ToolSpec{Name: name, Schema: json.RawMessage(`{}`)}, nil); err == nil {
				t.Error("FromSchema accepted it")
			}
			defer func() {
				if recover() == nil {
					t.Error("New accepted it")
				}
			}()
			tool.New(name, "", func(context.Context, tool.Call, struct{}) (tool.Result, error) { return tool.Result{}, nil })
		})
	}
	if _, err := tool.FromSchema(llm.ToolSpec{Name: "x", Schema: json.RawMessage(`{"$ref":"file:///etc/passwd"}`)}, nil); err == nil {
		t.Error("a schema that points to a file was accepted")
	}
}

func TestAForeignSchemaValidatesToo(t *testing.T) {
	f, err := tool.FromSchema(llm.ToolSpec{Name: "remote_echo", Schema: json.RawMessage(`{"type":"object","properties":{"m":{"type":"string","pattern":"(?!x)."}},"required":["m"]}`)},
		func(_ context.Context, call tool.Call) (tool.Result, error) { return tool.Text(string(call.Args)), nil })
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.Prepare(json.RawMessage(`{"m":3}`)); err == nil {
		t.Error("a wrong type passed")
	}
	args, err := f.Prepare(json.RawMessage(`{"m":"hi","extra":null}`))
	if err != nil || string(args) != `{"m":"hi","extra":null}` {
		t.Errorf("an open schema: got %s, %v", args, err)
	}
	res, err := f.Execute(t.Context(), tool.Call{Args: args})
	if err != nil || res.Text() != string(args) {
		t.Errorf("got %q, %v", res.Text(), err)
	}
}

func FuzzPrepare(f *testing.F) {
	for _, s := range []string{`{"version":"v1"}`, `null`, `{"version":"v1","retries":1.0,"note":null}`, `{"version":"\ud800\\"}`, `[`, "\xff"} {
		f.Add(s)
	}
	d := newDeploy()
	f.Fuzz(func(t *testing.T, args string) {
		got, err := d.Prepare(json.RawMessage(args))
		if err != nil {
			if !utf8.ValidString(err.Error()) {
				t.Errorf("error text is not valid UTF-8: %q", err)
			}
			return
		}
		if !json.Valid(got) || !utf8.Valid(got) {
			t.Fatalf("prepared arguments are not valid: %q", got)
		}
		again, err := d.Prepare(got)
		if err != nil || string(again) != string(got) {
			t.Errorf("not stable: %q then %q, %v", got, again, err)
		}
		if _, err := d.Execute(t.Context(), tool.Call{Args: got}); err != nil {
			t.Errorf("accepted arguments do not decode: %v", err)
		}
	})
}
