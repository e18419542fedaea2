// Package strace reads the system calls of the real command line.
//
// The test starts its own binary once more as workflowd, under strace, against a model server of its own that asks for one
// shell command and then answers. What the kernel was asked, and in which order, is the proof: nothing outside learns of a
// promise before the log that holds it was synced. It needs Linux and the strace program.
package strace
