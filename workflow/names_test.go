package workflow

import (
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strings"
	"testing"
)

// maxNames bounds what a newcomer has to read in package workflow. Source: design section 6, "adoption".
const maxNames = 60

func TestThePackageHasFewExportedNames(t *testing.T) {
	packages, err := parser.ParseDir(token.NewFileSet(), ".", nil, 0) //nolint:staticcheck // one package, no build tags
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	add := func(name string) {
		if ast.IsExported(name) {
			names = append(names, name)
		}
	}
	for file, f := range packages["workflow"].Files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		for _, decl := range f.Decls {
			switch d := decl.(type) {
			case *ast.FuncDecl:
				if d.Recv == nil {
					add(d.Name.Name)
				}
			case *ast.GenDecl:
				for _, spec := range d.Specs {
					switch s := spec.(type) {
					case *ast.TypeSpec:
						add(s.Name.Name)
					case *ast.ValueSpec:
						for _, name := range s.Names {
							add(name.Name)
						}
					}
				}
			}
		}
	}
	slices.Sort(names)
	if len(names) > maxNames {
		t.Errorf("%d exported names, at most %d: %s", len(names), maxNames, strings.Join(names, " "))
	}
	t.Logf("%d names", len(names))
}
