//go:build linux

package strace

import (
	"bufio"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// call is one system call of a trace, or the end of a process. Its lines are counted from 1.
type call struct {
	pid    int
	name   string // ended for the end of a process
	args   string // as strace writes them
	path   string // of the descriptor that is its first argument; "" for a call without one
	text   string // the first string among its arguments
	begun  int    // the line of its beginning
	done   int    // the line of its return; 0 when it never returned
	failed bool
}

// ended is the name under which the end of a process is listed.
const ended = "ended"

// String is the call for a message, without most of its data.
func (c call) String() string {
	return fmt.Sprintf("line %d: %d %s(%.120s)", c.begun, c.pid, c.name, c.args)
}

// mostLine bounds a line of a trace: strace writes a byte as four characters at most. Bytes.
const mostLine = 1 << 20

var (
	linePattern    = regexp.MustCompile(`^(\d+) +(.*)$`)
	beginPattern   = regexp.MustCompile(`^([\w?]+)\((.*)$`) // ??? is a call that strace was too late for
	resumedPattern = regexp.MustCompile(`^<\.\.\. ([\w?]+) resumed>(.*)$`)
	endPattern     = regexp.MustCompile(`^\+\+\+ (exited with|killed by) .* \+\+\+$`)
	resultPattern  = regexp.MustCompile(`^(.*)\)\s+= (.*)$`)
	fdPattern      = regexp.MustCompile(`^\d+<(.*?)>(\(deleted\))?(,|$)`)
)

const unfinished = " <unfinished ...>"

// parse reads what `strace -f -y -o` writes, in the order in which the calls began. A call that another process or thread
// interrupted is one call: it is written in two parts.
func parse(r io.Reader) ([]call, error) {
	var calls []call
	open := map[int]int{} // by process: its call that is under way
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, mostLine)
	for n := 1; lines.Scan(); n++ {
		m := linePattern.FindStringSubmatch(lines.Text())
		if m == nil {
			return nil, fmt.Errorf("line %d: no process: %.80q", n, lines.Text())
		}
		pid, err := strconv.Atoi(m[1])
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
		at, under := open[pid]
		switch body := m[2]; {
		case strings.HasPrefix(body, "--- "), strings.HasPrefix(body, "+++ superseded"): // a signal; a thread less
			continue
		case endPattern.MatchString(body):
			calls = append(calls, call{pid: pid, name: ended, args: body, begun: n, done: n})
			delete(open, pid)
			continue
		case resumedPattern.MatchString(body):
			m := resumedPattern.FindStringSubmatch(body)
			if !under || calls[at].name != m[1] {
				return nil, fmt.Errorf("line %d: %s goes on and never began", n, m[1])
			}
			calls[at].args += m[2]
		case beginPattern.MatchString(body):
			m := beginPattern.FindStringSubmatch(body)
			calls = append(calls, call{pid: pid, name: m[1], args: m[2], begun: n})
			at = len(calls) - 1
		default:
			return nil, fmt.Errorf("line %d: not a call: %.80q", n, body)
		}
		c := &calls[at]
		var paused bool
		if c.args, paused = strings.CutSuffix(c.args, unfinished); paused {
			open[pid] = at
		} else {
			delete(open, pid)
			if err := c.finish(n); err != nil {
				return nil, fmt.Errorf("line %d: %w", n, err)
			}
		}
		if err := c.read(); err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
	}
	return calls, lines.Err()
}

// finish takes the result off the arguments.
func (c *call) finish(line int) error {
	m := resultPattern.FindStringSubmatch(c.args)
	if m == nil {
		return fmt.Errorf("%s has no result: %.80q", c.name, c.args)
	}
	c.args, c.done, c.failed = m[1], line, strings.HasPrefix(m[2], "-1")
	if strings.HasPrefix(m[2], "?") { // it ended the process
		c.done = 0
	}
	return nil
}

// read reads path and text from the arguments that are known.
func (c *call) read() (err error) {
	rest := strings.TrimSpace(c.args)
	if m := fdPattern.FindStringSubmatch(rest); m != nil {
		c.path, rest = m[1], rest[len(m[0]):]
	}
	if _, quoted, ok := strings.Cut(rest, `"`); ok {
		c.text, err = unquote(quoted)
	}
	return err
}

// escapes are the characters that strace writes behind a backslash. Others are octal.
var escapes = map[byte]byte{'n': '\n', 't': '\t', 'r': '\r', 'v': '\v', 'f': '\f', '"': '"', '\\': '\\'}

const octal = "01234567"

// unquote reads a C string up to its closing quote.
func unquote(s string) (string, error) {
	var b []byte
	for i := 0; i < len(s); i++ {
		switch {
		case s[i] == '"':
			return string(b), nil
		case s[i] != '\\':
			b = append(b, s[i])
			continue
		}
		i++
		if i == len(s) {
			break
		}
		if plain, ok := escapes[s[i]]; ok {
			b = append(b, plain)
			continue
		}
		digits := s[i:min(i+3, len(s))]
		digits = digits[:len(digits)-len(strings.TrimLeft(digits, octal))]
		v, err := strconv.ParseUint(digits, 8, 8)
		if err != nil {
			return "", fmt.Errorf("escape \\%.3s: %w", s[i:], err)
		}
		b = append(b, byte(v))
		i += len(digits) - 1
	}
	return "", fmt.Errorf("a string without an end: %.80q", s)
}

// trace is the calls of one command.
type trace []call

// first returns the first call behind a line that fits.
func (t trace) first(behind int, fits func(call) bool) (call, bool) {
	i := slices.IndexFunc(t, func(c call) bool { return c.begun > behind && fits(c) })
	if i < 0 {
		return call{}, false
	}
	return t[i], true
}

// writes and syncs are the calls that change a file, and those after which it is on the disk.
var (
	writes = []string{"write", "pwrite64", "writev", "pwritev"}
	syncs  = []string{"fsync", "fdatasync"}
)

// written returns the writes to the file that had begun before line, and the first of the syncs by which each was on the
// disk before line; 0 for a write that was not.
func (t trace) written(file string, line int) (list []call, synced []int) {
	for _, w := range t {
		if !slices.Contains(writes, w.name) || w.path != file || w.begun >= line {
			continue
		}
		s, ok := t.first(w.done, func(s call) bool {
			return slices.Contains(syncs, s.name) && s.path == file && !s.failed && s.done > 0 && s.done < line
		})
		if !ok || w.done == 0 {
			s.begun = 0
		}
		list, synced = append(list, w), append(synced, s.begun)
	}
	return list, synced
}
