package agentcore

import (
	"context"
	"fmt"
	"strings"

	"github.com/workflowd/workflowd/agentcore/prompt"
	"github.com/workflowd/workflowd/agentcore/session"
	"github.com/workflowd/workflowd/internal/faultpoint"
	"github.com/workflowd/workflowd/internal/ids"
)

var pointDecided = faultpoint.New("agentcore.plan.decided")

// planDoc is the record of one plan's decision.
type planDoc struct {
	Text         string `json:"text"`
	Decided      bool   `json:"decided"`
	Approved     bool   `json:"approved"`
	Instructions string `json:"instructions,omitempty"`
}

var plans = session.Doc[planDoc]{Kind: "workflow.plan-decision", Version: 1, Scope: session.ScopeSession}

// planTurn follows a turn in plan mode: research, plan, decision, and as many revisions as it takes. Every step is found
// again in the record, so that a repeat of the request id tells the same story up to where it stopped. It reports whether
// the reader wants to hear more.
func (a *Agent) planTurn(ctx context.Context, t turn, yield func(Event, error) bool) (more bool) {
	for revision := 1; ; revision++ {
		end, ok := a.follow(ctx, t, yield)
		if !ok {
			return false
		}
		answer, err := a.h.AnswerOf(ctx, t.requestID)
		if err != nil {
			yield(nil, err)
			return false
		}
		text := strings.TrimSpace(answer.Text)
		cursor := end.Cursor
		if text == "" || !yield(Plan{Cursor: cursor, Phase: Start, Revision: revision}, nil) ||
			!yield(Plan{Cursor: cursor, Phase: End, Revision: revision, Text: text}, nil) {
			return false
		}
		if t.host == nil {
			return yield(end, nil)
		}
		id := ids.Derived(ids.Request, a.h.StoreID(), t.requestID, fmt.Sprint(revision))
		d, err := a.decidePlan(ctx, t.host, PlanRequest{RequestID: id, Revision: revision, Text: text})
		if err != nil {
			yield(nil, err)
			return false
		}
		if !yield(PlanApproval{Cursor: cursor, RequestID: id, Revision: revision, Approved: d.Approve, Instructions: d.Instructions}, nil) {
			return false
		}
		if d.Approve {
			return yield(end, nil)
		}
		t.requestID, t.prompt, t.images = id+"/revise", prompt.RevisePlan(revision, text, d.Instructions), nil
	}
}

// decidePlan returns the recorded decision, or asks the host and records what it says, synced.
func (a *Agent) decidePlan(ctx context.Context, host Host, p PlanRequest) (PlanDecision, error) {
	var doc planDoc
	at := plans.At(0, p.RequestID)
	err := a.h.Session().View(ctx, func(tx *session.Tx) (err error) {
		doc, err = plans.Get(tx, at)
		return err
	})
	if err != nil || doc.Decided {
		return PlanDecision{doc.Approved, doc.Instructions}, recordFault(ctx, err)
	}
	d, err := host.ApprovePlan(ctx, p)
	if err != nil {
		return d, err
	}
	_, err = a.h.Session().Commit(ctx, func(tx *session.Tx) error {
		tx.Sync()
		return plans.Put(tx, at, planDoc{Text: p.Text, Decided: true, Approved: d.Approve, Instructions: d.Instructions})
	})
	if err == nil {
		pointDecided.Hit()
	}
	return d, recordFault(ctx, err)
}
