package builtin

import (
	"bytes"
	"fmt"
	"slices"
	"sort"
	"strings"
	"unicode/utf8"
)

// replacement is one change of a text: oldText, which must occur once unless all is set, becomes newText.
type replacement struct {
	oldText, newText string
	all              bool
}

// replaced is what a list of replacements did.
type replaced struct {
	content []byte
	places  int
	loose   []int // which of the list, from 1, did not match letter for letter
}

// replace applies a list to a content, all of it or nothing. Every one is looked for in the content as it was; they must not
// overlap. CRLF and LF count as equal: what is not touched keeps its line endings, and what is new takes those of the lines
// it replaces. A text that does not occur letter for letter may match with other quotes, dashes, spaces and line ends when
// just one place does. It is a pure function. Source: bugs 50.
func replace(content []byte, list []replacement) (replaced, error) {
	v := newLines(content)
	var cuts []cut
	var r replaced
	for i, one := range list {
		spans, loose, err := v.find(one, i+1, len(list))
		if err != nil {
			return replaced{}, err
		}
		if loose {
			r.loose = append(r.loose, i+1)
		}
		for _, s := range spans {
			cuts = append(cuts, cut{s, i})
		}
	}
	sort.Slice(cuts, func(i, j int) bool { return cuts[i].from < cuts[j].from })
	var out bytes.Buffer
	out.Grow(len(content))
	at := 0
	for i, c := range cuts {
		if i > 0 && c.from < cuts[i-1].to {
			return replaced{}, fmt.Errorf("edits %d and %d overlap at line %d: make one edit of them", cuts[i-1].edit+1, c.edit+1, v.line(c.from))
		}
		out.Write(content[at:v.original(c.from)])
		out.WriteString(v.endings(c.part, list[c.edit].newText))
		at = v.original(c.to)
	}
	out.Write(content[at:])
	r.content, r.places = out.Bytes(), len(cuts)
	return r, nil
}

// part is a piece of the text with LF endings.
type part struct{ from, to int }

type cut struct {
	part
	edit int
}

// lines is a content with every CRLF read as LF.
type lines struct {
	text []byte
	crs  []int // offsets in text of the line ends that had a CR
}

func newLines(content []byte) *lines {
	v := &lines{text: content}
	if bytes.IndexByte(content, '\r') < 0 {
		return v
	}
	v.text = make([]byte, 0, len(content))
	for i, b := range content {
		if b == '\r' && i+1 < len(content) && content[i+1] == '\n' {
			v.crs = append(v.crs, len(v.text))
			continue
		}
		v.text = append(v.text, b)
	}
	return v
}

// original is where an offset of the text is in the content. A CR belongs to its line end.
func (v *lines) original(at int) int { return at + sort.SearchInts(v.crs, at) }

// line is the number of the line that holds an offset, from 1.
func (v *lines) line(at int) int { return 1 + bytes.Count(v.text[:at], []byte("\n")) }

// crlf reports whether the line end at an offset of the text had a CR.
func (v *lines) crlf(at int) bool {
	i := sort.SearchInts(v.crs, at)
	return i < len(v.crs) && v.crs[i] == at
}

// endings gives a new text the line endings of what it replaces, in order; further ones are like the last of them, or like
// that of the line around it.
func (v *lines) endings(s part, text string) string {
	text = strings.ReplaceAll(text, "\r\n", "\n")
	if len(v.crs) == 0 || !strings.Contains(text, "\n") {
		return text
	}
	var ends []bool
	for i := s.from; i < s.to; i++ {
		if v.text[i] == '\n' {
			ends = append(ends, v.crlf(i))
		}
	}
	if len(ends) == 0 {
		ends = append(ends, v.around(s))
	}
	var out strings.Builder
	for i, part := range strings.SplitAfter(text, "\n") {
		if line, ended := strings.CutSuffix(part, "\n"); ended && ends[min(i, len(ends)-1)] {
			out.WriteString(line + "\r\n")
		} else {
			out.WriteString(part)
		}
	}
	return out.String()
}

// around reports whether the line that holds a span ends in CRLF, or the one before when it is the last and has no end.
func (v *lines) around(s part) bool {
	if i := bytes.IndexByte(v.text[s.to:], '\n'); i >= 0 {
		return v.crlf(s.to + i)
	}
	i := bytes.LastIndexByte(v.text[:s.from], '\n')
	return i >= 0 && v.crlf(i)
}

// find returns where a replacement applies. number of count names it in errors.
func (v *lines) find(r replacement, number, count int) (spans []part, loose bool, err error) {
	name := "oldText"
	if count > 1 {
		name = fmt.Sprintf("oldText of edit %d", number)
	}
	old := strings.ReplaceAll(r.oldText, "\r\n", "\n")
	switch {
	case old == "":
		return nil, false, fmt.Errorf("%s is empty: name the text to replace, or use write for a new file", name)
	case old == strings.ReplaceAll(r.newText, "\r\n", "\n"):
		return nil, false, fmt.Errorf("%s and newText are equal: nothing would change", name)
	}
	for at := 0; ; {
		i := bytes.Index(v.text[at:], []byte(old))
		if i < 0 {
			break
		}
		spans = append(spans, part{at + i, at + i + len(old)})
		at += i + len(old)
	}
	if len(spans) == 0 {
		spans, loose = v.findLoose(old), true
	}
	switch {
	case len(spans) == 0:
		return nil, false, fmt.Errorf("%s does not occur in the file%s. Read the file again and copy the text with its whitespace", name, v.hint(old))
	case len(spans) > 1 && loose:
		return nil, false, fmt.Errorf("%s does not occur letter for letter, and %d places are similar, at %s: copy the text as the file has it", name, len(spans), v.numbers(spans))
	case len(spans) > 1 && !r.all:
		return nil, false, fmt.Errorf("%s occurs %d times, at %s: add lines around it until it is unique, or set replaceAll", name, len(spans), v.numbers(spans))
	}
	return spans, loose, nil
}

// numbers lists the lines of spans, the first few.
func (v *lines) numbers(spans []part) string {
	const most = 10
	var list []string
	for _, s := range spans[:min(len(spans), most)] {
		list = append(list, fmt.Sprint(v.line(s.from)))
	}
	text := "lines " + strings.Join(list, ", ")
	if len(spans) > most {
		text += ", …"
	}
	return text
}

// hint says where a line like the first one of old is, when there is just one.
func (v *lines) hint(old string) string {
	want := strings.TrimSpace(strings.SplitN(strings.TrimSpace(old), "\n", 2)[0])
	if want == "" {
		return ""
	}
	found := 0
	for i, line := range bytes.Split(v.text, []byte("\n")) {
		if string(bytes.TrimSpace(line)) == want {
			if found > 0 {
				return ""
			}
			found = i + 1
		}
	}
	if found == 0 {
		return ""
	}
	return fmt.Sprintf("; line %d is like its first line", found)
}

// findLoose looks for a text without regard to the kind of quotes, dashes and spaces, and to spaces at line ends.
func (v *lines) findLoose(old string) (spans []part) {
	if len(v.text) > looseBytes {
		return nil
	}
	want, _ := fold([]byte(old))
	want = bytes.TrimRight(want, " \t")
	if len(bytes.TrimSpace(want)) == 0 {
		return nil
	}
	text, from := fold(v.text)
	for at := 0; ; {
		i := bytes.Index(text[at:], want)
		if i < 0 {
			return spans
		}
		first, last := at+i, at+i+len(want)-1
		spans = append(spans, part{from[first].from, from[last].to})
		at += i + len(want)
	}
}

// fold returns a text in its plain form, and for each byte of it the part of the text it stands for.
func fold(text []byte) (plain []byte, from []part) {
	blank := -1 // where the spaces at the end of plain began
	add := func(s string, of part) {
		for i := range len(s) {
			plain, from = append(plain, s[i]), append(from, of)
		}
	}
	for at := 0; at < len(text); {
		r, size := utf8.DecodeRune(text[at:])
		piece := part{at, at + size}
		at += size
		switch {
		case r == '\n':
			if blank >= 0 {
				plain, from = plain[:blank], from[:blank]
			}
			add("\n", piece)
			blank = -1
			continue
		case slices.Contains(spaces, r):
			if blank < 0 {
				blank = len(plain)
			}
			if r != '\t' {
				r = ' '
			}
			add(string(r), piece)
			continue
		case slices.Contains(singles, r):
			add("'", piece)
		case slices.Contains(doubles, r):
			add(`"`, piece)
		case slices.Contains(dashes, r):
			add("-", piece)
		case r == utf8.RuneError:
			add(string(text[piece.from:piece.to]), piece)
		default:
			add(string(r), piece)
		}
		blank = -1
	}
	return plain, from
}

// What a loose match takes for the same sign.
var (
	spaces  = []rune{' ', '\t', '\u00a0', '\u2002', '\u2003', '\u2009', '\u202f', '\u3000'}
	singles = []rune{'\u2018', '\u2019', '\u201a', '\u201b'}
	doubles = []rune{'\u201c', '\u201d', '\u201e', '\u201f'}
	dashes  = []rune{'\u2010', '\u2011', '\u2012', '\u2013', '\u2014', '\u2212'}
)
