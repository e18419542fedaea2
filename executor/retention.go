package executor

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/workflowd/workflowd/agentcore/fault"
	"github.com/workflowd/workflowd/executor/runlog"
	"github.com/workflowd/workflowd/internal/faultpoint"
)

// The durable edges of a step of Prune.
var (
	pruneBefore = faultpoint.New("executor.prune.before")
	pruneAfter  = faultpoint.New("executor.prune.after")
)

// Retention says which runs may go: those that ended, as far as every field agrees. The zero value takes them all.
type Retention struct {
	Workflow string        // only runs of it; "" = of all
	Older    time.Duration // only runs that ended longer ago
	Keep     int           // not the so many of each workflow that ended last
}

// Prune removes runs with everything that is theirs, the longest ended first, in commits of bounded size so that other
// runs go on meanwhile, and returns how many it removed. Live runs stay, and so do those that a live run was forked from. forget,
// when it is not nil, is called for each run before it goes, to remove what the run has outside of the store; a run for which
// it fails stays, and the errors are returned when the others are gone. A Prune that was interrupted has removed what it had
// come to, whole; the next one goes on. Errors: fault.InputValidation, those of forget, fault.Storage, or the context's.
func (e *Engine) Prune(ctx context.Context, r Retention, forget func(runlog.Run) error) (removed int, err error) {
	if r.Older < 0 || r.Keep < 0 {
		return 0, fault.New(fault.InputValidation, "retention: an age of %s and %d runs to keep: want no negative numbers", r.Older, r.Keep)
	}
	definitions, err := e.store.Definitions()
	if err != nil {
		return 0, storeError(err, "definitions")
	}
	names := []string{r.Workflow}
	if r.Workflow == "" {
		names = names[:0]
		for _, d := range definitions {
			names = append(names, d.Name)
		}
		names = slices.Compact(names) // they come by name
	}
	var before time.Time
	if r.Older > 0 {
		before = e.now().Add(-r.Older)
	}
	if _, err := e.store.Remove(e.epoch, nil); err != nil { // what an interrupted one left
		return 0, storeError(err, "remove runs")
	}
	p := pruning{e: e, forget: forget, stay: map[RunID]bool{}}
	for _, name := range names {
		q := runlog.EndedQuery{Workflow: name, Before: before, Keep: r.Keep, Limit: pruneStep}
		for more := true; more; {
			if ctx.Err() != nil {
				return p.removed, errors.Join(append(p.errs, contextError(ctx))...)
			}
			if more, err = p.step(q); err != nil {
				return p.removed, errors.Join(append(p.errs, err)...)
			}
		}
	}
	return p.removed, errors.Join(p.errs...)
}

// pruning is a Prune at work.
type pruning struct {
	e       *Engine
	forget  func(runlog.Run) error
	stay    map[RunID]bool // forget failed for it, or a fork of it came meanwhile
	errs    []error
	removed int
}

// step removes the next runs, and reports whether there may be more. Each of them goes or is found to stay.
func (p *pruning) step(q runlog.EndedQuery) (more bool, err error) {
	q.Limit += len(p.stay) // they come again
	runs, err := p.e.store.Ended(q)
	if err != nil {
		return false, storeError(err, "runs of workflow %q that ended", q.Workflow)
	}
	var ids []RunID
	for i := range runs {
		r := &runs[i]
		if p.stay[r.ID] {
			continue
		}
		if p.forget != nil {
			if err := p.forget(*r); err != nil {
				p.stay[r.ID] = true
				p.errs = append(p.errs, err)
				continue
			}
		}
		ids = append(ids, r.ID)
	}
	pruneBefore.Hit()
	gone, err := p.e.store.Remove(p.e.epoch, ids)
	p.removed += len(gone)
	if err != nil {
		return false, storeError(err, "remove runs of workflow %q", q.Workflow)
	}
	pruneAfter.Hit()
	for _, id := range ids {
		if !slices.Contains(gone, id) {
			p.stay[id] = true
		}
	}
	return len(runs) == q.Limit, nil
}
