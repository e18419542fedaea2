package session

import (
	"errors"
	"fmt"
	"maps"
	"slices"
)

// WorksFor returns the owner that t holds up while it is live: the task's own owner or, at the top of a conversation, the
// keeper of that. 0 = none: nobody owns it, it is in the background, or it is over. It is a pure function; keeper is
// Tx.Keeper or a mirror of it. Source: durable kernel 2.4.
func WorksFor(t Task, keeper func(ConversationID) TaskID) TaskID {
	switch {
	case t.Background || t.Status == TaskTerminal:
		return 0
	case t.Owner != 0:
		return t.Owner
	}
	return keeper(t.Conversation)
}

// Keeper returns the live task that a conversation belongs to, as committed: its owner or, when that is over, the nearest
// live task in the chain of owners above it. 0 = none: no chain leads to a live task, or a background task that is over
// lies between. It may be called after writes.
func (tx *Tx) Keeper(c ConversationID) TaskID {
	tx.use()
	return tx.s.keeperOf(c)
}

// Keepers returns every conversation that has a keeper, as committed, in a map of the caller's.
func (tx *Tx) Keepers() map[ConversationID]TaskID {
	tx.use()
	return maps.Clone(tx.s.keeper)
}

// OwnsLive reports whether owner has live ordinary work: tasks that work for it, its own and those in conversations that it
// keeps. This draft's changes count. It may be called after writes.
func (tx *Tx) OwnsLive(owner TaskID) bool {
	tx.use()
	n := tx.s.owned[owner]
	for _, t := range tx.batch.Tasks {
		if old, live := tx.s.live[t.ID]; live && WorksFor(old, tx.s.keeperOf) == owner {
			n--
		}
		if tx.worksFor(t) == owner {
			n++
		}
	}
	return n > 0
}

func (s *Session) keeperOf(c ConversationID) TaskID { return s.keeper[c] }

// setKeeper notes the keeper of a conversation, 0 = it has none any more.
func (s *Session) setKeeper(c ConversationID, keeper TaskID) {
	if old := s.keeper[c]; old != 0 {
		s.keeps[old] = slices.DeleteFunc(s.keeps[old], func(kept ConversationID) bool { return kept == c })
		if len(s.keeps[old]) == 0 {
			delete(s.keeps, old)
		}
		delete(s.keeper, c)
	}
	if keeper != 0 {
		s.keeper[c] = keeper
		s.keeps[keeper] = append(s.keeps[keeper], c)
	}
}

// loadKeepers finds the keepers at open. An owner has a smaller number than what it owns: nothing above the oldest live task
// needs a look.
func (s *Session) loadKeepers(oldest TaskID) error {
	list, err := s.storage.Conversations()
	if err != nil {
		return err
	}
	for _, c := range list { // in id order: that of an owner comes first
		keeper, err := s.climb(c.Owner, oldest)
		if err != nil {
			return fmt.Errorf("conversation %d: %w", c.ID, err)
		}
		s.setKeeper(c.ID, keeper)
	}
	return nil
}

// climb returns the nearest live task from owner upwards.
func (s *Session) climb(owner, oldest TaskID) (TaskID, error) {
	for owner >= oldest {
		if _, live := s.live[owner]; live {
			return owner, nil
		}
		t, err := s.storage.Task(owner)
		switch {
		case errors.Is(err, ErrNotFound): // removed with its conversation
			return 0, nil
		case err != nil:
			return 0, err
		case t.Background:
			return 0, nil
		case t.Owner == 0:
			return s.keeper[t.Conversation], nil
		case t.Owner >= owner:
			return 0, fmt.Errorf("task %d has the owner %d: %w", owner, t.Owner, ErrCorrupt)
		}
		owner = t.Owner
	}
	return 0, nil
}

// worksFor is WorksFor after this draft. What a committed task works for stays as long as the task is live.
func (tx *Tx) worksFor(t Task) TaskID {
	if _, known := tx.s.live[t.ID]; known {
		return WorksFor(t, tx.s.keeperOf)
	}
	return WorksFor(t, tx.keeper)
}

// keeper is Keeper after this draft.
func (tx *Tx) keeper(c ConversationID) TaskID {
	owner := tx.s.keeper[c]
	for _, born := range tx.batch.Conversations {
		if born.ID == c {
			owner = born.Owner
		}
	}
	for owner != 0 {
		t, known := tx.candidate(owner)
		switch {
		case !known || t.Status == TaskTerminal && t.Background:
			return 0
		case t.Status != TaskTerminal:
			return owner
		case t.Owner == 0:
			return tx.keeper(t.Conversation)
		}
		owner = t.Owner
	}
	return 0
}

// moves returns the conversations whose keeper this draft changes, each with its new one.
func (tx *Tx) moves() map[ConversationID]TaskID {
	var moves map[ConversationID]TaskID
	move := func(c ConversationID, keeper TaskID) {
		if moves == nil {
			moves = map[ConversationID]TaskID{}
		}
		moves[c] = keeper
	}
	for _, born := range tx.batch.Conversations {
		if born.Owner != 0 {
			move(born.ID, tx.keeper(born.ID))
		}
	}
	for _, t := range tx.batch.Tasks {
		if t.Status == TaskTerminal {
			for _, c := range tx.s.keeps[t.ID] {
				move(c, tx.keeper(c))
			}
		}
	}
	for _, c := range tx.batch.Removals {
		if tx.s.keeper[c] != 0 {
			move(c, 0)
		}
	}
	return moves
}

// checkOwners proves the rules about owners on the state that the commit would leave. Source: durable kernel 1.2, 2.4.
func (tx *Tx) checkOwners() error {
	for _, c := range tx.batch.Conversations {
		if c.Owner == 0 {
			continue
		}
		if _, fits := tx.takesWork(c.Owner); !fits {
			return fmt.Errorf("conversation %d of owner %d: %w", c.ID, c.Owner, ErrOwnerDown)
		}
	}
	var owner Task // the one looked at last
	for _, t := range tx.batch.Tasks {
		if _, known := tx.s.live[t.ID]; known || t.Owner == 0 {
			continue
		}
		if t.Owner != owner.ID {
			var fits bool
			if owner, fits = tx.takesWork(t.Owner); !fits {
				return fmt.Errorf("task %d of owner %d: %w", t.ID, t.Owner, ErrOwnerDown)
			}
		}
		if t.Conversation != owner.Conversation {
			return fmt.Errorf("task %d in conversation %d, its owner %d in %d: %w", t.ID, t.Conversation, owner.ID, owner.Conversation, ErrElsewhere)
		}
	}
	for _, t := range tx.batch.Tasks {
		if t.Status == TaskTerminal && tx.OwnsLive(t.ID) {
			return fmt.Errorf("task %d: %w", t.ID, ErrOwnsWork)
		}
	}
	return nil
}

// takesWork returns a task that may own something new after the commit.
func (tx *Tx) takesWork(owner TaskID) (o Task, fits bool) {
	o, ok := tx.candidate(owner)
	return o, ok && !o.Abort && o.Status != TaskCompleting && o.Status != TaskTerminal
}

// checkWaits refuses waits that close a cycle. Source: durable kernel 2.3.
func (tx *Tx) checkWaits() error {
	var after *taskGraph
	for i := range tx.batch.Tasks {
		t := &tx.batch.Tasks[i]
		if len(t.On) == 0 {
			continue
		}
		if after == nil {
			after = newTaskGraph(tx)
		}
		if after.leads(t.On, t.ID) {
			return fmt.Errorf("task %d on %v: %w", t.ID, t.On, ErrWaitCycle)
		}
	}
	return nil
}

// taskGraph is what the live tasks wait for after a draft: those named by On, and the ordinary work they own.
type taskGraph struct {
	s       *Session
	drafted map[TaskID]*Task
	owned   map[TaskID][]TaskID // of drafted tasks
	all     map[TaskID][]TaskID // of committed tasks; built when first needed
}

func newTaskGraph(tx *Tx) *taskGraph {
	g := &taskGraph{s: tx.s, drafted: map[TaskID]*Task{}, owned: map[TaskID][]TaskID{}}
	for i := range tx.batch.Tasks {
		t := &tx.batch.Tasks[i]
		g.drafted[t.ID] = t
		if owner := tx.worksFor(*t); owner != 0 {
			g.owned[owner] = append(g.owned[owner], t.ID)
		}
	}
	return g
}

// leads reports whether a way goes from one of the tasks to the task named to.
func (g *taskGraph) leads(from []TaskID, to TaskID) bool {
	seen := map[TaskID]bool{}
	todo := slices.Clone(from)
	for len(todo) > 0 {
		id := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		if id == to {
			return true
		}
		if !seen[id] {
			seen[id] = true
			todo = g.next(id, todo)
		}
	}
	return false
}

// next appends what a task waits for to list.
func (g *taskGraph) next(id TaskID, list []TaskID) []TaskID {
	if t := g.drafted[id]; t != nil {
		list = append(list, t.On...)
	} else {
		list = append(list, g.s.live[id].On...)
	}
	list = append(list, g.owned[id]...)
	if g.s.owned[id] == 0 {
		return list
	}
	if g.all == nil {
		g.all = map[TaskID][]TaskID{}
		for _, t := range g.s.live {
			if owner := WorksFor(t, g.s.keeperOf); owner != 0 && g.drafted[t.ID] == nil {
				g.all[owner] = append(g.all[owner], t.ID)
			}
		}
	}
	return append(list, g.all[id]...)
}
