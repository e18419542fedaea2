package workflowtest_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/workflowd/workflowd/executor/runlog"
	"github.com/workflowd/workflowd/workflow"
	"github.com/workflowd/workflowd/workflowtest"
)

// Expense is what somebody wants back.
type Expense struct {
	Owner  string `json:"owner"`
	Amount int    `json:"amount"`
}

// Verdict is a person's answer.
type Verdict struct {
	Pay bool `json:"pay"`
}

// An expense is looked up in the books, a person decides, and a day later it is paid.
var expense = workflow.MustDefine("expense", 1, func(b *workflow.Builder, in workflow.Ref[string]) workflow.Ref[string] {
	return workflow.Then(b, workflow.Then(b, workflow.Then(b, in, lookup), decide), pay)
})

var lookup = workflow.Func("lookup", func(workflow.NodeContext, string) (Expense, error) {
	return Expense{}, errors.New("the books are on another machine")
})

var decide = workflow.Func("decide", func(ctx workflow.NodeContext, e Expense) (Expense, error) {
	verdict, err := workflow.Ask[Expense, Verdict](ctx, "pay", e)
	if err == nil && !verdict.Pay {
		err = errors.New("refused")
	}
	return e, err
})

var pay = workflow.Func("pay", func(ctx workflow.NodeContext, e Expense) (string, error) {
	if err := workflow.Sleep(ctx, "a day to object", 24*time.Hour); err != nil {
		return "", err
	}
	return workflow.Once(ctx, "transfer", func(context.Context) (string, error) {
		return fmt.Sprintf("paid %d to %s", e.Amount, e.Owner), nil
	})
})

// The books are replaced, a person is played, and the process ends just before the payment.
func TestAnExpenseIsPaidADayAfterTheDecision(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		books := workflowtest.Stub("lookup", func(_ workflow.NodeContext, id string) (Expense, error) {
			return Expense{Owner: "ann", Amount: len(id)}, nil
		})
		env := workflowtest.New(t, expense, books)
		run := env.Start("e-2000-17")
		run.Question().Answer(Verdict{Pay: true})
		run.Rest() // it sleeps
		env.CrashAfter(runlog.NodeStarted, "pay")
		env.Restart()
		if got := run.Result(); got != "paid 9 to ann" {
			t.Errorf("got %q", got)
		}
		run.WantNodes("lookup", "decide", "decide", "pay", "pay", "pay") // a wait and a crash enter a node anew
		run.WantLog("request.answered decide", "run.sleeping until 24h0m0s", "run.succeeded")
		run.Record("testdata/paid.json")
	})
}
