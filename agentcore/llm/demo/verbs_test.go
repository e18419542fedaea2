package demo

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestWhatAPromptAsksToBeDone(t *testing.T) {
	for _, tt := range []struct {
		name, prompt string
		want         []deed
	}{
		{"nothing", "Where is the main function?", nil},
		{"a file, to the end of its line", "write a.txt: some text.\nThanks", []deed{{file: "a.txt", text: "some text."}}},
		{"a file in quotes keeps what follows out", `write a.txt: "x; run it", please`, []deed{{file: "a.txt", text: "x; run it"}}},
		{"an empty file", "write a.txt:", []deed{{file: "a.txt"}}},
		{"a fenced block", "Write `a.go`:\n```go\npackage a\n\nvar x int\n```\nrun `go vet`", []deed{{file: "a.go", text: "package a\n\nvar x int\n"}, {command: "go vet"}}},
		{"an empty fenced block", "write a:\n```\n```", []deed{{file: "a"}}},
		{"a fence that never closes", "write a:\n```\nx", []deed{{file: "a"}}},
		{"commands", "run `a` and RUN `b | c`", []deed{{command: "a"}, {command: "b | c"}}},
		{"a file and a command on one line", "write n: hello, then run `cat n`", []deed{{file: "n", text: "hello"}, {command: "cat n"}}},
		{"the words alone are no request", "I write: run it", nil},
		{"other words that hold them are not meant", "rewrite a: b", nil},
		{"text keeps its colon and ends", "write url: http://x/y", []deed{{file: "url", text: "http://x/y"}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, verbs(tt.prompt), cmp.AllowUnexported(deed{})); diff != "" {
				t.Errorf("verbs(%q) (-want +got):\n%s", tt.prompt, diff)
			}
		})
	}
}

func TestAShortDeedReadsAsItIsAskedFor(t *testing.T) {
	for _, d := range []deed{{command: "go test ./..."}, {file: "a/b.txt", text: "x: y"}, {file: "e"}} {
		if diff := cmp.Diff([]deed{d}, verbs("Then "+d.String()+". *Check:* it is there."), cmp.AllowUnexported(deed{})); diff != "" {
			t.Errorf("%s (-want +got):\n%s", d, diff)
		}
	}
	for _, d := range []deed{{command: strings.Repeat("x", 200)}, {file: "a", text: strings.Repeat("x", 200)}, {file: "a", text: "two\nlines"}, {file: "a", text: `"`}} {
		if got := verbs(d.String()); got != nil {
			t.Errorf("the shortened %s would be done as %v", d, got)
		}
	}
}

func FuzzVerbs(f *testing.F) {
	for _, s := range []string{"write a: b", "write a:\n```\nx\n```", "write a: \"b\" run `c`", "write a: write b: c", "write `", "run ``"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, prompt string) {
		for _, d := range verbs(prompt) {
			if (d.file == "") == (d.command == "") {
				t.Errorf("verbs(%q) gave %#v: neither a file nor a command, or both", prompt, d)
			}
			if !strings.Contains(prompt, d.text) || strings.ContainsAny(d.String(), "\n\r") {
				t.Errorf("verbs(%q) gave %#v, shown as %q", prompt, d, d)
			}
		}
	})
}
