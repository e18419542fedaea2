// Command partial must not compile: the elements of a partial map are not its values.
package main

import "github.com/workflowd/workflowd/workflow"

var shout = workflow.Func("shout", func(_ workflow.NodeContext, s string) (string, error) { return s + "!", nil })

var flow = workflow.MustDefine("mismatch", 1, func(b *workflow.Builder, in workflow.Ref[[]string]) workflow.Ref[[]string] {
	return workflow.MapPartial(b, in, shout) // fault
})

func main() { _ = flow }
