package alarm

import (
	"container/heap"
	"sync"
	"time"
)

// Alarm rings for each name at its time. It is safe for concurrent use.
type Alarm struct {
	mu      sync.Mutex
	entries bells
	times   map[string]time.Time // the one that counts
	changed chan struct{}        // capacity 1
	end     chan struct{}
	done    sync.WaitGroup
	stopped bool
}

type bell struct {
	at time.Time
	id string
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

// Start returns an alarm that calls ring, on its own goroutine, for each name whose time has come by the clock now. Stop
// ends it.
func Start(now func() time.Time, ring func(name string)) *Alarm {
	a := &Alarm{times: map[string]time.Time{}, changed: make(chan struct{}, 1), end: make(chan struct{})}
	a.done.Go(func() { a.run(now, ring) })
	return a
}

// Set replaces the time of a name; the zero time removes it.
func (a *Alarm) Set(id string, at time.Time) {
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

// due returns the names whose time has come and how long to wait for the next, 0 = for ever.
func (a *Alarm) due(now time.Time) (ids []string, wait time.Duration) {
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

func (a *Alarm) run(now func() time.Time, ring func(string)) {
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

// Stop ends the alarm and waits for a ring in progress. What was set is forgotten. A second Stop does nothing.
func (a *Alarm) Stop() {
	a.mu.Lock()
	if !a.stopped {
		a.stopped = true
		close(a.end)
	}
	a.mu.Unlock()
	a.done.Wait()
}
