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
	failure  *workflow.Failure // of the element that ends the whole
	aborted  *workflow.Failure // of an element that was stopped, on record: whatever stopped it comes, too
}

// element is how a partial map gives the end of one element: workflow.Element, with a value that was encoded before.
type element struct {
	Value   json.RawMessage   `json:"value,omitempty"`
	Failure *workflow.Failure `json:"failure,omitempty"`
}

func elementPath(path string, i int) string { return path + "[" + strconv.Itoa(i) + "]" }

// expand begins a map.
func (s *Machine) expand(at place, list json.RawMessage) {
	key := runlog.NodeKey{Path: at.s.node.Path, Visit: at.f.visit}
	if old := s.records[key]; old != nil && old.Status.Terminal() {
		s.settle(at, recorded(old))
		return
	}
	m := &mapping{}
	if err := json.Unmarshal(s.given(key, list), &m.elements); err != nil {
		s.settle(at, Outcome{Failure: failed(at, fault.InputValidation, err.Error())})
		return
	}
	m.results = make([]json.RawMessage, len(m.elements))
	at.f.cells[at.s.local].list = m
	s.advance(at)
}

// advance starts elements of a map up to its bound, and settles it when all have ended. An element that began before goes
// on, or is told to stop, whatever has happened meanwhile.
func (s *Machine) advance(at place) {
	m, limit := at.f.cells[at.s.local].list, at.s.node.Max
	if limit == 0 {
		limit = MapParallel
	}
	for m.next < len(m.elements) {
		room := m.active < limit && m.failure == nil && !at.f.stopping()
		if !room && len(s.records) == 0 {
			break
		}
		i := m.next
		key := runlog.NodeKey{Path: elementPath(at.s.node.Path, i), Visit: at.f.visit}
		old := s.records[key]
		if old == nil && !room {
			break
		}
		m.next++
		input, hash := s.given(key, m.elements[i]), ""
		if old == nil {
			hash = s.hash(at, input)
			old = s.keep(at, key, hash)
		}
		if old != nil && old.Status.Terminal() {
			m.end(at, i, recorded(old))
			s.doomed = s.doomed || m.failure != nil
			continue
		}
		m.active++
		s.starts = append(s.starts, Start{place: at, Key: key, Element: i + 1, Input: input, Hash: hash, Again: s.again(at, key), Record: old})
	}
	if m.active > 0 {
		return
	}
	switch {
	case m.failure != nil:
		s.settle(at, Outcome{Failure: m.failure})
	case m.aborted != nil:
		s.settle(at, Outcome{Failure: m.aborted, aborted: true})
	case at.f.stopping() && m.next < len(m.elements):
		s.settle(at, Outcome{Skipped: true})
	default:
		key := runlog.NodeKey{Path: at.s.node.Path, Visit: at.f.visit}
		record := runlog.Node{NodeKey: key, Attempt: 1, Status: runlog.NodeIsDone, Inline: true, Output: encode(m.results)}
		s.decided = append(s.decided, record)
		s.settle(at, recorded(&record))
	}
}

// element ends one element of a map.
func (s *Machine) element(st Start, end Outcome) {
	m, failing := st.f.cells[st.s.local].list, false
	failing = m.failure != nil
	m.active--
	m.end(st.place, st.Element-1, end)
	s.doomed = s.doomed || m.failure != nil && !failing
	s.advance(st.place)
}

// end takes the end of element i. The first failure stops the rest; in a partial map a failure is a result, unless the
// element was stopped with everything around it.
func (m *mapping) end(at place, i int, end Outcome) {
	partial := at.s.node.Partial
	switch {
	case end.aborted:
		m.aborted = end.Failure
	case end.Failure != nil && (!partial || at.f.stopping()):
		if m.failure == nil {
			m.failure = end.Failure
		}
	case partial:
		m.results[i] = encode(element{end.Value.Raw, end.Failure})
	default:
		m.results[i] = end.Value.Raw
	}
}
