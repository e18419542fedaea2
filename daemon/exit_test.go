package daemon

import (
	"context"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/workflowd/workflowd/agentcore/fault"
)

// docs/operations.md says what the constants say: the same codes with the same words.
func TestTheExitCodesAreTheDocumentedOnes(t *testing.T) {
	page, err := os.ReadFile("../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(page), "\n## Exit codes\n")
	section, _, _ = strings.Cut(section, "\n## ")
	documented := map[string]string{}
	for _, row := range regexp.MustCompile(`(?m)^\| (\d+) \| (.*) \|$`).FindAllStringSubmatch(section, -1) {
		documented[row[1]] = row[2]
	}
	if diff := cmp.Diff(constants(t), documented); diff != "" {
		t.Errorf("exit.go (-) and docs/operations.md (+) differ:\n%s", diff)
	}
}

// constants are the Exit constants of exit.go with their comments.
func constants(t *testing.T) map[string]string {
	t.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), "exit.go", nil, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]string{}
	ast.Inspect(f, func(n ast.Node) bool {
		if v, ok := n.(*ast.ValueSpec); ok && strings.HasPrefix(v.Names[0].Name, "Exit") {
			found[v.Values[0].(*ast.BasicLit).Value] = strings.TrimSpace(v.Comment.Text())
		}
		return true
	})
	return found
}

func TestAnErrorHasTheExitCodeOfItsKind(t *testing.T) {
	for _, c := range []struct {
		name string
		err  error
		want int
	}{
		{"no error", nil, ExitOK},
		{"an error without a kind", errors.New("x"), ExitFailed},
		{"a failed model", fault.New(fault.ModelError, "x"), ExitFailed},
		{"a full disk", fault.New(fault.Storage, "x"), ExitFailed},
		{"a wrong flag", usage("x"), ExitUsage},
		{"a wrong input with a hint", withHint(fault.New(fault.InputValidation, "x"), "y"), ExitUsage},
		{"an unknown name", fault.New(fault.NotFound, "x"), ExitNotFound},
		{"a question without an answer", fault.New(fault.UserInputRequired, "x"), ExitWaiting},
		{"another payload under the same id", fault.New(fault.Conflict, "x"), ExitConflict},
		{"another process, wrapped", fmt.Errorf("open: %w", fault.New(fault.SessionBusy, "x")), ExitConflict},
		{"a run that was stopped", fault.New(fault.ExecutionAborted, "x"), ExitInterrupted},
		{"an interrupt", quiet{context.Canceled}, ExitInterrupted},
	} {
		if got := Exit(c.err); got != c.want {
			t.Errorf("%s: got %d, want %d", c.name, got, c.want)
		}
	}
}

func TestAnErrorIsToldInOneLineWithWhatToDo(t *testing.T) {
	for _, c := range []struct {
		name string
		err  error
		want string
	}{
		{"several violations", fault.New(fault.InputValidation, "input: /a: missing\n/b: unknown"), "input: /a: missing; /b: unknown"},
		{"a hint", withHint(errors.New("broken"), "mend it"), "broken; mend it"},
		{"text of somebody else", errors.New("a\x1b[2Jb\r\n"), "a[2Jb"},
		{"a usage error", usage("--x: no"), "--x: no; see 'workflowd run --help'"},
	} {
		if got := told(c.err); got != c.want {
			t.Errorf("%s: got %q, want %q", c.name, got, c.want)
		}
	}
}
