package reader

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/workflowd/workflowd/agentcore/fault"
	"github.com/workflowd/workflowd/executor/runlog"
	"github.com/workflowd/workflowd/store/runstore"
	"github.com/workflowd/workflowd/workflow/graph"
)

const (
	// PollEvery is how often a reader that follows a run looks for more: nobody wakes it. Between two looks a person sees no
	// pause.
	PollEvery = 100 * time.Millisecond
	// page is how many events are read at a time.
	page = 256
)

// Reader reads the runs of one file. It takes no lock, changes nothing and is safe for concurrent use. Its errors are
// *fault.Error: fault.NotFound, else fault.Storage.
type Reader struct{ store *runstore.Reader }

// Open opens the file of an engine. An older schema is brought up to date first, when nobody owns the file.
func Open(path string) (*Reader, error) {
	store, err := runstore.OpenReader(path)
	if errors.Is(err, runstore.ErrOlder) {
		owned, open := runstore.Open(path)
		if open == nil {
			open = owned.Close()
		}
		if open != nil {
			return nil, open
		}
		store, err = runstore.OpenReader(path)
	}
	if err != nil {
		return nil, err
	}
	return &Reader{store}, nil
}

// Close ends the reading.
func (r *Reader) Close() error { return told(r.store.Close(), "close") }

// Run returns a run's record.
func (r *Reader) Run(id runlog.RunID) (runlog.Run, error) {
	run, err := r.store.Run(id)
	return run, told(err, "run %s", id)
}

// Runs returns matching runs, newest first.
func (r *Reader) Runs(q runlog.RunQuery) ([]runlog.Run, error) {
	list, err := r.store.Runs(q)
	return list, told(err, "list runs")
}

// Nodes returns the records of a run's nodes in the order in which they began.
func (r *Reader) Nodes(id runlog.RunID) ([]runlog.Node, error) {
	list, err := r.store.Nodes(id)
	return list, told(err, "nodes of run %s", id)
}

// Requests returns matching requests, oldest first.
func (r *Reader) Requests(q runlog.RequestQuery) ([]runlog.Request, error) {
	list, err := r.store.Requests(q)
	return list, told(err, "list requests")
}

// Usage returns what the models of a run consumed, one record per model response.
func (r *Reader) Usage(id runlog.RunID) ([]runlog.UsageRecord, error) {
	list, err := r.store.Usage(id)
	return list, told(err, "usage of run %s", id)
}

// Graph returns the document that a run is pinned to.
func (r *Reader) Graph(run *runlog.Run) (*graph.Graph, error) {
	stored, err := r.store.Definitions()
	if err != nil {
		return nil, told(err, "definitions")
	}
	for _, d := range stored {
		if d.Name != run.Workflow || d.Version != run.Version {
			continue
		}
		g := new(graph.Graph)
		if err := json.Unmarshal(d.Graph, g); err != nil {
			return nil, fault.New(fault.Storage, "graph of workflow %q: %w", run.Workflow, err)
		}
		return g, nil
	}
	return nil, fault.New(fault.NotFound, "the graph of workflow %q version %d is not stored", run.Workflow, run.Version)
}

// Events yields the run's events with numbers above after, in order, first those that are there, then as they come, and ends
// behind the event that ends the run. Nothing carries the run on but its owner: while it has none, Events waits. An error is
// last: fault.NotFound, also when the run is removed meanwhile, or the context's.
func (r *Reader) Events(ctx context.Context, id runlog.RunID, after runlog.Seq) iter.Seq2[runlog.Event, error] {
	return func(yield func(runlog.Event, error) bool) {
		var again *time.Timer
		for {
			list, err := r.store.Events(id, after, page)
			if err != nil {
				yield(runlog.Event{}, told(err, "events of run %s", id))
				return
			}
			for _, e := range list {
				if !yield(e, nil) || e.Kind.Terminal() {
					return
				}
				after = e.Seq
			}
			if len(list) > 0 {
				continue
			}
			if run, err := r.store.Run(id); err != nil || run.Status.Terminal() && after >= run.LastSeq {
				if err != nil {
					yield(runlog.Event{}, told(err, "run %s", id))
				}
				return
			}
			if again == nil {
				again = time.NewTimer(PollEvery)
				defer again.Stop()
			} else {
				again.Reset(PollEvery)
			}
			select {
			case <-again.C:
			case <-ctx.Done():
				yield(runlog.Event{}, fault.New(fault.ExecutionAborted, "%w", context.Cause(ctx)))
				return
			}
		}
	}
}

// told gives an error of the store its kind.
func told(err error, format string, args ...any) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, runlog.ErrNotFound):
		return fault.New(fault.NotFound, "%s: %w", fmt.Sprintf(format, args...), err)
	}
	return fault.New(fault.Storage, "%s: %w", fmt.Sprintf(format, args...), err)
}
