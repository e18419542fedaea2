package builtin_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/workflowd/workflowd/agentcore/permission"
)

type change map[string]any

func swap(from, to string) change { return change{"oldText": from, "newText": to} }

func everywhere(from, to string) change {
	return change{"oldText": from, "newText": to, "replaceAll": true}
}

func (b *bench) edit(path string, edits ...change) (string, string) {
	b.t.Helper()
	res, err := b.call("edit", args{"path": path, "edits": edits})
	if err != nil {
		b.t.Fatal(err)
	}
	var d struct{ Diff string }
	if err := json.Unmarshal(res.Details, &d); err != nil {
		b.t.Fatal(err)
	}
	return res.Text(), d.Diff
}

func (b *bench) holds(name, want string) {
	b.t.Helper()
	if got, err := os.ReadFile(filepath.Join(b.dir, name)); err != nil || string(got) != want {
		b.t.Errorf("%s holds %q, %v; want %q", name, got, err, want)
	}
}

// Only what is named changes: byte order mark, line endings of untouched lines, the missing last newline, all of it stays.
// Source: bugs 50.
func TestEditKeepsWhatItDoesNotTouch_Bug50(t *testing.T) {
	const bom = "\xef\xbb\xbf"
	cases := []struct {
		name, before string
		edits        []change
		after        string
	}{
		{"one line of LF", "a\nb\nc\n", []change{swap("b", "B")}, "a\nB\nc\n"},
		{"LF text in a CRLF file behind a mark", bom + "a\r\nb\r\nc", []change{swap("a\nb", "A\nB")}, bom + "A\r\nB\r\nc"},
		{"several edits at once", bom + "a\r\nb\r\nc", []change{swap("c", "C"), swap("a\nb", "A\nB")}, bom + "A\r\nB\r\nC"},
		{"a mixed file keeps each line's ending", "x\r\ny\nz\n", []change{swap("y", "Y")}, "x\r\nY\nz\n"},
		{"a mixed place keeps its endings in order", "x\r\ny\nz\n", []change{swap("x\ny\n", "X\nY\n")}, "X\r\nY\nz\n"},
		{"new lines are like those they replace", "x\r\ny\nz\n", []change{swap("x\n", "x\nw\n")}, "x\r\nw\r\ny\nz\n"},
		{"new lines inside a line are like the line", "x\r\ny\nz\n", []change{swap("x", "x\nw")}, "x\r\nw\r\ny\nz\n"},
		{"new lines in a last line without an end are like the line before", "x\r\ny", []change{swap("y", "y\nz")}, "x\r\ny\r\nz"},
		{"oldText with CRLF in an LF file", "a\nb\nc\n", []change{swap("a\r\nb", "A\r\nB")}, "A\nB\nc\n"},
		{"a lone CR is text", "a\rb\n", []change{swap("a\rb", "c")}, "c\n"},
		{"the last newline can go", "a\nb\n", []change{swap("b\n", "b")}, "a\nb"},
		{"every place", "a b a\na", []change{everywhere("a", "c")}, "c b c\nc"},
		{"a part is removed", "a b c", []change{swap(" b", "")}, "a c"},
		{"bytes that are no text stay", "a\xff\xfe\nb\n", []change{swap("b", "B")}, "a\xff\xfe\nB\n"},
		{"exact goes before loose", "“b” \"b\"", []change{swap(`"b"`, "c")}, "“b” c"},
		{"other quotes, when just one place has them", "say “b” — now  \n“x”", []change{swap(`say "b" - now`, "say c")}, "say c  \n“x”"},
		{"spaces at line ends do not matter, and stay where they are not touched", "if x {\u00a0\n\ty()\t\n}\n", []change{swap("if x {\n\ty()\n}", "if z {\n\ty()\n}")}, "if z {\n\ty()\n}\n"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			b := newBench(t, permission.Workspace)
			b.file("f", c.before)
			b.edit("f", c.edits...)
			b.holds("f", c.after)
		})
	}
}

func TestEditIsAllOrNothingAndSaysWhatToDo(t *testing.T) {
	b := newBench(t, permission.Workspace)
	const before = "one\ntwo\n\tthree\ntwo\n“four”\n”four“\n"
	cases := []struct {
		name  string
		edits []change
		want  string
	}{
		{"a text that is not there", []change{swap("five", "5")}, "oldText does not occur in the file. Read the file again"},
		{"the second of two", []change{swap("one", "1"), swap("five", "5")}, "oldText of edit 2 does not occur"},
		{"a text with another indentation", []change{swap("  three\nfour", "3")}, "; line 3 is like its first line"},
		{"a text that is there twice", []change{swap("two", "2")}, "oldText occurs 2 times, at lines 2, 4: add lines around it until it is unique, or set replaceAll"},
		{"a text that is similar twice", []change{swap(`"four"`, "4")}, "2 places are similar, at lines 5, 6"},
		{"edits that overlap", []change{swap("one\ntwo\n\t", "x"), swap("\tthree", "3")}, "edits 1 and 2 overlap at line 3"},
		{"the same place twice", []change{swap("one", "1"), swap("one", "2")}, "edits 1 and 2 overlap at line 1"},
		{"nothing new", []change{swap("one", "one")}, "nothing would change"},
		{"nothing new but for line endings", []change{swap("one\ntwo\n\t", "one\r\ntwo\r\n\t")}, "nothing would change"},
		{"an empty text", []change{swap("", "x")}, "/edits/0/oldText"},
		{"no edits", nil, "/edits"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			b.file("f", before)
			b.fails("edit", args{"path": "f", "edits": append([]change{}, c.edits...)}, c.want)
			b.holds("f", before)
		})
	}
	b.fails("edit", args{"path": "nope", "edits": []change{swap("a", "b")}}, "nope")
	b.file("d/f", "x")
	b.fails("edit", args{"path": "d", "edits": []change{swap("a", "b")}}, "directory")
	b.file("binary", "a\x00b")
	b.fails("edit", args{"path": "binary", "edits": []change{swap("a", "b")}}, "binary")
	b.fails("edit", args{"path": "../out", "edits": []change{swap("a", "b")}}, "outside")
}

func TestEditTellsTheDifferenceAndALooseMatch(t *testing.T) {
	b := newBench(t, permission.Workspace)
	b.file("f", "a\n“b”\nc\n")
	text, diff := b.edit("f", swap("a", "A"), swap(`"b"`, "B"))
	b.is("text", text, "edited f: 2 places changed, 6 bytes now\nEdit 2 matched only with other quotes, dashes or spaces than the file has; read the place again.")
	b.is("diff", diff, "@@ -1,3 +1,3 @@\n-a\n-“b”\n+A\n+B\n c\n")
}

func TestEditKeepsModeLinkAndEncoding(t *testing.T) {
	b := newBench(t, permission.Workspace)
	b.file("script", "old")
	if err := os.Chmod(filepath.Join(b.dir, "script"), 0o750); err != nil {
		t.Fatal(err)
	}
	b.link("link", "script")
	b.edit("link", swap("old", "new"))
	info, err := os.Lstat(filepath.Join(b.dir, "script"))
	if err != nil || info.Mode().Perm() != 0o750 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	if info, err := os.Lstat(filepath.Join(b.dir, "link")); err != nil || info.Mode()&os.ModeSymlink == 0 {
		t.Errorf("the link became %v, %v", info.Mode(), err)
	}
	b.holds("script", "new")
	b.file("wide", "\xff\xfea\x00\r\x00\n\x00b\x00")
	b.edit("wide", swap("a\nb", "a\nc\nb"))
	b.holds("wide", "\xff\xfea\x00\r\x00\n\x00c\x00\r\x00\n\x00b\x00")
	b.file("broken", "\xff\xfea\x00\x00\xd8")
	b.fails("edit", args{"path": "broken", "edits": []change{swap("a", "b")}}, "no clean UTF-16")
}

// Edits of one file, by two names of it, are one after another: none is lost.
func TestEditsOfOneFileAreSerialised(t *testing.T) {
	b := newBench(t, permission.Workspace)
	var want, before strings.Builder
	const editors = 24
	for i := range editors {
		fmt.Fprintf(&before, "line %d.\n", i)
		fmt.Fprintf(&want, "done %d.\n", i)
	}
	b.file("f", before.String())
	b.link("alias", "f")
	var wg sync.WaitGroup
	for i := range editors {
		wg.Go(func() {
			b.edit([]string{"f", "alias"}[i%2], swap(fmt.Sprintf("line %d.", i), fmt.Sprintf("done %d.", i)))
		})
	}
	wg.Wait()
	b.holds("f", want.String())
}

// Three hundred generated edits against an oracle that is slow and obviously right: it looks for the text line ending by
// line ending, in the bytes of the file.
func TestGeneratedEditsAgreeWithAnOracle(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	b := newBench(t, permission.Workspace)
	pick := func(list ...string) string { return list[rng.IntN(len(list))] }
	word := func() string { return pick("a", "b", "ab", "ba", "é", "x y", "") }
	for n := range 300 {
		var file []string // line, ending, line, ending, …
		for range 1 + rng.IntN(8) {
			file = append(file, word()+word(), pick("\n", "\r\n"))
		}
		if rng.IntN(2) == 0 {
			file[len(file)-1] = ""
		}
		mark := pick("", "\xef\xbb\xbf")
		before := mark + strings.Join(file, "")
		from, to := word()+pick("", "\n"+word(), "\n"), word()+pick("", "\n"+word(), "\n"+word()+"\n")
		if from == "" || from == to {
			continue
		}
		want, places := oracle(strings.TrimPrefix(before, mark), from, to)
		b.file("f", before)
		res, err := b.call("edit", args{"path": "f", "edits": []change{everywhere(from, to)}})
		switch {
		case places == 0 && err == nil && !strings.Contains(res.Text(), "matched only"):
			t.Fatalf("%d: %q: %q became %q without a place", n, before, from, to)
		case places == 0:
			continue
		case err != nil:
			t.Fatalf("%d: %q: %q to %q: %v", n, before, from, to, err)
		}
		if got, err := os.ReadFile(filepath.Join(b.dir, "f")); err != nil || !bytes.Equal(got, []byte(mark+want)) {
			t.Fatalf("%d: in %q, %q to %q gave %q, %v; want %q", n, before, from, to, got, err, mark+want)
		}
	}
}

// oracle replaces every place, from the left, character by character.
func oracle(text, from, to string) (after string, places int) {
	for at := 0; at < len(text); {
		n, ends := matches(text[at:], from)
		if n < 0 {
			after += text[at : at+1]
			at++
			continue
		}
		if len(ends) == 0 {
			ends = []string{lineEnd(text, at+n)}
		}
		for i, line := range strings.Split(to, "\n") {
			if i > 0 {
				after += ends[min(i-1, len(ends)-1)]
			}
			after += line
		}
		at += n
		places++
	}
	return after, places
}

// matches returns how many bytes of text the lines of from cover at its beginning, or -1, and the line endings among them.
func matches(text, from string) (n int, ends []string) {
	for _, r := range []byte(from) {
		rest := text[n:]
		switch {
		case r == '\n' && strings.HasPrefix(rest, "\r\n"):
			n, ends = n+2, append(ends, "\r\n")
		case r == '\n' && strings.HasPrefix(rest, "\n"):
			n, ends = n+1, append(ends, "\n")
		case r != '\n' && rest != "" && rest[0] == r:
			n++
		default:
			return -1, nil
		}
	}
	return n, ends
}

// lineEnd is the ending of the line that holds an offset, or of the one before when it has none.
func lineEnd(text string, at int) string {
	rest := text[at:]
	if i := strings.IndexByte(rest, '\n'); i >= 0 {
		if i > 0 && rest[i-1] == '\r' {
			return "\r\n"
		}
		return "\n"
	}
	if i := strings.LastIndexByte(text[:at], '\n'); i > 0 && text[i-1] == '\r' {
		return "\r\n"
	}
	return "\n"
}

// Promise: P-421, P-471
func TestEditLeavesTheWorkspaceByNoLink_Bug53(t *testing.T) {
	b := newBench(t, permission.Workspace)
	out := filepath.Join(filepath.Dir(b.dir), "out")
	if err := os.MkdirAll(out, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(out, "v.txt"), []byte("a"), 0o644); err != nil {
		t.Fatal(err)
	}
	b.link("n.md", "../out/v.txt")
	b.link("ln", "../out")
	for _, path := range []string{"n.md", "ln/v.txt", "../out/v.txt", filepath.Join(out, "v.txt")} {
		b.fails("edit", args{"path": path, "edits": []change{swap("a", "b")}}, "outside")
	}
	if got, err := os.ReadFile(filepath.Join(out, "v.txt")); err != nil || string(got) != "a" {
		t.Errorf("outside: %q, %v", got, err)
	}
}
