package executor

import (
	"context"
	"encoding/json"

	"slices"
	"sync"
	"time"

	"github.com/workflowd/workflowd/agentcore/fault"
	"github.com/workflowd/workflowd/executor/internal/schedule"
	"github.com/workflowd/workflowd/executor/runlog"
	"github.com/workflowd/workflowd/internal/faultpoint"
	"github.com/workflowd/workflowd/workflow"
)

// The durable edges of a run that advances.
var (
	beforeCommit   = faultpoint.New("executor.commit.before")
	afterCommit    = faultpoint.New("executor.commit.after")
	nodeStarted    = faultpoint.New("executor.node.started")
	nodeFinished   = faultpoint.New("executor.node.finished")
	chunksBefore   = faultpoint.New("executor.chunks.before")
	chunksAfter    = faultpoint.New("executor.chunks.after")
	requestOpened  = faultpoint.New("executor.request.opened")
	answerRecorded = faultpoint.New("executor.answer.recorded")
	effectIntent   = faultpoint.New("executor.effect.intent")
	effectRecorded = faultpoint.New("executor.effect.recorded")
	txRan          = faultpoint.New("executor.tx.ran")
	txRecorded     = faultpoint.New("executor.tx.recorded")
	cacheTaken     = faultpoint.New("executor.cache.taken")
	runFinished    = faultpoint.New("executor.run.finished")
)

// owner advances one run: whoever holds its turn is the only writer of the run's records. That is the owner's goroutine,
// or an attempt that has just ended or needs a commit and finds the turn free: it goes on by itself instead of waking
// another goroutine. mu guards what others put in.
type owner struct {
	e  *Engine
	id runlog.RunID

	mu     sync.Mutex
	inbox  []message
	chunks []runlog.Event // delivered, not committed
	bytes  int            // of their data
	room   chan struct{}  // closed when chunks have been taken
	wake   chan struct{}  // capacity 1
	gone   bool           // no message is taken any more

	turn     sync.Mutex
	waiting  time.Time  // until when the goroutine waits, unless woken
	launched []*attempt // committed as started, not running yet
	run      runlog.Run
	plan     *schedule.Plan // nil: the definition is not registered
	sched    *schedule.Machine
	visits   map[runlog.NodeKey]*visit
	running  int // visits with an attempt in work
	requests map[string]runlog.Request
	next     runlog.Batch  // what the next commit holds
	after    []func(error) // told how it went
	flushed  time.Time     // of the last commit with chunks
	leaving  bool          // the host leaves: nothing new starts
	pausing  string        // an operator's reason to pause, "" = none
	fatal    error         // why the owner stops without an end of the run
}

// message is something that an owner has to do. refuse is told when it never will.
type message struct {
	do     func(*owner)
	refuse func(error)
}

// visit is a started visit: an attempt is in work, or it is parked (cancel is nil).
type visit struct {
	schedule.Start
	record runlog.Node
	cancel context.CancelCauseFunc
}

// post hands over a message. The engine's lock, or being an attempt of the owner, keeps the owner alive meanwhile.
func (o *owner) post(m message) {
	o.mu.Lock()
	o.inbox = append(o.inbox, m)
	o.mu.Unlock()
	o.ring()
}

func (o *owner) ring() {
	select {
	case o.wake <- struct{}{}:
	default:
	}
}

// submit hands over a message of an attempt and does it at once when the turn is free. It returns an attempt that the caller
// runs next when it can, or nil.
func (o *owner) submit(m message, inline bool) (next *attempt) {
	o.mu.Lock()
	if o.gone { // the node has returned long ago, something of it lives on
		o.mu.Unlock()
		if m.refuse != nil {
			m.refuse(errReturned)
		}
		return nil
	}
	o.inbox = append(o.inbox, m)
	o.mu.Unlock()
	if !o.turn.TryLock() {
		o.ring()
		return nil
	}
	defer o.turn.Unlock()
	next = o.step(inline)
	if o.running == 0 || o.fatal != nil || !o.nextTime().Equal(o.waiting) {
		o.ring()
	}
	return next
}

// work is the owner's goroutine.
func (o *owner) work() {
	o.turn.Lock()
	if err := o.load(); err != nil {
		o.fatal = err
	}
	for {
		o.step(false)
		if o.running == 0 && o.e.leave(o) {
			o.turn.Unlock()
			return
		}
		o.waiting = o.nextTime()
		at := o.waiting
		o.turn.Unlock()
		o.wait(at)
		o.turn.Lock()
	}
}

// step does what there is to do, up to a commit, and lets the started attempts run, but for one that the caller runs.
func (o *owner) step(inline bool) (next *attempt) {
	o.receive()
	if o.fatal == nil {
		o.advance()
		o.commit()
	}
	if o.fatal != nil {
		o.abandon()
	}
	for i, a := range o.launched {
		if inline && i == len(o.launched)-1 {
			next = a
			break
		}
		o.e.crew.Run(a.work)
	}
	o.launched = o.launched[:0]
	return next
}

// receive does what the messages say.
func (o *owner) receive() {
	for {
		o.mu.Lock()
		list := o.inbox
		o.inbox = nil
		o.mu.Unlock()
		if len(list) == 0 {
			return
		}
		for _, m := range list {
			if o.fatal == nil || m.refuse == nil {
				m.do(o)
			} else {
				m.refuse(o.fatal)
			}
		}
	}
}

// wait sleeps until it is woken or a time, the zero time being never.
func (o *owner) wait(at time.Time) {
	var timer *time.Timer
	var due <-chan time.Time
	if !at.IsZero() {
		timer = time.NewTimer(max(0, at.Sub(o.e.now())))
		due = timer.C
		defer timer.Stop()
	}
	select {
	case <-o.wake:
	case <-due:
	}
}

// nextTime is when due chunks, a parked visit or the deadline need the owner, the zero time when nothing does.
func (o *owner) nextTime() (at time.Time) {
	earliest := func(t time.Time) {
		if !t.IsZero() && (at.IsZero() || t.Before(at)) {
			at = t
		}
	}
	if o.fatal != nil {
		return at
	}
	o.mu.Lock()
	if n := len(o.chunks); n > 0 {
		now := o.e.now()
		earliest(now.Add(pace(now, o.flushed, n, o.bytes)))
	}
	o.mu.Unlock()
	if !o.leaving && o.pausing == "" {
		earliest(o.wakeAt())
	}
	if !o.stopping() {
		earliest(o.run.Deadline)
	}
	return at
}

// wakeAt is the earliest time that a parked visit waits for.
func (o *owner) wakeAt() (at time.Time) {
	if len(o.visits) == o.running {
		return at // none is parked
	}
	for _, v := range o.visits {
		if v.cancel == nil && !v.record.WakeAt.IsZero() && (at.IsZero() || v.record.WakeAt.Before(at)) {
			at = v.record.WakeAt
		}
	}
	return at
}

func (o *owner) stopping() bool { return o.sched != nil && o.sched.Doom() != nil }

// event adds an event to the next commit.
func (o *owner) event(kind runlog.EventKind, v *visit, data any) *runlog.Event {
	e := runlog.Event{Kind: kind, Data: encode(data)}
	if v != nil {
		e.Node, e.Visit, e.Attempt = v.Key.Path, v.Key.Visit, v.record.Attempt
	}
	o.next.Events = append(o.next.Events, e)
	return &o.next.Events[len(o.next.Events)-1]
}

// encode is JSON of records of ours; nil stays nil.
func encode(v any) json.RawMessage {
	if v == nil {
		return nil
	}
	raw, err := json.Marshal(v)
	if err != nil {
		panic(err) // a record of ours that JSON cannot hold is a defect; no user value comes here
	}
	return raw
}

// become moves the run to a status, with the event that says so.
func (o *owner) become(to runlog.RunStatus, reason string, data any) {
	if !o.run.Status.CanBecome(to) {
		o.fatal = fault.New(fault.Internal, "run %s cannot go from %s to %s", o.id, o.run.Status, to)
		return
	}
	if reason != "" || !o.run.CancelRequested { // the reason of a cancel request stays
		o.run.Reason = reason
	}
	o.run.Status = to
	o.event(to.Event(), nil, data)
	o.changed()
}

// changed puts the run's record into the next commit.
func (o *owner) changed() {
	r := &o.run
	o.next.Change = &runlog.RunChange{
		Status: r.Status, Reason: r.Reason, CancelRequested: r.CancelRequested, Failure: r.Failure, Result: r.Result,
		WakeAt: r.WakeAt, StartedAt: r.StartedAt, FinishedAt: r.FinishedAt, Version: r.Version, Fingerprint: r.Fingerprint,
	}
}

// write puts a visit's record into the next commit, once.
func (o *owner) write(n runlog.Node) {
	i := slices.IndexFunc(o.next.Nodes, func(old runlog.Node) bool { return old.NodeKey == n.NodeKey })
	if i >= 0 {
		o.next.Nodes[i] = n
		return
	}
	o.next.Nodes = append(o.next.Nodes, n)
}

// synced makes the next commit safe against a power loss.
func (o *owner) synced() { o.next.Durability = runlog.Synced }

// committed tells done how the next commit went.
func (o *owner) committed(done func(error)) { o.after = append(o.after, done) }

// commit writes what has gathered, publishes it and tells those who wait.
func (o *owner) commit() {
	if o.fatal != nil {
		return
	}
	withChunks := o.takeChunks()
	b := &o.next
	if len(b.Events) == 0 && b.Change == nil && len(b.Nodes) == 0 && len(b.Effects) == 0 && len(b.Usage) == 0 && b.Consume == nil {
		o.tell(nil)
		return
	}
	now := o.e.now().UTC().Truncate(time.Millisecond)
	b.Run, b.Epoch = o.id, o.e.epoch
	for i := range b.Events {
		b.Events[i].At, b.Events[i].Epoch = now, b.Epoch
	}
	if o.e.strict {
		b.Durability = runlog.Synced
	}
	beforeCommit.Hit()
	if withChunks {
		chunksBefore.Hit()
	}
	err := o.e.store.Commit(b)
	if err == nil {
		o.adopt(b)
		afterCommit.Hit()
		if withChunks {
			o.flushed = now
			chunksAfter.Hit()
		}
		o.e.hub.publish(o.id, o.run.Status.Terminal())
	} else {
		err = storeError(err, "commit of run %s", o.id)
		o.fatal = err
	}
	clear(b.Events)
	clear(b.Nodes)
	o.next = runlog.Batch{Events: b.Events[:0], Nodes: b.Nodes[:0]}
	o.tell(err)
}

// tell tells those who wait for the commit how it went.
func (o *owner) tell(err error) {
	after := o.after
	o.after = nil
	for _, done := range after {
		done(err)
	}
}

// takeChunks puts delivered chunks in front of the next commit's events: with any commit, or when they are due.
func (o *owner) takeChunks() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.chunks) == 0 {
		return false
	}
	if len(o.next.Events) == 0 && len(o.after) == 0 && pace(o.e.now(), o.flushed, len(o.chunks), o.bytes) > 0 {
		return false
	}
	o.next.Events = slices.Insert(o.next.Events, 0, o.chunks...)
	clear(o.chunks)
	o.chunks, o.bytes = o.chunks[:0], 0
	close(o.room)
	o.room = make(chan struct{})
	return true
}

// adopt takes over what the store numbered.
func (o *owner) adopt(b *runlog.Batch) {
	for i := range b.Nodes {
		if v := o.visits[b.Nodes[i].NodeKey]; v != nil && v.record.FirstSeq == 0 {
			v.record.FirstSeq = b.FirstSeq(v.Key)
		}
	}
}

// abandon stops all attempts because the owner cannot go on. What they still deliver is dropped.
func (o *owner) abandon() {
	cause := o.fatal
	if fault.Is(cause, fault.OwnerLost) {
		o.e.hub.lose()
	}
	for _, v := range o.visits {
		if v.cancel != nil {
			v.cancel(cause)
		}
	}
	o.tell(cause)
	o.next = runlog.Batch{}
	o.mu.Lock()
	o.chunks, o.bytes = nil, 0
	close(o.room)
	o.room = make(chan struct{})
	o.mu.Unlock()
}

// load reads the run and replays its records.
func (o *owner) load() error {
	if o.run.ID == "" {
		run, err := o.e.store.Run(o.id)
		if err != nil {
			return storeError(err, "run %s", o.id)
		}
		o.run = run
	}
	if o.run.Status.Terminal() {
		return nil
	}
	if o.run.Status == runlog.Paused {
		o.pausing = o.run.Reason
	}
	o.plan = o.e.planOf(&o.run)
	if o.plan == nil {
		return nil
	}
	var nodes []runlog.Node
	if o.run.LastSeq > 1 {
		var err error
		if nodes, err = o.e.store.Nodes(o.id); err != nil {
			return storeError(err, "nodes of run %s", o.id)
		}
	}
	source, err := o.e.source(o.plan, o.run.ForkedFrom)
	if err != nil {
		return err
	}
	o.sched = schedule.New(o.plan, o.run.Input, nodes, source)
	if o.run.CancelRequested {
		o.sched.Cancel(aborted(o.run.Reason))
	}
	return nil
}

// asked returns the run's requests, read once.
func (o *owner) asked() (map[string]runlog.Request, error) {
	if o.requests == nil {
		list, err := o.e.store.Requests(runlog.RequestQuery{Run: o.id})
		if err != nil {
			return nil, storeError(err, "requests of run %s", o.id)
		}
		o.requests = make(map[string]runlog.Request, len(list))
		for _, q := range list {
			o.requests[q.ID] = q
		}
	}
	return o.requests, nil
}

// aborted is the failure of a run, or of a node in it, that somebody stopped.
func aborted(reason string) *workflow.Failure {
	if reason == "" {
		reason = "cancelled"
	}
	return &workflow.Failure{Kind: fault.ExecutionAborted, Message: reason}
}
