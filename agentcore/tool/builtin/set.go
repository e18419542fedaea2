package builtin

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/workflowd/workflowd/agentcore/env"
	"github.com/workflowd/workflowd/agentcore/permission"
	"github.com/workflowd/workflowd/agentcore/tool"
)

// Options say which tools Set returns and where they act.
type Options struct {
	Env    env.Environment   // where they act; required
	Guard  env.Scope         // what file tools may reach there: a *permission.Guard, or a permission.Remote elsewhere; required
	Policy permission.Policy // zero = workspace
	Mode   permission.Mode   // zero = build
	Only   []string          // narrows the set; nil = all that policy and mode allow (P-407)
}

// Set returns the built-in tools that exist under the policy and mode, in a fixed order. An environment that cannot
// enforce the guard is an error; no tool ever acts on another machine instead (P-287). The tools are safe for concurrent
// use and valid as long as the guard is open.
func Set(o Options) ([]tool.Tool, error) {
	files, err := o.Env.Files(o.Guard)
	if err != nil {
		return nil, err
	}
	p := place{env: o.Env, files: files, scope: o.Guard}
	constructors := map[string]func(place) tool.Tool{
		permission.Read: newRead, permission.Ls: newLs, permission.Find: newFind, permission.Grep: newGrep,
		permission.Write: newWrite, permission.Edit: newEdit, permission.Bash: newBash,
	}
	tools := []tool.Tool{}
	for _, name := range permission.Filter(o.Policy, o.Mode, o.Only) {
		if construct := constructors[name]; construct != nil {
			tools = append(tools, construct(p))
		}
	}
	return tools, nil
}

// place is what a tool acts through.
type place struct {
	env   env.Environment
	files env.FileSystem
	scope env.Scope
}

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
