// Package registry holds what a project adds to the agent while it runs: extensions with tasks, tools, prompt sections,
// hooks and documents.
//
//	Install, Replace, Uninstall ──▶ checked ──▶ Publication n+1 (never changes) ──▶ Reader: who works takes one and keeps it
//
// A phase, a tool call or a hook that has begun keeps the publication it began with; the next one takes the current one. A
// task whose definition is gone is blocked, and wakes when a definition that fits is installed.
package registry
