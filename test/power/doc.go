// Package power cuts the power under a running agent and looks at what is left.
//
// An agent answers on a disk whose every write is in a journal (store/sqlite/disktest). At each moment that something
// outside the store relies on it, and then at every moment of the journal, the test takes what a power loss would leave,
// opens it with a new agent, and compares: a promise that was given is kept, and a tool that must not run twice does not.
package power
