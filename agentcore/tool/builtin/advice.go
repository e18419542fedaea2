package builtin

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/workflowd/workflowd/agentcore/env"
)

// advice turns a failure about path into one that tells the model what to do next. The cause stays in the chain.
func (p place) advice(ctx context.Context, path string, err error) error {
	e, ok := errors.AsType[*env.Error](err)
	if !ok {
		return err
	}
	next := ""
	switch e.Code {
	case env.NotFound:
		next = "check the path with ls or find"
		if names := p.similar(ctx, path); len(names) > 0 {
			next = "did you mean " + strings.Join(names, ", ") + "?"
		}
	case env.IsDirectory:
		next = "list it with ls, or name a file in it"
	case env.NotDirectory:
		next = "a part of the path is a file; check it with ls"
	case env.NotRegular:
		next = "only regular files can be used"
	case env.PermissionDenied, env.Invalid, env.Exists, env.Aborted, env.Timeout, env.ShellUnavailable, env.SpawnFailed, env.CallbackFailed, env.Unknown:
	}
	if next == "" {
		return e
	}
	return fmt.Errorf("%w; %s", e, next)
}

// similar returns entries of path's directory that path may have meant.
func (p place) similar(ctx context.Context, path string) []string {
	parent, base := filepath.Dir(path), strings.ToLower(filepath.Base(path))
	d, err := p.files.OpenDir(ctx, parent)
	if err != nil {
		return nil
	}
	infos, err := d.Entries(ctx)
	if errors.Join(err, d.Close()) != nil {
		return nil
	}
	var names []string
	for _, info := range infos {
		name := strings.ToLower(info.Name)
		if len(names) < suggestions && (strings.Contains(name, base) || strings.Contains(base, name) && len(name) > 2) {
			names = append(names, fmt.Sprintf("%q", filepath.Join(parent, info.Name)))
		}
	}
	return names
}

// size says a number of bytes the short way.
func size(n int64) string {
	switch {
	case n < 1<<10:
		return fmt.Sprintf("%d bytes", n)
	case n < 1<<20:
		return fmt.Sprintf("%.1f KiB", float64(n)/(1<<10))
	case n < 1<<30:
		return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
	}
	return fmt.Sprintf("%.1f GiB", float64(n)/(1<<30))
}
