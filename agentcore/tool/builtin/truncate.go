package builtin

import (
	"bytes"
	"strings"
)

// head collects lines until MaxOutputLines or MaxOutputBytes are reached. The zero value is ready.
type head struct {
	b     strings.Builder
	lines int
}

// add appends a line, without its newline, and reports whether it had room.
func (h *head) add(line string) bool {
	if h.lines == MaxOutputLines || h.b.Len()+len(line)+1 > MaxOutputBytes {
		return false
	}
	h.b.WriteString(line)
	h.b.WriteByte('\n')
	h.lines++
	return true
}

// tail keeps the end of a text of any length, in whole lines, in bounded memory. A lone CR takes the line back to its
// start, as a terminal does. The zero value is ready.
type tail struct {
	buf   []byte
	back  bool // a CR was seen: the next character overwrites the line
	bytes int  // of the whole text, as kept
	lines int  // newlines of the whole text
}

// add appends clean text.
func (t *tail) add(text []byte) {
	for len(text) > 0 {
		n := bytes.IndexByte(text, '\r')
		if n < 0 {
			n = len(text)
		}
		if part := text[:n]; n > 0 {
			if t.back && part[0] != '\n' {
				keep := bytes.LastIndexByte(t.buf, '\n') + 1
				t.bytes -= len(t.buf) - keep
				t.buf = t.buf[:keep]
			}
			t.back = false
			t.buf = append(t.buf, part...)
			t.bytes += n
			t.lines += bytes.Count(part, []byte{'\n'})
		}
		if n < len(text) {
			t.back = true
			n++
		}
		text = text[n:]
		if len(t.buf) > 4*MaxOutputBytes {
			t.buf = append(t.buf[:0], t.buf[len(t.buf)-2*MaxOutputBytes:]...)
		}
	}
}

// end returns the last lines that fit, whether something is missing before them, and how many lines are shown and there
// are in all. A last line that alone is too long is shown by its end.
func (t *tail) end() (text string, cut bool, shown, all int) {
	all = t.lines
	if len(t.buf) > 0 && t.buf[len(t.buf)-1] != '\n' {
		all++
	}
	b := t.buf
	from := len(b)
	for shown < MaxOutputLines && from > 0 {
		start := bytes.LastIndexByte(b[:from-1], '\n') + 1
		if len(b)-start > MaxOutputBytes || start == 0 && t.bytes > len(b) {
			break
		}
		from = start
		shown++
	}
	if shown == 0 && len(b) > 0 {
		from, shown = max(0, len(b)-MaxOutputBytes), 1
		for from < len(b) && b[from]&0xc0 == 0x80 { // the middle of a rune
			from++
		}
	}
	return string(b[from:]), t.bytes > len(b)-from, shown, all
}
