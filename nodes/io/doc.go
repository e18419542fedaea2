// Package ionode has the nodes at both ends of a workflow: Input passes the run's input on with its defaults filled in,
// Report writes a result to a file.
package ionode
