// Command node must not compile: an option of a node is given to a question.
package main

import (
	"time"

	"github.com/workflowd/workflowd/workflow"
)

var ask = workflow.Func("ask", func(ctx workflow.NodeContext, s string) (bool, error) {
	return workflow.Ask[string, bool](ctx, "sure", s,
		workflow.Timeout(time.Hour, 0), // fault
	)
})

func main() { _ = ask }
