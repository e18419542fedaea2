package task

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/workflowd/workflowd/agentcore/session"
)

// Scheduler runs the live tasks of one session. It is safe for concurrent use.
//
// mu guards inbox, looping, closing, enabled and round; the loop goroutine owns everything else.
type Scheduler struct {
	sess *session.Session
	defs map[string]Definition
	fail func(error)
	wg   sync.WaitGroup // the loop and the phases

	mu      sync.Mutex
	inbox   []any // []session.Task, ended and unpark
	looping bool
	closing bool
	enabled bool
	round   int // counts Unpark calls

	mirror  *mirror
	running map[session.TaskID]execution
	parked  set
	failed  bool // a commit of its own was refused: nothing goes on here
}

type (
	// ended says that a phase has returned. round is the value of Scheduler.round when it started.
	ended struct {
		inv   *Invocation
		err   error
		round int
	}
	unpark    struct{}
	execution struct {
		inv    *Invocation
		cancel context.CancelCauseFunc
	}
)

// NewScheduler prepares a scheduler over sess, before sess is shared. Nothing runs until Resume. fail is called at most
// once, with an error that nobody else can see: the session is gone, or it refused a commit of the scheduler's own. What
// runs is then suspended, and nothing goes on before the session is opened again. fail must not call the scheduler.
func NewScheduler(sess *session.Session, fail func(error), defs ...Definition) *Scheduler {
	s := &Scheduler{sess: sess, defs: map[string]Definition{}, fail: fail,
		mirror: newMirror(), running: map[session.TaskID]execution{}, parked: set{}}
	for _, d := range defs {
		s.defs[d.Kind] = d
	}
	sess.Watch(func(c session.Commit) {
		if len(c.Batch.Tasks) > 0 {
			s.post(c.Batch.Tasks)
		}
	})
	return s
}

// Resume loads the live tasks and enables scheduling. Only the first call does anything.
func (s *Scheduler) Resume(ctx context.Context) error {
	s.mu.Lock()
	done := s.enabled || s.closing
	s.mu.Unlock()
	if done {
		return nil
	}
	return s.sess.View(ctx, func(tx *session.Tx) error { // on the line: no commit is missed or seen twice
		s.mu.Lock()
		twin := s.enabled
		s.enabled = true
		s.mu.Unlock()
		if !twin {
			s.post(tx.LiveTasks())
		}
		return nil
	})
}

// Unpark makes parked tasks eligible again, those too whose phase is giving up right now.
func (s *Scheduler) Unpark() {
	s.mu.Lock()
	s.round++
	s.mu.Unlock()
	s.post(unpark{})
}

// Cancel marks a task; its owned work goes down first, then its abort phase runs. It returns after the mark is
// committed, synced. A terminal task stays as it is.
func (s *Scheduler) Cancel(ctx context.Context, id session.TaskID, reason string) error {
	_, err := s.sess.Commit(ctx, func(tx *session.Tx) error {
		t, ok := tx.LiveTask(id)
		if !ok || t.Abort {
			return nil
		}
		t.Abort, t.AbortReason = true, reason
		tx.PutTask(t)
		tx.Sync()
		return nil
	})
	return err
}

// Close suspends: running phases are told to stop and joined; nothing is marked, the work is found again at the next
// open. A phase that ignores its ctx keeps Close waiting, but commits nothing any more. It does not close the session.
func (s *Scheduler) Close() {
	s.mu.Lock()
	if s.enabled && !s.closing {
		s.kick() // the loop tells the phases
	}
	s.closing = true
	s.mu.Unlock()
	s.wg.Wait()
}

func (s *Scheduler) isClosing() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.closing
}

// post hands m to the loop. Before Resume and after Close nobody needs it.
func (s *Scheduler) post(m any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.enabled && !s.closing {
		s.inbox = append(s.inbox, m)
		s.kick()
	}
}

// kick starts the loop unless it runs. The caller holds mu.
func (s *Scheduler) kick() {
	if !s.looping {
		s.looping = true
		s.wg.Go(s.loop)
	}
}

// loop takes input in, acts on what it concerns, and ends when there is no more: an idle session has no goroutine here.
func (s *Scheduler) loop() {
	for {
		inbox, round, more := s.receive()
		if !more {
			return
		}
		for _, m := range inbox {
			s.take(m, round)
		}
		s.act()
	}
}

// receive returns the input, or more = false when the loop ends.
func (s *Scheduler) receive() (inbox []any, round int, more bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closing || len(s.inbox) == 0 {
		s.looping = false
		if s.closing { // nobody kicks any more: this was the last loop
			s.suspend(ErrSuspended)
		}
		return nil, 0, false
	}
	inbox, s.inbox = s.inbox, nil
	return inbox, s.round, true
}

func (s *Scheduler) suspend(cause error) {
	for _, e := range s.running {
		e.cancel(cause)
	}
}

func (s *Scheduler) take(m any, round int) {
	switch m := m.(type) {
	case []session.Task:
		s.mirror.put(m)
	case ended:
		s.onEnded(m, round)
	case unpark:
		for id := range s.parked {
			s.mirror.touch(id)
		}
		clear(s.parked)
	}
}

func (s *Scheduler) onEnded(m ended, round int) {
	inv, id := m.inv, m.inv.began.ID
	delete(s.running, id)
	s.mirror.touch(id)
	switch {
	case errors.Is(m.err, session.ErrStale), errors.Is(m.err, session.ErrPoisoned), errors.Is(m.err, session.ErrClosed):
		s.giveUp(m.err) // the session is gone
	case errors.Is(m.err, ErrPark) && !inv.aborting:
		if m.round == round { // else somebody acted while the phase was giving up: it runs again
			s.parked[id] = struct{}{}
		}
	case m.err != nil || !inv.progress:
		s.fault(m)
	}
}

func (s *Scheduler) act() {
	var marked []session.TaskID
	for _, id := range s.mirror.take() {
		t, live := s.mirror.live[id]
		if !live {
			delete(s.parked, id)
			continue
		}
		if s.failed {
			return
		}
		switch decide(t, s.viewOf(t)) {
		case rest:
		case start:
			s.start(t, s.defs[t.Kind].Phases[t.Phase], false)
		case stop:
			s.running[id].cancel(ErrStopped)
		case abort:
			s.abort(t)
		case finalize:
			s.finalize(t)
		case mark:
			marked = append(marked, id)
		}
	}
	s.mark(marked)
}

func (s *Scheduler) viewOf(t session.Task) view {
	v := s.mirror.look(t)
	v.known = s.fits(t) && s.defs[t.Kind].Phases[t.Phase] != nil
	e, running := s.running[t.ID]
	v.running, v.aborting = running, running && e.inv.aborting
	_, v.parked = s.parked[t.ID]
	return v
}

// fits reports whether the definition of t is installed and not older than t.
func (s *Scheduler) fits(t session.Task) bool {
	d, known := s.defs[t.Kind]
	return known && t.Version <= d.Version
}

func (s *Scheduler) start(t session.Task, phase Phase, aborting bool) {
	ctx, cancel := context.WithCancelCause(context.Background())
	inv := &Invocation{s: s, began: t, task: t, aborting: aborting}
	s.running[t.ID] = execution{inv, cancel}
	s.mu.Lock()
	round := s.round
	s.mu.Unlock()
	s.wg.Go(func() {
		err := errGone
		defer func() { // a phase may also end its goroutine
			inv.over.Store(true)
			cancel(nil)
			s.post(ended{inv, err, round})
		}()
		err = run(ctx, phase, inv)
	})
}

// errGone is the error of a phase that ended its goroutine instead of returning.
var errGone = errors.New("the phase ended its goroutine")

// run turns a panic of a phase into its error: a defect of one task must not end the process.
func run(ctx context.Context, phase Phase, inv *Invocation) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v", p)
		}
	}()
	return phase(ctx, inv)
}
