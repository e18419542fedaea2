package archtest

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// An arrow between two packages may only point down a level.
func TestImportsPointDownALevel(t *testing.T) {
	for dir, p := range tree(t).packages {
		level := levelOf(dir)
		for _, imported := range p.Imports {
			to, ok := local(imported)
			if !ok {
				continue
			}
			if below := levelOf(to); level >= 0 && below >= level {
				t.Errorf("%s (level %d) imports %s (level %d): an import must point down; move the shared part below both, or take it as an argument. The drawing is in docs/architecture.md, the table in internal/archtest/table.go", dir, level, to, below)
			}
			if forTests(to) && !forTests(dir) {
				t.Errorf("%s imports %s, which is for tests only", dir, to)
			}
		}
	}
}

// Some packages must never learn of each other, not even through a third.
func TestStrangersStayStrangers(t *testing.T) {
	packages := tree(t).packages
	for dir := range packages {
		reach := map[string]string{} // package reached -> how
		var visit func(at, how string)
		visit = func(at, how string) {
			for _, imported := range packages[at].Imports {
				if to, ok := local(imported); ok && reach[to] == "" {
					reach[to] = how + " -> " + to
					visit(to, reach[to])
				}
			}
		}
		visit(dir, dir)
		for _, pair := range apart {
			if !under(dir, pair[0]) {
				continue
			}
			for to, how := range reach {
				if under(to, pair[1]) {
					t.Errorf("%s must not know %s: %s", pair[0], pair[1], how)
				}
			}
		}
	}
}

// Every package has a row in the table, and with complete set every row has a package.
func TestTheTableListsEveryPackage(t *testing.T) {
	packages := tree(t).packages
	for dir := range packages {
		if levelOf(dir) < 0 {
			t.Errorf("package %s has no level: add it to Levels in internal/archtest/table.go, one above the highest package it imports", dir)
		}
	}
	seen := map[string]bool{}
	for _, row := range Levels {
		for _, name := range row {
			if seen[name] {
				t.Errorf("%s stands twice in Levels", name)
			}
			seen[name] = true
			exists := false
			above, many := strings.CutSuffix(name, "/...")
			for dir := range packages {
				exists = exists || dir == name || many && under(dir, above)
			}
			if complete && !exists {
				t.Errorf("Levels names %s, but there is no such package: remove the row", name)
			}
		}
	}
}

// A newcomer reads a package in one sitting: files and packages stay small, and each package says what it is.
func TestPackagesStaySmallAndExplainThemselves(t *testing.T) {
	for dir, p := range tree(t).packages {
		if n := len(p.sources()); n > maxPackageFiles {
			t.Errorf("%s has %d source files, at most %d: split it by noun", dir, n, maxPackageFiles)
		}
		if p.Doc == "" && len(p.sources()) > 0 && p.Name != "" {
			t.Errorf("%s has no package comment: write doc.go (a command: above package main); the first sentence says what the package is", dir)
		}
	}
	for _, f := range tree(t).files {
		if n := bytes.Count(f.text, []byte("\n")); goFile(f.name) && !goTest(f.name) && n > maxFileLines {
			t.Errorf("%s has %d lines, at most %d: is there a second idea in it that wants its own file?", f.name, n, maxFileLines)
		}
	}
}

// facade is how docs/rooms.md writes the root package.
const facade = "workflowd.go"

// docs/rooms.md lists every package and no room that does not exist.
func TestTheRoomsPageDescribesTheTree(t *testing.T) {
	text := read(t, "docs/rooms.md")
	listed, later, cut := strings.Cut(text, "\n## Not built yet")
	if !cut {
		t.Fatal("docs/rooms.md needs a section \"## Not built yet\"; what is planned stands there and nowhere else")
	}
	named := map[string]bool{}
	for _, line := range strings.Split(listed, "\n") {
		for i, token := range strings.Split(line, "`") {
			if i%2 == 0 || !isRoom(token) {
				continue
			}
			named[token] = true
			planned := token == facade || levelOf(token) >= 0
			if _, err := os.Stat(filepath.Join(root, token)); err != nil && (complete || !planned) {
				t.Errorf("docs/rooms.md names `%s`, which does not exist: correct the path, or move it to \"Not built yet\"", token)
			}
		}
	}
	packages := tree(t).packages
	for dir := range packages {
		if dir == "." {
			dir = facade
		}
		if !named[dir] && !under(dir, "examples") && !under(dir, "test") {
			t.Errorf("docs/rooms.md does not list package `%s`: add its row, one line on what it is for", dir)
		}
	}
	for _, line := range strings.Split(later, "\n") {
		for i, token := range strings.Split(line, "`") {
			if _, exists := packages[token]; i%2 == 1 && exists {
				t.Errorf("docs/rooms.md says that `%s` is not built yet, but it is: move its row up", token)
			}
		}
	}
}

// isRoom reports whether a word in back quotes is meant as a path of this repository.
func isRoom(token string) bool {
	if strings.ContainsAny(token, " *<>{}()~") {
		return false
	}
	top, _, deep := strings.Cut(token, "/")
	info, err := os.Stat(filepath.Join(root, top))
	return deep && (err == nil && info.IsDir() || levelOf(token) >= 0) || levelOf(token) >= 0 || token == facade
}

func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
