package executor

import (
	"context"
	"iter"
	"sync"

	"github.com/workflowd/workflowd/agentcore/fault"
	"github.com/workflowd/workflowd/executor/runlog"
)

// hub wakes readers. It carries no events: a reader reads the store again from its number, so wake-ups may be late, lost
// in number or out of order. A run without readers costs nothing.
type hub struct {
	mu     sync.Mutex
	topics map[runlog.RunID]*topic
	closed chan struct{}
	lost   chan struct{} // closed when another process owns the store: nothing more is published here
	once   sync.Once
}

type topic struct {
	readers int
	changed chan struct{} // closed and replaced at each commit
	ended   chan struct{} // closed at the terminal commit
}

func (h *hub) init() {
	h.topics, h.closed, h.lost = map[runlog.RunID]*topic{}, make(chan struct{}), make(chan struct{})
}

// join makes the caller a reader of the run until it leaves.
func (h *hub) join(id runlog.RunID) *topic {
	h.mu.Lock()
	defer h.mu.Unlock()
	t := h.topics[id]
	if t == nil {
		t = &topic{changed: make(chan struct{}), ended: make(chan struct{})}
		h.topics[id] = t
	}
	t.readers++
	return t
}

func (h *hub) leave(id runlog.RunID, t *topic) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if t.readers--; t.readers == 0 && h.topics[id] == t {
		delete(h.topics, id)
	}
}

// next returns the channel that the run's next commit closes. Take it before reading.
func (h *hub) next(t *topic) <-chan struct{} {
	h.mu.Lock()
	defer h.mu.Unlock()
	return t.changed
}

func (h *hub) publish(id runlog.RunID, terminal bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	t := h.topics[id]
	if t == nil {
		return
	}
	close(t.changed)
	t.changed = make(chan struct{})
	if terminal {
		close(t.ended)
		delete(h.topics, id) // later readers find the end in the store
	}
}

func (h *hub) close() { close(h.closed) }

// lose ends all waits: this process will not see what the store's new owner does.
func (h *hub) lose() { h.once.Do(func() { close(h.lost) }) }

// Events yields the run's events with numbers above after, in order, first the stored ones, then as they are committed.
// It ends behind the event that ends the run. An error is last: fault.NotFound, fault.Suspended when the engine is closed,
// fault.OwnerLost when another process took the store over, or the context's. Any number of readers may follow, each at its
// own pace.
func (e *Engine) Events(ctx context.Context, id RunID, after Seq) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		t := e.hub.join(id)
		defer e.hub.leave(id, t)
		for {
			changed := e.hub.next(t)
			page, err := e.store.Events(id, after, eventPage)
			if err != nil {
				yield(Event{}, storeError(err, "events of run %s", id))
				return
			}
			for _, event := range page {
				if event.Epoch > e.epoch {
					e.hub.lose()
					yield(Event{}, errOwnerLost)
					return
				}
				if !yield(event, nil) || event.Kind.Terminal() {
					return
				}
				after = event.Seq
			}
			if len(page) > 0 {
				continue
			}
			if ended, err := e.behindTheEnd(id, after); err != nil || ended {
				if err != nil {
					yield(Event{}, err)
				}
				return
			}
			if err := e.hub.await(ctx, changed); err != nil {
				yield(Event{}, err)
				return
			}
		}
	}
}

// behindTheEnd reports whether nothing can come after the number.
func (e *Engine) behindTheEnd(id runlog.RunID, after runlog.Seq) (bool, error) {
	run, err := e.store.Run(id)
	if err != nil {
		return false, storeError(err, "run %s", id)
	}
	return run.Status.Terminal() && after >= run.LastSeq, nil
}

func (h *hub) await(ctx context.Context, changed <-chan struct{}) error {
	select {
	case <-changed:
		return nil
	case <-ctx.Done():
		return contextError(ctx)
	case <-h.closed:
		return fault.New(fault.Suspended, "the engine is closed")
	case <-h.lost:
		return errOwnerLost
	}
}

// Wait returns the run's record once it has ended. Errors are those of Events.
func (e *Engine) Wait(ctx context.Context, id RunID) (runlog.Run, error) {
	t := e.hub.join(id)
	defer e.hub.leave(id, t)
	for {
		run, err := e.store.Run(id)
		if err != nil || run.Status.Terminal() {
			return run, storeError(err, "run %s", id)
		}
		if err := e.hub.await(ctx, t.ended); err != nil {
			return run, err
		}
	}
}
