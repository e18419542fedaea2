package builtin_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/workflowd/workflowd/agentcore/permission"
)

// Bugs 52: nothing a model writes is an option of anything.
func TestGrepTakesEveryPatternForAPattern(t *testing.T) {
	b := newBench(t, permission.ReadOnly)
	b.file("p.sh", "#!/bin/sh\ntouch executed\n")
	if err := os.Chmod(filepath.Join(b.dir, "p.sh"), 0o755); err != nil {
		t.Fatal(err)
	}
	b.file("a:12:b.txt", "x --pre=./p.sh\ny -needle\nz --help\n-f/etc/passwd\na->b\n")
	b.file("-x", "dash\n")
	for pattern, want := range map[string]string{
		"--pre=./p.sh":  "a:12:b.txt\n  1: x --pre=./p.sh\n",
		"-needle":       "a:12:b.txt\n  2: y -needle\n",
		"--help":        "a:12:b.txt\n  3: z --help\n",
		"-f/etc/passwd": "a:12:b.txt\n  4: -f/etc/passwd\n",
		"->":            "a:12:b.txt\n  5: a->b\n",
	} {
		b.is(pattern, b.text("grep", args{"pattern": pattern}), want)
	}
	b.is("a path that looks like one", b.text("grep", args{"pattern": "dash", "path": "-x"}), "-x\n  1: dash\n")
	b.is("a glob that looks like one", b.text("grep", args{"pattern": "dash", "glob": "--no-ignore"}),
		"no match for \"dash\" below \".\" in 0 files (what .gitignore excludes is not searched)\n")
	b.fails("grep", args{"pattern": "("}, "not a valid regular expression", "literal")
	b.is("literal", b.text("grep", args{"pattern": "(", "literal": true}), "no match for \"(\" below \".\" in 3 files (what .gitignore excludes is not searched)\n")
	if _, err := os.Stat(filepath.Join(b.dir, "executed")); !os.IsNotExist(err) {
		t.Error("a pattern ran a program")
	}
}

func TestGrepNamesBinaryFilesAndCutsLongLines(t *testing.T) {
	b := newBench(t, permission.ReadOnly)
	b.file("bin", "\x7fELF\x00\x01needle\x00needle")
	b.file("late", strings.Repeat("text\n", 100_000)+"needle\x00\n")
	b.file("long", strings.Repeat("漢", 1_700_000)+"needle"+strings.Repeat("字", 20_000))
	b.file("utf16", "\xff\xfen\x00e\x00e\x00d\x00l\x00e\x00\n\x00")
	b.file("bad", "\xff\xfeneedle\x80\x1b[0m\n"[2:])
	got := b.text("grep", args{"pattern": "needle"})
	for _, want := range []string{"bin: binary file matches\n", "late: binary file matches\n", "utf16\n  1: needle\n", "bad\n  1: needle\uFFFD\n", "long\n  1: …漢", "needle字", "字… [line of "} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in %q", want, got)
		}
	}
	if len(got) > 1500 || strings.Contains(got, "ELF") {
		t.Errorf("something was dumped: %d bytes", len(got))
	}
}

func TestGrepShowsContextOnceAndInOrder(t *testing.T) {
	b := newBench(t, permission.ReadOnly)
	b.file("f", "1\n2\nhit a\n4\nhit b\n6\n7\n8\n9\n10\nhit c\n")
	b.file("none", "1\n2\n")
	b.is("context", b.text("grep", args{"pattern": "hit", "context": 1}),
		"f\n  2- 2\n  3: hit a\n  4- 4\n  5: hit b\n  6- 6\n  --\n  10- 10\n  11: hit c\n")
	b.is("none", b.text("grep", args{"pattern": "hit [bc]"}), "f\n  5: hit b\n  11: hit c\n")
	b.is("limit", b.text("grep", args{"pattern": "hit", "limit": 2}),
		"f\n  3: hit a\n  5: hit b\n[the first 2 matching lines; narrow the pattern, glob or path, or raise limit]")
	b.is("exactly as many", b.text("grep", args{"pattern": "hit", "limit": 3}), "f\n  3: hit a\n  5: hit b\n  11: hit c\n")
}

func TestGrepMatchesLineByLine(t *testing.T) {
	b := newBench(t, permission.ReadOnly)
	b.file("crlf", "foo\r\nbar\r\n")
	b.file("f", "Kelvin \u212a\nMASS\nlong \u017ff\nab\n\ncd")
	for _, tt := range []struct {
		name string
		in   args
		want string
	}{
		{"anchors are those of the line", args{"pattern": "^foo$"}, "crlf\n  1: foo\n"},
		{"also of the text", args{"pattern": `\Abar\z`}, "crlf\n  2: bar\n"},
		{"a class does not cross lines", args{"pattern": `b[^x]c`}, ""},
		{"an empty line", args{"pattern": "^$", "path": "f"}, "f\n  5: \n"},
		{"the last line without newline", args{"pattern": "cd"}, "f\n  6: cd\n"},
		{"case does not count", args{"pattern": "mass", "ignoreCase": true}, "f\n  2: MASS\n"},
		{"the Kelvin sign folds to k", args{"pattern": "kelvin k", "ignoreCase": true}, "f\n  1: Kelvin \u212a\n"},
		{"the long s folds to s", args{"pattern": "LONG SF", "ignoreCase": true}, "f\n  3: long \u017ff\n"},
		{"case counts", args{"pattern": "mass"}, ""},
		{"a flag of its own", args{"pattern": "(?i)mas{2}"}, "f\n  2: MASS\n"},
		{"an alternative has no required text", args{"pattern": "foo|cd"}, "crlf\n  1: foo\nf\n  6: cd\n"},
		{"only some files", args{"pattern": "foo|cd", "glob": "c*"}, "crlf\n  1: foo\n"},
		{"all but some files", args{"pattern": "foo|cd", "glob": "!c*"}, "f\n  6: cd\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := b.text("grep", tt.in)
			if tt.want == "" && strings.HasPrefix(got, "no match") {
				return
			}
			b.is(tt.name, got, tt.want)
		})
	}
}

func TestGrepCountsLinesOverBlocks(t *testing.T) {
	b := newBench(t, permission.ReadOnly)
	var text strings.Builder
	want := "f\n"
	for i := 1; i <= 120_000; i++ {
		line := fmt.Sprintf("row %d", i)
		if i%12_345 == 0 {
			line += " Mark"
			want += fmt.Sprintf("  %d: %s\n", i, line)
		}
		text.WriteString(line + "\n")
	}
	b.file("f", text.String())
	for _, pattern := range []string{"Mark", "(?i)mark$", `M[a]rk|zzz`, `^row \d+ M`} {
		b.is(pattern, b.text("grep", args{"pattern": pattern}), want)
	}
	got := b.text("grep", args{"pattern": "Mark", "context": 1, "limit": 1})
	if !strings.HasPrefix(got, "f\n  12344- row 12344\n  12345: row 12345 Mark\n") {
		t.Errorf("context: got %q", got)
	}
}

func TestGrepIsBoundedAndStops(t *testing.T) {
	b := newBench(t, permission.ReadOnly)
	b.file("f", strings.Repeat("needle "+strings.Repeat("é", 200)+"\n", 5000))
	got := b.text("grep", args{"pattern": "needle", "limit": 2000})
	if !strings.Contains(got, "[the first 12") { // 50 KiB hold some 120 lines
		t.Errorf("end: %q", got[len(got)-120:])
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := b.callWith(ctx, "grep", args{"pattern": "x"}, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: got %v", err)
	}
}
