// Package tool is the seam between an agent and what it can do.
//
// A Tool declares itself to the model, checks arguments before anything is recorded, and executes. The harness commits
// the intent before Execute and the result after it; a tool whose outcome a crash left unknown runs again only when its
// ReplayPolicy is Safe. An error from Execute is a result that the model reads, never the end of the run.
//
//	Prepare (pure) ─▶ intent committed ─▶ Execute ─▶ result committed
package tool
