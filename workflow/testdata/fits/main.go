// Command fits is the program that mismatch would be without its fault.
package main

import "github.com/workflowd/workflowd/workflow"

var shout = workflow.Func("shout", func(_ workflow.NodeContext, s string) (string, error) { return s + "!", nil })

var flow = workflow.MustDefine("fits", 1, func(b *workflow.Builder, in workflow.Ref[string]) workflow.Ref[string] {
	return workflow.Then(b, in, shout)
})

func main() { _ = flow }
