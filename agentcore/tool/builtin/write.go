package builtin

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/workflowd/workflowd/agentcore/env"
	"github.com/workflowd/workflowd/agentcore/permission"
	"github.com/workflowd/workflowd/agentcore/tool"
)

//go:embed write.md
var writeDoc string

type writeIn struct {
	Path    string `json:"path" jsonschema:"minLength=1,description=File to write; relative to the working directory or absolute"`
	Content string `json:"content" jsonschema:"description=The whole new content"`
}

// writeDetails is what people see of a write. Diff is empty when old or new are not text or too large for one.
type writeDetails struct {
	Path    string `json:"path"`
	Bytes   int    `json:"bytes"`
	Created bool   `json:"created"`
	Added   int    `json:"added"`
	Removed int    `json:"removed"`
	Diff    string `json:"diff,omitempty"`
}

func newWrite(p place) tool.Tool {
	return tool.New(permission.Write, writeDoc, p.write)
}

func (p place) write(ctx context.Context, _ tool.Call, in writeIn) (tool.Result, error) {
	if strings.HasSuffix(in.Path, "/") {
		return tool.Result{}, fmt.Errorf("%q names a directory: give the file's name too", in.Path)
	}
	real, err := p.files.Canonical(ctx, in.Path)
	if err != nil {
		return tool.Result{}, p.advice(ctx, in.Path, err)
	}
	unlock, err := env.Lock(ctx, p.env, real)
	if err != nil {
		return tool.Result{}, err
	}
	defer unlock()
	old, known, err := p.oldContent(ctx, real)
	if err != nil {
		return tool.Result{}, p.advice(ctx, in.Path, err)
	}
	done, err := p.files.Write(ctx, real, []byte(in.Content), env.WriteOptions{Parents: true})
	if err != nil {
		if e, ok := errors.AsType[*env.Error](err); ok {
			e.Path = in.Path
		}
		return tool.Result{}, p.advice(ctx, in.Path, err)
	}
	d := writeDetails{Path: in.Path, Bytes: done.Bytes, Created: done.Created}
	if known && len(in.Content) <= diffInputBytes {
		d.Diff, d.Added, d.Removed = diff(old, in.Content)
	}
	verb := "replaced"
	if done.Created {
		verb = "created"
	}
	res := tool.Text(fmt.Sprintf("%s %s: %s, %d lines", verb, showName(in.Path), size(int64(done.Bytes)), countLines(in.Content)))
	res.Details, err = json.Marshal(d)
	return res, err
}

// oldContent returns what the file holds now, "" when there is none. known is false when it is too large to compare.
func (p place) oldContent(ctx context.Context, real string) (text string, known bool, err error) {
	f, err := p.files.Open(ctx, real)
	if env.CodeOf(err) == env.NotFound {
		return "", true, nil
	}
	if err != nil {
		return "", false, err
	}
	b, err := io.ReadAll(io.LimitReader(f, diffInputBytes+1))
	return string(b), len(b) <= diffInputBytes, errors.Join(err, f.Close())
}

func countLines(s string) int {
	n := strings.Count(s, "\n")
	if s != "" && !strings.HasSuffix(s, "\n") {
		n++
	}
	return n
}
