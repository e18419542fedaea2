package workflowtest_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/workflowd/workflowd/internal/docblock"
)

const page = "../docs/testing-workflows.md"

// The page shows the example as it runs.
func TestThePageShowsTheExample(t *testing.T) {
	text, err := os.ReadFile("example_test.go")
	if err != nil {
		t.Fatal(err)
	}
	whole := string(text)
	parts := map[string]string{}
	from := strings.Index(whole, "// An expense is looked up")
	cut := strings.Index(whole, "// The books are replaced")
	if from < 0 || cut < from {
		t.Fatal("the example has lost its parts")
	}
	parts["workflow under test"], parts["test of it"] = whole[from:cut], whole[cut:]
	for name, part := range parts {
		docblock.Check(t, page, name, "```go\n"+strings.TrimSpace(part)+"\n```\n", *update)
	}
}

// maxNames bounds what a newcomer has to read. It counts what stands at the top of the package.
const maxNames = 20

func TestThePackageHasFewExportedNames(t *testing.T) {
	packages, err := parser.ParseDir(token.NewFileSet(), ".", nil, 0) //nolint:staticcheck // one package, no build tags
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, f := range packages["workflowtest"].Files {
		for _, decl := range f.Decls {
			switch d := decl.(type) {
			case *ast.FuncDecl:
				if d.Recv == nil {
					names = append(names, d.Name.Name)
				}
			case *ast.GenDecl:
				for _, spec := range d.Specs {
					if s, ok := spec.(*ast.TypeSpec); ok {
						names = append(names, s.Name.Name)
					}
				}
			}
		}
	}
	names = slices.DeleteFunc(names, func(n string) bool { return !ast.IsExported(n) })
	if len(names) == 0 || len(names) > maxNames {
		t.Errorf("%d exported names, at most %d: %s", len(names), maxNames, strings.Join(names, " "))
	}
}
