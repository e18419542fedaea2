package task

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	"github.com/workflowd/workflowd/agentcore/session"
)

// Scheduler runs the live tasks of one session. It is safe for concurrent use.
//
// mu guards inbox, looping, closing, enabled, round and standing; the loop goroutine owns everything else.
type Scheduler struct {
	sess    *session.Session
	defs    Source
	unwatch func()
	fail    func(error)
	onReach func(*session.Tx, []Reached) error // nil = queues are left alone
	wg      sync.WaitGroup                     // the loop and the phases
	last    sync.Once                          // what Close does when all have ended

	mu      sync.Mutex
	inbox   []any // news, ended, unpark, changed and ring
	looping bool
	closing bool
	enabled bool
	round   int // counts Unpark calls
	// standing is written by the loop only, under mu.
	standing map[session.TaskID]Standing

	mirror   *mirror
	running  map[session.TaskID]execution
	parked   set
	sleepers *sleepers
	counted  set                             // restarts that are counted and may still turn out to be none
	calm     map[session.TaskID]session.Task // counted steps whose phase ended by itself
	unmoved  map[session.TaskID]migration    // migrations that failed
	steps    []scheduled                     // of one round; empty between rounds
	failed   bool                            // a commit of its own was refused: nothing goes on here
}

type (
	// ended says that a phase has returned. round is the value of Scheduler.round when it started.
	ended struct {
		inv   *Invocation
		err   error
		round int
	}
	unpark  struct{}
	changed struct{} // the source of definitions
	ring    struct{} // of the sleepers' timer
	// migration is one that failed with a definition; another definition may try again.
	migration struct {
		def *Definition
		err error
	}
	// scheduled is what a round does about one task, for itself.
	scheduled struct {
		task  session.Task
		def   *Definition
		todo  action
		unfit bool
	}
	execution struct {
		inv    *Invocation
		cancel context.CancelCauseFunc
	}
)

// NewScheduler prepares a scheduler over sess, before sess is shared. Nothing runs until Resume. fail is called at most
// once, with an error that nobody else can see: the session is gone, or it refused a commit of the scheduler's own. What
// runs is then suspended, and nothing goes on before the session is opened again. fail must not call the scheduler.
func NewScheduler(sess *session.Session, fail func(error), defs ...Definition) *Scheduler {
	return NewSchedulerFrom(sess, fail, NewFixed(defs...))
}

// NewSchedulerFrom is NewScheduler over definitions that may come and go. A running phase keeps its definition; the next
// phase takes the one in force then. A task without one that fits is blocked until there is one.
func NewSchedulerFrom(sess *session.Session, fail func(error), defs Source) *Scheduler {
	s := &Scheduler{sess: sess, defs: defs, fail: fail, standing: map[session.TaskID]Standing{},
		mirror: newMirror(), running: map[session.TaskID]execution{}, parked: set{},
		counted: set{}, calm: map[session.TaskID]session.Task{}, unmoved: map[session.TaskID]migration{}}
	s.sleepers = newSleepers(func() { s.post(ring{}) })
	s.unwatch = defs.Watch(func() { s.post(changed{}) })
	sess.Watch(func(c session.Commit) {
		if n := newsOf(c); !n.empty() {
			s.post(n)
		}
	})
	sess.OnIdle(s.idle)
	return s
}

// idle makes the maps anew: they never shrink, and an idle session may once have had thousands of tasks. While a loop runs
// they are its own.
func (s *Scheduler) idle() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.looping {
		return
	}
	s.standing, s.running, s.parked, s.counted = anew(s.standing), anew(s.running), anew(s.parked), anew(s.counted)
	s.calm, s.unmoved, s.sleepers.byID = anew(s.calm), anew(s.unmoved), anew(s.sleepers.byID)
	s.mirror.anew()
}

func anew[M ~map[K]V, K comparable, V any](m M) M {
	small := make(M, len(m))
	maps.Copy(small, m)
	return small
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
			s.post(news{tasks: tx.LiveTasks(), keepers: tx.Keepers()})
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
	s.last.Do(func() { // nobody else is here any more
		s.unwatch()
		s.sleepers.stop()
		s.uncount()
	})
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
		for again := true; again; again = !s.failed && len(s.mirror.due) > 0 { // some decisions follow from others at once
			s.act()
		}
		s.sleepers.arm()
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
	case news:
		s.mirror.put(m)
	case ended:
		s.onEnded(m, round)
	case unpark:
		for id := range s.parked {
			s.mirror.touch(id)
		}
		clear(s.parked)
	case changed:
		for id, st := range s.standing {
			if _, is := st.(Blocked); is {
				s.mirror.touch(id)
			}
		}
	case ring:
		for _, id := range s.sleepers.due(now()) {
			s.mirror.touch(id)
		}
	}
}

// now is a point on the clock of the wall.
func now() time.Time { return time.Now().Round(0) }

func (s *Scheduler) onEnded(m ended, round int) {
	inv, id := m.inv, m.inv.began.ID
	delete(s.running, id)
	s.mirror.touch(id)
	sleep, sleeps := errors.AsType[*sleepError](m.err)
	switch {
	case errors.Is(m.err, session.ErrStale), errors.Is(m.err, session.ErrPoisoned), errors.Is(m.err, session.ErrClosed):
		s.giveUp(m.err) // the session is gone
	case errors.Is(m.err, ErrPark) && !inv.aborting:
		if m.round == round { // else somebody acted while the phase was giving up: it runs again
			s.parked[id] = struct{}{}
		}
		s.relax(inv)
	case sleeps && !inv.aborting:
		s.sleepers.add(inv.began, sleep.until)
		s.relax(inv)
	case m.err != nil || !inv.progress:
		if s.fault(m) {
			s.mirror.untouch(id) // its end is on the way to the mirror: as the mirror has it, it would run again
		}
	}
}

// act decides about what is due. Marks come first: what is below an owner hears of its end before the owner can end.
func (s *Scheduler) act() {
	s.soothe()
	var marked, decided, restarts []session.TaskID
	steps := s.steps[:0]
	for _, id := range s.mirror.take() {
		t, live := s.mirror.live[id]
		if !live {
			s.forget(id)
			continue
		}
		v, d := s.viewOf(t)
		todo := decide(t, v)
		s.tell(t, v, todo)
		switch todo {
		case rest:
		case mark:
			marked = append(marked, id)
		case cull:
			decided = append(decided, id)
		case count:
			restarts = append(restarts, id)
		case start, stop, abort, finalize, migrate:
			steps = append(steps, scheduled{t, d, todo, v.unfit})
		}
	}
	if reached := s.mirror.takeReached(); len(marked)+len(decided)+len(reached) > 0 {
		s.mark(marked, decided, reached)
	}
	for _, step := range steps {
		if s.failed {
			break
		}
		s.carryOut(step)
	}
	clear(steps)
	s.steps = steps
	s.recount(restarts)
}

func (s *Scheduler) carryOut(step scheduled) {
	t, d := step.task, step.def
	switch step.todo {
	case start:
		s.start(t, d, d.Phases[t.Phase], false)
	case stop:
		s.running[t.ID].cancel(ErrStopped)
	case abort:
		s.abort(t, d, step.unfit)
	case finalize:
		s.finalize(t)
	case migrate:
		s.migrate(t, d)
	case rest, mark, cull, count:
	}
}

// forget drops what is known about a task that is over.
func (s *Scheduler) forget(id session.TaskID) {
	delete(s.parked, id)
	delete(s.counted, id)
	delete(s.calm, id)
	delete(s.unmoved, id)
	s.sleepers.remove(id)
	s.stand(id, nil)
}

func (s *Scheduler) viewOf(t session.Task) (view, *Definition) {
	v, d := s.mirror.look(t), s.defs.Definition(t.Kind)
	v.block = blocked(t, d)
	if failed := s.unmoved[t.ID]; v.block == "" && failed.def == d {
		v.block = MigrationFailed
	}
	v.known, v.unfit = v.block == "", v.block != "" && v.block != NoPhase
	v.old = v.known && t.Version < d.Version
	e, running := s.running[t.ID]
	v.running, v.aborting = running, running && e.inv.aborting
	_, v.parked = s.parked[t.ID]
	_, v.asleep = s.sleepers.asleep(t)
	if t.Epoch != s.sess.Epoch() { // an earlier owner committed this step
		v.abandoned = t.Abandon
		if _, counted := s.counted[t.ID]; v.known && d.MaxRestarts > 0 && !counted {
			v.uncounted, v.spent = true, t.Starts >= d.MaxRestarts
		}
	}
	return v, d
}

func (s *Scheduler) start(t session.Task, d *Definition, phase Phase, aborting bool) {
	ctx, cancel := context.WithCancelCause(context.Background())
	inv := &Invocation{s: s, def: d, began: t, task: t, aborting: aborting}
	s.running[t.ID] = execution{inv, cancel}
	s.sleepers.remove(t.ID)
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
