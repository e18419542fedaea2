// Package crew reuses goroutines. A fresh goroutine grows its stack anew for each node, which costs more than a trivial node
// itself; a few idle ones stay instead, whatever the number of runs.
package crew
