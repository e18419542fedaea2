package workflowtest

import (
	"fmt"
	"sync"

	"github.com/workflowd/workflowd/executor/runlog"
)

// mortal is the store of a process that can end: from that moment on nothing is written any more, as if it had been killed.
// The engine is told that it is stale, so it enters no node, tells nobody of the last commit, and stops.
type mortal struct {
	runlog.Store

	mu     sync.RWMutex // held for reading by commits, for writing by the end
	moment moment       // at which the process ends, zero = none
	dead   bool
	how    string
	died   chan struct{} // closed at the end
}

// moment is a commit that holds an event of a kind about a node; path "" stands for the run.
type moment struct {
	kind runlog.EventKind
	path string
}

func (m moment) String() string {
	if m.path == "" {
		return fmt.Sprintf("%s", m.kind)
	}
	return fmt.Sprintf("%s %s", m.kind, m.path)
}

func newMortal(s runlog.Store) *mortal { return &mortal{Store: s, died: make(chan struct{})} }

// Commit implements runlog.Store.
func (m *mortal) Commit(b *runlog.Batch) error {
	last, err := m.commit(b)
	if last != (moment{}) {
		m.end("behind " + last.String())
		return runlog.ErrStale
	}
	return err
}

// commit writes the batch. It returns the moment when this was the last commit of the process.
func (m *mortal) commit(b *runlog.Batch) (moment, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	if m.dead {
		return moment{}, runlog.ErrStale
	}
	if err := m.Store.Commit(b); err != nil || m.moment == (moment{}) {
		return moment{}, err
	}
	for _, e := range b.Events {
		if e.Kind == m.moment.kind && e.Node == m.moment.path {
			return m.moment, nil
		}
	}
	return moment{}, nil
}

// end ends the process. It returns once no commit is under way.
func (m *mortal) end(how string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.dead {
		m.dead, m.how = true, how
		close(m.died)
	}
}

// arm ends the process at a moment that is still to come.
func (m *mortal) arm(at moment) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.moment = at
}

// state returns how the process ended, "" while it lives, and the moment that it is to end at.
func (m *mortal) state() (how string, at moment) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return m.how, m.moment
}
