package workflowtest

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing/synctest"
	"time"

	"github.com/workflowd/workflowd/agentcore/fault"
	"github.com/workflowd/workflowd/executor"
	"github.com/workflowd/workflowd/executor/runlog"
	"github.com/workflowd/workflowd/workflow"
)

// Run is a run under test. Its methods belong to the goroutine of the test. They end the test, showing the run's log, when
// they cannot do what they say. It stays the same run over Restart.
type Run[Out any] struct {
	b  *bench
	id executor.RunID
}

// ID is the run's public id, for Env.Engine.
func (r *Run[Out]) ID() executor.RunID { return r.id }

// Rest lets the run go on until it has ended or can only wait, and returns its status: runlog.Sleeping, runlog.Waiting and
// so on. No time passes. runlog.Running says that the code of a node itself waits for a time.
func (r *Run[Out]) Rest() executor.Status {
	r.b.t.Helper()
	return r.rest().Status
}

// rest is Rest with the whole record.
func (r *Run[Out]) rest() runlog.Run {
	r.b.t.Helper()
	synctest.Wait()
	r.b.alive("run " + string(r.id))
	run, err := r.b.engine.Run(r.id)
	if err != nil {
		r.b.t.Fatal(err)
	}
	return run
}

// until lets time pass, in jumps to the next moment at which anything happens, until met, or the end of the run.
func (r *Run[Out]) until(what string, met func() bool) runlog.Run {
	r.b.t.Helper()
	for {
		run := r.rest()
		if met() || run.Status.Terminal() {
			return run
		}
		if !r.moves(run) {
			again := r.rest()
			if again.LastSeq == run.LastSeq && !met() && !again.WakeAt.After(time.Now()) {
				r.b.t.Fatalf("%s: the run stands still: %s\n%s", what, r.why(again), r.b.log(r.id))
			}
		}
	}
}

// moves waits for the run's next event and reports whether there was one.
func (r *Run[Out]) moves(run runlog.Run) bool {
	wait := patience
	if at := time.Until(run.WakeAt); !run.WakeAt.IsZero() && at > 0 {
		wait += at
	}
	ctx, cancel := context.WithTimeout(r.b.t.Context(), wait)
	defer cancel()
	for _, err := range r.b.engine.Events(ctx, r.id, run.LastSeq) {
		return err == nil || r.b.ended() != ""
	}
	return true
}

// why says what a run that stands still waits for.
func (r *Run[Out]) why(run runlog.Run) string {
	if run.Status == runlog.Blocked || run.Status == runlog.Paused {
		return fmt.Sprintf("%s: %s", run.Status, run.Reason)
	}
	nodes, err := r.b.engine.Nodes(r.id)
	if err != nil {
		return err.Error()
	}
	var all []string
	for _, q := range r.questions() {
		all = append(all, fmt.Sprintf("node %q asks %q; answer it with Question().Answer", q.Node.Path, q.Key))
	}
	for _, n := range nodes {
		for _, w := range n.Waits {
			if topic, signal := strings.CutPrefix(w, "signal:"); signal {
				all = append(all, fmt.Sprintf("node %q waits for a signal %q; send it with Signal", n.Path, topic))
			}
		}
		if n.Status == runlog.NodeIsRunning {
			all = append(all, fmt.Sprintf("the code of node %q does not return", n.Path))
		}
	}
	return strings.Join(all, "; ")
}

// finish lets the run come to its end.
func (r *Run[Out]) finish(what string) runlog.Run {
	r.b.t.Helper()
	return r.until(what, func() bool { return false })
}

// Result lets the run come to its end, however long it sleeps, and returns its value. Questions that nobody answers expire
// when they can; a run that stands still, or does not succeed, ends the test.
func (r *Run[Out]) Result() Out {
	r.b.t.Helper()
	run := r.finish("result")
	var out Out
	if run.Status != runlog.Succeeded {
		r.b.t.Fatalf("result: the run has %s: %s\n%s", verb(run.Status), told(run.Failure), r.b.log(r.id))
	}
	if err := json.Unmarshal(run.Output, &out); err != nil {
		r.b.t.Fatalf("result: %v", err)
	}
	return out
}

// Failure lets the run come to its end and returns why it did not succeed: the failure of a node, fault.ExecutionAborted
// of a run that was cancelled, workflow.DeadlineExceeded of one that expired. A success ends the test.
func (r *Run[Out]) Failure() workflow.Failure {
	r.b.t.Helper()
	run := r.finish("failure")
	if run.Failure == nil {
		r.b.t.Fatalf("failure: the run has %s with %s\n%s", verb(run.Status), run.Output, r.b.log(r.id))
	}
	return *run.Failure
}

func verb(s executor.Status) string {
	if s == runlog.Aborted {
		return "been aborted"
	}
	return string(s)
}

func told(f *workflow.Failure) string {
	if f == nil {
		return ""
	}
	if f.Node == "" {
		return fmt.Sprintf("%s: %s", f.Kind, f.Message)
	}
	return fmt.Sprintf("node %q: %s: %s", f.Node, f.Kind, f.Message)
}

// Question is what a run asks: its key, kind, payload and schema, and the node that asks.
type Question struct {
	runlog.Request
	b *bench
}

// Question lets the run come to its next question, time included, and returns it. Several open ones end the test: they
// are had by Questions. The question stays open until its Answer.
func (r *Run[Out]) Question() Question {
	r.b.t.Helper()
	var open []Question
	run := r.until("question", func() bool { open = r.questions(); return len(open) > 0 })
	switch {
	case len(open) == 0:
		r.b.t.Fatalf("question: the run has %s without one: %s\n%s", verb(run.Status), told(run.Failure), r.b.log(r.id))
	case len(open) > 1:
		r.b.t.Fatalf("question: %d are open; use Questions\n%s", len(open), r.b.log(r.id))
	}
	return open[0]
}

// Questions lets the run go on until it has ended or can only wait, and returns the open questions by node and key. No
// time passes.
func (r *Run[Out]) Questions() []Question {
	r.b.t.Helper()
	r.rest()
	return r.questions()
}

func (r *Run[Out]) questions() []Question {
	r.b.t.Helper()
	list, err := r.b.engine.Requests(runlog.RequestQuery{Run: r.id})
	if err != nil {
		r.b.t.Fatal(err)
	}
	var open []Question
	for _, q := range list {
		if q.Status == runlog.RequestOpen {
			open = append(open, Question{q, r.b})
		}
	}
	slices.SortStableFunc(open, func(a, b Question) int {
		return cmp.Or(cmp.Compare(a.Node.Path, b.Node.Path), cmp.Compare(a.Node.Visit, b.Node.Visit), cmp.Compare(a.Key, b.Key))
	})
	return open
}

// Answer answers the question. The value is encoded as JSON and must fit the question's schema; of a plan or an approval
// it is a userinput.Decision. A question that has an answer already, or has expired, ends the test.
func (q Question) Answer(value any) {
	q.b.t.Helper()
	what := fmt.Sprintf("answer to question %q", q.Key)
	q.b.alive(what)
	raw, err := json.Marshal(value)
	if err == nil {
		_, err = q.b.engine.Answer(q.b.t.Context(), q.ID, raw, "the test")
	}
	q.b.command(q.Run, what, err)
}

// Signal sends a message to the run, for a node that receives the topic. It may come before the node does.
func (r *Run[Out]) Signal(topic string, payload any) {
	r.b.t.Helper()
	what := fmt.Sprintf("signal %q", topic)
	r.b.alive(what)
	r.b.sent++
	raw, err := json.Marshal(payload)
	if err == nil {
		err = r.b.engine.Signal(r.b.t.Context(), r.id, topic, fmt.Sprint("signal-", r.b.sent), raw)
	}
	r.b.command(r.id, what, err)
}

// Cancel asks the run to stop. Its cleanup runs before Failure returns.
func (r *Run[Out]) Cancel(reason string) {
	r.b.t.Helper()
	r.b.alive("cancel")
	r.b.command(r.id, "cancel", r.b.engine.Cancel(r.b.t.Context(), r.id, reason))
}

// command ends the test when a command failed, unless the process ended under it.
func (b *bench) command(id executor.RunID, what string, err error) {
	b.t.Helper()
	if err != nil && (b.ended() == "" || !fault.Is(err, fault.OwnerLost)) {
		b.t.Fatalf("%s: %v\n%s", what, err, b.log(id))
	}
}
