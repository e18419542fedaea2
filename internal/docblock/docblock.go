package docblock

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// Check compares the block of a name in a file with want, or writes want there when update is set. It fails t when the
// block does not exist or says something else.
func Check(t testing.TB, file, name, want string, update bool) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	got, next, err := Replace(string(text), name, want)
	switch {
	case err != nil:
		t.Errorf("%s: %v", file, err)
	case got == want:
	case update:
		if err := os.WriteFile(file, []byte(next), 0o644); err != nil {
			t.Error(err)
		}
	default:
		t.Errorf("%s: block %q is not what the code says; run this test with -update and review the difference. It is\n%s\nwant\n%s", file, name, got, want)
	}
}

// Replace returns the content of a block, and the text with want in its place. Content begins and ends at a line.
func Replace(text, name, want string) (got, next string, err error) {
	open, end := "<!-- "+name+" -->\n", "<!-- /"+name+" -->\n"
	if strings.Count(text, open) != 1 || strings.Count(text, end) != 1 {
		return "", "", fmt.Errorf("want one line %q and one line %q", strings.TrimSpace(open), strings.TrimSpace(end))
	}
	head, rest, _ := strings.Cut(text, open)
	got, tail, ok := strings.Cut(rest, end)
	if !ok {
		return "", "", fmt.Errorf("%q stands ahead of %q", strings.TrimSpace(end), strings.TrimSpace(open))
	}
	return got, head + open + want + end + tail, nil
}

// Table renders a Markdown table. Every row has as many cells as the head.
func Table(head []string, rows [][]string) string {
	var b strings.Builder
	line := func(cells []string) { b.WriteString("| " + strings.Join(cells, " | ") + " |\n") }
	line(head)
	b.WriteString(strings.Repeat("|---", len(head)) + "|\n")
	for _, row := range rows {
		line(row)
	}
	return b.String()
}
