// Package workflowd is one import for programs that use the library: an agent, tools, workflows, and the engine that runs
// them durably.
//
// Its types are aliases of those in the packages named beside them and its functions call theirs, so values pass freely
// between the two. Nothing of a server is here: package daemon makes a command line of workflows.
//
//	Prompt ─ one question, one answer           NewAgent ─ a session with its tools, events as they are committed
//	Define ─ nodes and edges, checked           Open, Register, Start ─ runs that survive the process
//
// Errors are *Error; branch on their Kind.
package workflowd
