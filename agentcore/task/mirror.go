package task

import (
	"maps"
	"slices"

	"github.com/workflowd/workflowd/agentcore/session"
)

// mirror is the scheduler's picture of the live tasks, with the edges that decisions depend on. It knows which tasks a
// change can concern, so that a round costs what changed and not what lives. Use newMirror.
type mirror struct {
	live    map[session.TaskID]session.Task
	owned   edges                  // owner → every live task it owns
	working map[session.TaskID]int // owner → how many of them are ordinary; no zeros
	waiters edges                  // awaited live task → who waits for it
	awaits  map[session.TaskID]int // waiter → how many live tasks it waits for; no zeros
	suspect set                    // waiters whose wait may be decided: somebody has to look at the outcomes
	culled  set                    // waiters whose losers are marked
	due     set                    // tasks to decide about
}

type (
	set   map[session.TaskID]struct{}
	edges map[session.TaskID]set
)

func (e edges) add(from, to session.TaskID) {
	if e[from] == nil {
		e[from] = set{}
	}
	e[from][to] = struct{}{}
}

func (e edges) remove(from, to session.TaskID) {
	if delete(e[from], to); len(e[from]) == 0 {
		delete(e, from)
	}
}

func newMirror() *mirror {
	return &mirror{live: map[session.TaskID]session.Task{}, owned: edges{}, working: map[session.TaskID]int{},
		waiters: edges{}, awaits: map[session.TaskID]int{}, suspect: set{}, culled: set{}, due: set{}}
}

// put takes the tasks of one commit over.
func (m *mirror) put(tasks []session.Task) {
	for _, t := range tasks {
		if old, ok := m.live[t.ID]; ok {
			m.unlink(old)
		}
		if t.Status == session.TaskTerminal {
			delete(m.live, t.ID)
		} else {
			m.live[t.ID] = t
		}
	}
	for _, t := range tasks { // edges last: tasks of one commit may name each other in any order
		if t.Status == session.TaskTerminal {
			m.release(t)
		} else {
			m.link(t)
		}
	}
}

// touch says that something about a task changed.
func (m *mirror) touch(id session.TaskID) { m.due[id] = struct{}{} }

// untouch takes back that a task is due.
func (m *mirror) untouch(id session.TaskID) { delete(m.due, id) }

// take returns what is due, in id order, and starts over.
func (m *mirror) take() []session.TaskID {
	ids := slices.Sorted(maps.Keys(m.due))
	clear(m.due)
	return ids
}

func (m *mirror) link(t session.Task) {
	m.touch(t.ID)
	if t.Owner != 0 {
		m.owned.add(t.Owner, t.ID)
		if !t.Background {
			m.working[t.Owner]++
		}
	}
	for _, on := range t.On {
		_, twice := m.waiters[on][t.ID]
		switch _, ok := m.live[on]; {
		case !ok:
			m.suspects(t.ID) // how that one ended is not known here
		case !twice:
			m.waiters.add(on, t.ID)
			m.awaits[t.ID]++
			m.judge(t, m.live[on])
		}
	}
	if goingDown(t) {
		for id := range m.owned[t.ID] {
			m.touch(id)
		}
	}
	if t.Outcome != nil {
		for waiter := range m.waiters[t.ID] {
			m.judge(m.live[waiter], t)
		}
	}
}

// judge looks whether one of the awaited tasks decides the wait of w.
func (m *mirror) judge(w, awaited session.Task) {
	if decides(w, awaited) {
		m.suspects(w.ID)
	}
}

// suspects says that somebody has to look at the outcomes that a task waits for.
func (m *mirror) suspects(waiter session.TaskID) {
	if p := Policy(m.live[waiter].Policy); p == FailFast || p == AnyCancel {
		m.suspect[waiter] = struct{}{}
		m.touch(waiter)
	}
}

// looked says that somebody has looked at the outcomes. When the wait was decided, its losers are marked now and nobody
// has to look again before the waiter makes a step.
func (m *mirror) looked(waiter session.TaskID, decided bool) {
	if decided {
		m.culled[waiter] = struct{}{}
	}
	delete(m.suspect, waiter)
	m.touch(waiter)
}

func (m *mirror) unlink(t session.Task) {
	if t.Owner != 0 {
		m.owned.remove(t.Owner, t.ID)
		if !t.Background {
			m.less(m.working, t.Owner)
		}
	}
	for _, on := range t.On {
		m.waiters.remove(on, t.ID)
	}
	delete(m.awaits, t.ID)
	delete(m.suspect, t.ID)
	delete(m.culled, t.ID)
}

// release lets go those who wait for a task that is over.
func (m *mirror) release(t session.Task) {
	for waiter := range m.waiters[t.ID] {
		w := m.live[waiter]
		m.judge(w, t)
		if m.less(m.awaits, waiter); Policy(w.Policy).first() {
			m.touch(waiter)
		}
	}
	delete(m.waiters, t.ID)
}

// less takes one off a count. At zero the task it belongs to may go on.
func (m *mirror) less(count map[session.TaskID]int, id session.TaskID) {
	if count[id]--; count[id] == 0 {
		delete(count, id)
		m.touch(id)
	}
}

// look returns what the records say about a task; what runs is not known here.
func (m *mirror) look(t session.Task) view {
	owner, owned := m.live[t.Owner]
	awaiting := m.awaits[t.ID] > 0
	if awaiting && Policy(t.Policy).first() {
		awaiting = !slices.ContainsFunc(t.On, func(id session.TaskID) bool { _, live := m.live[id]; return !live })
	}
	_, suspect := m.suspect[t.ID]
	_, culled := m.culled[t.ID]
	return view{awaiting: awaiting, decided: suspect && !culled, ownsLive: m.working[t.ID] > 0, ownerDown: owned && goingDown(owner)}
}
