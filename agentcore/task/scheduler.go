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

	mu      sync.Mutex
	inbox   []any // session.Commit and ended
	looping bool
	closing bool
	enabled bool
	wg      sync.WaitGroup
	fail    func(error)
	round   int // counts Unpark calls

	live    map[session.TaskID]session.Task
	running map[session.TaskID]context.CancelCauseFunc
	parked  map[session.TaskID]bool
}

type (
	ended struct {
		inv   *Invocation
		err   error
		round int // value of Scheduler.round when the phase started
	}
	unpark struct{ round int }
)

// NewScheduler prepares a scheduler over sess, before sess is shared. Nothing runs until Resume. fail is told of errors
// that nobody else can see: a commit of the scheduler's own that the store refused.
func NewScheduler(sess *session.Session, fail func(error), defs ...Definition) *Scheduler {
	s := &Scheduler{sess: sess, defs: map[string]Definition{}, fail: fail,
		live: map[session.TaskID]session.Task{}, running: map[session.TaskID]context.CancelCauseFunc{}, parked: map[session.TaskID]bool{}}
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
	done := s.enabled
	s.mu.Unlock()
	if done {
		return nil
	}
	return s.sess.View(ctx, func(tx *session.Tx) error { // on the line: no commit is missed or seen twice
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.enabled {
			return nil
		}
		s.inbox = append([]any{tx.LiveTasks()}, s.inbox...)
		s.enabled = true
		s.kick()
		return nil
	})
}

// Unpark makes parked tasks eligible again.
func (s *Scheduler) Unpark() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.round++
	s.inbox = append(s.inbox, unpark{s.round})
	if s.enabled {
		s.kick()
	}
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
// open. It does not close the session.
func (s *Scheduler) Close() {
	s.mu.Lock()
	s.closing = true
	if s.enabled {
		s.kick()
	}
	s.mu.Unlock()
	s.wg.Wait()
}

func (s *Scheduler) isClosing() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.closing
}

func (s *Scheduler) post(m any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.inbox = append(s.inbox, m)
	if s.enabled {
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

// loop drains the inbox, acts, and ends when there is no more input: an idle session has no goroutine here.
func (s *Scheduler) loop() {
	acted := false
	for {
		s.mu.Lock()
		inbox, closing, round := s.inbox, s.closing, s.round
		s.inbox = nil
		if len(inbox) == 0 {
			if acted && !closing {
				s.looping = false
				s.mu.Unlock()
				return
			}
			if closing { // the phases still running will post, and start a new loop
				s.looping = false
				for _, cancel := range s.running {
					cancel(ErrSuspended)
				}
				s.mu.Unlock()
				return
			}
		}
		s.mu.Unlock()
		if len(inbox) == 0 { // everything known is taken in: decide
			s.act()
			acted = true
			continue
		}
		acted = false
		for _, m := range inbox {
			s.take(m, closing, round)
		}
	}
}

func (s *Scheduler) take(m any, closing bool, round int) {
	switch m := m.(type) {
	case []session.Task:
		for _, t := range m {
			if t.Status == session.TaskTerminal {
				delete(s.live, t.ID)
				delete(s.parked, t.ID)
			} else {
				s.live[t.ID] = t
			}
		}
	case ended:
		s.onEnded(m, closing, round)
	case unpark:
		clear(s.parked)
	}
}

func (s *Scheduler) onEnded(m ended, closing bool, round int) {
	id := m.inv.task.ID
	delete(s.running, id)
	switch {
	case errors.Is(m.err, ErrPark):
		s.parked[id] = m.round == round // somebody acted while the phase was giving up: run it again
		return
	case m.inv.progress || closing:
		return
	case errors.Is(m.err, session.ErrStale), errors.Is(m.err, session.ErrPoisoned), errors.Is(m.err, session.ErrClosed):
		s.parked[id] = true // the session is gone: nothing this process does can help
		s.fail(m.err)
		return
	}
	if t, ok := s.live[id]; !ok || (t.Abort && !m.inv.aborting) {
		return // settled by somebody else, or stopped: act starts the abort phase
	}
	if m.err == nil {
		m.err = errors.New("the phase returned without committing progress")
	}
	s.settle(id, session.Outcome{Status: session.Faulted, Error: fmt.Sprintf("%s: %v", m.inv.task.Phase, m.err)})
}

func (s *Scheduler) act() {
	for id, t := range s.live {
		switch decide(t, s.viewOf(t)) {
		case rest:
		case start:
			s.start(t, s.defs[t.Kind].Phases[t.Phase], false)
		case stop:
			s.running[id](ErrStopped)
		case abort:
			if d, ok := s.defs[t.Kind]; ok && d.Abort != nil {
				s.start(t, d.Abort, true)
			} else {
				status := session.Aborted
				if !ok {
					status = session.Orphaned
				}
				s.settle(id, session.Outcome{Status: status, Reason: t.AbortReason})
			}
		case finalize:
			s.settle(id, *t.Outcome)
		case mark:
			s.mark(t)
		}
	}
}

func (s *Scheduler) viewOf(t session.Task) view {
	d, known := s.defs[t.Kind]
	v := view{parked: s.parked[t.ID], known: known && d.Phases[t.Phase] != nil && t.Version <= d.Version}
	_, v.running = s.running[t.ID]
	for _, on := range t.On {
		if _, live := s.live[on]; live {
			v.awaiting = true
		}
	}
	for _, o := range s.live {
		if o.Owner == t.ID && !o.Background {
			v.ownsLive = true
			break
		}
	}
	if owner, ok := s.live[t.Owner]; ok {
		v.ownerDown = owner.Abort || (owner.Outcome != nil && owner.Outcome.Status != session.Completed)
	}
	return v
}

func (s *Scheduler) start(t session.Task, phase Phase, aborting bool) {
	ctx, cancel := context.WithCancelCause(context.Background())
	s.running[t.ID] = cancel
	inv := &Invocation{s: s, task: t, aborting: aborting}
	s.mu.Lock()
	round := s.round
	s.mu.Unlock()
	s.wg.Go(func() {
		err := run(ctx, phase, inv)
		cancel(nil)
		s.post(ended{inv, err, round})
	})
}

// run turns a panic of a phase into its error: a defect of one task must not end the process.
func run(ctx context.Context, phase Phase, inv *Invocation) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v", p)
		}
	}()
	return phase(ctx, inv)
}

// settle writes an outcome that no phase wrote.
func (s *Scheduler) settle(id session.TaskID, o session.Outcome) {
	s.own(func(tx *session.Tx) error {
		t, ok := tx.LiveTask(id)
		if !ok {
			return nil
		}
		if d := s.defs[t.Kind]; d.Cleanup != nil && t.Status != session.TaskCompleting {
			if err := d.Cleanup(tx, t, o); err != nil {
				return err
			}
		}
		tx.PutTask(After(t, Settle{o}, ownsLive(tx.LiveTasks(), id)))
		return nil
	})
}

func (s *Scheduler) mark(t session.Task) {
	owner := s.live[t.Owner]
	s.own(func(tx *session.Tx) error {
		t, ok := tx.LiveTask(t.ID)
		if !ok || t.Abort {
			return nil
		}
		t.Abort, t.AbortReason = true, owner.AbortReason
		tx.PutTask(t)
		return nil
	})
}

// own commits for the scheduler itself; the commit comes back through the listener.
func (s *Scheduler) own(fn func(*session.Tx) error) {
	if _, err := s.sess.Commit(context.Background(), fn); err != nil {
		s.fail(fmt.Errorf("scheduler: %w", err))
	}
}
