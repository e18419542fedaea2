package ionode

import (
	"fmt"

	"github.com/workflowd/workflowd/agentcore/fault"
	"github.com/workflowd/workflowd/workflow"
)

// Input returns a node that passes its input on after each of resolve has filled in or checked it, in order. What it
// passed is recorded, so a run keeps the defaults it began with. An error of resolve without a kind becomes
// fault.InputValidation.
func Input[T any](name string, resolve ...func(workflow.NodeContext, *T) error) workflow.Node[T, T] {
	return workflow.Func(name, func(ctx workflow.NodeContext, in T) (T, error) {
		for _, fill := range resolve {
			if err := fill(ctx, &in); err != nil {
				if fault.KindOf(err) == "" {
					err = fault.New(fault.InputValidation, "%w", err)
				}
				return in, fmt.Errorf("input: %w", err)
			}
		}
		return in, nil
	}, typed("input"))
}

// typed sets what a console draws.
func typed(name string) workflow.NodeOption { return func(i *workflow.NodeInfo) { i.Type = name } }
