package executor

import (
	"container/heap"
	"sync"
	"time"

	"github.com/workflowd/workflowd/executor/runlog"
)

// alarm wakes runs that nobody owns at their time: one goroutine for all of them, and one small entry for each that has a
// time. It is safe for concurrent use.
type alarm struct {
	mu      sync.Mutex
	entries bells
	times   map[runlog.RunID]time.Time // the one that counts
	changed chan struct{}              // capacity 1
	end     chan struct{}
	done    sync.WaitGroup
	stopped bool
}

type bell struct {
	at time.Time
	id runlog.RunID
}

type bells []bell

func (b bells) Len() int           { return len(b) }
func (b bells) Less(i, j int) bool { return b[i].at.Before(b[j].at) }
func (b bells) Swap(i, j int)      { b[i], b[j] = b[j], b[i] }
func (b *bells) Push(x any)        { *b = append(*b, x.(bell)) } //nolint:forcetypeassert // container/heap's signature
func (b *bells) Pop() any {
	last := (*b)[len(*b)-1]
	*b = (*b)[:len(*b)-1]
	return last
}

func (a *alarm) start(now func() time.Time, ring func(runlog.RunID)) {
	a.times, a.changed, a.end = map[runlog.RunID]time.Time{}, make(chan struct{}, 1), make(chan struct{})
	a.done.Go(func() { a.run(now, ring) })
}

// set replaces the time of a run; the zero time removes it.
func (a *alarm) set(id runlog.RunID, at time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if at.IsZero() {
		delete(a.times, id)
		return
	}
	a.times[id] = at
	heap.Push(&a.entries, bell{at, id})
	select {
	case a.changed <- struct{}{}:
	default:
	}
}

// due returns the runs whose time has come and how long to wait for the next, 0 = for ever.
func (a *alarm) due(now time.Time) (ids []runlog.RunID, wait time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for len(a.entries) > 0 {
		first := a.entries[0]
		if at, counts := a.times[first.id]; counts && at.Equal(first.at) {
			if now.Before(at) {
				return ids, at.Sub(now)
			}
			delete(a.times, first.id)
			ids = append(ids, first.id)
		}
		heap.Pop(&a.entries)
	}
	return ids, 0
}

func (a *alarm) run(now func() time.Time, ring func(runlog.RunID)) {
	for {
		ids, wait := a.due(now())
		for _, id := range ids {
			ring(id)
		}
		timer := time.NewTimer(wait)
		if wait == 0 {
			timer.Stop()
		}
		select {
		case <-timer.C:
		case <-a.changed:
			timer.Stop()
		case <-a.end:
			timer.Stop()
			return
		}
	}
}

func (a *alarm) stop() {
	a.mu.Lock()
	if !a.stopped {
		a.stopped = true
		close(a.end)
	}
	a.mu.Unlock()
	a.done.Wait()
}
