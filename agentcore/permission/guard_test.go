package permission

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/workflowd/workflowd/agentcore/env"
	"github.com/workflowd/workflowd/agentcore/fault"
)

// tree makes base/{ws,out,ws2} with the links of bugs 53 and returns the canonical base.
func tree(t *testing.T) string {
	t.Helper()
	base, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{"ws/real", "ws/sub", "out/deep", "ws2"} {
		if err := os.MkdirAll(filepath.Join(base, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for name, text := range map[string]string{"ws/a.txt": "a", "ws/real/f": "f", "out/v.txt": "secret", "ws2/f": "twin"} {
		if err := os.WriteFile(filepath.Join(base, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for name, target := range map[string]string{
		"ws/n.md": "../out/v.txt", "ws/d.txt": "../out/new.txt", "ws/ln": "../out", "ws/in": "./real",
		"ws/absin": filepath.Join(base, "ws/real"), "ws/absout": filepath.Join(base, "out"), "ws/dangling": "real/later/x",
		"ws/chain": "ln", "ws/loop1": "loop2", "ws/loop2": "loop1", "ws/back": "../ws/real", "ws/hop": "nowhere/../../out",
		"wslink": "ws",
	} {
		if err := os.Symlink(target, filepath.Join(base, name)); err != nil {
			t.Fatal(err)
		}
	}
	return base
}

func newGuard(t *testing.T, r Reach) *Guard {
	t.Helper()
	g, err := New(r)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := g.Close(); err != nil {
			t.Error(err)
		}
	})
	return g
}

// Promise: P-421. Promise: P-422. Promise: P-429.
func TestAPathIsJudgedByWhereItReallyLeads(t *testing.T) {
	base := tree(t)
	g := newGuard(t, Reach{Workdir: filepath.Join(base, "ws")})
	for _, tt := range []struct {
		name, path string
		want       string // canonical below base; "" = outside
	}{
		{"a file", "a.txt", "ws/a.txt"},
		{"the root itself", ".", "ws"},
		{"an absolute path inside", filepath.Join(base, "ws/a.txt"), "ws/a.txt"},
		{"dots that come back", "sub/../a.txt", "ws/a.txt"},
		{"dots that leave", "../out/v.txt", ""},
		{"dots that leave and come back", "../ws/a.txt", "ws/a.txt"},
		{"an absolute path outside", filepath.Join(base, "out/v.txt"), ""},
		{"the twin with the same prefix", "../ws2/f", ""},
		{"a link to a file outside", "n.md", ""},
		{"a dangling link to the outside", "d.txt", ""},
		{"a new file under a linked directory outside", "ln/newdir/f", ""},
		{"a link to a link outside", "chain/v.txt", ""},
		{"an absolute link outside", "absout/v.txt", ""},
		{"a link that leaves behind a missing part", "hop/v.txt", ""},
		{"a link inside", "in/f", "ws/real/f"},
		{"a new file through a link inside", "in/new/deep/f", "ws/real/new/deep/f"},
		{"an absolute link inside", "absin/f", "ws/real/f"},
		{"a link that leaves and comes back", "back/f", "ws/real/f"},
		{"a dangling link inside", "dangling", "ws/real/later/x"},
		{"the workspace through another name", filepath.Join(base, "wslink/a.txt"), "ws/a.txt"},
		{"a name that begins with dots", "..hidden", "ws/..hidden"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p, err := g.Locate(tt.path)
			if tt.want == "" {
				e, ok := errors.AsType[*OutsideError](err)
				if !ok {
					t.Fatalf("got %+v, %v; want an *OutsideError", p, err)
				}
				if !errors.Is(err, fs.ErrPermission) || !strings.Contains(err.Error(), g.Roots()[0]) || !strings.HasPrefix(e.Real, base) {
					t.Errorf("the error does not tell the allowed directories: %v", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if want := filepath.Join(base, tt.want); p.Path != want {
				t.Errorf("path: got %s, want %s", p.Path, want)
			}
			if got := filepath.Join(base, "ws", p.Name); got != p.Path {
				t.Errorf("name %q does not lead to %s", p.Name, p.Path)
			}
		})
	}
	if _, err := g.Locate("loop1/x"); err == nil {
		t.Error("a loop of links was located")
	}
}

func TestARootMayBeALinkItself(t *testing.T) {
	base := tree(t)
	g := newGuard(t, Reach{Workdir: filepath.Join(base, "wslink")})
	p, err := g.Locate("in/f")
	if err != nil || p.Path != filepath.Join(base, "ws/real/f") {
		t.Errorf("got %+v, %v", p, err)
	}
}

// Promise: P-422. The hard case of bugs 53: a directory swapped for a link after the check.
func TestALinkSwappedInAfterTheCheckDoesNotLeadOut(t *testing.T) {
	base := tree(t)
	g := newGuard(t, Reach{Workdir: filepath.Join(base, "ws")})
	p, err := g.Locate("sub/v.txt")
	if err != nil {
		t.Fatal(err)
	}
	sub := filepath.Join(base, "ws/sub")
	if err := os.Remove(sub); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("../out", sub); err != nil {
		t.Fatal(err)
	}
	if f, err := p.Root.Open(p.Name); err == nil {
		t.Errorf("opened %s", f.Name())
	}
	if f, err := p.Root.Create(filepath.Join(filepath.Dir(p.Name), "made.txt")); err == nil {
		t.Errorf("created %s", f.Name())
	}
	if _, err := os.Stat(filepath.Join(base, "out/made.txt")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("outside file: %v", err)
	}
}

// Promise: P-430. Promise: P-431. Promise: P-432.
func TestAllowedDirectoriesAreFurtherRoots(t *testing.T) {
	base := tree(t)
	g := newGuard(t, Reach{Workdir: filepath.Join(base, "ws"), AllowedDirectories: []string{"../out", "sub", filepath.Join(base, "ws")}})
	want := []string{filepath.Join(base, "ws"), filepath.Join(base, "out"), filepath.Join(base, "ws/sub")}
	if got := g.Roots(); !slices.Equal(got, want) {
		t.Errorf("roots: got %q, want %q", got, want)
	}
	for _, path := range []string{"n.md", "ln/newdir/f", "../out/v.txt", "sub/x"} {
		if _, err := g.Locate(path); err != nil {
			t.Errorf("%s: %v", path, err)
		}
	}
	if p, err := g.Locate("sub/x"); err != nil || p.Name != "x" {
		t.Errorf("the nearest root: got %q, %v", p.Name, err)
	}
	if _, err := g.Locate("../ws2/f"); err == nil {
		t.Error("a directory that is not listed was reached")
	}
}

// Promise: P-424.
func TestAutoReachesEverything(t *testing.T) {
	base := tree(t)
	g := newGuard(t, Reach{Policy: Auto, Workdir: filepath.Join(base, "ws")})
	if g.Confined() {
		t.Error("auto is confined")
	}
	for path, want := range map[string]string{"../out/v.txt": "out/v.txt", "n.md": "out/v.txt", "a.txt": "ws/a.txt", "d.txt": "out/new.txt"} {
		p, err := g.Locate(path)
		if err != nil || p.Path != filepath.Join(base, want) {
			t.Errorf("%s: got %+v, %v", path, p, err)
		}
	}
	p, err := g.Locate("../out/v.txt")
	if err != nil {
		t.Fatal(err)
	}
	text, err := p.Root.ReadFile(p.Name)
	if err != nil || string(text) != "secret" {
		t.Errorf("got %q, %v", text, err)
	}
	home, err := os.UserHomeDir()
	if err != nil {
		t.Fatal(err)
	}
	if home, err = filepath.EvalSymlinks(home); err != nil {
		t.Fatal(err)
	}
	if p, err := g.Locate("~/no-such-file-here"); err != nil || p.Path != filepath.Join(home, "no-such-file-here") {
		t.Errorf("home: got %+v, %v", p, err)
	}
}

func TestARootThatIsNoDirectoryIsRefusedByName(t *testing.T) {
	base := tree(t)
	ws := filepath.Join(base, "ws")
	for name, r := range map[string]Reach{
		filepath.Join(base, "missing"): {Workdir: filepath.Join(base, "missing")},
		filepath.Join(ws, "a.txt"):     {Workdir: filepath.Join(ws, "a.txt")},
		filepath.Join(ws, "nope"):      {Workdir: ws, AllowedDirectories: []string{"sub", "nope"}},
		"the name is empty":            {Workdir: ws, AllowedDirectories: []string{""}},
		"sudo":                         {Workdir: ws, Policy: "sudo"},
	} {
		if _, err := New(r); !fault.Is(err, fault.InputValidation) || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

func TestBadPathsAreInvalid(t *testing.T) {
	g := newGuard(t, Reach{Workdir: tree(t)})
	for _, path := range []string{"", "a\x00b"} {
		if _, err := g.Locate(path); env.Classify(err) != env.Invalid {
			t.Errorf("%q: got %v", path, err)
		}
	}
	if _, err := g.Locate("ws/a.txt/below"); env.Classify(err) != env.NotDirectory {
		t.Errorf("below a file: got %v", err)
	}
}

func FuzzLocateStaysInside(f *testing.F) {
	for _, s := range []string{"a.txt", "../out", "ln/x", "hop/../x", "in/../../out", "/", "~", "d.txt/..", "./dangling/../../.."} {
		f.Add(s)
	}
	base, err := filepath.EvalSymlinks(f.TempDir())
	if err != nil {
		f.Fatal(err)
	}
	ws := filepath.Join(base, "ws")
	if err := os.MkdirAll(filepath.Join(ws, "real"), 0o755); err != nil {
		f.Fatal(err)
	}
	for name, target := range map[string]string{"ln": "..", "hop": "nowhere/../../out", "in": "real", "d.txt": "../new"} {
		if err := os.Symlink(target, filepath.Join(ws, name)); err != nil {
			f.Fatal(err)
		}
	}
	g, err := New(Reach{Workdir: ws})
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() {
		if err := g.Close(); err != nil {
			f.Error(err)
		}
	})
	f.Fuzz(func(t *testing.T, path string) {
		p, err := g.Locate(path)
		if err != nil {
			return
		}
		if !filepath.IsLocal(p.Name) || !inside(ws, p.Path) {
			t.Errorf("%q leads to %+v", path, p)
		}
		if _, err := p.Root.Stat(p.Name); err != nil && strings.Contains(err.Error(), "escapes") {
			t.Errorf("%q was located at %q, which escapes", path, p.Name)
		}
	})
}
