package docblock_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/workflowd/workflowd/internal/docblock"
)

func TestReplaceChangesOneBlockOnly(t *testing.T) {
	const text = "a\n<!-- one -->\nold\n<!-- /one -->\nb\n<!-- two -->\n<!-- /two -->\n"
	got, next, err := docblock.Replace(text, "one", "new\n")
	if err != nil || got != "old\n" || next != "a\n<!-- one -->\nnew\n<!-- /one -->\nb\n<!-- two -->\n<!-- /two -->\n" {
		t.Errorf("Replace = %q, %q, %v", got, next, err)
	}
	if got, _, err := docblock.Replace(text, "two", ""); err != nil || got != "" {
		t.Errorf("an empty block = %q, %v", got, err)
	}
	for name, bad := range map[string]string{
		"it is not there":     "a\n",
		"it is open":          "<!-- one -->\n",
		"it is there twice":   text + text,
		"its end comes first": "<!-- /one -->\n<!-- one -->\n",
	} {
		if _, _, err := docblock.Replace(bad, "one", "x"); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func TestCheckWritesWhenItIsToldAndIsContentAfterwards(t *testing.T) {
	file := filepath.Join(t.TempDir(), "x.md")
	if err := os.WriteFile(file, []byte("<!-- one -->\n<!-- /one -->\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	want := docblock.Table([]string{"a", "b"}, [][]string{{"1", "2"}})
	docblock.Check(t, file, "one", want, true)
	docblock.Check(t, file, "one", want, false)
	text, err := os.ReadFile(file)
	if err != nil || string(text) != "<!-- one -->\n| a | b |\n|---|---|\n| 1 | 2 |\n<!-- /one -->\n" {
		t.Errorf("%q, %v", text, err)
	}
	told := &listener{TB: t}
	docblock.Check(told, file, "one", "other\n", false)
	docblock.Check(told, file, "two", "other\n", false)
	if told.errors != 2 {
		t.Errorf("%d differences told, want two", told.errors)
	}
}

// listener counts what a check tells.
type listener struct {
	testing.TB
	errors int
}

func (l *listener) Helper()               {}
func (l *listener) Errorf(string, ...any) { l.errors++ }
