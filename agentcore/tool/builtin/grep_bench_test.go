package builtin_test

import (
	"encoding/json"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/workflowd/workflowd/agentcore/env/local"
	"github.com/workflowd/workflowd/agentcore/permission"
	"github.com/workflowd/workflowd/agentcore/tool"
	"github.com/workflowd/workflowd/agentcore/tool/builtin"
)

// BenchmarkSearch searches Go's own source tree with patterns that take the different ways through the matcher.
func BenchmarkSearch(b *testing.B) {
	dir, err := filepath.EvalSymlinks(filepath.Join(runtime.GOROOT(), "src")) //nolint:staticcheck // the tree of the running toolchain
	if err != nil {
		b.Fatal(err)
	}
	e, err := local.New(local.Options{Dir: dir})
	if err != nil {
		b.Fatal(err)
	}
	guard, err := permission.New(permission.Reach{Workdir: dir})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := guard.Close(); err != nil {
			b.Error(err)
		}
	})
	tools, err := builtin.Set(builtin.Options{Env: e, Guard: guard, Only: []string{"grep", "find"}})
	if err != nil {
		b.Fatal(err)
	}
	for _, bb := range []struct {
		name string
		tool int
		args string
	}{
		{"find", 0, `{"pattern":"*_none.go"}`},
		{"literal", 1, `{"pattern":"no such text anywhere"}`},
		{"case folded", 1, `{"pattern":"no such text anywhere","ignoreCase":true}`},
		{"literal inside", 1, `{"pattern":"\\w+\\s+nosuchtext\\d"}`},
		{"no literal", 1, `{"pattern":"[xz]{3}[qj]{3}[0-9]{9}"}`},
	} {
		b.Run(bb.name, func(b *testing.B) {
			for b.Loop() {
				if _, err := tools[bb.tool].Execute(b.Context(), tool.Call{Args: json.RawMessage(bb.args)}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
