package builtin

import (
	"strings"
	"testing"
	"unicode/utf8"
)

func TestTheCleanerDoesNotCareWhereATextIsCut(t *testing.T) {
	const raw = "a\x1b[31;1mred\x1b[0m\x1b]0;title\x07b\x1b]8;;url\x1b\\c\x1b(Bd\x1b7e\r\nf\rg\x00\x07h\tü漢🧭\x1b[\ni\x1b]open\nj\u009bk\x7fl"
	const want = "aredbcde\nf\rgh\tü漢🧭\ni\njkl"
	runes := []rune(raw)
	for cut := range len(runes) + 1 {
		var c cleaner
		got := c.add(nil, []byte(string(runes[:cut])))
		got = c.add(got, []byte(string(runes[cut:])))
		if string(got) != want {
			t.Errorf("cut at %d: got %q, want %q", cut, got, want)
		}
	}
}

func TestTheTailKeepsWholeLinesOfAnyText(t *testing.T) {
	for _, tt := range []struct {
		name, text, want string
		cut              bool
		shown, all       int
	}{
		{"nothing", "", "", false, 0, 0},
		{"one line", "a", "a", false, 1, 1},
		{"two lines", "a\nb\n", "a\nb\n", false, 2, 2},
		{"empty lines count", "\n\n", "\n\n", false, 2, 2},
		{"a line overwritten", "a\n10%\r20%\r", "a\n20%", false, 2, 2},
		{"a line end after a return", "a\r\nb", "a\nb", false, 2, 2},
		{"too many lines", strings.Repeat("x\n", MaxOutputLines+5), strings.Repeat("x\n", MaxOutputLines), true, MaxOutputLines, MaxOutputLines + 5},
		{"a line that just fits", strings.Repeat("y", MaxOutputBytes), strings.Repeat("y", MaxOutputBytes), false, 1, 1},
		{"a line that does not", "z" + strings.Repeat("y", MaxOutputBytes), strings.Repeat("y", MaxOutputBytes), true, 1, 1},
		{"a long line before a short one", strings.Repeat("y", MaxOutputBytes) + "\nend\n", "end\n", true, 1, 2},
	} {
		for _, step := range []int{len(tt.text) + 1, 1000, 7} {
			var k tail
			for rest := tt.text; rest != ""; rest = rest[min(step, len(rest)):] {
				k.add([]byte(rest[:min(step, len(rest))]))
			}
			text, cut, shown, all := k.end()
			if text != tt.want || cut != tt.cut || shown != tt.shown || all != tt.all {
				t.Errorf("%s in steps of %d: got %d bytes %.30q, %v %d %d", tt.name, step, len(text), text, cut, shown, all)
			}
		}
	}
}

func FuzzCleanerAndTail(f *testing.F) {
	f.Add([]byte("a\x1b[31mb\r\nc\rd\x00"), 3)
	f.Add([]byte("\x1b]0;x\x07\xff\xf0\x9f\xa7"), 2)
	f.Fuzz(func(t *testing.T, raw []byte, cut int) {
		raw = []byte(strings.ToValidUTF8(string(raw), "\uFFFD"))
		cut = max(0, min(cut, len(raw)))
		for cut < len(raw) && !utf8.RuneStart(raw[cut]) {
			cut++
		}
		var whole, parts cleaner
		var k tail
		a := whole.add(nil, raw)
		b := parts.add(parts.add(nil, raw[:cut]), raw[cut:])
		if string(a) != string(b) || !utf8.Valid(a) {
			t.Fatalf("%q and %q", a, b)
		}
		k.add(a)
		text, _, shown, all := k.end()
		if !utf8.ValidString(text) || len(text) > MaxOutputBytes || shown > all || strings.ContainsAny(text, "\r\x00\x1b") {
			t.Fatalf("tail %q, %d of %d", text, shown, all)
		}
	})
}

func FuzzIgnoreRules(f *testing.F) {
	f.Add("*.log\n!keep\n/a/**/b\n[z", "a/x/b")
	f.Add("{a,b}\n\\#x\nq \\ ", "q  ")
	f.Fuzz(func(t *testing.T, text, p string) {
		for _, r := range parseIgnore(text) {
			if r.literal && r.match(p, true) && !strings.HasSuffix(p, r.pattern) {
				t.Errorf("%+v matches %q", r, p)
			}
		}
	})
}

// Every line that the expression matches must be found through the literal, too.
func FuzzRequiredLiteral(f *testing.F) {
	f.Add("(?i)deadline", "a DeadLine b", false)
	f.Add("a+b{2,3}(c|d)", "aabbc", false)
	f.Add("k", "\u212a", true)
	f.Fuzz(func(t *testing.T, pattern, line string, fold bool) {
		m, err := newMatcher(pattern, false, fold)
		if err != nil || strings.Contains(line, "\n") || !m.line.MatchString(line) || m.literal == nil {
			return
		}
		hay := line
		if m.fold {
			hay = string(asciiLower(nil, []byte(line)))
		}
		if !strings.Contains(hay, string(m.literal)) {
			t.Errorf("%q matches %q, which does not contain %q", pattern, line, m.literal)
		}
	})
}
