// Package daemon is the stock command line over a set of workflows: what cmd/workflowd is made of, and any project's own
// binary.
//
//	func main() { daemon.Main(daemon.Workflow("what it does", build, text)) }
//
// Results go to stdout, progress and questions to stderr. Exit codes are those of Exit.
package daemon
