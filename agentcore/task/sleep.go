package task

import (
	"container/heap"
	"fmt"
	"time"

	"github.com/workflowd/workflowd/agentcore/session"
)

// Sleep returns nil once the clock has reached until. Before that it returns an error that the phase must return at once:
// the task then rests without a goroutine, and at its time the phase runs again from its beginning. So a phase sleeps
// first and works afterwards; what it did before Sleep it does again. The time is not stored: it belongs into the
// checkpoint, from which the phase after a reopen sleeps only the rest. Source: spec create-agent "Extension execution and
// recovery".
func (inv *Invocation) Sleep(until time.Time) error {
	until = until.Round(0) // a point on the clock of the wall: it means the same in another process
	if !time.Now().Round(0).Before(until) {
		return nil
	}
	return &sleepError{until}
}

// SleepMillis is Sleep for a time in Unix milliseconds, as checkpoints hold it.
func (inv *Invocation) SleepMillis(until int64) error { return inv.Sleep(time.UnixMilli(until)) }

// sleepError is how a phase says that it sleeps.
type sleepError struct{ until time.Time }

func (e *sleepError) Error() string {
	return fmt.Sprintf("task: asleep until %s", e.until.Format(time.RFC3339Nano))
}

// sleeper is one task that rests until a time.
type sleeper struct {
	began session.Task // the step it sleeps in
	until time.Time
	at    int // in the heap
}

// sleepers holds all sleeping tasks of a scheduler behind one timer. Use newSleepers; it belongs to the loop.
type sleepers struct {
	byID  map[session.TaskID]*sleeper
	order wakeOrder
	ring  func() // what the timer calls
	timer *time.Timer
	armed time.Time // what the timer is set for; zero = it is not set
}

func newSleepers(ring func()) *sleepers {
	return &sleepers{byID: map[session.TaskID]*sleeper{}, ring: ring}
}

// add puts a task to sleep in the step it began.
func (s *sleepers) add(began session.Task, until time.Time) {
	s.remove(began.ID)
	e := &sleeper{began: began, until: until}
	s.byID[began.ID] = e
	heap.Push(&s.order, e)
}

func (s *sleepers) remove(id session.TaskID) {
	if e := s.byID[id]; e != nil {
		heap.Remove(&s.order, e.at)
		delete(s.byID, id)
	}
}

// asleep returns until when t sleeps. A task that was moved to another step does not.
func (s *sleepers) asleep(t session.Task) (time.Time, bool) {
	e := s.byID[t.ID]
	if e == nil || !sameStep(e.began, t) {
		return time.Time{}, false
	}
	return e.until, true
}

// due takes out the tasks whose time has come.
func (s *sleepers) due(now time.Time) (ids []session.TaskID) {
	s.armed = time.Time{}
	for len(s.order) > 0 && !now.Before(s.order[0].until) {
		ids = append(ids, s.order[0].began.ID)
		s.remove(s.order[0].began.ID)
	}
	return ids
}

// arm sets the timer for the earliest wake time, or for the next look at the clock.
func (s *sleepers) arm() {
	if len(s.order) == 0 {
		return
	}
	now := now()
	next := s.order[0].until
	if latest := now.Add(longestNap); latest.Before(next) {
		next = latest
	}
	if !s.armed.IsZero() && !next.Before(s.armed) {
		return
	}
	s.armed = next
	if s.timer == nil {
		s.timer = time.AfterFunc(next.Sub(now), s.ring)
		return
	}
	s.timer.Reset(next.Sub(now))
}

// stop ends the timer. A ring under way may still come.
func (s *sleepers) stop() {
	if s.timer != nil {
		s.timer.Stop()
	}
}

// wakeOrder is a heap, earliest first.
type wakeOrder []*sleeper

func (o wakeOrder) Len() int           { return len(o) }
func (o wakeOrder) Less(i, j int) bool { return o[i].until.Before(o[j].until) }
func (o wakeOrder) Swap(i, j int) {
	o[i], o[j] = o[j], o[i]
	o[i].at, o[j].at = i, j
}

// Push is for container/heap.
func (o *wakeOrder) Push(x any) {
	e := x.(*sleeper)
	e.at = len(*o)
	*o = append(*o, e)
}

// Pop is for container/heap.
func (o *wakeOrder) Pop() any {
	last := len(*o) - 1
	e := (*o)[last]
	(*o)[last] = nil
	*o = (*o)[:last]
	return e
}
