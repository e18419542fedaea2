// Package local is the machine that the agent runs on, as an env.Environment.
//
// Files are opened through the os.Root of the place that the scope's Locator names, never by a path string alone, so
// that what is checked is what is opened. A new content is written beside the file, synced and renamed over it.
//
// A command runs in a session and process group of its own, without a terminal and with an empty standard input:
//
//	start ─▶ running ─▶ exited ─▶ drained (end of output, or 100 ms without any)
//	            └─ cancel, timeout, callback error ─▶ SIGTERM to the group ─▶ 1 s ─▶ SIGKILL to the group and to strays
//
// Strays are processes that left the group (setsid). Every process inherits a mark in the variable WORKFLOWD_EXEC and
// is found by it in /proc on Linux; one that also clears its environment is not found. Other systems have no sweep.
package local
