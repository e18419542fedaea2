// Command list must not compile: a map needs a list.
package main

import "github.com/workflowd/workflowd/workflow"

var shout = workflow.Func("shout", func(_ workflow.NodeContext, s string) (string, error) { return s + "!", nil })

var flow = workflow.MustDefine("mismatch", 1, func(b *workflow.Builder, in workflow.Ref[string]) workflow.Ref[[]string] {
	return workflow.Map(b, in, shout, workflow.Parallel(2)) // fault
})

func main() { _ = flow }
