package builtin

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"github.com/workflowd/workflowd/agentcore/env"
	"github.com/workflowd/workflowd/agentcore/permission"
	"github.com/workflowd/workflowd/agentcore/tool"
)

//go:embed grep.md
var grepDoc string

type grepIn struct {
	Pattern    string `json:"pattern" jsonschema:"minLength=1,description=Regular expression to search for"`
	Path       string `json:"path,omitempty" jsonschema:"description=Directory or file to search; the working directory when left out"`
	Glob       string `json:"glob,omitempty" jsonschema:"description=Only files that match this glob\\, for example *.go; a leading ! excludes them"`
	IgnoreCase bool   `json:"ignoreCase,omitempty"`
	Literal    bool   `json:"literal,omitempty" jsonschema:"description=Take the pattern as plain text"`
	Context    int    `json:"context,omitempty" jsonschema:"minimum=0,maximum=20,description=Lines to show before and after each match"`
	Limit      int    `json:"limit,omitempty" jsonschema:"minimum=1,maximum=2000,description=Most matching lines to return"`
}

// grepDetails is what people see of a search.
type grepDetails struct {
	Matches  int `json:"matches"`
	Files    int `json:"files"`
	Searched int `json:"searched"`
}

func newGrep(p place) tool.Tool {
	return tool.New(permission.Grep, grepDoc, p.grep, tool.Replay(tool.Safe))
}

func (p place) grep(ctx context.Context, _ tool.Call, in grepIn) (tool.Result, error) {
	s := search{ctx: ctx, context: min(in.Context, MaxContext), limit: in.Limit}
	if s.limit == 0 {
		s.limit = DefaultMatches
	}
	s.limit = min(s.limit, MaxMatches)
	var err error
	if s.m, err = newMatcher(in.Pattern, in.Literal, in.IgnoreCase); err != nil {
		return tool.Result{}, err
	}
	files := glob{pattern: "**", path: true}
	if in.Glob != "" {
		plain := strings.TrimPrefix(in.Glob, "!")
		if files, err = newGlob(plain); err != nil {
			return tool.Result{}, err
		}
		files.exclude = plain != in.Glob
	}
	info, err := p.files.Stat(ctx, start(in.Path))
	if err != nil {
		return tool.Result{}, p.advice(ctx, start(in.Path), err)
	}
	if info.Kind == env.Directory {
		err = p.walk(ctx, in.Path, func(e env.Entry, shown string, err error) bool {
			if err != nil {
				s.unread++
				return true
			}
			if e.Info.Kind != env.RegularFile || !files.match(e.Path) {
				return true
			}
			f, err := e.Dir.File(ctx, e.Info.Name)
			return s.file(shown, f, err)
		})
	} else {
		var f env.File
		if f, err = p.files.Open(ctx, in.Path); err != nil {
			return tool.Result{}, p.advice(ctx, start(in.Path), err)
		}
		s.file(filepath.Clean(in.Path), f, nil)
	}
	if err = errors.Join(err, s.err); err != nil {
		return tool.Result{}, err
	}
	return s.result(in)
}

// search is one run of grep. It collects output until a limit is reached.
type search struct {
	ctx            context.Context
	m              *matcher
	context, limit int

	out      head
	matches  int
	files    int
	searched int
	unread   int
	binary   []string
	full     bool
	err      error // of ctx; ends the search
}

// file searches one file and reports whether the search goes on. A file that cannot be read is counted.
func (s *search) file(shown string, f env.File, err error) bool {
	if err != nil {
		s.unread++
		return s.ctx.Err() == nil
	}
	s.searched++
	hits := &hits{s: s, shown: shown, context: s.context}
	err = errors.Join(s.scan(f, hits), f.Close())
	switch {
	case s.ctx.Err() != nil:
		s.err = s.ctx.Err()
		return false
	case err != nil:
		s.unread++
	}
	if hits.found > 0 {
		s.files++
	}
	return !s.full
}

// scan searches f. Lines of context cost every line its reading, so a file is asked first whether it matches at all.
func (s *search) scan(f env.File, h *hits) error {
	if s.context > 0 {
		probe := &hits{s: s, probe: true}
		if err := s.m.scan(s.ctx, io.NewSectionReader(f, 0, f.Info().Size), probe); err != nil || probe.found == 0 {
			return err
		}
	}
	return s.m.scan(s.ctx, f, h)
}

func (s *search) result(in grepIn) (tool.Result, error) {
	text := s.out.b.String()
	if s.matches == 0 && len(s.binary) == 0 {
		text = fmt.Sprintf("no match for %.200q below %q in %d files (what .gitignore excludes is not searched)\n", in.Pattern, start(in.Path), s.searched)
	}
	for _, name := range s.binary {
		text += fmt.Sprintf("%s: binary file matches\n", name)
	}
	var notes []string
	if s.full {
		notes = append(notes, fmt.Sprintf("the first %d matching lines; narrow the pattern, glob or path, or raise limit", s.matches))
	}
	if s.unread > 0 {
		notes = append(notes, fmt.Sprintf("%d files or directories could not be read", s.unread))
	}
	if len(notes) > 0 {
		text += "[" + strings.Join(notes, "; ") + "]"
	}
	res := tool.Text(text)
	var err error
	res.Details, err = json.Marshal(grepDetails{Matches: s.matches, Files: s.files + len(s.binary), Searched: s.searched})
	return res, err
}

// hits prints the matches of one file with their context.
type hits struct {
	s       *search
	shown   string
	context int  // lines around a match
	probe   bool // only find out whether there is a match
	found   int
	last    int      // last line printed
	before  []string // lines that may become context, newest last; their last one is number-1
	after   int      // context lines still to print
}

// line takes the next line. at is where the match begins and ends, nil for none. It reports whether the file goes on.
func (h *hits) line(number int, text []byte, at []int) bool {
	if h.probe {
		h.found++
		return false
	}
	if at == nil {
		if h.after > 0 {
			h.after--
			return h.print(number, '-', text, nil)
		}
		if h.context > 0 {
			if len(h.before) == h.context {
				h.before = append(h.before[:0], h.before[1:]...)
			}
			h.before = append(h.before, shorten(text, nil))
		}
		return true
	}
	if h.s.matches == h.s.limit {
		h.s.full = true
		return false
	}
	if h.found == 0 && !h.out(showName(h.shown)) {
		return false
	}
	h.found++
	first := number - len(h.before)
	if h.last > 0 && first > h.last+1 && h.context > 0 && !h.out("  --") {
		return false
	}
	for i, text := range h.before {
		if !h.out(fmt.Sprintf("  %d- %s", first+i, text)) {
			return false
		}
	}
	h.before = h.before[:0]
	if !h.print(number, ':', text, at) {
		return false
	}
	h.s.matches++
	h.after = h.context
	return true
}

// isBinary notes a match in a file whose content is not shown.
func (h *hits) isBinary() {
	if h.probe {
		h.found++
		return
	}
	h.s.binary = append(h.s.binary, showName(h.shown))
}

func (h *hits) print(number int, sign byte, text []byte, at []int) bool {
	h.last = number
	return h.out(fmt.Sprintf("  %d%c %s", number, sign, shorten(text, at)))
}

func (h *hits) out(line string) bool {
	if h.s.out.add(line) {
		return true
	}
	h.s.full = true
	return false
}

// shorten returns a line for the model, cut around the match when it is long.
func shorten(text []byte, at []int) string {
	if len(text) <= MaxMatchBytes {
		return cleanLine(text)
	}
	from := 0
	if at != nil && at[0] > MaxMatchBytes/2 {
		from = min(at[0]-MaxMatchBytes/4, len(text)-MaxMatchBytes)
	}
	for from > 0 && from < len(text) && text[from]&0xc0 == 0x80 {
		from++
	}
	cut := cutBytes(string(text[from:min(len(text), from+MaxMatchBytes)]), MaxMatchBytes)
	for i := 0; i < 3 && from+len(cut) < len(text) && text[from+len(cut)]&0xc0 == 0x80; i++ { // the cut is inside a rune
		cut = cut[:len(cut)-1]
	}
	shown := cleanLine([]byte(cut))
	if from > 0 {
		shown = "…" + shown
	}
	if from+len(cut) < len(text) {
		shown += "…"
	}
	return fmt.Sprintf("%s [line of %s]", shown, size(int64(len(text))))
}
