package archtest

import (
	"slices"
	"strings"
	"testing"
)

// Each module that our code or tests import by name has a line in docs/dependencies.md saying why, and each line there is
// a module that something imports.
func TestEveryDirectModuleSaysWhyItIsHere(t *testing.T) {
	page := read(t, "docs/dependencies.md")
	required := requirements(read(t, "go.mod"))
	used := map[string]string{} // module -> a package that imports it
	for dir, p := range tree(t).packages {
		for _, imported := range slices.Concat(p.Imports, p.TestImports, p.XTestImports) {
			if host, _, _ := strings.Cut(imported, "/"); !strings.Contains(host, ".") || strings.HasPrefix(imported, Module) {
				continue
			}
			mod := owner(required, imported)
			if mod == "" {
				t.Errorf("%s imports %s, which no line of go.mod provides", dir, imported)
				continue
			}
			used[mod] = dir
		}
	}
	for mod, dir := range used {
		if !strings.Contains(page, "| `"+mod+"` |") {
			t.Errorf("%s imports module %s, but docs/dependencies.md has no row for it: add one line why, or do without", dir, mod)
		}
	}
	for _, line := range strings.Split(page, "\n") {
		cells := strings.Split(line, "`")
		if !strings.HasPrefix(line, "| `") || len(cells) < 3 {
			continue
		}
		if used[cells[1]] == "" && (complete || !slices.Contains(required, cells[1])) {
			t.Errorf("docs/dependencies.md explains %s, but nothing imports it: remove the row", cells[1])
		}
	}
}

// requirements lists the modules of go.mod, direct or not.
func requirements(text string) []string {
	var mods []string
	for _, line := range strings.Split(text, "\n") {
		words := strings.Fields(strings.TrimPrefix(strings.TrimSpace(line), "require "))
		if len(words) >= 2 && strings.HasPrefix(words[1], "v") && strings.Contains(words[0], ".") {
			mods = append(mods, words[0])
		}
	}
	return mods
}

// owner returns the module that provides an import path: the longest one that is a prefix of it.
func owner(mods []string, imported string) string {
	best := ""
	for _, m := range mods {
		if under(imported, m) && len(m) > len(best) {
			best = m
		}
	}
	return best
}
