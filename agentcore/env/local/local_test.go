//go:build unix

package local_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/workflowd/workflowd/agentcore/env"
	"github.com/workflowd/workflowd/agentcore/env/envtest"
	"github.com/workflowd/workflowd/agentcore/env/local"
	"github.com/workflowd/workflowd/agentcore/permission"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func fixture(t *testing.T) envtest.Fixture {
	t.Helper()
	base := t.TempDir()
	ws, out := filepath.Join(base, "ws"), filepath.Join(base, "out")
	for _, dir := range []string{ws, out} {
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	e, err := local.New(local.Options{Dir: ws})
	if err != nil {
		t.Fatal(err)
	}
	g, err := permission.New(permission.Reach{Workdir: ws})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := g.Close(); err != nil {
			t.Error(err)
		}
	})
	return envtest.Fixture{Env: e, Scope: g, Outside: out}
}

func TestConformance(t *testing.T) { envtest.Run(t, fixture) }

func cleaned(t *testing.T, e env.Environment) {
	t.Helper()
	if err := e.Cleanup(context.Background()); err != nil {
		t.Error(err)
	}
}

func TestANestedMarkKeepsTheOuterOne(t *testing.T) {
	t.Setenv("WORKFLOWD_EXEC", "outer.1/")
	fx := fixture(t)
	defer cleaned(t, fx.Env)
	var text strings.Builder
	if _, err := fx.Env.Exec(t.Context(), env.Command{Script: `printf %s "$WORKFLOWD_EXEC"`,
		Output: func(_ env.Stream, chunk []byte) error { text.Write(chunk); return nil }}); err != nil {
		t.Fatal(err)
	}
	if got := text.String(); !strings.HasPrefix(got, "outer.1/") || len(got) < len("outer.1/")+10 {
		t.Errorf("mark: got %q", got)
	}
}

// Bugs 49: 300 MB of output.
func TestMemoryStaysBoundedWhateverIsWritten(t *testing.T) {
	fx := fixture(t)
	defer cleaned(t, fx.Env)
	const size = 300_000_000
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	total := 0
	_, err := fx.Env.Exec(t.Context(), env.Command{Script: fmt.Sprintf("yes | head -c %d", size),
		Output: func(_ env.Stream, chunk []byte) error { total += len(chunk); return nil }})
	runtime.ReadMemStats(&after)
	if err != nil || total != size {
		t.Fatalf("got %d bytes, %v", total, err)
	}
	if grown := after.TotalAlloc - before.TotalAlloc; grown > 4<<20 {
		t.Errorf("%d bytes were allocated", grown)
	}
}

// A slow reader gets everything that the command wrote, although the command ended long before.
func TestASlowReaderLosesNothing(t *testing.T) {
	fx := fixture(t)
	defer cleaned(t, fx.Env)
	total := 0
	_, err := fx.Env.Exec(t.Context(), env.Command{Script: "head -c 60000 /dev/zero", Output: func(_ env.Stream, chunk []byte) error {
		if total == 0 {
			<-time.After(300 * time.Millisecond) // the reader is slow; nothing is waited for
		}
		total += len(chunk)
		return nil
	}})
	if err != nil || total != 60000 {
		t.Errorf("got %d bytes, %v", total, err)
	}
}

func TestAFileThatIsProtectedIsNotReplaced(t *testing.T) {
	if os.Getuid() == 0 {
		if os.Getenv("WORKFLOWD_TEST_AS_NOBODY") == "" {
			asNobody(t)
			return
		}
		t.Fatal("still root")
	}
	fx := fixture(t)
	defer cleaned(t, fx.Env)
	path := filepath.Join(fx.Env.Dir(), "f")
	if err := os.WriteFile(path, []byte("old"), 0o444); err != nil {
		t.Fatal(err)
	}
	files, err := fx.Env.Files(fx.Scope)
	if err != nil {
		t.Fatal(err)
	}
	_, err = files.Write(t.Context(), "f", []byte("new"), env.WriteOptions{})
	if text, rerr := os.ReadFile(path); env.CodeOf(err) != env.PermissionDenied || rerr != nil || string(text) != "old" {
		t.Errorf("got %v, content %q, %v", err, text, rerr)
	}
}

// asNobody runs the calling test again as an unprivileged user, because permissions do not bind root.
func asNobody(t *testing.T) {
	t.Helper()
	const nobody = 65534
	dir, err := os.MkdirTemp("/tmp", "nobody-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	binary, err := os.ReadFile(self)
	if err != nil {
		t.Fatal(err)
	}
	copied := filepath.Join(dir, "test")
	if err := errors.Join(os.WriteFile(copied, binary, 0o755), os.Chown(dir, nobody, nobody), os.Chmod(dir, 0o755)); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), copied, "-test.run", "^"+t.Name()+"$", "-test.v")
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "WORKFLOWD_TEST_AS_NOBODY=1", "TMPDIR="+dir, "HOME="+dir)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	out, err := cmd.CombinedOutput()
	if err != nil || !bytes.Contains(out, []byte("--- PASS: "+t.Name())) {
		t.Errorf("as nobody: %v\n%s", err, out)
	}
}

func TestAScopeThatCannotBeEnforcedIsRefused(t *testing.T) {
	fx := fixture(t)
	defer cleaned(t, fx.Env)
	if _, err := fx.Env.Files(permission.Remote{Dirs: []string{"/"}}); env.CodeOf(err) != env.Invalid {
		t.Errorf("got %v", err)
	}
}

func TestAWorkingDirectoryThatIsNoneIsRefused(t *testing.T) {
	f := filepath.Join(t.TempDir(), "f")
	if err := os.WriteFile(f, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := local.New(local.Options{Dir: f}); env.CodeOf(err) != env.NotDirectory {
		t.Errorf("a file: got %v", err)
	}
	if _, err := local.New(local.Options{Dir: f + "x"}); env.CodeOf(err) != env.NotFound {
		t.Errorf("nothing: got %v", err)
	}
}

func TestWithoutAShellOnlyProgramsRun(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	e, err := local.New(local.Options{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer cleaned(t, e)
	if _, err := e.Exec(t.Context(), env.Command{Script: "true"}); env.CodeOf(err) != env.ShellUnavailable {
		t.Errorf("got %v", err)
	}
	if _, err := e.Exec(t.Context(), env.Command{Argv: []string{"/bin/true"}}); err != nil {
		t.Errorf("a program: %v", err)
	}
}
