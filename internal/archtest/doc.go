// Package archtest holds the house rules that a machine can check: which package may import which, how large a file or a
// package may grow, which words stay out, and that the documents still describe the tree.
//
// The rules are data in table.go; the tests in this package check the whole module against them. A failure says what to
// do. A new package needs three lines: its doc.go, its row in Levels and its row in docs/rooms.md.
package archtest
