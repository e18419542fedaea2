package builtin

import (
	"fmt"
	"strings"
)

// diff returns a unified diff of two texts for people to read, at most MaxDetailBytes of it, and how many lines were
// added and removed. What lies between the first and the last difference is one hunk: exact, though not the shortest.
func diff(before, after string) (text string, added, removed int) {
	if before == after {
		return "", 0, 0
	}
	a, b := splitLines(before), splitLines(after)
	same := 0
	for same < len(a) && same < len(b) && a[same] == b[same] {
		same++
	}
	tail := 0
	for tail < len(a)-same && tail < len(b)-same && a[len(a)-1-tail] == b[len(b)-1-tail] {
		tail++
	}
	removed, added = len(a)-same-tail, len(b)-same-tail
	lead, trail := min(same, diffContext), min(tail, diffContext)
	var out strings.Builder
	fmt.Fprintf(&out, "@@ -%s +%s @@\n", span(same-lead, lead+removed+trail), span(same-lead, lead+added+trail))
	write := func(sign byte, lines []string) {
		for _, line := range lines {
			if out.Len() > MaxDetailBytes {
				return
			}
			out.WriteByte(sign)
			out.WriteString(cleanLine([]byte(strings.TrimSuffix(line, "\n"))))
			out.WriteByte('\n')
			if !strings.HasSuffix(line, "\n") {
				out.WriteString("\\ No newline at end of file\n")
			}
		}
	}
	write(' ', a[same-lead:same])
	write('-', a[same:len(a)-tail])
	write('+', b[same:len(b)-tail])
	write(' ', a[len(a)-tail:len(a)-tail+trail])
	if text = out.String(); len(text) > MaxDetailBytes {
		text = cutBytes(text, MaxDetailBytes) + "\n(the diff is cut here)\n"
	}
	return text, added, removed
}

// span is one side of a hunk header; before counts the lines in front of it.
func span(before, lines int) string {
	first := before + 1
	if lines == 0 {
		first = before
	}
	return fmt.Sprintf("%d,%d", first, lines)
}

func splitLines(s string) []string {
	lines := strings.SplitAfter(s, "\n")
	if lines[len(lines)-1] == "" {
		lines = lines[:len(lines)-1]
	}
	return lines
}
