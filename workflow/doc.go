// Package workflow is the vocabulary of a workflow: nodes, typed edges, what a node may ask of its run. It has no runtime.
//
// A workflow is a typed graph. Then, ThenStream and the other verbs add a node behind a Ref and return the Ref of its
// result, so an edge between types that do not fit does not compile. Define closes the graph into a Workflow: a graph
// document (JSON: what a console draws and a run is pinned to) and the code behind it. Package executor runs it.
//
//	Request ──▶ scan (stream) ──▶ apply ──▶ review (stream) ──▶ Review
//	                                           └─ on failure ──▶ apology
//
// A node is known by its path, never by the order of calls. Values travel between nodes as JSON: each consumer decodes a
// copy of its own, so a node may change what it was given, and a run reads the same after a crash as before it.
//
// After a crash or a pause a node is entered again from its top. What it asked (Ask), did (Once) or waited for (Sleep,
// Recv) under a key returns the recorded outcome; everything else in it happens again.
package workflow
