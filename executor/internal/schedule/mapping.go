package schedule

import (
	"encoding/json"
	"strconv"

	"github.com/workflowd/workflowd/agentcore/fault"
	"github.com/workflowd/workflowd/executor/runlog"
	"github.com/workflowd/workflowd/workflow"
)

// mapping is a map in work.
type mapping struct {
	elements []json.RawMessage
	results  []json.RawMessage
	next     int // first element that has not begun
	active   int
	failure  *workflow.Failure
}

// expand begins a map.
func (s *Machine) expand(at place, list json.RawMessage) {
	key := runlog.NodeKey{Path: at.s.node.Path, Visit: at.f.visit}
	if old := s.records[key]; old != nil && old.Status.Terminal() {
		s.settle(at, recorded(old))
		return
	}
	m := &mapping{}
	if err := json.Unmarshal(list, &m.elements); err != nil {
		s.settle(at, Outcome{Failure: failed(at, fault.InputValidation, err.Error())})
		return
	}
	m.results = make([]json.RawMessage, len(m.elements))
	at.f.cells[at.s.local].list = m
	s.advance(at)
}

// advance starts elements of a map up to its bound, and settles it when all have ended.
func (s *Machine) advance(at place) {
	m, limit := at.f.cells[at.s.local].list, at.s.node.Max
	if limit == 0 {
		limit = MapParallel
	}
	for m.active < limit && m.next < len(m.elements) && m.failure == nil && !at.f.stopping() {
		i := m.next
		m.next++
		key := runlog.NodeKey{Path: at.s.node.Path + "[" + strconv.Itoa(i) + "]", Visit: at.f.visit}
		old := s.records[key]
		if old != nil && old.Status.Terminal() {
			end := recorded(old)
			m.results[i], m.failure = end.Value.Raw, end.Failure
			continue
		}
		m.active++
		s.starts = append(s.starts, Start{place: at, Key: key, Element: i + 1, Input: m.elements[i], Record: old})
	}
	if m.active > 0 {
		return
	}
	switch {
	case m.failure != nil:
		s.settle(at, Outcome{Failure: m.failure})
	case at.f.stopping() && m.next < len(m.elements):
		s.settle(at, Outcome{Skipped: true})
	default:
		key := runlog.NodeKey{Path: at.s.node.Path, Visit: at.f.visit}
		record := runlog.Node{NodeKey: key, Attempt: 1, Status: runlog.NodeIsDone, Inline: true, Output: s.encode(m.results)}
		s.decided = append(s.decided, record)
		s.settle(at, recorded(&record))
	}
}

// element ends one element of a map. The first failure stops the rest.
func (s *Machine) element(st Start, end Outcome) {
	m := st.f.cells[st.s.local].list
	m.active--
	m.results[st.Element-1] = end.Value.Raw
	if end.Failure != nil && m.failure == nil {
		m.failure, s.doomed = end.Failure, true
	}
	s.advance(st.place)
}
