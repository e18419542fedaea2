package builtin

import (
	"context"
	"errors"
	"io"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/bmatcuk/doublestar/v4"

	"github.com/workflowd/workflowd/agentcore/env"
)

const ignoreFile = ".gitignore"

// rule is one line of a .gitignore file.
type rule struct {
	pattern  string // for doublestar
	literal  bool   // pattern has no wildcard
	anchored bool   // matched against the path below the file's directory, not against the name
	negated  bool
	dirOnly  bool
}

// parseIgnore reads the rules of a .gitignore file as git does. A pattern that cannot match anything is left out.
func parseIgnore(text string) []rule {
	var rules []rule
	for line := range strings.SplitSeq(text, "\n") {
		line = strings.TrimSuffix(line, "\r")
		for strings.HasSuffix(line, " ") && !strings.HasSuffix(line, `\ `) {
			line = line[:len(line)-1]
		}
		if line == "" || line[0] == '#' {
			continue
		}
		var r rule
		if line[0] == '!' {
			r.negated = true
			line = line[1:]
		}
		if strings.HasSuffix(line, "/") {
			r.dirOnly = true
			line = strings.TrimSuffix(line, "/")
		}
		r.anchored = strings.Contains(line, "/")
		line = strings.TrimPrefix(line, "/")
		if strings.HasSuffix(line, "/**") {
			line += "/*" // what is inside, not the directory itself
		}
		line = strings.NewReplacer("{", `\{`, "}", `\}`).Replace(line) // alternatives to doublestar, not to git
		if line == "" || !doublestar.ValidatePattern(line) {
			continue
		}
		r.pattern = line
		r.literal = !strings.ContainsAny(line, `*?[\`)
		rules = append(rules, r)
	}
	return rules
}

func (r rule) match(below string, dir bool) bool {
	if r.dirOnly && !dir {
		return false
	}
	if !r.anchored {
		below = path.Base(below)
	}
	if r.literal {
		return below == r.pattern
	}
	return doublestar.MatchUnvalidated(r.pattern, below)
}

// layer is the rules of one directory. dir is its path below the start of the walk, "" for the start; prefix is the path
// from the directory to the start for layers above the start, else "".
type layer struct {
	dir, prefix string
	rules       []rule
}

// ignorer is the layers that apply in the directory being walked, outermost first.
type ignorer struct {
	above  []layer
	layers []layer
}

// ignored decides by the last rule that matches. Git's own directory is always ignored.
func (g *ignorer) ignored(p string, dir bool) bool {
	if dir && path.Base(p) == ".git" {
		return true
	}
	return decide(g.layers, p, dir, decide(g.above, p, dir, false))
}

func decide(layers []layer, p string, dir, verdict bool) bool {
	for _, l := range layers {
		below := p
		switch {
		case l.prefix != "":
			below = l.prefix + "/" + p
		case l.dir != "":
			below = strings.TrimPrefix(p, l.dir+"/")
		}
		for _, r := range l.rules {
			if r.match(below, dir) {
				verdict = !r.negated
			}
		}
	}
	return verdict
}

// enter is an env.Enter: it reads the directory's own rules and drops what is ignored.
func (g *ignorer) enter(ctx context.Context) env.Enter {
	return func(dir string, d env.Dir, entries []env.Info) ([]env.Info, error) {
		for len(g.layers) > 0 {
			if last := g.layers[len(g.layers)-1].dir; last == "" || dir == last || strings.HasPrefix(dir, last+"/") {
				break
			}
			g.layers = g.layers[:len(g.layers)-1]
		}
		if slices.ContainsFunc(entries, func(i env.Info) bool { return i.Name == ignoreFile && i.Kind == env.RegularFile }) {
			rules, err := readIgnore(ctx, d)
			if err != nil {
				return nil, err
			}
			g.layers = append(g.layers, layer{dir: dir, rules: rules})
		}
		return slices.DeleteFunc(entries, func(i env.Info) bool {
			return g.ignored(path.Join(dir, i.Name), i.Kind == env.Directory)
		}), nil
	}
}

func readIgnore(ctx context.Context, d env.Dir) ([]rule, error) {
	f, err := d.File(ctx, ignoreFile)
	switch env.CodeOf(err) {
	case "":
	case env.NotFound, env.NotRegular, env.PermissionDenied, env.IsDirectory:
		return nil, nil
	default:
		return nil, err
	}
	text, err := io.ReadAll(io.LimitReader(f, ignoreBytes))
	if err := errors.Join(err, f.Close()); err != nil {
		return nil, err
	}
	return parseIgnore(string(text)), nil
}

// newIgnorer prepares a walk that starts at start: the rules of the directories from the scope's root down to start
// apply too, unless they ignore start itself, for then it was asked for all the same.
func (p place) newIgnorer(ctx context.Context, start string) (*ignorer, error) {
	g := &ignorer{}
	real, err := p.files.Canonical(ctx, start)
	if err != nil {
		return nil, err
	}
	root := ""
	for _, r := range p.scope.Roots() {
		if rel, err := filepath.Rel(r, real); err == nil && filepath.IsLocal(rel) && rel != "." && len(r) > len(root) {
			root = r
		}
	}
	if root == "" {
		return g, nil
	}
	rel, err := filepath.Rel(root, real)
	if err != nil {
		return nil, err
	}
	parts := strings.Split(filepath.ToSlash(rel), "/")
	for i := range parts {
		d, err := p.files.OpenDir(ctx, filepath.Join(root, filepath.Join(parts[:i]...)))
		if err != nil {
			return nil, err
		}
		rules, err := readIgnore(ctx, d)
		if err := errors.Join(err, d.Close()); err != nil {
			return nil, err
		}
		if len(rules) > 0 {
			g.above = append(g.above, layer{prefix: strings.Join(parts[i:], "/"), rules: rules})
		}
		own := []layer{}
		for _, l := range g.above { // is the next part ignored? prefix is cut to it
			depth := strings.Count(l.prefix, "/") + 1 - (len(parts) - i)
			own = append(own, layer{rules: l.rules, prefix: strings.Join(parts[i-depth:i], "/")})
		}
		if decide(own, parts[i], true, false) {
			return &ignorer{}, nil
		}
	}
	return g, nil
}
