package builtin

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"regexp"
	"regexp/syntax"
	"slices"
	"strings"
	"unicode/utf8"
)

// matcher finds lines. A line is what is between newlines, without a CR at its end.
type matcher struct {
	line    *regexp.Regexp // matched against one line
	literal []byte         // every matching line contains it; nil = unknown
	fold    bool           // literal is lower case and compared without case

	head, buf, lower []byte // scratch of scan: a matcher is used by one goroutine
}

// newMatcher compiles a pattern of Go's syntax, or a plain text. Whatever it begins with, it is never an option.
// Source: bugs 52.
func newMatcher(pattern string, literal, ignoreCase bool) (*matcher, error) {
	if len(pattern) > MaxPatternBytes {
		return nil, fmt.Errorf("the pattern has %d bytes, at most %d are allowed", len(pattern), MaxPatternBytes)
	}
	if strings.Contains(pattern, "\n") && literal {
		return nil, errors.New("the pattern contains a newline: matches are searched line by line")
	}
	expr := pattern
	if literal {
		expr = regexp.QuoteMeta(pattern)
	}
	if ignoreCase {
		expr = "(?i)" + expr
	}
	tree, err := syntax.Parse(expr, syntax.Perl)
	if err == nil {
		var re *regexp.Regexp
		if re, err = regexp.Compile(expr); err == nil {
			m := &matcher{line: re, head: make([]byte, sniffBytes), buf: make([]byte, 0, blockBytes)}
			m.literal, m.fold = required(tree.Simplify())
			return m, nil
		}
	}
	return nil, fmt.Errorf("%.200q is not a valid regular expression: %w; set literal to search for it as plain text", pattern, err)
}

// required returns the longest text that every match contains, in lower case when case does not count.
func required(t *syntax.Regexp) (text []byte, fold bool) {
	switch t.Op {
	case syntax.OpLiteral:
		if slices.Contains(t.Rune, utf8.RuneError) {
			return nil, false // matches bytes that are no UTF-8 as well
		}
		if t.Flags&syntax.FoldCase == 0 {
			return []byte(string(t.Rune)), false
		}
		return foldable(t.Rune), true
	case syntax.OpCapture, syntax.OpPlus:
		return required(t.Sub[0])
	case syntax.OpRepeat:
		if t.Min > 0 {
			return required(t.Sub[0])
		}
	case syntax.OpConcat:
		for _, sub := range t.Sub {
			if b, f := required(sub); len(b) > len(text) {
				text, fold = b, f
			}
		}
	}
	return text, fold
}

// foldable returns the longest run of runes whose other cases are ASCII too, in lower case: all of ASCII but k and s,
// which the Kelvin sign and the long s fold to.
func foldable(runes []rune) []byte {
	var best, run []byte
	for _, r := range runes {
		low := r
		if 'A' <= r && r <= 'Z' {
			low = r + 'a' - 'A'
		}
		if low >= 0x80 || low == 'k' || low == 's' {
			run = nil
			continue
		}
		run = append(run[:len(run):len(run)], byte(low))
		if len(run) > len(best) {
			best = run
		}
	}
	return best
}

// scan reads r in blocks of whole lines and gives every line to h that matches, and every other one when context is
// wanted. A line longer than maxBlockBytes is searched in pieces.
func (m *matcher) scan(ctx context.Context, r io.Reader, h *hits) error {
	r, binary, err := sniff(r, m.head)
	if err != nil {
		return err
	}
	b := blocks{r: r, buf: m.buf[:0]}
	defer func() { m.buf = b.buf }()
	number := 0
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		block, err := b.next()
		if err != nil || len(block) == 0 {
			return err
		}
		binary = binary || bytes.IndexByte(block, 0) >= 0
		hay := block
		if m.fold && m.literal != nil {
			m.lower = asciiLower(m.lower[:0], block)
			hay = m.lower
		}
		if m.literal != nil && h.context == 0 && !bytes.Contains(hay, m.literal) {
			number += bytes.Count(block, []byte{'\n'})
			continue
		}
		if !m.block(block, hay, binary, &number, h) {
			return nil
		}
	}
}

// block searches one block of whole lines. hay is the block as the literal is compared with it. It reports whether the
// file goes on.
func (m *matcher) block(block, hay []byte, binary bool, number *int, h *hits) bool {
	for pos := 0; pos < len(block); {
		if m.literal != nil && h.context == 0 { // jump to the next line that can match
			i := bytes.Index(hay[pos:], m.literal)
			if i < 0 {
				*number += bytes.Count(block[pos:], []byte{'\n'})
				return true
			}
			begin := bytes.LastIndexByte(block[pos:pos+i], '\n') + 1
			*number += bytes.Count(block[pos:pos+begin], []byte{'\n'})
			pos += begin
		}
		end, next := len(block), len(block)
		if i := bytes.IndexByte(block[pos:], '\n'); i >= 0 {
			end, next = pos+i, pos+i+1
			*number++
		}
		text := bytes.TrimSuffix(block[pos:end], []byte{'\r'})
		at := m.line.FindIndex(text)
		line := *number
		if next == end { // the last line has no newline, or is a piece of a long one
			line++
		}
		switch {
		case binary && at != nil:
			h.isBinary()
			return false
		case !binary && (at != nil || h.context > 0):
			if !h.line(line, text, at) {
				return false
			}
		}
		pos = next
	}
	return true
}

func asciiLower(dst, src []byte) []byte {
	dst = append(dst, src...)
	for i, c := range dst {
		if 'A' <= c && c <= 'Z' {
			dst[i] = c + 'a' - 'A'
		}
	}
	return dst
}

// blocks cuts a stream into pieces that end with a line.
type blocks struct {
	r    io.Reader
	buf  []byte // unread part first
	used int    // bytes of buf given out last time
	eof  bool
}

// next returns the next block, valid until the next call; it is empty at the end.
func (b *blocks) next() ([]byte, error) {
	b.buf = append(b.buf[:0], b.buf[b.used:]...)
	b.used = 0
	searched := 0
	for {
		if i := bytes.LastIndexByte(b.buf[searched:], '\n'); i >= 0 && (len(b.buf) >= blockBytes || b.eof) {
			b.used = searched + i + 1
			if b.eof {
				b.used = len(b.buf)
			}
			return b.buf[:b.used], nil
		}
		if b.eof || len(b.buf) >= maxBlockBytes {
			b.used = len(b.buf)
			return b.buf, nil
		}
		if len(b.buf) == cap(b.buf) {
			b.buf = append(make([]byte, 0, 2*cap(b.buf)), b.buf...)
		}
		n, err := b.r.Read(b.buf[len(b.buf):cap(b.buf)])
		b.buf = b.buf[:len(b.buf)+n]
		if err == io.EOF {
			b.eof = true
		} else if err != nil {
			return nil, err
		}
	}
}
