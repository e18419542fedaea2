// Command effect must not compile: the result of an effect has another type than the node wants.
package main

import (
	"context"

	"github.com/workflowd/workflowd/workflow"
)

var pay = workflow.Func("pay", func(ctx workflow.NodeContext, s string) (string, error) {
	return workflow.InTx(ctx, "pay", func(_ context.Context, tx workflow.Tx) (int64, error) { // fault
		return tx.Exec("INSERT INTO app_ledger VALUES (?)", s)
	})
})

func main() { _ = pay }
