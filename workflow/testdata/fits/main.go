// Command fits is the programs below mismatch without their faults.
package main

import (
	"context"
	"time"

	"github.com/workflowd/workflowd/workflow"
	"github.com/workflowd/workflowd/workflow/userinput"
)

var shout = workflow.Func("shout",
	func(_ workflow.NodeContext, s string) (string, error) { return s + "!", nil },
	workflow.Timeout(time.Hour, 0), workflow.Retry(2, time.Second), workflow.Cache("shout", time.Hour),
)

var ask = workflow.Func("ask", func(ctx workflow.NodeContext, s string) (bool, error) {
	return workflow.Ask[string, bool](ctx, "sure", s, userinput.Expires(time.Hour), userinput.Title("Sure?"))
})

var pay = workflow.Func("pay", func(ctx workflow.NodeContext, sure bool) (int64, error) {
	return workflow.InTx(ctx, "pay", func(_ context.Context, tx workflow.Tx) (int64, error) {
		return tx.Exec("INSERT INTO app_ledger VALUES (?)", sure)
	})
})

var flow = workflow.MustDefine("fits", 1, func(b *workflow.Builder, in workflow.Ref[string]) workflow.Ref[[]workflow.Element[string]] {
	paid := workflow.Then(b, workflow.Then(b, workflow.Then(b, in, shout), ask), pay)
	list := workflow.Apply(b, paid, func(n int64) []string { return make([]string, n) })
	all := workflow.Map(b, list, shout, workflow.Parallel(2))
	return workflow.MapPartial(b, all, shout, workflow.Parallel(2))
})

func main() { _ = flow }
