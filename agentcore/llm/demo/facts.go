package demo

import (
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// facts is what the results of a turn say, as far as the demo understands them.
type facts struct {
	listing  listing
	found    []string // paths of find
	findSaid string   // what find said when it gave no path
	pattern  string   // of grep
	glob     string   // of find
	matches  []match
	grepSaid string // what grep said when it gave no match
	reads    []reading
	more     bool // find or grep said that there is more
}

// listing is the result of ls.
type listing struct {
	asked   bool
	files   []string
	folders []string // without the slash
	said    string   // the result, when it is no list
}

type match struct {
	file string
	line int
	text string
}

// reading is the result of one read.
type reading struct {
	file     string
	lines    int
	partial  bool   // the tool said that the file goes on
	heading  string // first heading, else first line with text
	sentence string // first line of prose behind it
	said     string // the result, when it is a failure
}

func factsOf(t turn) facts {
	var f facts
	for _, e := range t.called("ls") {
		if !f.listing.asked {
			f.listing = listingOf(e.result)
		}
	}
	for _, e := range t.called("find") {
		if f.glob == "" {
			f.glob = e.argument([]string{"pattern", "glob", "query"})
			f.found, f.findSaid, f.more = pathsOf(e.result)
		}
	}
	for _, e := range t.called("grep") {
		if f.pattern != "" {
			continue
		}
		f.pattern = e.argument([]string{"pattern", "regex", "query"})
		more := false
		f.matches, f.grepSaid, more = matchesOf(e.result)
		f.more = f.more || more
	}
	for _, e := range t.called("read") {
		f.reads = append(f.reads, readingOf(e.argument(pathNames), e.result))
	}
	return f
}

// failure is how a result of one line begins or what it holds when it is no data.
var failure = regexp.MustCompile(`(?i)no such file|not found|no (files?|match(es)?|entries|path)\b|does not exist|denied|is a directory|not a directory|outside|not allowed|` +
	`interrupted|stopped by|no longer available|cannot|\berror\b|fail|empty directory|invalid|refused|\bno result\b|\(no output\)`)

// content returns the lines of a result that are data, and whether a note said that there is more. said is the whole
// result when it is a message instead.
func content(result string) (lines []string, more bool, said string) {
	for line := range strings.Lines(result) {
		line = strings.TrimRight(line, "\r\n")
		switch note := strings.TrimSpace(line); {
		case note == "":
		case strings.HasPrefix(note, "[") && strings.HasSuffix(note, "]"), strings.HasPrefix(note, "(") && strings.HasSuffix(note, ")"):
			more = true
			if said == "" {
				said = note
			}
		default:
			lines = append(lines, line)
		}
	}
	switch {
	case len(lines) == 0 && said == "":
		return nil, false, "nothing"
	case len(lines) == 0:
		return nil, false, said
	case len(lines) == 1 && failure.MatchString(lines[0]) && strings.Contains(strings.TrimSpace(lines[0]), " "):
		return nil, false, strings.TrimSpace(lines[0])
	}
	return lines, more, ""
}

func listingOf(result string) listing {
	l := listing{asked: true}
	lines, _, said := content(result)
	l.said = said
	for _, line := range lines {
		name := strings.TrimPrefix(strings.TrimSpace(line), "./")
		if folder, ok := strings.CutSuffix(name, "/"); ok {
			l.folders = append(l.folders, folder)
		} else if !strings.HasSuffix(name, "@") { // a symbolic link
			l.files = append(l.files, name)
		}
	}
	return l
}

func pathsOf(result string) (paths []string, said string, more bool) {
	lines, more, said := content(result)
	for _, line := range lines {
		if line = strings.TrimSpace(line); !strings.HasSuffix(line, "/") {
			paths = append(paths, strings.TrimPrefix(line, "./"))
		}
	}
	if len(paths) == 0 && said == "" {
		said = strings.TrimSpace(lines[0])
	}
	return paths, said, more
}

// The two forms of a match: under the name of its file, and with the name in front.
var (
	groupedMatch = regexp.MustCompile(`^\s*(\d+): ?(.*)$`)
	contextLine  = regexp.MustCompile(`^\s*\d+- `)
	namedMatch   = regexp.MustCompile(`^(.+?):(\d+): ?(.*)$`)
)

func matchesOf(result string) (matches []match, said string, more bool) {
	lines, more, said := content(result)
	file := ""
	for _, line := range lines {
		name, number, text := file, "", ""
		if m := groupedMatch.FindStringSubmatch(line); m != nil && file != "" {
			number, text = m[1], m[2]
		} else if contextLine.MatchString(line) && file != "" {
			continue
		} else if m := namedMatch.FindStringSubmatch(line); m != nil {
			name, number, text = m[1], m[2], m[3]
		} else {
			file = strings.TrimSuffix(strings.TrimPrefix(strings.TrimSpace(line), "./"), ":")
			continue
		}
		n, err := strconv.Atoi(number)
		if err != nil { // more digits than a line number has
			continue
		}
		matches = append(matches, match{strings.TrimPrefix(name, "./"), n, strings.TrimSpace(text)})
	}
	if len(matches) == 0 && said == "" {
		said = strings.TrimSpace(lines[0])
	}
	return matches, said, more
}

var (
	lineNumber = regexp.MustCompile(`^\s*\d+(?:\t|→|\| ?|: )`)
	moreNote   = regexp.MustCompile(`(?i)^\[.*\b(more|lines|bytes|offset|truncated)\b.*\]$`)
)

func readingOf(file, result string) reading {
	r := reading{file: file}
	lines := strings.Split(strings.TrimRight(result, "\n"), "\n")
	if len(lines) == 1 && failure.MatchString(lines[0]) {
		r.said = strings.TrimSpace(lines[0])
		return r
	}
	if moreNote.MatchString(strings.TrimSpace(lines[len(lines)-1])) {
		r.partial, lines = true, lines[:len(lines)-1]
		for len(lines) > 0 && strings.TrimSpace(lines[len(lines)-1]) == "" {
			lines = lines[:len(lines)-1]
		}
	}
	numbered := len(lines) > 0 && !slices.ContainsFunc(lines, func(s string) bool { return s != "" && !lineNumber.MatchString(s) })
	r.lines = len(lines)
	first := ""
	for _, line := range lines {
		if numbered {
			line = line[len(lineNumber.FindString(line)):]
		}
		line = strings.TrimSpace(line)
		heading := strings.HasPrefix(line, "#") && strings.Trim(line, "# ") != ""
		switch {
		case line == "":
		case heading && r.heading == "":
			r.heading = strings.TrimSpace(strings.TrimLeft(line, "#"))
		case first == "":
			first = line
			fallthrough
		default:
			if r.sentence == "" && prose(file, line) {
				r.sentence = line
			}
		}
	}
	if r.heading == "" {
		r.heading = first
	}
	if r.sentence == r.heading {
		r.sentence = ""
	}
	return r
}

// prose reports whether a line of file reads like a sentence and not like markup or code.
func prose(file, line string) bool {
	switch strings.ToLower(path.Ext(file)) {
	case ".md", ".txt", ".rst", ".org", "":
	default:
		return false
	}
	return strings.Count(line, " ") >= 3 && !strings.ContainsAny(line[:1], "[!<|`{}/*#=-")
}

// names returns the paths known so far: the listing, then find, then grep.
func (f facts) names() []string {
	out := slices.Concat(f.listing.files, f.found)
	for _, m := range f.matches {
		out = append(out, m.file)
	}
	return out
}

// hits returns the files of the matches, the one with the most matches first.
func (f facts) hits() []string {
	count := map[string]int{}
	var files []string
	for _, m := range f.matches {
		if count[m.file]++; count[m.file] == 1 {
			files = append(files, m.file)
		}
	}
	slices.SortStableFunc(files, func(a, b string) int { return count[b] - count[a] })
	return files
}

// readme returns the README that ls showed, "" when there is none.
func (f facts) readme() string {
	best := ""
	for _, name := range f.listing.files {
		lower := strings.ToLower(name)
		if lower == "readme.md" {
			return name
		}
		if best == "" && strings.HasPrefix(lower, "readme") && textual(name) {
			best = name
		}
	}
	return best
}

// main returns the reading that the answer builds on.
func (f facts) main() (reading, bool) {
	for _, r := range f.reads {
		if r.said == "" {
			return r, true
		}
	}
	return reading{}, false
}

var textExtensions = strings.Fields(".md .txt .go .py .js .ts .tsx .jsx .rs .java .c .h .cc .cpp .rb .sh .toml .yaml .yml .json .html .css .sql .mod .rst .org .csv .cfg .ini .xml")

// textual reports whether a name looks like a text file.
func textual(name string) bool {
	ext := strings.ToLower(path.Ext(name))
	base := path.Base(name)
	return slices.Contains(textExtensions, ext) || ext == "" && base != "" && (base[0] >= 'A' && base[0] <= 'Z' || base[0] >= 'a' && base[0] <= 'z')
}
