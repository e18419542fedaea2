package executor

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"github.com/workflowd/workflowd/agentcore/fault"
	"github.com/workflowd/workflowd/executor/runlog"
	"github.com/workflowd/workflowd/internal/strictjson"
	"github.com/workflowd/workflowd/workflow/userinput"
)

// Receipt says what became of an answer.
type Receipt struct {
	RequestID string          `json:"requestId"`
	Run       RunID           `json:"runId"`
	Answer    json.RawMessage `json:"answer"`
	By        string          `json:"answeredBy"`
	At        time.Time       `json:"answeredAt"`
	Repeated  bool            `json:"repeated,omitempty"` // the same answer was there already
}

// tell sends a command to the run's owner and returns once what it wrote is committed.
func (e *Engine) tell(ctx context.Context, id runlog.RunID, fn func(*owner) error) error {
	result := make(chan error, 1)
	refuse := func(err error) { result <- err }
	e.dispatch(id, nil, message{refuse: refuse, do: func(o *owner) {
		if err := fn(o); err != nil || o.fatal != nil {
			result <- errors.Join(err, o.fatal)
			return
		}
		o.committed(refuse)
	}})
	select {
	case err := <-result:
		return err
	case <-ctx.Done():
		return contextError(ctx)
	}
}

// Answer answers an open request and returns once the answer is on disk. The first answer wins: the same one again gets
// the first receipt, another one is fault.Conflict together with that receipt. An answer that does not fit the request's
// schema is fault.InputValidation. Requests that have expired or were withdrawn are fault.Conflict, also when the run has
// not noticed its time yet.
func (e *Engine) Answer(ctx context.Context, requestID string, answer json.RawMessage, who string) (Receipt, error) {
	q, err := e.store.Request(requestID)
	if err != nil {
		return Receipt{}, storeError(err, "request %s", requestID)
	}
	if err := checkAnswer(&q, answer); err != nil {
		return Receipt{}, err
	}
	answer = bytes.Clone(answer)
	if q.Status == runlog.RequestOpen {
		err = e.tell(ctx, q.Run, func(o *owner) error { return o.answer(&q, answer, who) })
		if err != nil {
			return Receipt{}, err
		}
	}
	receipt := Receipt{RequestID: q.ID, Run: q.Run, Answer: q.Answer, By: q.AnsweredBy, At: q.ResolvedAt}
	switch {
	case q.Status != runlog.RequestHasAnswer:
		return Receipt{RequestID: q.ID, Run: q.Run}, fault.New(fault.Conflict, "request %s is %s", q.ID, q.Status)
	case !sameJSON(q.Answer, answer):
		return receipt, fault.New(fault.Conflict, "request %s was answered by %q with %s", q.ID, q.AnsweredBy, q.Answer)
	}
	receipt.Repeated = q.AnsweredBy != who || &q.Answer[0] != &answer[0]
	return receipt, nil
}

// answer records the answer unless another one came first; q becomes what is recorded.
func (o *owner) answer(q *runlog.Request, answer json.RawMessage, who string) error {
	asked, err := o.asked()
	if err != nil {
		return err
	}
	if now := asked[q.ID]; now.Status != runlog.RequestOpen {
		*q = now
		return nil
	}
	if overdue(q, o.e.now()) { // it comes after the time, and before the run has looked at its watch
		o.expire(q.ID)
		*q = asked[q.ID]
		return nil
	}
	q.Status, q.Answer, q.AnsweredBy, q.ResolvedAt = runlog.RequestHasAnswer, answer, who, o.stamp()
	o.next.Resolve = append(o.next.Resolve, runlog.Resolution{RequestID: q.ID, Status: q.Status, Answer: answer, By: who, At: q.ResolvedAt})
	o.aboutRequest(runlog.RequestAnswered, q.Node, map[string]any{"requestId": q.ID, "answer": answer, "by": who})
	asked[q.ID] = *q
	o.synced()
	o.committed(func(err error) {
		if err == nil {
			answerRecorded.Hit()
		}
	})
	return nil
}

func sameJSON(a, b json.RawMessage) bool {
	if bytes.Equal(a, b) {
		return true
	}
	x, err := strictjson.Canonical(a)
	if err != nil {
		return false
	}
	y, err := strictjson.Canonical(b)
	return err == nil && bytes.Equal(x, y)
}

// checkRequest refuses a question that nobody could answer.
func checkRequest(ask userinput.Request) error {
	switch ask.Kind {
	case userinput.Plan, userinput.Approval, userinput.Question, userinput.Custom:
	default:
		return fault.New(fault.InputValidation, "request %q: kind %q is unknown", ask.Key, ask.Kind)
	}
	switch {
	case ask.Key == "":
		return fault.New(fault.InputValidation, "a request needs a key")
	case ask.Expires < 0:
		return fault.New(fault.InputValidation, "request %q: it expires after %v, before it is opened", ask.Key, ask.Expires)
	}
	if _, err := validator(ask.Schema); err != nil {
		return fault.New(fault.InputValidation, "request %q: schema of the answer: %w", ask.Key, err)
	}
	return nil
}

// checkAnswer checks an answer by the kind and the schema of its request.
func checkAnswer(q *runlog.Request, answer json.RawMessage) error {
	what := "answer to request " + q.ID
	if q.Kind == userinput.Plan || q.Kind == userinput.Approval {
		var d userinput.Decision
		if err := strictjson.Decode(answer, MaxInput, &d); err != nil {
			return fault.New(fault.InputValidation, "%s: %w", what, err)
		}
		if d.Decision != "approve" && d.Decision != "deny" {
			return fault.New(fault.InputValidation, `%s: /decision: %q is not "approve" or "deny"`, what, d.Decision)
		}
	}
	return validateJSON(what, answer, q.Schema)
}

// Cancel asks a run to stop and returns once the request is on disk: its nodes are told, cleanup runs, then the run is
// aborted. Cancelling again, or cancelling a run that has ended, changes nothing.
func (e *Engine) Cancel(ctx context.Context, id RunID, reason string) error {
	return e.tell(ctx, id, func(o *owner) error {
		if o.run.Status.Terminal() || o.run.CancelRequested {
			return nil
		}
		failure := aborted(reason)
		o.run.CancelRequested, o.run.Reason = true, failure.Message
		o.event(runlog.RunCancelling, nil, map[string]string{"reason": failure.Message})
		o.changed()
		o.synced()
		if o.sched != nil {
			o.pausing = ""
			o.sched.Cancel(failure)
			o.stopVisits(fault.New(fault.ExecutionAborted, "%s", failure.Message))
		}
		return nil
	})
}

// Pause stops advancing a run until Resume: its nodes are told that the host leaves and keep their work.
func (e *Engine) Pause(ctx context.Context, id RunID, reason string) error {
	if reason == "" {
		reason = "paused"
	}
	return e.tell(ctx, id, func(o *owner) error {
		switch {
		case o.run.Status.Terminal():
			return fault.New(fault.Conflict, "run %s has ended: %s", id, o.run.Status)
		case o.plan == nil:
			return fault.New(fault.Conflict, "run %s is blocked: %s", id, o.run.Reason)
		case o.pausing != "" || o.stopping():
			return nil
		}
		o.pausing = reason
		for _, v := range o.visits {
			if v.cancel != nil {
				v.cancel(errSuspended)
			}
		}
		return nil
	})
}

// Resume lets a paused run go on.
func (e *Engine) Resume(ctx context.Context, id RunID) error {
	return e.tell(ctx, id, func(o *owner) error {
		if o.pausing == "" {
			return nil
		}
		o.pausing = ""
		for _, v := range o.visits {
			if s := v.record.Status; v.cancel == nil && s != runlog.NodeIsWaiting && s != runlog.NodeIsSleeping {
				o.enter(v)
			}
		}
		return nil
	})
}

// Signal sends a message to a run, for a node that receives the topic. The same id again changes nothing.
func (e *Engine) Signal(ctx context.Context, id RunID, topic, signalID string, payload json.RawMessage) error {
	if topic == "" || signalID == "" {
		return fault.New(fault.InputValidation, "a signal needs a topic and an id")
	}
	if err := validateJSON("signal "+topic, payload, nil); err != nil {
		return err
	}
	payload = bytes.Clone(payload)
	return e.tell(ctx, id, func(o *owner) error {
		if o.run.Status.Terminal() {
			return fault.New(fault.Conflict, "run %s has ended: %s", id, o.run.Status)
		}
		known, err := e.store.HasSignal(id, signalID)
		if err != nil {
			return storeError(err, "signals of run %s", id)
		}
		if known || slices.ContainsFunc(o.next.Signals, func(s runlog.Signal) bool { return s.ID == signalID }) {
			return nil
		}
		o.next.Signals = append(o.next.Signals, runlog.Signal{ID: signalID, Topic: topic, Payload: payload})
		o.event(runlog.RunSignalled, nil, map[string]string{"topic": topic, "id": signalID})
		o.synced()
		return nil
	})
}

// Run returns a run's record.
func (e *Engine) Run(id RunID) (runlog.Run, error) {
	run, err := e.store.Run(id)
	return run, storeError(err, "run %s", id)
}

// Runs returns matching runs, newest first.
func (e *Engine) Runs(q runlog.RunQuery) ([]runlog.Run, error) {
	runs, err := e.store.Runs(q)
	return runs, storeError(err, "list runs")
}

// Nodes returns the records of a run's nodes in the order in which they began.
func (e *Engine) Nodes(id RunID) ([]runlog.Node, error) {
	nodes, err := e.store.Nodes(id)
	return nodes, storeError(err, "nodes of run %s", id)
}

// Request returns a request.
func (e *Engine) Request(id string) (runlog.Request, error) {
	q, err := e.store.Request(id)
	return q, storeError(err, "request %s", id)
}

// Requests returns matching requests, oldest first.
func (e *Engine) Requests(q runlog.RequestQuery) ([]runlog.Request, error) {
	list, err := e.store.Requests(q)
	return list, storeError(err, "list requests")
}

// Usage returns what the models of a run consumed, one record per model response.
func (e *Engine) Usage(id RunID) ([]runlog.UsageRecord, error) {
	list, err := e.store.Usage(id)
	return list, storeError(err, "usage of run %s", id)
}
