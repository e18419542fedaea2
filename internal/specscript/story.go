package specscript

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// wantMarker stands between what happens and what must come out.
const wantMarker = "-- want --"

// Story is a parsed story file.
type Story struct {
	Why      string              // the reason, its comment lines joined
	Settings map[string][]string // values by key, in file order
	Commands []Command
	Want     []string

	head string // everything above the marker, as it was
}

// Command is one act: a verb, its words in order, and its key=value options.
type Command struct {
	Verb    string
	Words   []string
	Options map[string]string
	Text    string // as written
	Line    int    // from 1
}

// Word returns word i, or "" when there are fewer.
func (c Command) Word(i int) string {
	if i < len(c.Words) {
		return c.Words[i]
	}
	return ""
}

// Parse reads a story file. Errors name the line.
func Parse(file string) (Story, error) {
	head, want, found := strings.Cut(file, "\n"+wantMarker+"\n")
	if !found {
		return Story{}, fmt.Errorf("story: no line %q", wantMarker)
	}
	s := Story{Settings: map[string][]string{}, head: head}
	for n, line := range strings.Split(head, "\n") {
		if err := s.line(n+1, strings.TrimSpace(line)); err != nil {
			return Story{}, fmt.Errorf("story line %d: %w", n+1, err)
		}
	}
	switch {
	case s.Why == "":
		return Story{}, errors.New("story: no reason; begin with a comment line that says why")
	case len(s.Commands) == 0:
		return Story{}, errors.New("story: no commands")
	}
	for _, line := range strings.Split(want, "\n") {
		if line = strings.TrimRight(line, " \r"); line != "" {
			s.Want = append(s.Want, line)
		}
	}
	return s, nil
}

// Format returns the file of s with other lines below the marker. What stands above stays byte for byte.
func (s Story) Format(want []string) string {
	lines := ""
	for _, line := range want {
		lines += line + "\n"
	}
	return s.head + "\n" + wantMarker + "\n" + lines
}

// setting is "key: value" with a key in lower case.
var setting = regexp.MustCompile(`^([a-z][a-z-]*):\s*(.*)$`)

func (s *Story) line(n int, line string) error {
	if line == "" {
		return nil
	}
	if comment, ok := strings.CutPrefix(line, "#"); ok {
		s.Why = strings.TrimSpace(s.Why + " " + strings.TrimSpace(comment))
		return nil
	}
	if m := setting.FindStringSubmatch(line); m != nil {
		s.Settings[m[1]] = append(s.Settings[m[1]], m[2])
		return nil
	}
	for rest := line; rest != ""; {
		var c Command
		var err error
		if c, rest, err = command(rest); err != nil {
			return err
		}
		c.Line = n
		s.Commands = append(s.Commands, c)
	}
	return nil
}

// command takes one command off a line, up to a semicolon that stands alone.
func command(line string) (c Command, rest string, err error) {
	c.Options = map[string]string{}
	rest = line
	for rest = strings.TrimLeft(rest, " \t"); rest != ""; rest = strings.TrimLeft(rest, " \t") {
		if after, ok := strings.CutPrefix(rest, ";"); ok {
			c.Text = strings.TrimSpace(strings.TrimSuffix(line, rest))
			rest = strings.TrimLeft(after, " \t")
			break
		}
		var key, word string
		if key, word, rest, err = nextWord(rest); err != nil {
			return c, "", err
		}
		switch {
		case c.Verb == "":
			c.Verb = word
		case key == "":
			c.Words = append(c.Words, word)
		default:
			if _, twice := c.Options[key]; twice {
				return c, "", fmt.Errorf("option %q stands twice", key)
			}
			c.Options[key] = word
		}
	}
	if c.Text == "" {
		c.Text = strings.TrimSpace(line)
	}
	if c.Verb == "" {
		return c, "", errors.New("a command without a verb")
	}
	return c, rest, nil
}

// option is the beginning of key=value.
var option = regexp.MustCompile(`^([a-z][a-z-]*)=`)

// nextWord takes a word, a Go string, or key= followed by either.
func nextWord(line string) (key, word, rest string, err error) {
	if m := option.FindStringSubmatch(line); m != nil {
		key, line = m[1], line[len(m[0]):]
	}
	if strings.HasPrefix(line, `"`) || strings.HasPrefix(line, "`") {
		quoted, err := strconv.QuotedPrefix(line)
		if err != nil {
			return "", "", "", errors.New("a string without end or with a bad escape")
		}
		if word, err = strconv.Unquote(quoted); err != nil {
			return "", "", "", fmt.Errorf("string %s: %w", quoted, err)
		}
		return key, word, line[len(quoted):], nil
	}
	end := strings.IndexAny(line, " \t;")
	if end < 0 {
		end = len(line)
	}
	return key, line[:end], line[end:], nil
}
