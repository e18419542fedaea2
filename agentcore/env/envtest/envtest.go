package envtest

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/workflowd/workflowd/agentcore/env"
)

// prompt is how soon a call that does not have to wait must be back, with room for a loaded machine.
const prompt = 8 * time.Second

// Fixture is a fresh environment with an empty working directory and a scope that is confined to it. Outside is an
// existing directory beyond the scope, in the environment.
type Fixture struct {
	Env     env.Environment
	Scope   env.Scope
	Outside string
}

// Run proves the contract of package env on what open returns. open is called once per part; the suite calls Cleanup.
func Run(t *testing.T, open func(t *testing.T) Fixture) {
	t.Helper()
	parts := []struct {
		name string
		run  func(*testing.T, *kit)
	}{
		{"identity is stable", identity},
		{"files are written whole and read back", writeAndRead},
		{"an existing file keeps its mode and links are written through", writeKeeps},
		{"what is not a regular file is named at once", notRegular},
		{"links never lead out of the scope", confinement},
		{"a rename replaces", rename},
		{"remove is recursive only on demand", remove},
		{"directories list links without following them", list},
		{"a walk is sorted, prunes and stays below", walk},
		{"a cancelled context has no effect", cancelled},
		{"the lock of a file is shared by its names", lock},
		{"exit codes are results", exitCodes},
		{"a command that cannot start says so", spawn},
		{"argv reaches the program as it is", argv},
		{"variables are inherited, added and left out", variables},
		{"standard input is empty", stdin},
		{"output comes as it is written, by stream", streams},
		{"a rune is never cut between chunks", runes},
		{"a timeout kills the whole group and keeps the output so far", timeout},
		{"a cancel kills the whole group", cancelRunning},
		{"a failing callback kills the command", callback},
		{"a background child does not hold the call", background},
		{"limits that cannot be meant are refused", limits},
		{"temporary files and leftovers go with cleanup", cleanup},
	}
	for _, part := range parts {
		t.Run(part.name, func(t *testing.T) {
			fx := open(t)
			files, err := fx.Env.Files(fx.Scope)
			if err != nil {
				t.Fatal(err)
			}
			k := &kit{t, fx, files}
			t.Cleanup(func() {
				if err := fx.Env.Cleanup(context.Background()); err != nil {
					t.Errorf("cleanup: %v", err)
				}
			})
			part.run(t, k)
		})
	}
}

// kit is what a part works with. Its helpers end the test on an error.
type kit struct {
	t *testing.T
	Fixture
	files env.FileSystem
}

func (k *kit) write(path, text string) {
	k.t.Helper()
	if _, err := k.files.Write(k.t.Context(), path, []byte(text), env.WriteOptions{Parents: true}); err != nil {
		k.t.Fatal(err)
	}
}

func (k *kit) read(path string) string {
	k.t.Helper()
	f, err := k.files.Open(k.t.Context(), path)
	if err != nil {
		k.t.Fatal(err)
	}
	text, err := io.ReadAll(f)
	if err := errors.Join(err, f.Close()); err != nil {
		k.t.Fatal(err)
	}
	return string(text)
}

// sh runs a script that must exit 0 and returns what it wrote.
func (k *kit) sh(script string) string {
	k.t.Helper()
	text, exit, err := k.exec(env.Command{Script: script})
	if err != nil || exit.Code != 0 {
		k.t.Fatalf("%s: exit %d, %v, output %q", script, exit.Code, err, text)
	}
	return text
}

func (k *kit) exec(c env.Command) (string, env.Exit, error) {
	var text strings.Builder
	c.Merge = true
	c.Output = func(_ env.Stream, chunk []byte) error { text.Write(chunk); return nil }
	exit, err := k.Env.Exec(k.t.Context(), c)
	return text.String(), exit, err
}

func (k *kit) wantCode(what string, err error, want env.Code) {
	k.t.Helper()
	if got := env.CodeOf(err); got != want {
		k.t.Errorf("%s: got %v (code %q), want code %q", what, err, got, want)
	}
}

// soon fails the test when more than prompt has passed since began.
func (k *kit) soon(what string, began time.Time) {
	k.t.Helper()
	if d := time.Since(began); d > prompt {
		k.t.Errorf("%s took %v", what, d)
	}
}
