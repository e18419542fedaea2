package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"
)

// The second run is the first one told again: the file that came later is not in it.
func Example() {
	dir, err := os.MkdirTemp("", "typed-graph")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	for name, lines := range map[string]int{"a.md": 2, "b.md": 5, "c.md": 1, "d.md": 4} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(strings.Repeat("line\n", lines)), 0o600); err != nil {
			panic(err)
		}
	}
	data := filepath.Join(dir, "data", "runs.db")
	for range 2 {
		if err := run(context.Background(), dir, data); err != nil {
			panic(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "e.md"), []byte(strings.Repeat("line\n", 9)), 0o600); err != nil {
			panic(err)
		}
	}
	// Output:
	//    5 b.md
	//    4 d.md
	//    2 a.md
	//    5 b.md
	//    4 d.md
	//    2 a.md
}
