package main

import (
	"bytes"
	"go/parser"
	"go/token"
	"io"
	"os"
	"strings"
	"testing"
)

// The example runs as it is, and quotes what is really there.
func TestTheAgentSaysWhatItSaw(t *testing.T) {
	t.Chdir(t.TempDir())
	if err := os.WriteFile("greeting.txt", []byte("Good morning\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout := os.Stdout
	os.Stdout = w
	main()
	os.Stdout = stdout
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"`greeting.txt`", "Good morning", "The built-in demo model wrote this"} {
		if !strings.Contains(string(text), want) {
			t.Errorf("the answer lacks %q:\n%s", want, text)
		}
	}
}

// A first program is short. Source: docs/architecture.md.
func TestTheExampleStaysShort(t *testing.T) {
	text, err := os.ReadFile("main.go")
	if err != nil {
		t.Fatal(err)
	}
	f, err := parser.ParseFile(token.NewFileSet(), "main.go", text, parser.ImportsOnly)
	if err != nil {
		t.Fatal(err)
	}
	if lines := bytes.Count(text, []byte("\n")); lines > 20 || len(f.Imports) > 2 {
		t.Errorf("%d lines and %d imports, at most 20 and 2", lines, len(f.Imports))
	}
}
