// Command 03-human-decision asks a person before it pays. While nobody has answered there is no process and nothing is
// lost: the question waits in the data directory, and the same command goes on when it has an answer.
//
//	go run ./examples/03-human-decision run expense -i owner=ann -i amount=120 --request-id 17
//	go run ./examples/03-human-decision runs
//	go run ./examples/03-human-decision runs answer REQUEST --answer '{"choice":"half","note":"keep the rest"}'
//	go run ./examples/03-human-decision run expense -i owner=ann -i amount=120 --request-id 17
package main

import (
	"context"
	"fmt"

	"github.com/workflowd/workflowd/daemon"
	"github.com/workflowd/workflowd/nodes/agentnode"
	"github.com/workflowd/workflowd/workflow"
)

// Expense is the input.
type Expense struct {
	Owner  string `json:"owner"`
	Amount int    `json:"amount" jsonschema:"minimum=1"`
}

// Verdict is what a person has to answer: anything else is refused at the door, with the place that is wrong.
type Verdict struct {
	Choice string `json:"choice" jsonschema:"enum=all,enum=half,enum=nothing"`
	Note   string `json:"note,omitempty"`
}

// decide is entered twice: to ask, and when the answer is there.
var decide = workflow.Func("decide", func(ctx workflow.NodeContext, e Expense) (Expense, error) {
	verdict, err := workflow.Ask[Expense, Verdict](ctx, "how much to pay", e)
	if err != nil {
		return e, err // nobody has answered yet: the run is parked
	}
	e.Amount = map[string]int{"all": e.Amount, "half": e.Amount / 2}[verdict.Choice]
	return e, nil
})

// pay happens once, whatever ends the process.
var pay = workflow.Func("pay", func(ctx workflow.NodeContext, e Expense) (string, error) {
	return workflow.Once(ctx, "transfer", func(context.Context) (string, error) {
		return fmt.Sprintf("paid %d to %s", e.Amount, e.Owner), nil
	})
})

var expense = workflow.MustDefine("expense", 1, func(b *workflow.Builder, in workflow.Ref[Expense]) workflow.Ref[string] {
	return workflow.Then(b, workflow.Then(b, in, decide), pay)
})

var command = daemon.Workflow("pay an expense once somebody has decided",
	func(agentnode.Options) (*workflow.Workflow[Expense, string], error) { return expense, nil },
	func(paid string) string { return paid })

func main() { daemon.Main(command) }
