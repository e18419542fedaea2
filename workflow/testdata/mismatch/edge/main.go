// Command edge must not compile: a node that takes text is put behind a number.
package main

import "github.com/workflowd/workflowd/workflow"

var shout = workflow.Func("shout", func(_ workflow.NodeContext, s string) (string, error) { return s + "!", nil })

var flow = workflow.MustDefine("mismatch", 1, func(b *workflow.Builder, in workflow.Ref[int]) workflow.Ref[string] {
	return workflow.Then(b, in, shout) // fault
})

func main() { _ = flow }
