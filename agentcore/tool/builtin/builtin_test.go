package builtin_test

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"go.uber.org/goleak"

	"github.com/workflowd/workflowd/agentcore/env/local"
	"github.com/workflowd/workflowd/agentcore/permission"
	"github.com/workflowd/workflowd/agentcore/tool"
	"github.com/workflowd/workflowd/agentcore/tool/builtin"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// bench is a workspace with its tools. Paths of its helpers are relative to the workspace.
type bench struct {
	t     *testing.T
	dir   string // canonical
	env   *local.Environment
	tools map[string]tool.Tool
}

func newBench(t *testing.T, policy permission.Policy) *bench {
	t.Helper()
	base, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	b := &bench{t: t, dir: filepath.Join(base, "ws"), tools: map[string]tool.Tool{}}
	if err := os.MkdirAll(b.dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if b.env, err = local.New(local.Options{Dir: b.dir}); err != nil {
		t.Fatal(err)
	}
	guard, err := permission.New(permission.Reach{Policy: policy, Workdir: b.dir})
	if err != nil {
		t.Fatal(err)
	}
	tools, err := builtin.Set(builtin.Options{Env: b.env, Guard: guard, Policy: policy})
	if err != nil {
		t.Fatal(err)
	}
	for _, one := range tools {
		b.tools[one.Spec().Name] = one
	}
	t.Cleanup(func() {
		if err := b.env.Cleanup(context.Background()); err != nil {
			t.Error(err)
		}
		if err := guard.Close(); err != nil {
			t.Error(err)
		}
	})
	return b
}

func (b *bench) file(name, text string) {
	b.t.Helper()
	full := filepath.Join(b.dir, name)
	if err := os.MkdirAll(filepath.Dir(full), 0o755); err != nil {
		b.t.Fatal(err)
	}
	if err := os.WriteFile(full, []byte(text), 0o644); err != nil {
		b.t.Fatal(err)
	}
}

func (b *bench) link(name, target string) {
	b.t.Helper()
	if err := os.Symlink(target, filepath.Join(b.dir, name)); err != nil {
		b.t.Fatal(err)
	}
}

// call prepares and executes as the harness does. Both a failed call and a refused one are an error. What the model
// would read is checked for what must hold for every tool: valid UTF-8, bounded, no control characters.
func (b *bench) call(name string, args map[string]any) (tool.Result, error) {
	b.t.Helper()
	return b.callWith(b.t.Context(), name, args, nil)
}

func (b *bench) callWith(ctx context.Context, name string, args map[string]any, emit func(string)) (tool.Result, error) {
	b.t.Helper()
	raw, err := json.Marshal(args)
	if err != nil {
		b.t.Fatal(err)
	}
	one := b.tools[name]
	if one == nil {
		b.t.Fatalf("there is no tool %s", name)
	}
	prepared, err := one.Prepare(raw)
	if err != nil {
		return tool.Result{}, err
	}
	res, err := one.Execute(ctx, tool.Call{ID: "1", Name: name, Args: prepared, Emit: emit})
	text := res.Text()
	if err != nil {
		text = err.Error()
	}
	b.sound(name, text)
	return res, err
}

func (b *bench) sound(name, text string) {
	b.t.Helper()
	const notes = 2 << 10
	if !utf8.ValidString(text) || len(text) > builtin.MaxOutputBytes+notes || strings.Count(text, "\n") > builtin.MaxOutputLines+1 {
		b.t.Errorf("%s: the model would read %d bytes, %d lines, valid %v", name, len(text), strings.Count(text, "\n"), utf8.ValidString(text))
	}
	if i := strings.IndexFunc(text, func(r rune) bool { return r < 0x20 && r != '\n' && r != '\t' || r == 0x7f }); i >= 0 {
		b.t.Errorf("%s: control character %q in what the model would read", name, text[i])
	}
}

// text is call for a success.
func (b *bench) text(name string, args map[string]any) string {
	b.t.Helper()
	res, err := b.call(name, args)
	if err != nil || res.IsError {
		b.t.Fatalf("%s %v: %v %q", name, args, err, res.Text())
	}
	return res.Text()
}

// fails is call for a failure; its text must hold every word.
func (b *bench) fails(name string, args map[string]any, words ...string) {
	b.t.Helper()
	res, err := b.call(name, args)
	if err == nil {
		b.t.Errorf("%s %v: got %q, want an error", name, args, res.Text())
		return
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			b.t.Errorf("%s %v: the error does not say %q: %v", name, args, w, err)
		}
	}
}

func (b *bench) is(what, got, want string) {
	b.t.Helper()
	if got != want {
		b.t.Errorf("%s:\n got %q\nwant %q", what, got, want)
	}
}

type args = map[string]any

// Promise: P-419. Promise: P-420. Promise: P-424. Promise: P-438. Promise: P-470. Promise: P-471.
func TestTheSetFollowsPolicyAndModeAndDeclaresItsReplay(t *testing.T) {
	b := newBench(t, permission.Workspace)
	guard, err := permission.New(permission.Reach{Workdir: b.dir})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := guard.Close(); err != nil {
			t.Error(err)
		}
	})
	for _, tt := range []struct {
		name   string
		policy permission.Policy
		mode   permission.Mode
		only   []string
		want   string
	}{
		{"workspace", permission.Workspace, permission.Build, nil, "read ls find grep write edit bash"},
		{"auto", permission.Auto, "", nil, "read ls find grep write edit bash"},
		{"read-only", permission.ReadOnly, permission.Build, nil, "read ls find grep"},
		{"plan", permission.Workspace, permission.Plan, nil, "read ls find grep"},
		{"narrowed", "", "", []string{"bash", "read"}, "read bash"},
	} {
		tools, err := builtin.Set(builtin.Options{Env: b.env, Guard: guard, Policy: tt.policy, Mode: tt.mode, Only: tt.only})
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, one := range tools {
			names = append(names, one.Spec().Name)
		}
		if got := strings.Join(names, " "); got != tt.want {
			t.Errorf("%s: got %q, want %q", tt.name, got, tt.want)
		}
	}
	for name, one := range b.tools {
		want := tool.Never
		if slices.Contains([]string{"read", "ls", "find", "grep"}, name) {
			want = tool.Safe
		}
		if one.Replay() != want {
			t.Errorf("%s: replay is %q, want %q", name, one.Replay(), want)
		}
		if d := one.Spec().Description; len(d) < 40 || !utf8.ValidString(d) {
			t.Errorf("%s: description %q", name, d)
		}
	}
}

// Promise: P-287.
func TestAnEnvironmentThatCannotEnforceTheGuardGetsNoTools(t *testing.T) {
	b := newBench(t, permission.Workspace)
	if tools, err := builtin.Set(builtin.Options{Env: b.env, Guard: permission.Remote{Dirs: []string{b.dir}}}); err == nil {
		t.Errorf("got %d tools", len(tools))
	}
}

func TestSchemasSayTheLimitsThatHold(t *testing.T) {
	b := newBench(t, permission.Workspace)
	for name, words := range map[string][]string{
		"find": {`"maximum":1000`, "for example *.go or src/**/*.ts"},
		"grep": {`"maximum":2000`, `"maximum":20,`, "this glob, for example *.go"},
		"read": {"First line to return, counted from 1"},
		"bash": {`"exclusiveMinimum":0`, `"maximum":2147483`},
	} {
		for _, w := range words {
			if s := string(b.tools[name].Spec().Schema); !strings.Contains(s, w) {
				t.Errorf("%s: the schema does not say %s: %s", name, w, s)
			}
		}
	}
	if builtin.MaxFound != 1000 || builtin.MaxMatches != 2000 || builtin.MaxContext != 20 {
		t.Error("a limit and its schema have parted")
	}
}

// Promise: P-421. Promise: P-422. Bugs 53.
func TestNoFileToolLeavesTheWorkspace(t *testing.T) {
	b := newBench(t, permission.Workspace)
	b.file("../out/v.txt", "secret")
	b.file("../ws2/f", "twin")
	b.file("real/f", "inside")
	for name, target := range map[string]string{"n.md": "../out/v.txt", "d.txt": "../out/new.txt", "ln": "../out", "in": "./real"} {
		b.link(name, target)
	}
	out := filepath.Join(filepath.Dir(b.dir), "out")
	for _, path := range []string{"n.md", "d.txt", "ln/v.txt", "ln/newdir/f", "../ws2/f", filepath.Join(out, "v.txt")} {
		b.fails("read", args{"path": path}, "outside the directories", b.dir)
		b.fails("grep", args{"pattern": "s", "path": path}, "outside the directories")
		b.fails("write", args{"path": path, "content": "x"}, "outside the directories", b.dir)
	}
	for _, path := range []string{"ln", out, ".."} {
		b.fails("ls", args{"path": path}, "outside the directories")
		b.fails("find", args{"pattern": "*", "path": path}, "outside the directories")
		b.fails("grep", args{"pattern": "s", "path": path}, "outside the directories")
	}
	if entries, err := os.ReadDir(out); err != nil || len(entries) != 1 {
		t.Errorf("outside there is now %v, %v", entries, err)
	}
	b.is("a link inside", b.text("read", args{"path": "in/f"}), "inside\n")
	b.text("write", args{"path": "in/g", "content": "new"})
	b.is("written through it", b.text("read", args{"path": "real/g"}), "new\n")

	// Promise: P-423.
	b.is("find follows no link", b.text("find", args{"pattern": "*"}), "d.txt@\nin@\nln@\nn.md@\nreal/\nreal/f\nreal/g\n")
	if got := b.text("grep", args{"pattern": "secret|inside"}); got != "real/f\n  1: inside\n" {
		t.Errorf("grep follows no link: got %q", got)
	}
}

// Promise: P-424.
func TestUnderAutoFileToolsReachOutside(t *testing.T) {
	b := newBench(t, permission.Auto)
	b.file("../out/v.txt", "secret")
	b.is("read", b.text("read", args{"path": "../out/v.txt"}), "secret\n")
	b.text("write", args{"path": "../out/new/w.txt", "content": "x"})
	b.is("find", b.text("find", args{"pattern": "*", "path": "../out"}), "../out/new/\n../out/new/w.txt\n../out/v.txt\n")
}
