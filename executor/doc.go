// Package executor runs workflows durably.
//
// Open opens an engine on a store, Register makes a workflow known to it, Start begins a run or finds the one that the
// same request id began. A run's events can be read from any number and followed; its result waits for the end.
//
//	Start ─commit─▶ run.queued ─▶ owner goroutine: schedule ─▶ commit ─▶ publish ─▶ enter nodes ─┐
//	                                  ▲                                                         │
//	                                  └── ended, chunks, requests, effects, answers, cancel ────┘
//
// One goroutine owns a run while it advances and is the only writer of its records; everything that reaches a run, from
// its nodes or from outside, is a message to that owner. When nothing is left but waiting, the owner ends: a waiting run
// holds no goroutine and no memory. The next answer, signal or time takes it up from its records.
//
// Nothing is shown before it is committed, no effect happens inside a commit, and every commit carries the owner's epoch:
// a stale owner writes nothing and stops. A node whose attempt was cut off by a crash is entered again; its chunks are
// retracted unless it declares that it resumes. A node that has ended never runs again.
//
// A run can be forked at any node: the fork repeats what computes from something else and keeps the rest. Prune removes runs
// that have ended.
//
// Errors are *workflow.Error; branch on their Kind.
package executor
