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
	owned   edges // owner → the live tasks that work for it
	keeper  map[session.ConversationID]session.TaskID
	keeps   map[session.TaskID]conversations // keeper, the other way round
	waiters edges                            // awaited live task → who waits for it
	awaits  map[session.TaskID]int           // waiter → how many live tasks it waits for; no zeros
	suspect set                              // waiters whose wait may be decided: somebody has to look at the outcomes
	culled  set                              // waiters whose losers are marked
	due     set                              // tasks to decide about
	reached conversations                    // whose keeper goes down, or in which something was queued since
}

type (
	set           map[session.TaskID]struct{}
	edges         map[session.TaskID]set
	conversations map[session.ConversationID]struct{}
)

// news is what one commit, or the open, says about work.
type news struct {
	tasks   []session.Task
	keepers map[session.ConversationID]session.TaskID // of conversations that have another one now
	queued  []session.ConversationID                  // where a submission waits that was written
}

func newsOf(c session.Commit) news {
	n := news{tasks: c.Batch.Tasks, keepers: c.Keepers}
	for _, sub := range c.Batch.Submissions {
		if sub.Status == session.SubmissionQueued && sub.Conversation != session.Root { // nobody keeps the main one
			n.queued = append(n.queued, sub.Conversation)
		}
	}
	return n
}

func (n news) empty() bool { return len(n.tasks)+len(n.keepers)+len(n.queued) == 0 }

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
	return &mirror{live: map[session.TaskID]session.Task{}, owned: edges{},
		keeper: map[session.ConversationID]session.TaskID{}, keeps: map[session.TaskID]conversations{},
		waiters: edges{}, awaits: map[session.TaskID]int{}, suspect: set{}, culled: set{}, due: set{}, reached: conversations{}}
}

// anew makes the maps anew.
func (m *mirror) anew() {
	m.live, m.owned, m.keeper, m.keeps = anew(m.live), anew(m.owned), anew(m.keeper), anew(m.keeps)
	m.waiters, m.awaits, m.suspect, m.culled = anew(m.waiters), anew(m.awaits), anew(m.suspect), anew(m.culled)
	m.due, m.reached = anew(m.due), anew(m.reached)
}

// put takes over what one commit says.
func (m *mirror) put(n news) {
	var left []session.TaskID // owners that a task has stopped working for, for now
	for _, t := range n.tasks {
		if old, ok := m.live[t.ID]; ok {
			left = append(left, m.unlink(old))
		}
		if t.Status == session.TaskTerminal {
			delete(m.live, t.ID)
		} else {
			m.live[t.ID] = t
		}
	}
	for c, keeper := range n.keepers { // tasks at work in a conversation have ended before it gets another keeper
		m.setKeeper(c, keeper)
	}
	for _, t := range n.tasks { // edges last: tasks of one commit may name each other in any order
		if t.Status == session.TaskTerminal {
			m.release(t)
		} else {
			m.link(t)
		}
	}
	for _, owner := range left {
		if owner != 0 && len(m.owned[owner]) == 0 {
			m.touch(owner)
		}
	}
	for c := range n.keepers {
		m.reach(c)
	}
	for _, c := range n.queued {
		m.reach(c)
	}
}

// setKeeper notes the keeper of a conversation, 0 = it has none any more.
func (m *mirror) setKeeper(c session.ConversationID, keeper session.TaskID) {
	if old := m.keeper[c]; old != 0 {
		if delete(m.keeps[old], c); len(m.keeps[old]) == 0 {
			delete(m.keeps, old)
		}
		delete(m.keeper, c)
	}
	if keeper == 0 {
		return
	}
	m.keeper[c] = keeper
	if m.keeps[keeper] == nil {
		m.keeps[keeper] = conversations{}
	}
	m.keeps[keeper][c] = struct{}{}
}

// reach says that somebody has to look at what is queued in a conversation, if its keeper goes down.
func (m *mirror) reach(c session.ConversationID) {
	if keeper, ok := m.live[m.keeper[c]]; ok && goingDown(keeper) {
		m.reached[c] = struct{}{}
	}
}

// takeReached returns the conversations to look at, in id order, and starts over.
func (m *mirror) takeReached() []session.ConversationID {
	if len(m.reached) == 0 {
		return nil
	}
	list := slices.Sorted(maps.Keys(m.reached))
	clear(m.reached)
	return list
}

// worksFor returns the owner that t holds up, or 0.
func (m *mirror) worksFor(t session.Task) session.TaskID {
	return session.WorksFor(t, func(c session.ConversationID) session.TaskID { return m.keeper[c] })
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
	if owner := m.worksFor(t); owner != 0 {
		m.owned.add(owner, t.ID)
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
		for c := range m.keeps[t.ID] {
			m.reach(c)
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

// unlink returns the owner that t has worked for, or 0.
func (m *mirror) unlink(t session.Task) (owner session.TaskID) {
	if owner = m.worksFor(t); owner != 0 {
		m.owned.remove(owner, t.ID)
	}
	for _, on := range t.On {
		m.waiters.remove(on, t.ID)
	}
	delete(m.awaits, t.ID)
	delete(m.suspect, t.ID)
	delete(m.culled, t.ID)
	return owner
}

// release lets go those who wait for a task that is over.
func (m *mirror) release(t session.Task) {
	for waiter := range m.waiters[t.ID] {
		w := m.live[waiter]
		m.judge(w, t)
		if m.awaits[waiter]--; m.awaits[waiter] == 0 {
			delete(m.awaits, waiter)
			m.touch(waiter)
		} else if Policy(w.Policy).first() {
			m.touch(waiter)
		}
	}
	delete(m.waiters, t.ID)
}

// look returns what the records say about a task; what runs is not known here.
func (m *mirror) look(t session.Task) view {
	owner, owned := m.live[m.worksFor(t)]
	awaiting := m.awaits[t.ID] > 0
	if awaiting && Policy(t.Policy).first() {
		awaiting = !slices.ContainsFunc(t.On, func(id session.TaskID) bool { _, live := m.live[id]; return !live })
	}
	_, suspect := m.suspect[t.ID]
	_, culled := m.culled[t.ID]
	return view{awaiting: awaiting, decided: suspect && !culled, ownsLive: len(m.owned[t.ID]) > 0, ownerDown: owned && goingDown(owner)}
}
