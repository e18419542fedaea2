package tool

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"reflect"

	"github.com/workflowd/workflowd/agentcore/llm"
	"github.com/workflowd/workflowd/internal/schema"
)

// Option sets a property of a tool made by New or FromSchema.
type Option func(*config)

type config struct {
	replay ReplayPolicy
	repair func(json.RawMessage) (json.RawMessage, error)
	output json.RawMessage
}

// Replay declares what may happen to a call whose outcome a crash left unknown. Without it the policy is Never.
// Source: P-468, P-469.
func Replay(p ReplayPolicy) Option { return func(c *config) { c.replay = p } }

// PrepareArguments sets a repair step that runs before validation. It must be pure. Source: P-412.
func PrepareArguments(f func(json.RawMessage) (json.RawMessage, error)) Option {
	return func(c *config) { c.repair = f }
}

// OutputSchema checks Result.Structured after each call. What does not fit is dropped and the model is told.
// Source: P-413.
func OutputSchema(s json.RawMessage) Option { return func(c *config) { c.output = s } }

// New returns a tool whose arguments are an In, a struct or a map with string keys. The schema comes from In's json and
// jsonschema tags (see internal/schema.Reflect): unknown properties are refused, fields without omitempty are required.
// fn runs with validated arguments, possibly many calls at once; its error is a result that the model reads.
//
// New panics on a mistake of the program that no input can cause: a name that providers refuse, an In that has no finite
// schema, a bad output schema. Tools are package variables; such a program cannot start.
func New[In any](name, description string, fn func(ctx context.Context, call Call, in In) (Result, error), opts ...Option) Tool {
	raw, err := schema.Reflect(reflect.TypeFor[In]())
	if err != nil {
		panic(fmt.Sprintf("tool %q: %v", name, err))
	}
	t, err := build(llm.ToolSpec{Name: name, Description: description, Schema: raw}, opts)
	if err != nil {
		panic(err.Error())
	}
	t.check = func(args json.RawMessage) error {
		var in In
		return unfit(json.Unmarshal(args, &in))
	}
	t.run = func(ctx context.Context, call Call) (Result, error) {
		var in In
		if err := json.Unmarshal(call.Args, &in); err != nil {
			return Result{}, fmt.Errorf("decode arguments of %s: %w", name, err)
		}
		return fn(ctx, call, in)
	}
	return t
}

// FromSchema returns a tool with a schema that came from elsewhere, such as an MCP server. Patterns that Go cannot run
// are not checked. A bad name or schema is an error.
func FromSchema(spec llm.ToolSpec, fn func(ctx context.Context, call Call) (Result, error), opts ...Option) (Tool, error) {
	t, err := build(spec, opts)
	if err != nil {
		return nil, err
	}
	t.run = fn
	return t, nil
}

// checked is a Tool that validates. Everything in it is fixed by its constructor.
type checked struct {
	spec   llm.ToolSpec
	replay ReplayPolicy
	repair func(json.RawMessage) (json.RawMessage, error)
	input  *schema.Validator
	output *schema.Validator // nil: not checked
	check  func(json.RawMessage) error
	run    func(context.Context, Call) (Result, error)
}

var _ Tool = (*checked)(nil)

func build(spec llm.ToolSpec, opts []Option) (*checked, error) {
	if !validName(spec.Name) {
		return nil, fmt.Errorf("tool %q: a name has 1 to %d letters, digits, _ or -", spec.Name, MaxNameBytes)
	}
	c := config{replay: Never}
	for _, o := range opts {
		o(&c)
	}
	if c.replay != Safe {
		c.replay = Never
	}
	input, err := schema.Compile(spec.Schema)
	if err != nil {
		return nil, fmt.Errorf("tool %q: %w", spec.Name, err)
	}
	t := &checked{spec: spec, replay: c.replay, repair: c.repair, input: input}
	if c.output != nil {
		if t.output, err = schema.Compile(c.output); err != nil {
			return nil, fmt.Errorf("tool %q: output: %w", spec.Name, err)
		}
	}
	return t, nil
}

func validName(s string) bool {
	for _, r := range s {
		if (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '_' && r != '-' {
			return false
		}
	}
	return s != "" && len(s) <= MaxNameBytes
}

func (t *checked) Spec() llm.ToolSpec   { return t.spec }
func (t *checked) Replay() ReplayPolicy { return t.replay }

// Prepare returns args as one compact JSON object of valid text. Nothing and null count as {}; a null for an optional
// property counts as absent; a whole number written as 3.0 counts as 3 where an integer is wanted.
func (t *checked) Prepare(args json.RawMessage) (json.RawMessage, error) {
	received := args
	args, err := normal(args)
	if err != nil {
		return nil, refusal(t.spec.Name, received, err)
	}
	if t.repair != nil {
		if args, err = t.repair(args); err == nil {
			args, err = normal(args)
		}
		if err != nil {
			return nil, refusal(t.spec.Name, received, err)
		}
	}
	if err := t.input.Validate(args); err != nil {
		dropped := withoutOptionalNulls(t.spec.Schema, args)
		if bytes.Equal(dropped, args) || t.input.Validate(dropped) != nil {
			return nil, refusal(t.spec.Name, received, err)
		}
		args = dropped
	}
	if t.check != nil {
		if err := t.check(args); err != nil {
			whole := wholeNumbers(args)
			if t.check(whole) != nil {
				return nil, refusal(t.spec.Name, received, err)
			}
			args = whole
		}
	}
	return args, nil
}

// Execute runs the tool and checks its structured output.
func (t *checked) Execute(ctx context.Context, call Call) (Result, error) {
	res, err := t.run(ctx, call)
	if err != nil || t.output == nil || res.Structured == nil {
		return res, err
	}
	if err := t.output.Validate(res.Structured); err != nil {
		res.Structured = nil
		res.Blocks = append(res.Blocks[:len(res.Blocks):len(res.Blocks)], llm.Block{Type: llm.Text,
			Text: fmt.Sprintf("[invalid_structured_output] the structured output of %s does not fit its schema and was dropped:\n%v", t.spec.Name, err)})
	}
	return res, nil
}
