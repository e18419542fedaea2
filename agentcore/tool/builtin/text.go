package builtin

import (
	"bytes"
	"io"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/encoding"
	xunicode "golang.org/x/text/encoding/unicode"
	"golang.org/x/text/transform"
)

// cleaner makes text out of what a program or file holds: invalid bytes become U+FFFD, terminal sequences and control
// characters go, CRLF becomes LF. A lone CR stays, for whoever knows what it overwrites. It keeps its place in a sequence
// from one piece to the next, so pieces may be cut anywhere but inside a rune. The zero value is ready.
// Source: bugs 32 (d).
type cleaner struct {
	state   cleanState
	cr      bool // a CR was seen and not yet given out
	dropped int  // control characters left out, terminal sequences included
}

type cleanState int

const (
	plain     cleanState = iota
	escape               // after ESC
	csi                  // ESC [ … final byte
	osc                  // ESC ] … BEL or ESC \; also DCS, SOS, PM, APC
	oscEscape            // ESC inside osc
)

// add appends the clean form of src to dst.
func (c *cleaner) add(dst, src []byte) []byte {
	for len(src) > 0 {
		if c.state == plain && !c.cr { // nearly everything
			n := 0
			for n < len(src) && (src[n] >= 0x20 && src[n] < 0x7f || src[n] == '\n' || src[n] == '\t') {
				n++
			}
			if dst, src = append(dst, src[:n]...), src[n:]; len(src) == 0 {
				break
			}
		}
		r, size := utf8.DecodeRune(src)
		src = src[size:]
		if c.skip(r) {
			continue
		}
		if c.cr {
			c.cr = false
			if r != '\n' {
				dst = append(dst, '\r')
			}
		}
		switch {
		case r == '\r':
			c.cr = true
		case r == '\n' || r == '\t':
			dst = append(dst, byte(r))
		case unicode.IsControl(r):
			c.dropped++
		default:
			dst = utf8.AppendRune(dst, r) // RuneError is U+FFFD
		}
	}
	return dst
}

// skip reports whether r belongs to a terminal sequence.
func (c *cleaner) skip(r rune) bool {
	switch c.state {
	case plain:
		if r != 0x1b {
			return false
		}
		c.state = escape
		c.dropped++
	case escape:
		switch {
		case r == '[':
			c.state = csi
		case strings.ContainsRune("]PX^_", r):
			c.state = osc
		case r >= 0x20 && r <= 0x2f: // intermediate byte, such as in ESC ( B
		default:
			c.state = plain
			return r != '\n' && r != 0x1b && r < 0x7f
		}
	case csi:
		if r < 0x20 || r > 0x3f { // the final byte, or something that ends a broken sequence
			c.state = plain
			return r >= 0x40 && r <= 0x7e
		}
	case osc:
		switch r {
		case 0x07:
			c.state = plain
		case 0x1b:
			c.state = oscEscape
		case '\n': // never closed: not a sequence worth the rest of the output
			c.state = plain
			return false
		}
	case oscEscape:
		c.state = plain
	}
	return true
}

// cleanLine returns one line as the model sees it; a CR inside it becomes a space.
func cleanLine(line []byte) string {
	var c cleaner
	return strings.ReplaceAll(string(c.add(nil, line)), "\r", " ")
}

// showName returns a file name on one line: one that is not printable is quoted.
func showName(name string) string {
	for _, r := range name {
		if unicode.IsControl(r) || r == utf8.RuneError {
			return strconv.Quote(name)
		}
	}
	return name
}

// cutBytes returns at most n bytes of s, ending at a rune edge.
func cutBytes(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}

// sniff wraps a file so that it reads as UTF-8 where its byte order mark says UTF-16, and without a mark. binary is true
// when what begins the file is not text. head is scratch of sniffBytes, which text reads from first.
func sniff(r io.Reader, head []byte) (text io.Reader, binary bool, err error) {
	n, err := io.ReadFull(r, head)
	if err != nil && err != io.EOF && err != io.ErrUnexpectedEOF {
		return nil, false, err
	}
	head = head[:n]
	whole := io.MultiReader(bytes.NewReader(head), r)
	var enc encoding.Encoding
	switch {
	case bytes.HasPrefix(head, []byte{0xff, 0xfe}):
		enc = xunicode.UTF16(xunicode.LittleEndian, xunicode.ExpectBOM)
	case bytes.HasPrefix(head, []byte{0xfe, 0xff}):
		enc = xunicode.UTF16(xunicode.BigEndian, xunicode.ExpectBOM)
	case bytes.HasPrefix(head, []byte{0xef, 0xbb, 0xbf}):
		return io.MultiReader(bytes.NewReader(head[3:]), r), bytes.IndexByte(head, 0) >= 0, nil
	default:
		return whole, bytes.IndexByte(head, 0) >= 0, nil
	}
	return transform.NewReader(whole, enc.NewDecoder()), false, nil
}

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
