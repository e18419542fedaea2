//go:build unix

package builtin_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/workflowd/workflowd/agentcore/permission"
)

func TestReadReturnsLinesAsTheyAre(t *testing.T) {
	b := newBench(t, permission.ReadOnly)
	for _, tt := range []struct{ name, content, want string }{
		{"a last newline", "one\ntwo\n", "one\ntwo\n"},
		{"no last newline", "one\ntwo", "one\ntwo\n"},
		{"an empty file", "", "(the file is empty)"},
		{"an empty line", "\n", "\n"},
		{"CRLF", "one\r\ntwo\r\n", "one\ntwo\n"},
		{"indentation and tabs", "\tif x {\n  y\n", "\tif x {\n  y\n"},
		{"a byte order mark", "\xef\xbb\xbfone\n", "one\n"},
		{"UTF-16 little endian", "\xff\xfea\x00\xe9\x00\n\x00=\xd8\x00\xde", "aé\n😀\n"},
		{"UTF-16 big endian", "\xfe\xff\x00a\x00\n\x00b", "a\nb\n"},
		{"invalid UTF-8", "a\xff\xfe\x80b\n", "a\uFFFD\uFFFD\uFFFDb\n"},
		{"terminal sequences", "a\x1b[31mred\x1b[0m\x07b\n", "aredb\n[3 control characters are not shown]"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b.file("f", tt.content)
			b.is("text", b.text("read", args{"path": "f"}), tt.want)
		})
	}
}

func TestReadSaysHowToGetTheRest(t *testing.T) {
	b := newBench(t, permission.ReadOnly)
	var all strings.Builder
	for i := 1; i <= 5321; i++ {
		fmt.Fprintf(&all, "line %d\n", i)
	}
	b.file("f", all.String())
	got := b.text("read", args{"path": "f"})
	if !strings.HasPrefix(got, "line 1\n") || !strings.HasSuffix(got, "line 2000\n[lines 1 to 2000 of 5321; continue with offset 2001]") {
		t.Errorf("first page: …%q", got[len(got)-90:])
	}
	b.is("a window", b.text("read", args{"path": "f", "offset": 10, "limit": 2}), "line 10\nline 11\n[lines 10 to 11 of 5321; continue with offset 12]")
	b.is("the last line", b.text("read", args{"path": "f", "offset": 5321}), "line 5321\n")
	b.is("offset 0 is the first line", b.text("read", args{"path": "f", "offset": 0, "limit": 1}), "line 1\n[lines 1 to 1 of 5321; continue with offset 2]")
	b.fails("read", args{"path": "f", "offset": 6000}, "5321 lines", "6000")

	var joined strings.Builder // all pages together are the file
	for offset := 1; ; {
		res, err := b.call("read", args{"path": "f", "offset": offset})
		if err != nil {
			t.Fatal(err)
		}
		text, _, _ := strings.Cut(res.Text(), "[lines")
		joined.WriteString(text)
		var d struct{ To, Total int }
		if err := json.Unmarshal(res.Details, &d); err != nil {
			t.Fatal(err)
		}
		if d.To == d.Total {
			break
		}
		offset = d.To + 1
	}
	if joined.String() != all.String() {
		t.Error("the pages do not make up the file")
	}
}

// Bugs 32: the limit falls inside a rune.
func TestReadCutsAtWholeLinesAndRunes(t *testing.T) {
	b := newBench(t, permission.ReadOnly)
	b.file("bytes", strings.Repeat(strings.Repeat("漢", 300)+"\n", 100))
	got := b.text("read", args{"path": "bytes"})
	if lines := strings.Count(got, "\n"); lines != 56 || !strings.HasSuffix(got, "漢\n[lines 1 to 56 of 100; continue with offset 57]") {
		t.Errorf("%d lines, end %q", lines, got[len(got)-70:])
	}
	for shift := range 4 {
		b.file("long", strings.Repeat("x", shift)+strings.Repeat("🧭", 1_250_000)+"\nnext\n")
		got = b.text("read", args{"path": "long"})
		if !strings.Contains(got, "line 1 has 4.8 MiB") || !strings.HasSuffix(got, "lines 1 to 1 of 2; continue with offset 2]") || strings.Contains(got, "\uFFFD") {
			t.Errorf("a long line: …%q", got[len(got)-200:])
		}
	}
	b.is("behind it", b.text("read", args{"path": "long", "offset": 2}), "next\n")
}

func TestReadOfAHugeFileIsQuickAndBounded(t *testing.T) {
	b := newBench(t, permission.ReadOnly)
	path := filepath.Join(b.dir, "huge")
	b.file("huge", "first\n")
	if err := os.Truncate(path, 1<<40); err != nil { // sparse: NUL bytes far behind the beginning
		t.Fatal(err)
	}
	b.fails("read", args{"path": "huge"}, "binary", "1024.0 GiB")
	b.file("big", strings.Repeat(strings.Repeat("y", 99)+"\n", 300_000))
	if got := b.text("read", args{"path": "big", "limit": 1}); !strings.HasSuffix(got, "[lines 1 to 1; continue with offset 2]") {
		t.Errorf("not counted to the end: %q", got)
	}
}

func TestReadRefusesWhatIsNoTextFileAndSaysWhatToDo(t *testing.T) {
	b := newBench(t, permission.ReadOnly)
	b.file("dir/README.md", "x")
	b.file("image", "\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR")
	if err := syscall.Mkfifo(filepath.Join(b.dir, "fifo"), 0o600); err != nil {
		t.Fatal(err)
	}
	b.fails("read", args{"path": "dir"}, "is a directory", "ls")
	b.fails("read", args{"path": "fifo"}, "named pipe", "only regular files")
	b.fails("read", args{"path": "image"}, "binary file", "image/png", "bash")
	b.fails("read", args{"path": "dir/readme"}, "did you mean", "dir/README.md")
	b.fails("read", args{"path": "nothing/at/all"}, "no such file", "find")
	b.fails("read", args{"path": "dir/README.md/x"}, "not a directory")
	b.fails("read", args{"path": ""}, "/path")
	b.fails("read", args{"path": "dir/README.md", "lines": 3}, "/lines: unknown property")
	b.fails("read", args{"path": "dir/README.md", "limit": 0}, "/limit")
	b.fails("read", args{"path": "a\x00b"}, "NUL")

	auto := newBench(t, permission.Auto)
	auto.fails("read", args{"path": "/dev/zero"}, "a device")
}
