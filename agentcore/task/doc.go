// Package task runs durable state machines on a session.
//
// A Definition names phases. A phase does work and ends by committing the next state of its task together with whatever
// it writes; "running" is a fact of this process and is never stored, so a task found at open is simply eligible again.
//
//	pending ──run──▶ (phase) ──Continue──▶ pending
//	                    ├─────Wait──────▶ waiting ──On is as its Policy wants it──▶ (phase)
//	                    └─────Settle────▶ terminal          (with live owned work: completing ──drained──▶ terminal)
//	cancel mark: running phase stopped and joined, owned work drained bottom-up, then the abort phase, then terminal
//
// Owned work is what session.WorksFor says: children and, through owned conversations, the tasks at their tops, at any depth,
// but nothing in or behind the background.
//
// A phase that sleeps or parks returns and is started again; neither holds a goroutine. A task whose definition is missing or
// does not fit is blocked until another one is installed: see Standing.
//
// The Scheduler starts invocations; one loop goroutine owns its state and ends when nothing is left to do.
package task
