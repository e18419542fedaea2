// Command answer must not compile: the answer has another type than the node wants.
package main

import "github.com/workflowd/workflowd/workflow"

var ask = workflow.Func("ask", func(ctx workflow.NodeContext, s string) (string, error) {
	return workflow.Ask[string, bool](ctx, "sure", s) // fault
})

func main() { _ = ask }
