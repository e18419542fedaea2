package executor

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"strings"
	"time"

	"github.com/workflowd/workflowd/agentcore/fault"
	"github.com/workflowd/workflowd/executor/internal/schedule"
	"github.com/workflowd/workflowd/executor/runlog"
	"github.com/workflowd/workflowd/internal/ids"
	"github.com/workflowd/workflowd/workflow"
	"github.com/workflowd/workflowd/workflow/userinput"
)

// parked is what a node is told to hand on while what it asked for is not there.
type parked struct{ what string }

func (p *parked) Error() string { return "not yet: " + p.what }

// signalWait names a topic among the waits of a visit; request ids have another prefix.
const signalWait = "signal:"

func signalTopic(wait string) (string, bool) { return strings.CutPrefix(wait, signalWait) }

// wait notes what the attempt asked for in vain.
func (a *attempt) wait(what string, at time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if what != "" {
		a.waits = append(a.waits, what)
	}
	if !at.IsZero() && (a.wakeAt.IsZero() || at.Before(a.wakeAt)) {
		a.wakeAt = at
	}
}

// people implements workflow.UserInput.
type people struct{ a *attempt }

// Request implements workflow.UserInput.
func (p people) Request(ask userinput.Request) (json.RawMessage, error) {
	a := p.a
	if err := checkRequest(ask); err != nil {
		return nil, err
	}
	id := ids.Derived(ids.Request, string(a.o.id), a.v.Key.Path, fmt.Sprint(a.v.Key.Visit), ask.Key)
	q, err := a.o.e.store.Request(id)
	if errors.Is(err, runlog.ErrNotFound) {
		if a.Err() != nil {
			return nil, contextError(a) // nobody is asked on behalf of a node that has to stop
		}
		q = a.question(id, ask)
		err = a.call(func(o *owner) { o.open(q, a.v) })
		if err != nil {
			return nil, err
		}
		requestOpened.Hit()
	} else if err != nil {
		return nil, storeError(err, "request %s", id)
	}
	if q.Kind != ask.Kind || !bytes.Equal(q.Payload, ask.Payload) || !bytes.Equal(q.Schema, ask.Schema) {
		return nil, fault.New(fault.Conflict, "request key %q of node %q was used for another question", ask.Key, a.v.Key.Path)
	}
	switch q.Status {
	case runlog.RequestHasAnswer:
		return q.Answer, nil
	case runlog.RequestIsExpired:
		return nil, fault.New(workflow.DeadlineExceeded, "request %s expired at %s", id, q.ExpiresAt.Format(time.RFC3339))
	case runlog.RequestIsMoot:
		return nil, fault.New(fault.ExecutionAborted, "request %s was withdrawn", id)
	case runlog.RequestOpen:
	}
	a.wait(id, q.ExpiresAt)
	return nil, &userinput.Required{RequestID: id, Request: ask}
}

func (a *attempt) question(id string, ask userinput.Request) runlog.Request {
	q := runlog.Request{
		ID: id, Run: a.o.id, Workflow: a.info.WorkflowName, Conversation: a.info.Conversation, Node: a.v.Key, Key: ask.Key,
		Kind: ask.Kind, Title: ask.Title, Payload: ask.Payload, Schema: ask.Schema, Status: runlog.RequestOpen,
		OpenedAt: a.o.e.now().UTC().Truncate(time.Millisecond),
	}
	if ask.Expires > 0 {
		q.ExpiresAt = q.OpenedAt.Add(ask.Expires)
	}
	return q
}

// open adds a request to the run.
func (o *owner) open(q runlog.Request, v *visit) {
	asked, err := o.asked()
	if err != nil {
		o.fatal = err
		return
	}
	asked[q.ID] = q
	o.next.Open = append(o.next.Open, q)
	o.event(runlog.RequestOpened, v, q)
}

// journal implements workflow.Journal.
type journal struct{ a *attempt }

// effect returns the recorded entry of key, nil when there is none, and takes the key for this attempt.
func (a *attempt) effect(key string) (*runlog.Effect, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.used[key] {
		return nil, fault.New(fault.Conflict, "node %q used the key %q twice in one attempt", a.v.Key.Path, key)
	}
	if a.known == nil {
		list, err := a.o.e.store.Effects(a.o.id, a.v.Key)
		if err != nil {
			return nil, storeError(err, "journal of node %q", a.v.Key.Path)
		}
		a.known, a.used = map[string]runlog.Effect{}, map[string]bool{}
		for _, e := range list {
			a.known[e.Key] = e
		}
	}
	a.used[key] = true
	if e, known := a.known[key]; known {
		return &e, nil
	}
	return nil, nil //nolint:nilnil // there is no entry, and no error
}

// record commits an entry of the journal.
func (a *attempt) record(e runlog.Effect, synced bool) error {
	e.Node = a.v.Key
	return a.call(func(o *owner) {
		o.next.Effects = append(o.next.Effects, e)
		if synced {
			o.synced()
		}
	})
}

// Once implements workflow.Journal.
func (j journal) Once(key string, again bool, effect func(context.Context) (json.RawMessage, error)) (json.RawMessage, error) {
	key = "once:" + key
	old, err := j.a.effect(key)
	switch {
	case err != nil:
		return nil, err
	case old != nil && old.Done:
		return old.Result, nil
	case old != nil && !again:
		return nil, fault.New(fault.Interrupted, "effect %q began in an earlier attempt; its outcome is unknown", key)
	case j.a.Err() != nil:
		return nil, contextError(j.a)
	case old == nil:
		if err := j.a.record(runlog.Effect{Key: key}, true); err != nil {
			return nil, err
		}
		effectIntent.Hit()
	}
	result, err := effect(j.a)
	if err != nil {
		return nil, errors.Join(err, j.a.record(runlog.Effect{Key: key, Forget: true}, true))
	}
	if err := j.a.record(runlog.Effect{Key: key, Done: true, Result: result}, true); err != nil {
		return nil, err
	}
	effectRecorded.Hit()
	return result, nil
}

// InTx implements workflow.Journal. The effect and its record are in one store, so a power loss that takes one takes both:
// the commit need not be synced.
func (j journal) InTx(key string, effect func(context.Context, workflow.Tx) (json.RawMessage, error)) (json.RawMessage, error) {
	a, entry := j.a, "tx:"+key
	old, err := a.effect(entry)
	switch {
	case err != nil:
		return nil, err
	case old != nil && old.Done:
		return old.Result, nil
	case a.Err() != nil:
		return nil, contextError(a)
	}
	if err := a.call(func(*owner) {}); err != nil { // what the node did before comes before
		return nil, err
	}
	b := &runlog.Batch{Run: a.o.id, Epoch: a.o.e.epoch, Effects: []runlog.Effect{{Node: a.v.Key, Key: entry}}}
	if a.o.e.strict {
		b.Durability = runlog.Synced
	}
	var own error
	a.inTx.Store(true)
	out, err := a.o.e.store.InTx(b, func(tx workflow.Tx) (json.RawMessage, error) {
		var out json.RawMessage
		out, own = apart(func() (json.RawMessage, error) { return effect(a, tx) })
		if own == nil {
			txRan.Hit()
		}
		return out, own
	})
	a.inTx.Store(false)
	switch {
	case err == nil:
		txRecorded.Hit()
		return out, nil
	case own != nil:
		return nil, own
	case errors.Is(err, runlog.ErrUnsupported):
		return nil, fault.New(fault.Unsupported, "effect %q of node %q needs a run store with transactions, this one has none; open the engine on a file, or use Once: %w", key, a.v.Key.Path, err)
	}
	err = storeError(err, "effect %q of node %q", key, a.v.Key.Path)
	return nil, a.call(func(o *owner) { o.fatal = err }) // whether it is there, the next owner reads
}

// apart runs user code on a goroutine of its own, because it may be called on one that belongs to another run.
func apart(fn func() (json.RawMessage, error)) (out json.RawMessage, err error) {
	err = &schedule.Panic{Value: "the effect ended its goroutine"}
	done := make(chan struct{})
	go func() {
		defer close(done)
		out, err = schedule.Guarded(fn)
	}()
	<-done
	return out, err
}

// Sleep implements workflow.Journal.
func (j journal) Sleep(key string, d time.Duration) error {
	old, err := j.a.effect("sleep:" + key)
	if err != nil {
		return err
	}
	now := j.a.o.e.now()
	if old == nil {
		old = &runlog.Effect{Key: "sleep:" + key, WakeAt: now.UTC().Add(d).Truncate(time.Millisecond)}
		if err := j.a.record(*old, false); err != nil {
			return err
		}
	}
	if !now.Before(old.WakeAt) {
		return nil
	}
	j.a.wait("", old.WakeAt)
	return &parked{"sleeping until " + old.WakeAt.Format(time.RFC3339Nano)}
}

// Receive implements workflow.Journal.
func (j journal) Receive(topic string, timeout time.Duration) (json.RawMessage, error) {
	var old *runlog.Effect
	var err error
	var key string
	for n := 1; ; n++ { // the nth receive of a topic in an attempt is the nth entry
		key = fmt.Sprintf("recv:%s:%d", topic, n)
		j.a.mu.Lock()
		taken := j.a.used[key]
		j.a.mu.Unlock()
		if !taken {
			break
		}
	}
	if old, err = j.a.effect(key); err != nil {
		return nil, err
	}
	if old != nil && old.Done {
		return old.Result, nil
	}
	var got *runlog.Signal
	err = j.a.call(func(o *owner) { // on the owner, so that two nodes never receive one signal
		list, err := o.unread(topic)
		if err != nil {
			o.fatal = err
			return
		}
		if len(list) > 0 {
			got = &list[0]
			o.next.Consume = append(o.next.Consume, got.ID)
			o.next.Effects = append(o.next.Effects, runlog.Effect{Node: j.a.v.Key, Key: key, Done: true, Result: got.Payload})
		}
	})
	if err != nil {
		return nil, err
	}
	if got != nil {
		return got.Payload, nil
	}
	if old == nil && timeout > 0 {
		old = &runlog.Effect{Key: key, WakeAt: j.a.o.e.now().UTC().Add(timeout).Truncate(time.Millisecond)}
		if err := j.a.record(*old, false); err != nil {
			return nil, err
		}
	}
	var until time.Time
	if old != nil {
		until = old.WakeAt
		if !j.a.o.e.now().Before(until) {
			return nil, fault.New(workflow.DeadlineExceeded, "no signal %q until %s", topic, until.Format(time.RFC3339))
		}
	}
	j.a.wait(signalWait+topic, until)
	return nil, &parked{"waiting for a signal " + topic}
}

// Chunks implements workflow.Journal.
func (j journal) Chunks() iter.Seq2[json.RawMessage, error] {
	if j.a.first == 0 { // nothing from before this attempt counts
		return func(func(json.RawMessage, error) bool) {}
	}
	return j.a.counted()
}

// Source implements workflow.Journal.
func (j journal) Source(key string) {
	j.a.mu.Lock()
	defer j.a.mu.Unlock()
	j.a.source = key
}

// LastSource implements workflow.Journal.
func (j journal) LastSource() string {
	last := ""
	for e, err := range j.a.events() {
		if err != nil {
			panic(err) // as Committed does: the attempt fails with it
		}
		if e.Source != "" {
			last = e.Source
		}
	}
	return last
}
