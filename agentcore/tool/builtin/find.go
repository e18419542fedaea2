package builtin

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"path"
	"path/filepath"
	"strings"

	"github.com/bmatcuk/doublestar/v4"

	"github.com/workflowd/workflowd/agentcore/env"
	"github.com/workflowd/workflowd/agentcore/permission"
	"github.com/workflowd/workflowd/agentcore/tool"
)

//go:embed find.md
var findDoc string

type findIn struct {
	Pattern string `json:"pattern" jsonschema:"minLength=1,description=Glob pattern\\, for example *.go or src/**/*.ts"`
	Path    string `json:"path,omitempty" jsonschema:"description=Directory to start from; the working directory when left out"`
	Limit   int    `json:"limit,omitempty" jsonschema:"minimum=1,maximum=1000,description=Most paths to return"`
}

func newFind(p place) tool.Tool {
	return tool.New(permission.Find, findDoc, p.find, tool.Replay(tool.Safe))
}

func (p place) find(ctx context.Context, _ tool.Call, in findIn) (tool.Result, error) {
	match, err := newGlob(in.Pattern)
	if err != nil {
		return tool.Result{}, err
	}
	limit := in.Limit
	if limit == 0 {
		limit = MaxFound
	}
	var out head
	more, unread := false, 0
	err = p.walk(ctx, in.Path, func(e env.Entry, shown string, err error) bool {
		if err != nil {
			unread++
			return true
		}
		if !match.match(e.Path) {
			return true
		}
		more = out.lines == limit || !out.add(mark(showName(shown), e.Info.Kind))
		return !more
	})
	if err != nil {
		return tool.Result{}, err
	}
	var notes []string
	if more {
		notes = append(notes, fmt.Sprintf("the first %d paths; narrow the pattern or the path to see others", out.lines))
	}
	if unread > 0 {
		notes = append(notes, fmt.Sprintf("%d directories could not be read", unread))
	}
	text := out.b.String()
	if out.lines == 0 {
		text = fmt.Sprintf("no path below %q matches %q (what .gitignore excludes is not looked at)\n", start(in.Path), in.Pattern)
	}
	if len(notes) > 0 {
		text += "[" + strings.Join(notes, "; ") + "]"
	}
	return tool.Text(text), nil
}

func start(p string) string {
	if p == "" {
		return "."
	}
	return p
}

// walk visits everything below from that is not ignored until visit returns false. shown is the entry's path as the
// model can use it. A directory that cannot be read is visited with its error; the end of ctx is returned.
func (p place) walk(ctx context.Context, from string, visit func(e env.Entry, shown string, err error) bool) (err error) {
	from = start(from)
	d, err := p.files.OpenDir(ctx, from)
	if err != nil {
		return p.advice(ctx, from, err)
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	ignore, err := p.newIgnorer(ctx, from)
	if err != nil {
		return p.advice(ctx, from, err)
	}
	for e, werr := range env.Walk(ctx, d, ignore.enter(ctx)) {
		if werr != nil && (env.CodeOf(werr) == env.Aborted || e.Path == "") {
			return werr
		}
		if !visit(e, filepath.Join(from, e.Path), werr) {
			return nil
		}
	}
	return ctx.Err()
}

// glob is a compiled pattern of find and grep.
type glob struct {
	pattern string
	path    bool // matched against the whole path
	exclude bool
}

// newGlob checks a pattern. It is never an option of anything, whatever it begins with.
func newGlob(pattern string) (glob, error) {
	g := glob{pattern: strings.TrimPrefix(pattern, "./")}
	if len(pattern) > MaxPatternBytes || !doublestar.ValidatePattern(g.pattern) {
		return glob{}, fmt.Errorf("%.200q is not a valid glob pattern: brackets and braces must be closed; escape a literal one with \\", pattern)
	}
	if path.IsAbs(pattern) {
		return glob{}, fmt.Errorf("the pattern %.200q is absolute: give the directory as path and the rest as pattern", pattern)
	}
	g.pattern = strings.TrimSuffix(g.pattern, "/")
	g.path = strings.Contains(g.pattern, "/")
	return g, nil
}

func (g glob) match(p string) bool {
	if !g.path {
		p = path.Base(p)
	}
	return doublestar.MatchUnvalidated(g.pattern, p) != g.exclude
}
