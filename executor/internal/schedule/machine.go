package schedule

import (
	"encoding/json"
	"fmt"

	"github.com/workflowd/workflowd/agentcore/fault"
	"github.com/workflowd/workflowd/executor/runlog"
	"github.com/workflowd/workflowd/workflow"
	"github.com/workflowd/workflowd/workflow/graph"
)

// Machine decides what one run does next. It replays records, so the same code continues a run and starts one. One
// goroutine uses it.
type Machine struct {
	plan    *Plan
	records map[runlog.NodeKey]*runlog.Node
	source  *Source // of a fork
	text    []byte  // of the last hash
	root    *frame
	turns   map[int]int // loop step -> turns begun, over all frames
	queue   []place     // steps whose needs have settled
	starts  []Start     // visits to start, in order
	decided []runlog.Node
	doomed  bool // a frame or map began to end since the last look
}

// frame is one turn of a scope.
type frame struct {
	scope   *scope
	visit   int
	input   Value
	parent  place // the loop step, when scope is a body
	cells   []cell
	left    int  // cells that have not settled
	fresh   bool // nothing in it is kept from the source of a fork
	doom    *workflow.Failure
	aborted *workflow.Failure // of a step that was stopped, on record; counts when there is no doom
	cancel  bool              // doom comes from outside: nothing catches it
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
	outcome Outcome
	list    *mapping // of a map in work
}

// Outcome is how a visit ended: with a value, with a failure, or never entered.
type Outcome struct {
	Value   Value
	Failure *workflow.Failure
	Skipped bool

	aborted bool // on record: whatever stopped the visit is on record, too, or comes from outside
}

// Value is JSON and where it is recorded; the zero origin is the run's input.
type Value struct {
	Raw    json.RawMessage
	Origin runlog.NodeKey
}

// Start asks for a visit to be entered, or for its record to be taken up.
type Start struct {
	place
	Key     runlog.NodeKey
	Element int // 1-based, 0 = no map
	Input   json.RawMessage
	Hash    string       // of the input; "" when there is a record
	Again   bool         // a fork named it: whatever is recorded elsewhere does not count
	Record  *runlog.Node // of an earlier attempt, nil = none
	Cleanup bool         // runs even when the run is being stopped
}

// New returns the machine of a run: what its records say has happened. They may come in any order and are shared. source is
// nil unless the run is a fork.
func New(p *Plan, input json.RawMessage, records []runlog.Node, source *Source) *Machine {
	s := &Machine{plan: p, source: source, records: make(map[runlog.NodeKey]*runlog.Node, len(records)), turns: map[int]int{}}
	for i := range records {
		s.records[records[i].NodeKey] = &records[i]
	}
	s.root = s.enter(&p.scopes[0], 1, Value{Raw: input}, place{})
	s.drain()
	return s
}

// enter begins a turn of a scope.
func (s *Machine) enter(sc *scope, visit int, input Value, parent place) *frame {
	f := &frame{scope: sc, visit: visit, input: input, parent: parent, cells: make([]cell, len(sc.steps)), left: len(sc.steps)}
	f.fresh = s.fresh(parent)
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
func (s *Machine) drain() {
	for len(s.queue) > 0 {
		at := s.queue[0]
		s.queue = s.queue[1:]
		s.consider(at)
	}
	s.queue = nil
}

// Take returns and forgets what is to be started and recorded.
func (s *Machine) Take() (starts []Start, decided []runlog.Node, doomed bool) {
	starts, decided, doomed = s.starts, s.decided, s.doomed
	s.starts, s.decided, s.doomed = nil, nil, false
	return starts, decided, doomed
}

// Done reports whether the run has ended, and how.
func (s *Machine) Done() (Outcome, bool) {
	if s.root.left > 0 {
		return Outcome{}, false
	}
	return s.end(s.root), true
}

func (f *frame) of(index int, p *Plan) Outcome {
	if index == scopeInput {
		return Outcome{Value: f.input}
	}
	return f.cells[p.steps[index].local].outcome
}

// consider decides about a step all of whose needs have settled.
func (s *Machine) consider(at place) {
	in, n := at.f.of(at.s.inputs[0], s.plan), at.s.node
	if at.s.guard >= 0 && !s.chosen(at) {
		s.settle(at, Outcome{Skipped: true})
		return
	}
	switch n.Kind {
	case graph.Catch:
		if in.Failure == nil || at.f.cancelled() {
			s.settle(at, in)
			return
		}
		s.run(at, encode(in.Failure), false)
		return
	case graph.Finally:
		if in.Skipped {
			s.settle(at, in)
			return
		}
		failure := in.Failure
		if failure == nil {
			failure = &workflow.Failure{}
		}
		s.run(at, encode(failure), true)
		return
	case graph.Merge:
		s.settle(at, s.merged(at))
		return
	default:
	}
	inputs := make([]json.RawMessage, len(at.s.inputs))
	for i, index := range at.s.inputs {
		one := at.f.of(index, s.plan)
		if one.Failure != nil || one.Skipped {
			s.settle(at, Outcome{Failure: one.Failure, Skipped: one.Failure == nil})
			return
		}
		inputs[i] = one.Value.Raw
	}
	if at.f.stopping() && !s.begun(at) {
		s.settle(at, Outcome{Skipped: true})
		return
	}
	switch n.Kind {
	case graph.Apply, graph.Switch:
		s.settle(at, s.decide(at, runlog.NodeKey{Path: n.Path, Visit: at.f.visit}, inputs))
	case graph.Map:
		s.expand(at, inputs[0])
	case graph.Loop:
		s.turn(at, in.Value)
	default:
		s.run(at, inputs[0], false)
	}
}

// begun reports whether something of a step may be on record that has to go on, or to be stopped.
func (s *Machine) begun(at place) bool {
	path := at.s.node.Path
	switch at.s.node.Kind {
	case graph.Loop:
		return len(s.records) > 0 && len(s.plan.scopes[s.plan.bodies[at.s.index]].steps) > 0 // its nodes are asked one by one
	case graph.Map:
		path = elementPath(path, 0)
	default:
	}
	return s.records[runlog.NodeKey{Path: path, Visit: at.f.visit}] != nil
}

// chosen reports whether the switch of a step chose the step's case.
func (s *Machine) chosen(at place) bool {
	choice := at.f.of(at.s.guard, s.plan)
	if choice.Skipped || choice.Failure != nil {
		return false
	}
	var name string
	return json.Unmarshal(choice.Value.Raw, &name) == nil && name == at.s.node.When.Case
}

func (s *Machine) merged(at place) Outcome {
	choice := at.f.of(at.s.inputs[0], s.plan)
	if choice.Skipped || choice.Failure != nil {
		return choice
	}
	var name string
	if err := json.Unmarshal(choice.Value.Raw, &name); err != nil {
		return Outcome{Failure: failed(at, fault.Storage, err.Error())}
	}
	cases := s.plan.steps[at.s.inputs[0]].node.Cases
	for i, known := range cases {
		if known == name {
			return at.f.of(at.s.inputs[i+1], s.plan)
		}
	}
	return Outcome{Failure: failed(at, fault.InputValidation, fmt.Sprintf("chose %q, which is not one of %q", name, cases))}
}

// decide computes an inline step, or takes what was recorded.
func (s *Machine) decide(at place, key runlog.NodeKey, inputs []json.RawMessage) Outcome {
	if len(inputs) == 1 && at.s.node.Kind != graph.Loop {
		inputs[0] = s.given(key, inputs[0])
	}
	hash, old := "", s.records[key]
	if old == nil {
		hash = s.hash(at, inputs...)
		old = s.keep(at, key, hash)
	}
	if old != nil && old.Status.Terminal() {
		return recorded(old)
	}
	record := runlog.Node{NodeKey: key, Attempt: 1, Status: runlog.NodeIsDone, Inline: true, InputHash: hash}
	raw, err := Guarded(func() (json.RawMessage, error) { return s.plan.def.Pure(at.s.index, inputs) })
	if err != nil {
		record.Status, record.Failure = runlog.NodeHasFailed, FailureOf(err, key, 1)
	}
	record.Output = raw
	s.decided = append(s.decided, record)
	return recorded(&record)
}

// recorded is the outcome that a terminal record stands for.
func recorded(n *runlog.Node) Outcome {
	switch n.Status {
	case runlog.NodeIsDone:
		return Outcome{Value: Value{n.Output, n.NodeKey}}
	case runlog.NodeHasFailed, runlog.NodeIsAborted:
		return Outcome{Failure: n.Failure, aborted: n.Status == runlog.NodeIsAborted}
	default:
		return Outcome{Skipped: true}
	}
}

// run starts the visit of a step, or settles it with what is recorded.
func (s *Machine) run(at place, input json.RawMessage, cleanup bool) {
	key := at.key()
	old, hash := s.records[key], ""
	input = s.given(key, input)
	if old == nil && at.f.stopping() && !cleanup {
		s.settle(at, Outcome{Skipped: true})
		return
	}
	if old == nil {
		hash = s.hash(at, input)
		old = s.keep(at, key, hash)
	}
	if old != nil && old.Status.Terminal() {
		s.settle(at, s.pass(at, recorded(old)))
		return
	}
	// Also to be stopped, when it had begun.
	s.starts = append(s.starts, Start{place: at, Key: key, Input: input, Hash: hash, Again: s.again(at, key), Record: old, Cleanup: cleanup})
}

// pass turns the end of a finally's cleanup into the outcome of the step: what it was behind, unless only cleanup failed.
func (s *Machine) pass(at place, end Outcome) Outcome {
	if at.s.node.Kind != graph.Finally {
		return end
	}
	in := at.f.of(at.s.inputs[0], s.plan)
	if in.Failure == nil && end.Failure != nil {
		return end
	}
	return in
}

// Finished tells that a started visit has ended.
func (s *Machine) Finished(st Start, end Outcome) {
	if st.Element > 0 {
		s.element(st, end)
	} else {
		s.settle(st.place, s.pass(st.place, end))
	}
	s.drain()
}

// settle ends a step and looks at those that need it.
func (s *Machine) settle(at place, end Outcome) {
	c := &at.f.cells[at.s.local]
	c.settled, c.outcome, c.list = true, end, nil
	at.f.left--
	switch {
	case end.Failure == nil || len(at.s.consumers) > 0:
	case end.aborted:
		at.f.aborted = end.Failure
	default:
		s.doom(at.f, end.Failure, false)
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
func (s *Machine) doom(f *frame, failure *workflow.Failure, cancel bool) {
	f.cancel = f.cancel || cancel
	if f.doom == nil {
		f.doom, s.doomed = failure, true
	}
}

// Cancel ends the run from outside.
func (s *Machine) Cancel(failure *workflow.Failure) {
	s.doom(s.root, failure, true)
	s.drain()
}

// Doom is why the whole run has to end, nil while it may go on.
func (s *Machine) Doom() *workflow.Failure { return s.root.doom }

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
func (s *Machine) end(f *frame) Outcome {
	switch {
	case f.doom != nil:
		return Outcome{Failure: f.doom}
	case f.aborted != nil:
		return Outcome{Failure: f.aborted, aborted: true}
	}
	return f.of(f.scope.result, s.plan)
}

// leave ends a turn: the loop is done, or begins its next turn.
func (s *Machine) leave(f *frame) {
	if f.parent.f == nil {
		return
	}
	loop, end := f.parent, s.end(f)
	if end.Failure != nil || end.Skipped {
		s.settle(loop, end)
		return
	}
	key := runlog.NodeKey{Path: loop.s.node.Path, Visit: f.visit}
	verdict := s.decide(loop, key, []json.RawMessage{end.Value.Raw})
	if verdict.Failure != nil {
		s.settle(loop, verdict)
		return
	}
	if string(verdict.Value.Raw) == "true" {
		s.settle(loop, end)
		return
	}
	s.turn(loop, end.Value)
}

// turn begins the next turn of a loop.
func (s *Machine) turn(at place, input Value) {
	c := &at.f.cells[at.s.local]
	if c.list == nil {
		c.list = &mapping{}
		input = s.first(at, input)
	}
	if c.list.next++; c.list.next > at.s.node.Max {
		s.settle(at, Outcome{Failure: failed(at, LoopExhausted, fmt.Sprintf("not done after %d turns", at.s.node.Max))})
		return
	}
	s.turns[at.s.index]++
	s.enter(&s.plan.scopes[s.plan.bodies[at.s.index]], s.turns[at.s.index], input, at)
}

// Stopping reports whether a visit in work has to stop: its frame or its map has failed.
func (st Start) Stopping() bool {
	if st.Cleanup {
		return false
	}
	if st.f.stopping() {
		return true
	}
	m := st.f.cells[st.s.local].list
	return st.Element > 0 && m != nil && m.failure != nil
}

// Node is the node of the graph that is visited.
func (st Start) Node() *graph.Node { return st.s.node }

// Index is the place of the node in the document.
func (st Start) Index() int { return st.s.index }

// Doom is the outermost reason why the visit has to end, nil when there is none.
func (st Start) Doom() (doom *workflow.Failure) {
	for f := st.f; f != nil; f = f.parent.f {
		if f.doom != nil {
			doom = f.doom
		}
	}
	return doom
}

func encode(v any) json.RawMessage {
	raw, err := json.Marshal(v)
	if err != nil { // a Failure, or JSON that was checked before
		return json.RawMessage("null")
	}
	return raw
}

func failed(at place, kind fault.Kind, message string) *workflow.Failure {
	return &workflow.Failure{Node: at.s.node.Path, Visit: at.f.visit, Attempt: 1, Kind: kind, Message: message}
}
