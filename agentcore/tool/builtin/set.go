package builtin

import (
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
		permission.Write: newWrite, permission.Bash: newBash,
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
