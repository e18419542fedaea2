package executor

import (
	"errors"
	"slices"
	"time"

	"github.com/workflowd/workflowd/agentcore/fault"
	"github.com/workflowd/workflowd/executor/internal/schedule"
	"github.com/workflowd/workflowd/executor/internal/stopwatch"
	"github.com/workflowd/workflowd/executor/runlog"
	"github.com/workflowd/workflowd/workflow"
)

// advance does what the schedule and the clock ask for, until nothing is left but waiting.
func (o *owner) advance() {
	if o.run.Status.Terminal() || o.plan == nil {
		o.withoutPlan()
		return
	}
	now := o.e.now()
	if !o.run.Deadline.IsZero() && !now.Before(o.run.Deadline) && !o.stopping() {
		o.sched.Cancel(&workflow.Failure{Kind: workflow.DeadlineExceeded, Message: errDeadline.Message})
		o.stopVisits(errDeadline)
	}
	for o.fatal == nil {
		starts, decided, doomed := o.sched.Take()
		for _, n := range decided {
			if n.From == "" {
				n.StartedAt, n.FinishedAt = o.stamp(), o.stamp()
			} else if !n.Inline {
				o.kept(&n)
			}
			o.next.Nodes = append(o.next.Nodes, n) // what was decided has not been written before
			if len(o.next.Nodes) >= mostDecided {
				o.commit() // a fork may keep very many
			}
		}
		for _, st := range starts {
			o.begin(st)
		}
		if doomed {
			o.stopVisits(nil)
			continue // a parked visit that was stopped may let others go on
		}
		if len(starts) == 0 && len(decided) == 0 {
			break
		}
	}
	if o.fatal != nil {
		return
	}
	o.wakeVisits(now)
	o.rest()
}

func (o *owner) stamp() time.Time { return o.e.now().UTC().Truncate(time.Millisecond) }

// withoutPlan is advance for a run that has ended or whose definition is missing.
func (o *owner) withoutPlan() {
	if o.run.Status.Terminal() || o.leaving {
		return
	}
	if o.run.CancelRequested {
		o.end(schedule.Outcome{Failure: aborted(o.run.Reason)})
		return
	}
	if o.run.Status != runlog.Blocked {
		reason := o.e.whyBlocked(&o.run)
		o.become(runlog.Blocked, reason, map[string]string{"reason": reason})
	}
}

// begin takes up a visit that the schedule wants: it enters it, or parks it as its record says.
func (o *owner) begin(st schedule.Start) {
	v := &visit{Start: st, record: runlog.Node{NodeKey: st.Key, InputHash: st.Hash}}
	if st.Record != nil {
		v.record = *st.Record
	}
	o.visits[st.Key] = v
	switch {
	case st.Stopping():
		o.stopped(v)
	case v.record.Status == runlog.NodeIsWaiting || v.record.Status == runlog.NodeIsSleeping:
		// parked; wakeVisits looks at it
	default:
		o.enter(v)
	}
}

// enter starts the next attempt of a visit.
func (o *owner) enter(v *visit) {
	if o.leaving || o.pausing != "" {
		return // it stays as it is and is entered after the next load
	}
	if v.record.Attempt == 0 && o.recall(v) {
		return
	}
	o.goes()
	r, resumes := &v.record, v.Node().Resumes
	r.Attempt++
	if r.Attempt > 1 && !resumes && r.FirstSeq > 0 {
		kept, err := o.e.store.Chunks(o.id, v.Key, r.FirstSeq-1, 1)
		if err != nil {
			o.fatal = storeError(err, "chunks of node %q", v.Key.Path)
			return
		}
		if len(kept) > 0 {
			o.event(runlog.NodeRetracted, v, nil).Retract = r.FirstSeq
		}
		r.FirstSeq = 0
	}
	if r.StartedAt.IsZero() {
		r.StartedAt = o.stamp()
	}
	r.Status, r.WakeAt, r.Waits = runlog.NodeIsRunning, time.Time{}, nil
	o.event(runlog.NodeStarted, v, nil)
	o.write(*r)
	a := newAttempt(o, v)
	v.cancel = a.cancel
	o.running++
	o.committed(func(err error) {
		if err != nil {
			a.cancel(err)
			o.running--
			v.cancel = nil
			return
		}
		nodeStarted.Hit()
		o.launched = append(o.launched, a)
	})
}

// goes makes the run a running one.
func (o *owner) goes() {
	if o.run.Status == runlog.Running {
		return
	}
	if o.run.StartedAt.IsZero() {
		o.run.StartedAt = o.stamp()
	}
	o.run.WakeAt = time.Time{}
	o.become(runlog.Running, "", nil)
}

// ended takes the end of an attempt.
func (o *owner) ended(v *visit, waits []string, wakeAt time.Time, out []byte, err error) {
	o.running--
	cause := v.cancel
	v.cancel = nil
	if cause != nil {
		cause(nil)
	}
	if o.fatal != nil {
		return
	}
	r := &v.record
	switch {
	case err == nil:
		r.Status, r.Output, r.FinishedAt, r.Failure = runlog.NodeIsDone, out, o.stamp(), nil
		o.event(runlog.NodeSucceeded, v, nil)
		o.remember(v)
		o.settled(v, schedule.Outcome{Value: schedule.Value{Raw: out, Origin: v.Key}})
	case v.Stopping():
		o.stopped(v)
	case stopwatch.Overran(err):
		o.failed(v, err)
	case o.leaving || o.pausing != "" || fault.Is(err, fault.Suspended):
		r.Status = runlog.NodeIsSuspended
		o.event(runlog.NodeSuspended, v, nil)
		o.write(*r)
	case parks(err, waits, wakeAt):
		o.park(v, waits, wakeAt)
	default:
		o.failed(v, err)
	}
}

// parks reports whether the error of an attempt says that it waits for something it asked for.
func parks(err error, waits []string, wakeAt time.Time) bool {
	_, parked := errors.AsType[*parked](err)
	return (parked || fault.Is(err, fault.UserInputRequired)) && (len(waits) > 0 || !wakeAt.IsZero())
}

// park lays a visit aside until what it waits for is there.
func (o *owner) park(v *visit, waits []string, wakeAt time.Time) {
	r := &v.record
	r.Waits, r.WakeAt = waits, wakeAt
	if len(waits) > 0 {
		r.Status = runlog.NodeIsWaiting
		o.event(runlog.NodeWaiting, v, map[string]any{"for": waits})
	} else {
		r.Status = runlog.NodeIsSleeping
		o.event(runlog.NodeSleeping, v, map[string]any{"until": wakeAt})
	}
	o.write(*r)
}

// failed ends an attempt with a failure: the next attempt after a wait, or the end of the visit.
func (o *owner) failed(v *visit, err error) {
	r := &v.record
	r.Failures++
	r.Failure = schedule.FailureOf(err, v.Key, r.Attempt)
	if r.Failures < v.Node().Attempts && !v.Stopping() {
		wait := backoff(time.Duration(v.Node().BackoffMS)*time.Millisecond, r.Failures)
		r.Status, r.WakeAt, r.Waits = runlog.NodeIsSleeping, o.stamp().Add(wait), nil
		o.event(runlog.NodeSleeping, v, map[string]any{"until": r.WakeAt, "failure": r.Failure})
		o.write(*r)
		return
	}
	r.Status, r.FinishedAt = runlog.NodeHasFailed, o.stamp()
	o.event(runlog.NodeFailed, v, r.Failure)
	o.settled(v, schedule.Outcome{Failure: r.Failure})
}

// stopped ends a visit because the run, or its part of it, ends.
func (o *owner) stopped(v *visit) {
	r, failure := &v.record, *aborted("")
	if doom := v.Doom(); doom != nil {
		failure = *doom
	}
	if failure.Kind != workflow.DeadlineExceeded || failure.Node != "" { // only the run's own end in time is everybody's
		failure.Kind = fault.ExecutionAborted
	}
	failure.Node, failure.Visit, failure.Attempt = v.Key.Path, v.Key.Visit, r.Attempt
	if r.Status != "" { // it had begun
		r.Status, r.Reason, r.Failure, r.FinishedAt = runlog.NodeIsAborted, failure.Message, &failure, o.stamp()
		o.event(runlog.NodeAborted, v, map[string]string{"reason": failure.Message})
	}
	o.settled(v, schedule.Outcome{Failure: &failure})
}

// settled ends a visit: its open questions are moot, the schedule goes on.
func (o *owner) settled(v *visit, end schedule.Outcome) {
	delete(o.visits, v.Key)
	if v.record.Status != "" {
		v.record.WakeAt, v.record.Waits = time.Time{}, nil
		o.write(v.record)
		o.withdraw(v)
		o.committed(func(error) { nodeFinished.Hit() })
	}
	o.sched.Finished(v.Start, end)
}

// withdraw closes what a visit asked and nobody answered.
func (o *owner) withdraw(v *visit) {
	if o.requests == nil && v.Record == nil {
		return // all its attempts were here and asked nothing
	}
	asked, err := o.asked()
	if err != nil {
		o.fatal = err
		return
	}
	for id, q := range asked {
		if q.Node == v.Key && q.Status == runlog.RequestOpen {
			o.resolve(runlog.Resolution{RequestID: id, Status: runlog.RequestIsMoot, At: o.stamp()}, runlog.RequestWithdrawn)
		}
	}
}

// resolve ends a request that is open in the owner's eyes, and that nobody has answered.
func (o *owner) resolve(to runlog.Resolution, kind runlog.EventKind) {
	q := o.requests[to.RequestID]
	q.Status, q.ResolvedAt = to.Status, to.At
	o.requests[to.RequestID] = q
	o.next.Resolve = append(o.next.Resolve, to)
	o.aboutRequest(kind, q.Node, map[string]string{"requestId": to.RequestID})
}

// expire ends a request whose time is up.
func (o *owner) expire(id string) {
	o.resolve(runlog.Resolution{RequestID: id, Status: runlog.RequestIsExpired, At: o.stamp()}, runlog.RequestExpired)
}

// overdue reports whether an open request's time is up.
func overdue(q *runlog.Request, now time.Time) bool {
	return !q.ExpiresAt.IsZero() && !now.Before(q.ExpiresAt)
}

// aboutRequest adds the event of a request's end, which belongs to the visit that asked and to none of its attempts.
func (o *owner) aboutRequest(kind runlog.EventKind, node runlog.NodeKey, data any) {
	e := o.event(kind, nil, data)
	e.Node, e.Visit = node.Path, node.Visit
}

// stopVisits tells visits that have to stop. A cause of nil is the end of their part of the run.
func (o *owner) stopVisits(cause *workflow.Error) {
	for _, v := range o.visits {
		if !v.Stopping() {
			continue
		}
		if v.cancel == nil {
			o.stopped(v)
			continue
		}
		if cause == nil {
			cause = fault.New(fault.ExecutionAborted, "%s", o.why())
		}
		v.cancel(cause)
	}
}

// why says in a few words why visits are stopped.
func (o *owner) why() string {
	if d := o.sched.Doom(); d != nil && d.Message != "" {
		return d.Message
	}
	return "another node failed"
}

// wakeVisits enters parked visits whose time has come or whose wait is over.
func (o *owner) wakeVisits(now time.Time) {
	if len(o.visits) == o.running {
		return
	}
	for _, v := range o.visits {
		if o.fatal != nil {
			return
		}
		if v.cancel != nil || v.record.Status == runlog.NodeIsRunning || v.record.Status == runlog.NodeIsSuspended {
			continue
		}
		due := !v.record.WakeAt.IsZero() && !now.Before(v.record.WakeAt)
		over, err := o.over(v, now)
		if err != nil {
			o.fatal = err
			return
		}
		if due || over {
			o.enter(v)
		}
	}
}

// over reports whether something that a visit waits for is there. It ends requests whose time is up.
func (o *owner) over(v *visit, now time.Time) (bool, error) {
	over := false
	for _, wait := range v.record.Waits {
		if topic, isSignal := signalTopic(wait); isSignal {
			there, err := o.unread(topic)
			if err != nil {
				return false, err
			}
			over = over || len(there) > 0
			continue
		}
		asked, err := o.asked()
		if err != nil {
			return false, err
		}
		q := asked[wait]
		if q.Status == runlog.RequestOpen && overdue(&q, now) {
			o.expire(q.ID)
			q.Status = runlog.RequestIsExpired
		}
		over = over || q.Status != runlog.RequestOpen
	}
	return over, nil
}

// unread returns the signals of a topic that nobody has received, those of the next commit included.
func (o *owner) unread(topic string) ([]runlog.Signal, error) {
	list, err := o.e.store.Signals(o.id)
	if err != nil {
		return nil, storeError(err, "signals of run %s", o.id)
	}
	return slices.DeleteFunc(append(list, o.next.Signals...), func(s runlog.Signal) bool {
		return s.Topic != topic || slices.Contains(o.next.Consume, s.ID)
	}), nil
}

// rest ends the run, or lets it wait, when no attempt is in work.
func (o *owner) rest() {
	if o.fatal != nil || o.running > 0 || o.run.Status.Terminal() {
		return
	}
	if end, done := o.sched.Done(); done {
		o.end(end)
		return
	}
	switch {
	case o.pausing != "":
		if o.run.Status != runlog.Paused {
			o.become(runlog.Paused, o.pausing, map[string]string{"reason": o.pausing})
		}
		return
	case o.leaving:
		if o.run.Status == runlog.Running {
			o.become(runlog.Suspended, "", nil)
		}
		return
	}
	to := runlog.Sleeping
	for _, v := range o.visits {
		if v.record.Status == runlog.NodeIsWaiting {
			to = runlog.Waiting
		}
	}
	at := o.wakeAt()
	if !o.stopping() && !o.run.Deadline.IsZero() && (at.IsZero() || o.run.Deadline.Before(at)) {
		at = o.run.Deadline
	}
	if o.run.Status == to && o.run.WakeAt.Equal(at) {
		return
	}
	if o.run.Status != runlog.Running { // taken up for nothing
		if o.run.Status == to {
			o.run.WakeAt = at
			o.changed()
			return
		}
		o.become(runlog.Running, "", nil)
	}
	o.run.WakeAt = at
	if to == runlog.Waiting {
		o.become(to, "", nil)
	} else {
		o.become(to, "", map[string]time.Time{"until": at})
	}
}

// end ends the run.
func (o *owner) end(end schedule.Outcome) {
	if o.run.StartedAt.IsZero() {
		o.run.StartedAt = o.stamp()
	}
	if end.Failure == nil && end.Skipped {
		end.Failure = &workflow.Failure{Kind: fault.Internal, Message: "the node of the result was skipped"}
	}
	o.run.FinishedAt, o.run.WakeAt, o.run.Failure = o.stamp(), time.Time{}, end.Failure
	to, data := runlog.Failed, any(end.Failure)
	switch {
	case end.Failure == nil:
		to, data = runlog.Succeeded, nil
		o.run.Result = end.Value.Origin
	case end.Failure.Kind == workflow.DeadlineExceeded && end.Failure.Node == "":
		to, data = runlog.Expired, nil
	case end.Failure.Kind == fault.ExecutionAborted && o.run.CancelRequested:
		to, data = runlog.Aborted, map[string]string{"reason": end.Failure.Message}
	}
	if to == runlog.Succeeded || to == runlog.Failed {
		if o.run.Status != runlog.Running {
			o.become(runlog.Running, "", nil) // a graph of inline steps alone ends as it begins
		}
	}
	o.become(to, o.run.Reason, data)
	o.synced()
	o.committed(func(error) { runFinished.Hit() })
}
