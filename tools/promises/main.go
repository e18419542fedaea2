// Command promises compares docs/promises.md with the tests that name a promise.
//
// A test proves a promise when a comment in its file says "Promise: P-123" (several ids may follow, separated by commas
// or blanks). The command prints how many promises have such a test, by area, and fails when a comment names an id that
// the list does not know. With -v it also prints every promise that no test names.
package main

import (
	"flag"
	"fmt"
	"io"
	"os"
)

func main() {
	root := flag.String("root", ".", "repository to read")
	verbose := flag.Bool("v", false, "list the promises that no test names")
	flag.Parse()
	if err := run(os.Stdout, *root, *verbose); err != nil {
		fmt.Fprintln(os.Stderr, "promises:", err)
		os.Exit(1)
	}
}

// run reads the repository below root and writes the report to w. It fails on an unknown or doubled id.
func run(w io.Writer, root string, verbose bool) error {
	list, err := readList(os.DirFS(root))
	if err != nil {
		return err
	}
	proofs, err := readProofs(os.DirFS(root))
	if err != nil {
		return err
	}
	report(w, list, proofs, verbose)
	return unknown(list, proofs)
}
