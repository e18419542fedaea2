// Package graph is the document of a workflow's graph: plain JSON that says which nodes there are, how they hang together
// and what travels between them. A console draws it, Validate checks it, a run is pinned to its fingerprint.
//
// Nodes stand in an order in which every edge points forward. The path Input stands for the run's input; inside a loop's
// body the path of the loop stands for the value of the current turn.
package graph
