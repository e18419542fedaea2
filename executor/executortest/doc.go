// Package executortest proves that a runlog.Store keeps the promises of its seam. Run is the suite: examples of each rule,
// then random operations compared with runlog.Memory after each step. It is for tests only.
package executortest
