package builtin_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/workflowd/workflowd/agentcore/permission"
)

func TestFindMatchesNamesAndPaths(t *testing.T) {
	b := newBench(t, permission.ReadOnly)
	for _, name := range []string{"a.go", "cmd/x/main.go", "cmd/x/main_test.go", "cmd/y.md", ".github/ci.yml", ".git/config", "-x.go", "w[1].txt"} {
		b.file(name, "")
	}
	for _, tt := range []struct{ name, pattern, path, want string }{
		{"a name at any depth", "*.go", "", "-x.go\na.go\ncmd/x/main.go\ncmd/x/main_test.go\n"},
		{"a path", "cmd/*/main*.go", "", "cmd/x/main.go\ncmd/x/main_test.go\n"},
		{"directories crossed", "cmd/**/*.{go,md}", "", "cmd/x/main.go\ncmd/x/main_test.go\ncmd/y.md\n"},
		{"a dot in front changes nothing", "./cmd/*.md", "", "cmd/y.md\n"},
		{"directories are found", "x", "", "cmd/x/\n"},
		{"hidden files are found, git's own are not", "{ci.yml,config}", "", ".github/ci.yml\n"},
		{"from a directory", "*.go", "cmd", "cmd/x/main.go\ncmd/x/main_test.go\n"},
		{"an escaped bracket", `w\[1\].txt`, "", "w[1].txt\n"},
		{"what looks like an option is a pattern", "--no-ignore", "", "no path below \".\" matches \"--no-ignore\" (what .gitignore excludes is not looked at)\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b.is(tt.pattern, b.text("find", args{"pattern": tt.pattern, "path": tt.path}), tt.want)
		})
	}
	b.fails("find", args{"pattern": "{a"}, "not a valid glob", "escape")
	b.fails("find", args{"pattern": "/etc/*"}, "absolute", "path")
	b.fails("find", args{"pattern": "*", "path": "a.go"}, "not a directory")
	b.fails("find", args{"pattern": "*", "path": "nope"}, "no such file")
	b.fails("find", args{"pattern": strings.Repeat("{a,", 2000)}, "not a valid glob")
}

func TestFindHonoursGitignoreAsGitDoes(t *testing.T) {
	b := newBench(t, permission.ReadOnly)
	b.file(".gitignore", "# comment\n*.log\n!keep.log\n/build\nnode_modules/\ndocs/*.tmp\n**/cache/**\n!**/cache/keep\n\\#odd\ntrail \\ \n{a,b}\nx?.t\r\n[ab]c\nonly/\n")
	b.file("sub/.gitignore", "*.gen\n!deep/special.log\n/own\n")
	ignored := []string{"a.log", "sub/b.log", "build/x", "node_modules/p/i.js", "sub/node_modules/q", "docs/a.tmp", "cache/c", "sub/cache/d/e",
		"#odd", "{a,b}", "x1.t", "ac", "sub/m.gen", "sub/own/f", "only/f"}
	kept := []string{"keep.log", "sub/keep.log", "sub/build/y", "docs/sub/a.tmp", "cache/keep", "xx1.t", "a", "m.gen", "own", "sub/deep/special.log", "dc"}
	for _, name := range append(ignored, kept...) {
		b.file(name, "needle")
	}
	b.file("elsewhere/only", "needle") // the rule is for directories
	for _, out := range []string{b.text("find", args{"pattern": "*"}), b.text("grep", args{"pattern": "needle", "limit": 1000})} {
		lines := strings.Split(out, "\n")
		has := map[string]bool{}
		for _, l := range lines {
			has[l] = true
		}
		for _, name := range ignored {
			if has[name] {
				t.Errorf("%s was looked at", name)
			}
		}
		for _, name := range append(kept, "elsewhere/only") {
			if !has[name] {
				t.Errorf("%s was left out", name)
			}
		}
	}
	b.is("rules above the start apply", b.text("find", args{"pattern": "*.log", "path": "sub"}), "sub/deep/special.log\nsub/keep.log\n")
	b.is("an ignored directory that is asked for is searched", b.text("find", args{"pattern": "*.js", "path": "node_modules"}), "node_modules/p/i.js\n")
	b.is("also below it", b.text("find", args{"pattern": "*.js", "path": "node_modules/p"}), "node_modules/p/i.js\n")
}

func TestFindIsBoundedAndStops(t *testing.T) {
	b := newBench(t, permission.ReadOnly)
	for i := range 1200 {
		b.file(fmt.Sprintf("d%d/f%04d", i%7, i), "")
	}
	got := b.text("find", args{"pattern": "f*"})
	if n := strings.Count(got, "\n"); n != 1000 || !strings.HasSuffix(got, "[the first 1000 paths; narrow the pattern or the path to see others]") {
		t.Errorf("%d lines, end %q", n, got[len(got)-80:])
	}
	b.is("limit", b.text("find", args{"pattern": "f*", "limit": 2}), "d0/f0000\nd0/f0007\n[the first 2 paths; narrow the pattern or the path to see others]")
	b.is("exactly as many", b.text("find", args{"pattern": "f000?", "path": "d0", "limit": 2}), "d0/f0000\nd0/f0007\n")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := b.callWith(ctx, "find", args{"pattern": "*"}, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: got %v", err)
	}
}
