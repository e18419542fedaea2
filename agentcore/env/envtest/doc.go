// Package envtest is the conformance suite of env.Environment. Every implementation runs it:
//
//	envtest.Run(t, func(t *testing.T) envtest.Fixture { … })
//
// The suite works through the environment only, so it says nothing about the machine that runs the test. It needs a POSIX
// shell and its usual programs in the environment. Source: notes/durable-kernel 9.5.
package envtest
