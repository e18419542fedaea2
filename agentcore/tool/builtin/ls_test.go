package builtin_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/workflowd/workflowd/agentcore/permission"
)

func TestLsShowsEveryEntryWithItsKind(t *testing.T) {
	b := newBench(t, permission.ReadOnly)
	b.is("empty", b.text("ls", args{}), "(the directory is empty)")
	for _, name := range []string{"b.txt", ".hidden", "-x", "a:12:b.txt", "line\nbreak", "esc\x1b[31m", "sub/f", "ünï"} {
		b.file(name, "12345")
	}
	b.link("link", "sub")
	b.link("dangling", "nowhere")
	want := "-x\n.hidden\na:12:b.txt\nb.txt\ndangling@\n\"esc\\x1b[31m\"\n\"line\\nbreak\"\nlink@\nsub/\nünï\n"
	b.is("listing", b.text("ls", args{}), want)
	b.is("the same with a dot", b.text("ls", args{"path": "."}), want)
	b.is("a file", b.text("ls", args{"path": "b.txt"}), "b.txt is a file, 5 bytes")
	b.fails("ls", args{"path": "sup"}, "no such file")
}

func TestLsOfAHugeDirectoryIsBounded(t *testing.T) {
	b := newBench(t, permission.ReadOnly)
	for i := range 2100 {
		b.file(fmt.Sprintf("f%04d", i), "")
	}
	got := b.text("ls", args{})
	if !strings.HasSuffix(got, "f1999\n[2000 of 2100 entries; see the others with find and a pattern]") {
		t.Errorf("end: %q", got[len(got)-100:])
	}
}
