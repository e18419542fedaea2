// Package crash kills the real command line and looks at what is left.
//
// Every test starts its own binary once more as workflowd, with the workflows of package stock and one of its own, kills
// it with SIGKILL at a named durable edge or at a random moment, runs the same command again, and compares the end with a
// run that nobody disturbed: the same story, every effect at most once, a log without gaps.
package crash
