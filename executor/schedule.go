package executor

import (
	"encoding/json"
	"fmt"
	"strconv"

	"github.com/workflowd/workflowd/agentcore/fault"
	"github.com/workflowd/workflowd/executor/runlog"
	"github.com/workflowd/workflowd/workflow"
	"github.com/workflowd/workflowd/workflow/graph"
)

// schedule decides what a run does next. It is a pure machine: settled visits go in, visits to start and decisions to
// record come out. It replays records, so the same code continues a run and starts one. One goroutine uses it.
type schedule struct {
	plan    *plan
	records map[runlog.NodeKey]*runlog.Node
	root    *frame
	turns   map[int]int // loop step -> turns begun, over all frames
	queue   []place     // steps whose needs have settled
	starts  []start     // visits to start, in order
	decided []runlog.Node
	doomed  bool // a frame or map began to end since the last look
}

// frame is one turn of a scope.
type frame struct {
	scope  *scope
	visit  int
	input  value
	parent place // the loop step, when scope is a body
	cells  []cell
	left   int // cells that have not settled
	doom   *workflow.Failure
	cancel bool // doom comes from outside: nothing catches it
}

// place is a step in a frame.
type place struct {
	f *frame
	s *step
}

// cell is the state of a step in a frame.
type cell struct {
	pending int
	settled bool
	outcome outcome
	list    *mapping // of a map in work
}

// outcome is how a visit ended: with a value, with a failure, or never entered.
type outcome struct {
	value   value
	failure *workflow.Failure
	skipped bool
}

// value is JSON and where it is recorded; the zero origin is the run's input.
type value struct {
	raw    json.RawMessage
	origin runlog.NodeKey
}

// mapping is a map in work.
type mapping struct {
	elements []json.RawMessage
	results  []json.RawMessage
	next     int // first element that has not begun
	active   int
	failure  *workflow.Failure
}

// start asks for a visit to be entered.
type start struct {
	place
	key     runlog.NodeKey
	element int // 1-based, 0 = no map
	input   json.RawMessage
	record  *runlog.Node // of an earlier attempt, nil = none
	cleanup bool         // runs even when the run is being stopped
}

func newSchedule(p *plan, input json.RawMessage, records []runlog.Node) *schedule {
	s := &schedule{plan: p, records: make(map[runlog.NodeKey]*runlog.Node, len(records)), turns: map[int]int{}}
	for i := range records {
		s.records[records[i].NodeKey] = &records[i]
	}
	s.root = s.enter(&p.scopes[0], 1, value{raw: input}, place{})
	s.drain()
	return s
}

// enter begins a turn of a scope.
func (s *schedule) enter(sc *scope, visit int, input value, parent place) *frame {
	f := &frame{scope: sc, visit: visit, input: input, parent: parent, cells: make([]cell, len(sc.steps)), left: len(sc.steps)}
	for local, index := range sc.steps {
		st := &s.plan.steps[index]
		f.cells[local].pending = len(st.needs)
		if len(st.needs) == 0 {
			s.queue = append(s.queue, place{f, st})
		}
	}
	if f.left == 0 {
		s.leave(f)
	}
	return f
}

// drain looks at every step whose needs have settled until nothing is left to decide.
func (s *schedule) drain() {
	for len(s.queue) > 0 {
		at := s.queue[0]
		s.queue = s.queue[1:]
		s.consider(at)
	}
	s.queue = nil
}

// take returns and forgets what is to be started and recorded.
func (s *schedule) take() (starts []start, decided []runlog.Node, doomed bool) {
	starts, decided, doomed = s.starts, s.decided, s.doomed
	s.starts, s.decided, s.doomed = nil, nil, false
	return starts, decided, doomed
}

// done reports whether the run has ended, and how.
func (s *schedule) done() (outcome, bool) {
	if s.root.left > 0 {
		return outcome{}, false
	}
	return s.end(s.root), true
}

func (f *frame) of(index int, p *plan) outcome {
	if index == scopeInput {
		return outcome{value: f.input}
	}
	return f.cells[p.steps[index].local].outcome
}

// consider decides about a step all of whose needs have settled.
func (s *schedule) consider(at place) {
	in, n := at.f.of(at.s.inputs[0], s.plan), at.s.node
	if at.s.guard >= 0 && !s.chosen(at) {
		s.settle(at, outcome{skipped: true})
		return
	}
	switch n.Kind {
	case graph.Catch:
		if in.failure == nil || at.f.cancelled() {
			s.settle(at, in)
			return
		}
		s.run(at, s.encode(in.failure), false)
		return
	case graph.Finally:
		if in.skipped {
			s.settle(at, in)
			return
		}
		failure := in.failure
		if failure == nil {
			failure = &workflow.Failure{}
		}
		s.run(at, s.encode(failure), true)
		return
	case graph.Merge:
		s.settle(at, s.merged(at))
		return
	default:
	}
	inputs := make([]json.RawMessage, len(at.s.inputs))
	for i, index := range at.s.inputs {
		one := at.f.of(index, s.plan)
		if one.failure != nil || one.skipped {
			s.settle(at, outcome{failure: one.failure, skipped: one.failure == nil})
			return
		}
		inputs[i] = one.value.raw
	}
	if at.f.stopping() {
		s.settle(at, outcome{skipped: true})
		return
	}
	switch n.Kind {
	case graph.Apply, graph.Switch:
		s.settle(at, s.decide(at, runlog.NodeKey{Path: n.Path, Visit: at.f.visit}, inputs))
	case graph.Map:
		s.expand(at, inputs[0])
	case graph.Loop:
		s.turn(at, in.value)
	default:
		s.run(at, inputs[0], false)
	}
}

// chosen reports whether the switch of a step chose the step's case.
func (s *schedule) chosen(at place) bool {
	choice := at.f.of(at.s.guard, s.plan)
	if choice.skipped || choice.failure != nil {
		return false
	}
	var name string
	return json.Unmarshal(choice.value.raw, &name) == nil && name == at.s.node.When.Case
}

func (s *schedule) merged(at place) outcome {
	choice := at.f.of(at.s.inputs[0], s.plan)
	if choice.skipped || choice.failure != nil {
		return choice
	}
	var name string
	if err := json.Unmarshal(choice.value.raw, &name); err != nil {
		return outcome{failure: failed(at, fault.Storage, err.Error())}
	}
	cases := s.plan.steps[at.s.inputs[0]].node.Cases
	for i, known := range cases {
		if known == name {
			return at.f.of(at.s.inputs[i+1], s.plan)
		}
	}
	return outcome{failure: failed(at, fault.InputValidation, fmt.Sprintf("chose %q, which is not one of %q", name, cases))}
}

// decide computes an inline step, or takes what was recorded.
func (s *schedule) decide(at place, key runlog.NodeKey, inputs []json.RawMessage) outcome {
	if old := s.records[key]; old != nil && old.Status.Terminal() {
		return recorded(old)
	}
	record := runlog.Node{NodeKey: key, Attempt: 1, Status: runlog.NodeIsDone, Inline: true}
	raw, err := guarded(func() (json.RawMessage, error) { return s.plan.def.Pure(at.s.index, inputs) })
	if err != nil {
		record.Status, record.Failure = runlog.NodeHasFailed, failureOf(err, key, 1)
	}
	record.Output = raw
	s.decided = append(s.decided, record)
	return recorded(&record)
}

// recorded is the outcome that a terminal record stands for.
func recorded(n *runlog.Node) outcome {
	switch n.Status {
	case runlog.NodeIsDone:
		return outcome{value: value{n.Output, n.NodeKey}}
	case runlog.NodeHasFailed, runlog.NodeIsAborted:
		return outcome{failure: n.Failure}
	default:
		return outcome{skipped: true}
	}
}

// run starts the visit of a step, or settles it with what is recorded.
func (s *schedule) run(at place, input json.RawMessage, cleanup bool) {
	key := runlog.NodeKey{Path: at.s.node.Path, Visit: at.f.visit}
	old := s.records[key]
	switch {
	case old != nil && old.Status.Terminal():
		s.settle(at, s.pass(at, recorded(old)))
	case at.f.stopping() && !cleanup:
		s.settle(at, outcome{skipped: true})
	default:
		s.starts = append(s.starts, start{place: at, key: key, input: input, record: old, cleanup: cleanup})
	}
}

// pass turns the end of a finally's cleanup into the outcome of the step: what it was behind, unless only cleanup failed.
func (s *schedule) pass(at place, end outcome) outcome {
	if at.s.node.Kind != graph.Finally {
		return end
	}
	in := at.f.of(at.s.inputs[0], s.plan)
	if in.failure == nil && end.failure != nil {
		return end
	}
	return in
}

// finished tells that a started visit has ended.
func (s *schedule) finished(st start, end outcome) {
	if st.element > 0 {
		s.element(st, end)
	} else {
		s.settle(st.place, s.pass(st.place, end))
	}
	s.drain()
}

// settle ends a step and looks at those that need it.
func (s *schedule) settle(at place, end outcome) {
	c := &at.f.cells[at.s.local]
	c.settled, c.outcome, c.list = true, end, nil
	at.f.left--
	if end.failure != nil && len(at.s.consumers) == 0 {
		s.doom(at.f, end.failure, false)
	}
	for _, index := range at.s.consumers {
		next := &s.plan.steps[index]
		cell := &at.f.cells[next.local]
		if cell.pending--; cell.pending == 0 {
			s.queue = append(s.queue, place{at.f, next})
		}
	}
	if at.f.left == 0 {
		s.leave(at.f)
	}
}

// doom begins the end of a frame: what has not started does not start.
func (s *schedule) doom(f *frame, failure *workflow.Failure, cancel bool) {
	f.cancel = f.cancel || cancel
	if f.doom == nil {
		f.doom, s.doomed = failure, true
	}
}

// cancel ends the run from outside.
func (s *schedule) cancel(failure *workflow.Failure) {
	s.doom(s.root, failure, true)
	s.drain()
}

// stopping reports whether the frame, or one around it, has to end.
func (f *frame) stopping() bool {
	for ; f != nil; f = f.parent.f {
		if f.doom != nil {
			return true
		}
	}
	return false
}

// cancelled reports whether that comes from outside, so that nothing catches it.
func (f *frame) cancelled() bool {
	for ; f != nil; f = f.parent.f {
		if f.cancel {
			return true
		}
	}
	return false
}

// end is the outcome of a frame all of whose steps have settled.
func (s *schedule) end(f *frame) outcome {
	if f.doom != nil {
		return outcome{failure: f.doom}
	}
	return f.of(f.scope.result, s.plan)
}

// leave ends a turn: the loop is done, or begins its next turn.
func (s *schedule) leave(f *frame) {
	if f.parent.f == nil {
		return
	}
	loop, end := f.parent, s.end(f)
	if end.failure != nil || end.skipped {
		s.settle(loop, end)
		return
	}
	key := runlog.NodeKey{Path: loop.s.node.Path, Visit: f.visit}
	verdict := s.decide(loop, key, []json.RawMessage{end.value.raw})
	if verdict.failure != nil {
		s.settle(loop, verdict)
		return
	}
	if string(verdict.value.raw) == "true" {
		s.settle(loop, end)
		return
	}
	s.turn(loop, end.value)
}

// turn begins the next turn of a loop.
func (s *schedule) turn(at place, input value) {
	c := &at.f.cells[at.s.local]
	if c.list == nil {
		c.list = &mapping{}
	}
	if c.list.next++; c.list.next > at.s.node.Max {
		s.settle(at, outcome{failure: failed(at, LoopExhausted, fmt.Sprintf("not done after %d turns", at.s.node.Max))})
		return
	}
	s.turns[at.s.index]++
	s.enter(&s.plan.scopes[s.plan.bodies[at.s.index]], s.turns[at.s.index], input, at)
}

// expand begins a map.
func (s *schedule) expand(at place, list json.RawMessage) {
	key := runlog.NodeKey{Path: at.s.node.Path, Visit: at.f.visit}
	if old := s.records[key]; old != nil && old.Status.Terminal() {
		s.settle(at, recorded(old))
		return
	}
	m := &mapping{}
	if err := json.Unmarshal(list, &m.elements); err != nil {
		s.settle(at, outcome{failure: failed(at, fault.InputValidation, err.Error())})
		return
	}
	m.results = make([]json.RawMessage, len(m.elements))
	at.f.cells[at.s.local].list = m
	s.advance(at)
}

// advance starts elements of a map up to its bound, and settles it when all have ended.
func (s *schedule) advance(at place) {
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
			m.results[i], m.failure = end.value.raw, end.failure
			continue
		}
		m.active++
		s.starts = append(s.starts, start{place: at, key: key, element: i + 1, input: m.elements[i], record: old})
	}
	if m.active > 0 {
		return
	}
	switch {
	case m.failure != nil:
		s.settle(at, outcome{failure: m.failure})
	case at.f.stopping() && m.next < len(m.elements):
		s.settle(at, outcome{skipped: true})
	default:
		key := runlog.NodeKey{Path: at.s.node.Path, Visit: at.f.visit}
		record := runlog.Node{NodeKey: key, Attempt: 1, Status: runlog.NodeIsDone, Inline: true, Output: s.encode(m.results)}
		s.decided = append(s.decided, record)
		s.settle(at, recorded(&record))
	}
}

// element ends one element of a map. The first failure stops the rest.
func (s *schedule) element(st start, end outcome) {
	m := st.f.cells[st.s.local].list
	m.active--
	m.results[st.element-1] = end.value.raw
	if end.failure != nil && m.failure == nil {
		m.failure, s.doomed = end.failure, true
	}
	s.advance(st.place)
}

// stopping reports whether a visit in work has to stop: its frame or its map has failed.
func (st start) stopping() bool {
	if st.cleanup {
		return false
	}
	if st.f.stopping() {
		return true
	}
	m := st.f.cells[st.s.local].list
	return st.element > 0 && m != nil && m.failure != nil
}

func (s *schedule) encode(v any) json.RawMessage {
	raw, err := json.Marshal(v)
	if err != nil { // a Failure, or JSON that was checked before
		return json.RawMessage("null")
	}
	return raw
}

func failed(at place, kind fault.Kind, message string) *workflow.Failure {
	return &workflow.Failure{Node: at.s.node.Path, Visit: at.f.visit, Attempt: 1, Kind: kind, Message: message}
}
