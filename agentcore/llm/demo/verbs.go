package demo

import (
	"fmt"
	"regexp"
	"strings"
)

// deed is something that the prompt asks for in the words of doc.go: a file to write, or a command to run.
type deed struct {
	file, text string
	command    string // "" = a file to write
}

var deedStart = regexp.MustCompile("(?i)\\b(?:write\\s+`?([^\\s:`]+)`?\\s*:|run\\s+`([^`\n]+)`)")

// connector is what may stand between two deeds of one line.
var connector = regexp.MustCompile(`(?i)(?:[\s;,.]|\band\b|\bthen\b|\bplease\b)+$`)

// verbs returns the deeds of a prompt in order. The text of a file ends at the end of its line, before the next deed of the
// line, at the closing quote when it starts with one, or at the closing fence when the lines below hold a fenced block.
func verbs(prompt string) []deed {
	var out []deed
	for at := 0; at < len(prompt); {
		m := deedStart.FindStringSubmatchIndex(prompt[at:])
		if m == nil {
			break
		}
		if m[4] >= 0 {
			out = append(out, deed{command: prompt[at+m[4] : at+m[5]]})
			at += m[1]
			continue
		}
		text, size := fileText(prompt[at+m[1]:])
		out = append(out, deed{file: prompt[at+m[2] : at+m[3]], text: text})
		at += m[1] + size
	}
	return out
}

// fileText reads the text of a file to write from what follows its colon, and says how many bytes that took.
func fileText(s string) (text string, size int) {
	line, below, more := strings.Cut(s, "\n")
	if block, ok := strings.CutPrefix(below, "```"); ok && strings.TrimSpace(line) == "" {
		if info, body, ok := strings.Cut(block, "\n"); ok {
			if end := strings.Index("\n"+body, "\n```"); end >= 0 {
				return body[:end], len(line) + 1 + 3 + len(info) + 1 + end + 3
			}
		}
	}
	lead := len(line) - len(strings.TrimLeft(line, " \t"))
	if rest := line[lead:]; strings.HasPrefix(rest, `"`) {
		if end := strings.IndexByte(rest[1:], '"'); end >= 0 {
			return rest[1 : 1+end], lead + end + 2
		}
	}
	size = len(line)
	if m := deedStart.FindStringIndex(line); m != nil {
		size = m[0]
		return strings.TrimSpace(connector.ReplaceAllString(line[:size], "")), size
	}
	if more {
		size++
	}
	return strings.TrimSpace(line), size
}

// String names d on one line. Short deeds read as they are asked for, so that a plan that names them can be handed back;
// longer ones are described.
func (d deed) String() string {
	switch shown := clip(d.command); {
	case d.command == "":
	case shown == d.command:
		return "run `" + d.command + "`"
	default:
		return "run the command that begins " + code(d.command)
	}
	if shown := clip(d.text); shown == d.text && !strings.Contains(d.text, `"`) {
		return "write " + d.file + `: "` + d.text + `"`
	}
	return fmt.Sprintf("write %s (%d bytes, beginning %s)", code(d.file), len(d.text), quote(d.text))
}

// tool is the tool that d needs.
func (d deed) tool() string {
	if d.command != "" {
		return "bash"
	}
	return "write"
}

func (d deed) call(o offer) call {
	if d.command != "" {
		return o.call("bash", want{names: commandNames, value: d.command})
	}
	return o.call("write", want{names: pathNames, value: d.file}, want{names: contentNames, value: d.text})
}
