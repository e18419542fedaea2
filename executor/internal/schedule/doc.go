// Package schedule decides what a run does next: a pure machine over a graph and the records of a run.
//
// Settled visits go in, visits to start and decisions to record come out. It never acts: the caller enters nodes, keeps
// the time and writes what was decided. Apply, Switch and Loop functions run inside it, guarded.
package schedule
