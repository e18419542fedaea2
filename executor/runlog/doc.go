// Package runlog is the record of runs: what is stored about them and the seam through which it is stored.
//
// Everything that happened in a run is an Event in its log, numbered from 1 without gaps in commit order. Run, node and
// request records are projections that change in the same commit as the events that say so. A Batch is one such commit:
// all of it exists or none. Its epoch is the owner's; a store whose owner changed refuses the batch whole.
//
//	queued ─▶ ready ─▶ running ─▶ succeeded | failed | aborted | expired
//	             ▲        │
//	             └── waiting, sleeping, suspended, paused, blocked
//
// Memory is the store that keeps nothing and at the same time the specification; store/runstore keeps it in SQLite.
// Package executor/executortest proves both. Raw JSON in records is shared between all holders: nobody changes it.
package runlog
