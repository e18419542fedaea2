package schedule

import (
	"encoding/json"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/workflowd/workflowd/agentcore/fault"
	"github.com/workflowd/workflowd/executor/runlog"
	"github.com/workflowd/workflowd/internal/strictjson"
	"github.com/workflowd/workflowd/workflow"
	"github.com/workflowd/workflowd/workflow/graph"
)

// Point finds the visits at which a run with these records is forked. at is the path of a node, with "#" and the visit when it
// is not the newest one; an element of a map ends in [index]; "$input" is the input of the run; "" is where the run failed.
// Errors: fault.NotFound with the nearest name, fault.InputValidation for what is no path and for "" when nothing failed.
func (p *Plan) Point(run *runlog.Run, records []runlog.Node, at string) ([]runlog.NodeKey, error) {
	if at == "" {
		return p.failures(run, records)
	}
	path, number, numbered := strings.Cut(at, "#")
	visit := 0
	if numbered {
		var err error
		if visit, err = strconv.Atoi(number); err != nil || visit < 1 {
			return nil, fault.New(fault.InputValidation, "node %q: want a path, or a path, # and the number of a visit from 1", at)
		}
	}
	if path == graph.Input {
		return []runlog.NodeKey{{Path: path, Visit: 1}}, nil
	}
	s, _ := p.step(path)
	if s == nil {
		return nil, p.unknown(run, path)
	}
	if s.node.Kind == graph.Merge { // what it merges was chosen there
		s = &p.steps[s.inputs[0]]
		path = s.node.Path
	}
	visits := p.visits(s, path, records)
	switch {
	case len(visits) == 0:
		return nil, fault.New(fault.NotFound, "node %q of run %s has not begun", path, run.ID)
	case visit == 0:
		visit = slices.Max(visits)
	case !slices.Contains(visits, visit):
		return nil, fault.New(fault.NotFound, "node %q of run %s has no visit %d, the newest is %d", path, run.ID, visit, slices.Max(visits))
	}
	return []runlog.NodeKey{{Path: path, Visit: visit}}, nil
}

// step is the step that a path names, and the index of the element in a map, -1 = none; nil when there is none.
func (p *Plan) step(path string) (*step, int) {
	element := -1
	if base, index, is := strings.Cut(strings.TrimSuffix(path, "]"), "["); is {
		n, err := strconv.Atoi(index)
		if err != nil || n < 0 || !strings.HasSuffix(path, "]") {
			return nil, 0
		}
		path, element = base, n
	}
	i, known := p.at[path]
	if !known || element >= 0 && p.steps[i].node.Kind != graph.Map {
		return nil, 0
	}
	return &p.steps[i], element
}

func (p *Plan) unknown(run *runlog.Run, path string) error {
	names := []string{graph.Input}
	for i := range p.graph.Nodes {
		if p.graph.Nodes[i].Kind != graph.Merge {
			names = append(names, p.graph.Nodes[i].Path)
		}
	}
	return fault.New(fault.NotFound, "run %s of workflow %q has no node %q; the nearest is %q", run.ID, p.graph.Name, path, strictjson.Nearest(path, names))
}

// visits lists the visits of a step that have begun, in no order.
func (p *Plan) visits(s *step, path string, records []runlog.Node) (list []int) {
	inside := false // something of a loop has begun
	for i := range records {
		r, of := &records[i], (*step)(nil)
		if of, _ = p.step(r.Path); of == nil || r.Visit < 1 {
			continue
		}
		switch {
		case s.node.Kind == graph.Loop: // its records count turns, not its visits: those are of what is beside it
			inside = inside || of == s || strings.HasPrefix(r.Path, s.node.Path+"/")
			if of != s && of.scope == s.scope || r.Path == s.node.Scope {
				list = append(list, r.Visit)
			}
		case r.Path == path, of == s && path == s.node.Path:
			list = append(list, r.Visit)
		}
	}
	if s.node.Kind == graph.Loop && (!inside || s.node.Scope == "" || len(list) == 0) {
		list = nil
		if inside {
			list = []int{1}
		}
	}
	return list
}

// failures lists what a run that has ended without success failed at: what failed and was not handed to a catch, and what had
// not ended.
func (p *Plan) failures(run *runlog.Run, records []runlog.Node) ([]runlog.NodeKey, error) {
	switch {
	case !run.Status.Terminal():
		return nil, fault.New(fault.InputValidation, "run %s has not ended: name the node to fork it at", run.ID)
	case run.Status == runlog.Succeeded:
		return nil, fault.New(fault.InputValidation, "run %s has succeeded: name the node to fork it at", run.ID)
	}
	var list []runlog.NodeKey
	caught := p.catches(run, records)
	for i := range records {
		if r := &records[i]; r.Status != runlog.NodeIsDone && (r.Status != runlog.NodeHasFailed || !caught(r)) {
			list = append(list, r.NodeKey)
		}
	}
	if f := run.Failure; f != nil {
		if s, _ := p.step(f.Node); s != nil { // a loop without end or a choice that is no case have no record of their own
			key := runlog.NodeKey{Path: f.Node, Visit: f.Visit}
			if s.node.Kind == graph.Merge {
				key.Path = p.steps[s.inputs[0]].node.Path
			}
			if !slices.Contains(list, key) {
				list = append(list, key)
			}
		}
	}
	return list, nil
}

// InputSchema returns the JSON Schema of the input that a visit can be given. A node that joins several values has none:
// fault.InputValidation.
func (p *Plan) InputSchema(key runlog.NodeKey) (json.RawMessage, error) {
	if key.Path == graph.Input {
		return p.graph.Types[p.graph.Input].Schema, nil
	}
	s, element := p.step(key.Path)
	switch {
	case len(s.inputs) > 1:
		var from []string
		for _, i := range s.inputs {
			if i >= 0 {
				from = append(from, p.steps[i].node.Path)
			}
		}
		return nil, fault.New(fault.InputValidation, "node %q joins %d values: fork at one that gives them, such as %q", key.Path, len(s.inputs), from)
	case s.node.Kind == graph.Catch || s.node.Kind == graph.Finally:
		return graph.SchemaOf(reflect.TypeFor[workflow.Failure]())
	case element >= 0:
		return elements(p.graph.Types[s.node.In].Schema)
	}
	return p.graph.Types[s.node.In].Schema, nil
}

// elements is the schema of the elements of a list.
func elements(list json.RawMessage) (json.RawMessage, error) {
	var whole struct {
		Items json.RawMessage `json:"items"`
		Defs  json.RawMessage `json:"$defs"`
	}
	if err := json.Unmarshal(list, &whole); err != nil || whole.Items == nil || whole.Defs == nil {
		return whole.Items, err
	}
	var item map[string]json.RawMessage
	if json.Unmarshal(whole.Items, &item) != nil || item == nil { // true: any JSON
		return whole.Items, nil
	}
	item["$defs"] = whole.Defs
	return json.Marshal(item)
}

// Holding returns those edits of a source that still hold in a fork at these visits: what lies behind one of them gets the
// values of its edges again. Where that cannot be told, between turns of loops in a loop, an edit holds.
func (p *Plan) Holding(edits []runlog.Edit, at []runlog.NodeKey) []runlog.Edit {
	return slices.DeleteFunc(slices.Clone(edits), func(e runlog.Edit) bool {
		return slices.ContainsFunc(at, func(from runlog.NodeKey) bool { return p.behind(from, e.NodeKey) })
	})
}

// behind reports whether a visit gets what another one gives.
func (p *Plan) behind(from, key runlog.NodeKey) bool {
	if from.Path == graph.Input {
		return true
	}
	a, inner := p.step(from.Path)
	b, element := p.step(key.Path)
	switch {
	case a == nil || b == nil:
		return false
	case a.scope == b.scope && from.Visit != key.Visit:
		return from.Visit < key.Visit
	case a == b:
		return inner < 0 && element >= 0
	case a.scope == b.scope:
		return p.reaches(a, b)
	}
	outerA, outerB := p.outermost(a), p.outermost(b)
	if outerA == outerB {
		return a == outerA // the whole loop; turns of loops in it cannot be compared
	}
	return p.reaches(outerA, outerB)
}

// outermost is the step of the run's own scope that a step is, or whose loop it is in.
func (p *Plan) outermost(s *step) *step {
	for s.node.Scope != "" {
		s = &p.steps[p.at[s.node.Scope]]
	}
	return s
}

// reaches reports whether a step gets, through others of its scope, what another one gives.
func (p *Plan) reaches(from, to *step) bool {
	for queue, seen := []int{from.index}, map[int]bool{}; len(queue) > 0; queue = queue[1:] {
		for _, next := range p.steps[queue[0]].consumers {
			if next == to.index {
				return true
			}
			if !seen[next] {
				seen[next] = true
				queue = append(queue, next)
			}
		}
	}
	return false
}
