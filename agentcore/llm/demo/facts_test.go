package demo

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

func TestHowResultsAreRead(t *testing.T) {
	t.Run("a listing has files, folders and links", func(t *testing.T) {
		want := listing{asked: true, files: []string{".gitignore", "a.md"}, folders: []string{"src"}}
		if diff := cmp.Diff(want, listingOf(".gitignore\na.md\nlink@\nsrc/\n[4 of 9 entries]"), cmp.AllowUnexported(listing{})); diff != "" {
			t.Error(diff)
		}
	})
	for _, tt := range []struct {
		name, result string
		want         []match
		said         string
		more         bool
	}{
		{"matches under their file", "a b.go\n3: func main() {\n4- }\n\nc/d.go\n12: x: y\n[2 of 5 matches]", []match{{"a b.go", 3, "func main() {"}, {"c/d.go", 12, "x: y"}}, "", true},
		{"matches that name their file", "./a.go:3: func main() {\nb.go:4:x:9: y", []match{{"a.go", 3, "func main() {"}, {"b.go", 4, "x:9: y"}}, "", false},
		{"no match", "(no matches)", nil, "(no matches)", false},
		{"an error", "grep: permission denied", nil, "grep: permission denied", false},
		{"nothing at all", "", nil, "nothing", false},
		{"a line number out of range", "a.go:99999999999999999999: x", nil, "a.go:99999999999999999999: x", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, said, more := matchesOf(tt.result)
			if diff := cmp.Diff(tt.want, got, cmp.AllowUnexported(match{})); diff != "" || said != tt.said || more != tt.more {
				t.Errorf("said %q, more %t; matches (-want +got):\n%s", said, more, diff)
			}
		})
	}
	for _, tt := range []struct {
		name, result string
		want         reading
	}{
		{"a heading and a sentence", "# Title\n\n![badge](x)\n\nThis is what it does.\n", reading{lines: 5, heading: "Title", sentence: "This is what it does."}},
		{"numbered lines", "     1\t# Title\n     2\tOne two three four.\n", reading{lines: 2, heading: "Title", sentence: "One two three four."}},
		{"a page of a longer file", "x y\n[lines 1 to 1 of 9; continue with offset 2]", reading{lines: 1, partial: true, heading: "x y"}},
		{"no heading", "package main\n\nfunc main() {}\n", reading{lines: 3, heading: "package main"}},
		{"a failure", "open \"x\": permission denied", reading{said: "open \"x\": permission denied"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, readingOf("", tt.result), cmp.AllowUnexported(reading{})); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func FuzzAnswersToAnyResult(f *testing.F) {
	f.Add("a.go\n3: x", "# T")
	f.Add("", "")
	f.Add("[\n(", "1: \xff\x00`*_")
	f.Fuzz(func(t *testing.T, listed, read string) {
		for _, plan := range []bool{true, false} {
			k := &talk{t: t, plan: plan, tools: all, ws: workspace{map[string]string{"ls": listed, "find": read, "grep": listed, "read": read, "bash": read}}}
			answer := k.run("run `x`")
			if !utf8.ValidString(answer) || !strings.HasSuffix(answer, signature) {
				t.Errorf("answer %q", answer)
			}
		}
	})
}
