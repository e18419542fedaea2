package daemon

import (
	"encoding/json"
	"time"

	"github.com/workflowd/workflowd/agentcore/fault"
	"github.com/workflowd/workflowd/internal/strictjson"
	"github.com/workflowd/workflowd/nodes/agentnode"
	"github.com/workflowd/workflowd/workflow"
)

// Part is a workflow that a daemon serves.
type Part interface {
	// Description says in one line what it does.
	Description() string
	// Definition builds the workflow with the model and policy that the user chose.
	Definition(agent agentnode.Options) (*workflow.Definition, error)
	// Check looks at an input before anything is opened. Its errors name the place by JSON pointer.
	Check(input json.RawMessage) error
	// Text renders the run's output for stdout.
	Text(output json.RawMessage) (string, error)
}

// Workflow is the part of a typed workflow. text renders its value; nil prints JSON.
func Workflow[In, Out any](description string, build func(agentnode.Options) (*workflow.Workflow[In, Out], error), text func(Out) string) Part {
	return part[In, Out]{description, build, text}
}

type part[In, Out any] struct {
	description string
	build       func(agentnode.Options) (*workflow.Workflow[In, Out], error)
	text        func(Out) string
}

func (p part[In, Out]) Description() string { return p.description }

func (p part[In, Out]) Definition(agent agentnode.Options) (*workflow.Definition, error) {
	w, err := p.build(agent)
	if err != nil {
		return nil, err
	}
	return w.Definition(), nil
}

func (p part[In, Out]) Check(input json.RawMessage) error {
	var in In
	if err := strictjson.Decode(input, maxInput, &in); err != nil {
		return fault.New(fault.InputValidation, "input: %w", err)
	}
	return nil
}

func (p part[In, Out]) Text(output json.RawMessage) (string, error) {
	if p.text == nil {
		return string(output), nil
	}
	var v Out
	if err := json.Unmarshal(output, &v); err != nil {
		return "", fault.New(fault.Storage, "output of the run: %w", err)
	}
	return p.text(v), nil
}

// Scratch is a Part that brings its own input and place, such as a demonstration. It asks the demo model unless a model is
// named, whatever else is configured. Its runs are carried on when they were interrupted, and its requests are answered by
// itself, visibly, when nobody is there.
type Scratch interface {
	Part
	// Prepare makes dir ready and says how to run. Finish is called when the run has ended, and not when it was left.
	Prepare(dir string) (Prepared, error)
}

// Prepared is how a Scratch wants to run.
type Prepared struct {
	Input     json.RawMessage
	RequestID string
	DataDir   string
	Pace      time.Duration // pause between the demo model's words when a person watches
	Finish    func() error
}
