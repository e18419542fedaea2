package executor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/workflowd/workflowd/agentcore/fault"
	"github.com/workflowd/workflowd/executor/internal/schedule"
	"github.com/workflowd/workflowd/executor/runlog"
	"github.com/workflowd/workflowd/internal/schema"
	"github.com/workflowd/workflowd/internal/strictjson"
	"github.com/workflowd/workflowd/workflow"
	"github.com/workflowd/workflowd/workflow/graph"
)

// Handle starts runs of a registered workflow. It is safe for concurrent use.
type Handle[In, Out any] struct {
	e       *Engine
	name    string
	version int
}

// Register makes a workflow known to the engine and takes up its unfinished runs. A version of a name has one graph for
// ever: registering another one is fault.Conflict, except under Development while no live run is pinned to it.
func Register[In, Out any](e *Engine, w *workflow.Workflow[In, Out]) (*Handle[In, Out], error) {
	g := w.Definition().Graph()
	if err := e.Register(w.Definition()); err != nil {
		return nil, err
	}
	return &Handle[In, Out]{e, g.Name, g.Version}, nil
}

// Register is the function Register for a definition without its types.
func (e *Engine) Register(d *workflow.Definition) error {
	g := d.Graph()
	raw, err := json.Marshal(g)
	if err != nil {
		return fault.New(fault.InputValidation, "register workflow %q: %w", g.Name, err)
	}
	record := runlog.Definition{Name: g.Name, Version: g.Version, Fingerprint: g.Fingerprint, Graph: raw, CreatedAt: e.now().UTC()}
	err = e.store.PutDefinition(record, false)
	if errors.Is(err, runlog.ErrDefinition) && e.replace {
		if err := e.nobodyIsPinned(g); err != nil {
			return err
		}
		err = e.store.PutDefinition(record, true)
	}
	if errors.Is(err, runlog.ErrDefinition) {
		return fault.New(fault.Conflict, "workflow %q version %d is registered with another graph; give the new one version %d", g.Name, g.Version, g.Version+1)
	}
	if err != nil {
		return storeError(err, "register workflow %q", g.Name)
	}
	e.mu.Lock()
	if e.plans[g.Name] == nil {
		e.plans[g.Name] = map[int]*schedule.Plan{}
	}
	e.plans[g.Name][g.Version] = schedule.NewPlan(d)
	e.mu.Unlock()
	return e.takeUp(g)
}

// nobodyIsPinned reports a live run that the graph of this version must not change under.
func (e *Engine) nobodyIsPinned(g *graph.Graph) error {
	live, err := e.store.Runs(runlog.RunQuery{Status: liveStatuses(), Workflow: g.Name, Version: g.Version, Limit: 1})
	if err != nil {
		return storeError(err, "runs of workflow %q", g.Name)
	}
	if len(live) > 0 {
		return fault.New(fault.Conflict, "workflow %q version %d cannot get another graph while run %s is pinned to it; cancel it or give the graph version %d", g.Name, g.Version, live[0].ID, g.Version+1)
	}
	return nil
}

func liveStatuses() []runlog.RunStatus {
	return slices.DeleteFunc(runlog.RunStatuses(), runlog.RunStatus.Terminal)
}

// planOf returns the plan that a run is pinned to, nil when it is not registered.
func (e *Engine) planOf(r *runlog.Run) *schedule.Plan {
	e.mu.Lock()
	defer e.mu.Unlock()
	p := e.plans[r.Workflow][r.Version]
	if p == nil || p.Graph().Fingerprint != r.Fingerprint {
		return nil
	}
	return p
}

// plan returns the plan of a version, 0 = the newest.
func (e *Engine) plan(name string, version int) (*schedule.Plan, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	versions := e.plans[name]
	if version == 0 {
		for v := range versions {
			version = max(version, v)
		}
	}
	p := versions[version]
	if p == nil {
		known := ""
		for name := range e.plans {
			known += fmt.Sprintf(" %q", name)
		}
		return nil, fault.New(fault.NotFound, "workflow %q version %d is not registered; known are:%s", name, version, known)
	}
	return p, nil
}

// Graph returns the document of a registered workflow, version 0 = the newest.
func (e *Engine) Graph(name string, version int) (*graph.Graph, error) {
	p, err := e.plan(name, version)
	if err != nil {
		return nil, err
	}
	return p.Graph(), nil
}

// Graphs returns the documents of all registered workflows, by name and version.
func (e *Engine) Graphs() []*graph.Graph {
	e.mu.Lock()
	defer e.mu.Unlock()
	var list []*graph.Graph
	for _, versions := range e.plans {
		for _, p := range versions {
			list = append(list, p.Graph())
		}
	}
	slices.SortFunc(list, func(a, b *graph.Graph) int {
		if a.Name != b.Name {
			if a.Name < b.Name {
				return -1
			}
			return 1
		}
		return a.Version - b.Version
	})
	return list
}

// Validate returns nil when the value can be the input of a run, else fault.InputValidation naming the field.
func (h *Handle[In, Out]) Validate(in In) error {
	raw, err := json.Marshal(in)
	if err != nil {
		return fault.New(fault.InputValidation, "input: %w", err)
	}
	return h.e.Validate(h.name, h.version, raw)
}

// Validate checks JSON against the input type of a workflow: one value, within MaxInput, no member twice, no unknown one,
// no wrong type. The error is fault.InputValidation and names each place by its JSON pointer.
func (e *Engine) Validate(name string, version int, input json.RawMessage) error {
	p, err := e.plan(name, version)
	if err != nil {
		return err
	}
	return validateJSON("input", input, p.Graph().Types[p.Graph().Input].Schema)
}

var validators sync.Map // schema text -> *schema.Validator

// validateJSON checks a document that came from outside. An empty schema accepts any JSON.
func validateJSON(what string, doc, text json.RawMessage) error {
	var any json.RawMessage
	if err := strictjson.Decode(doc, MaxInput, &any); err != nil {
		return fault.New(fault.InputValidation, "%s: %w", what, err)
	}
	v, err := validator(text)
	if err != nil {
		return fault.New(fault.InputValidation, "schema of the %s: %w", what, err)
	}
	if v == nil {
		return nil
	}
	if err := v.Validate(doc); err != nil {
		return fault.New(fault.InputValidation, "%s: %w", what, err)
	}
	return nil
}

// validator compiles a schema, once per text; nil for an empty one.
func validator(text json.RawMessage) (*schema.Validator, error) {
	if len(text) == 0 {
		return nil, nil //nolint:nilnil // nothing to check, and no error
	}
	v, known := validators.Load(string(text))
	if !known {
		compiled, err := schema.Compile(text)
		if err != nil {
			return nil, err
		}
		v, _ = validators.LoadOrStore(string(text), compiled)
	}
	return v.(*schema.Validator), nil //nolint:forcetypeassert // only this function stores
}

// takeUp goes on with the runs that are pinned to a graph that has just been registered.
func (e *Engine) takeUp(g *graph.Graph) error {
	if e.foreground {
		return nil
	}
	runs, err := e.store.Runs(runlog.RunQuery{Status: liveStatuses(), Workflow: g.Name, Version: g.Version})
	if err != nil {
		return storeError(err, "runs of workflow %q", g.Name)
	}
	slices.Reverse(runs) // oldest first
	for i := range runs {
		if runs[i].Fingerprint == g.Fingerprint {
			e.goOn(&runs[i])
		}
	}
	return nil
}

// goOn hands an unfinished run to an owner, or to the clock when nothing but its time can move it.
func (e *Engine) goOn(r *runlog.Run) {
	switch {
	case r.Status == runlog.Paused:
	case (r.Status == runlog.Waiting || r.Status == runlog.Sleeping) && !r.CancelRequested:
		e.clock.Set(string(r.ID), r.WakeAt) // again: it may have passed while nobody could act
	default:
		e.dispatch(r.ID, nil, message{do: (*owner).retry})
	}
}

// name takes up the one run that a foreground engine was asked for.
func (e *Engine) name(r *runlog.Run) {
	switch {
	case !e.foreground || r.Status.Terminal():
	case e.planOf(r) == nil:
		e.dispatch(r.ID, nil, message{do: func(o *owner) { o.rebind() }})
	default:
		e.goOn(r)
	}
}

// retry loads the run again when its owner found no plan and has not ended yet.
func (o *owner) retry() {
	if o.plan != nil || o.run.Status.Terminal() {
		return
	}
	if err := o.load(); err != nil {
		o.fatal = err
	}
}

// Recover tells the engine that every workflow is registered. Runs whose version is not there go on under the newest one
// when their finished part fits; the others are blocked, with a reason that names the command to resolve it.
func (e *Engine) Recover(context.Context) error {
	runs, err := e.store.Runs(runlog.RunQuery{Status: liveStatuses()})
	if err != nil {
		return storeError(err, "live runs")
	}
	slices.Reverse(runs)
	for i := range runs {
		if e.planOf(&runs[i]) != nil || runs[i].Status == runlog.Paused {
			continue
		}
		e.dispatch(runs[i].ID, nil, message{do: func(o *owner) { o.rebind() }})
	}
	return nil
}

// rebind pins the run to the newest registered version of its workflow when what has begun fits.
func (o *owner) rebind() {
	if o.plan != nil || o.run.Status.Terminal() {
		return
	}
	next, old, err := o.e.successor(&o.run)
	if err != nil || next == nil {
		return // advance blocks it, with the reason
	}
	nodes, err := o.e.store.Nodes(o.id)
	if err != nil {
		o.fatal = storeError(err, "nodes of run %s", o.id)
		return
	}
	if schedule.Fits(old, next.Graph(), recordedPaths(&o.run, nodes)) != nil {
		return
	}
	o.run.Version, o.run.Fingerprint = next.Graph().Version, next.Graph().Fingerprint
	o.changed()
	if err := o.load(); err != nil {
		o.fatal = err
	}
}

// successor returns the newest plan of the run's workflow and the graph that the run is pinned to.
func (e *Engine) successor(r *runlog.Run) (*schedule.Plan, *graph.Graph, error) {
	next, err := e.plan(r.Workflow, 0)
	if err != nil {
		return nil, nil, err
	}
	stored, err := e.store.Definitions()
	if err != nil {
		return nil, nil, storeError(err, "definitions")
	}
	for _, d := range stored {
		if d.Name == r.Workflow && d.Version == r.Version && d.Fingerprint == r.Fingerprint {
			old := new(graph.Graph)
			if err := json.Unmarshal(d.Graph, old); err != nil {
				return nil, nil, fault.New(fault.Storage, "graph of workflow %q: %w", r.Workflow, err)
			}
			return next, old, nil
		}
	}
	return nil, nil, fault.New(fault.NotFound, "the graph of workflow %q version %d is not stored", r.Workflow, r.Version)
}

// recordedPaths lists the graph paths that have a record or that the run, as a fork, names: elements of a map count for the
// map.
func recordedPaths(r *runlog.Run, nodes []runlog.Node) []string {
	var paths []string
	add := func(path string) {
		if path, _, _ = strings.Cut(path, "["); !slices.Contains(paths, path) && path != graph.Input {
			paths = append(paths, path)
		}
	}
	for i := range nodes {
		add(nodes[i].Path)
	}
	if f := r.ForkedFrom; f != nil {
		for _, key := range f.At {
			add(key.Path)
		}
		for _, e := range f.Edits {
			add(e.Path)
		}
	}
	return paths
}

// whyBlocked says why a run cannot advance and which command resolves it.
func (e *Engine) whyBlocked(r *runlog.Run) string {
	resolve := fmt.Sprintf("register it again, or end the run with: workflowd runs cancel %s", r.ID)
	next, old, err := e.successor(r)
	if err != nil {
		return fmt.Sprintf("workflow %q version %d is not registered; %s", r.Workflow, r.Version, resolve)
	}
	nodes, err := e.store.Nodes(r.ID)
	if err == nil {
		err = schedule.Fits(old, next.Graph(), recordedPaths(r, nodes))
	}
	if err == nil {
		err = errors.New("another graph is registered in its place")
	}
	return fmt.Sprintf("workflow %q version %d is not registered, and version %d does not fit: %v; %s", r.Workflow, r.Version, next.Graph().Version, err, resolve)
}
