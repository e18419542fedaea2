package builtin

import (
	"context"
	_ "embed"
	"errors"
	"fmt"

	"github.com/workflowd/workflowd/agentcore/env"
	"github.com/workflowd/workflowd/agentcore/permission"
	"github.com/workflowd/workflowd/agentcore/tool"
)

//go:embed ls.md
var lsDoc string

type lsIn struct {
	Path string `json:"path,omitempty" jsonschema:"description=Directory to list; the working directory when left out"`
}

func newLs(p place) tool.Tool {
	return tool.New(permission.Ls, lsDoc, p.ls, tool.Replay(tool.Safe))
}

func (p place) ls(ctx context.Context, _ tool.Call, in lsIn) (tool.Result, error) {
	if in.Path == "" {
		in.Path = "."
	}
	d, err := p.files.OpenDir(ctx, in.Path)
	if env.CodeOf(err) == env.NotDirectory {
		if info, serr := p.files.Stat(ctx, in.Path); serr == nil {
			return tool.Text(fmt.Sprintf("%s is a %s, %s", showName(in.Path), info.Kind, size(info.Size))), nil
		}
	}
	if err != nil {
		return tool.Result{}, p.advice(ctx, in.Path, err)
	}
	infos, err := d.Entries(ctx)
	if err := errors.Join(err, d.Close()); err != nil {
		return tool.Result{}, fmt.Errorf("list %q: %w", in.Path, err)
	}
	if len(infos) == 0 {
		return tool.Text("(the directory is empty)"), nil
	}
	var out head
	for i, info := range infos {
		if !out.add(mark(showName(info.Name), info.Kind)) {
			return tool.Text(out.b.String() + fmt.Sprintf("[%d of %d entries; see the others with find and a pattern]", i, len(infos))), nil
		}
	}
	return tool.Text(out.b.String()), nil
}

// mark appends what shows the kind of an entry.
func mark(name string, kind env.Kind) string {
	switch kind {
	case env.Directory:
		return name + "/"
	case env.Link:
		return name + "@"
	case env.RegularFile, env.Other:
	}
	return name
}
