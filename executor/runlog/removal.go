package runlog

import (
	"cmp"
	"maps"
	"slices"
)

// Ended implements Store.
func (m *Memory) Ended(q EndedQuery) ([]Run, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	if m.closed {
		return nil, ErrClosed
	}
	var list []Run
	for _, r := range m.runs {
		if r.run.Workflow == q.Workflow && r.run.Status.Terminal() {
			list = append(list, r.view())
		}
	}
	slices.SortFunc(list, func(a, b Run) int {
		return cmp.Or(a.FinishedAt.Compare(b.FinishedAt), cmp.Compare(a.ID, b.ID))
	})
	list = list[:max(0, len(list)-q.Keep)]
	list = slices.DeleteFunc(list, func(r Run) bool {
		return !q.Before.IsZero() && !r.FinishedAt.Before(q.Before) || m.needed(r.ID)
	})
	return list[:limited(len(list), q.Limit)], nil
}

// needed reports whether a live run was forked from the run.
func (m *Memory) needed(id RunID) bool {
	for _, r := range m.runs {
		if f := r.run.ForkedFrom; f != nil && f.Run == id && !r.run.Status.Terminal() {
			return true
		}
	}
	return false
}

// Remove implements Store.
func (m *Memory) Remove(epoch int64, ids []RunID) ([]RunID, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return nil, ErrClosed
	}
	if epoch != m.epoch {
		return nil, ErrStale
	}
	var gone []RunID
	for _, id := range ids {
		r := m.runs[id]
		if r == nil || !r.run.Status.Terminal() || m.needed(id) {
			continue
		}
		gone = append(gone, id)
		delete(m.runs, id)
		delete(m.byRequest, [2]string{r.run.Workflow, r.run.RequestID})
		maps.DeleteFunc(m.requests, func(_ string, run RunID) bool { return run == id })
	}
	m.order = slices.DeleteFunc(m.order, func(id RunID) bool { return m.runs[id] == nil })
	return gone, nil
}
