package local_test

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/workflowd/workflowd/agentcore/env"
)

// alive reports whether a process exists and is no zombie.
func alive(t *testing.T, pid int) bool {
	t.Helper()
	stat, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ESRCH) {
		return false
	}
	if err != nil {
		t.Fatal(err)
	}
	_, after, ok := bytes.Cut(stat, []byte(") "))
	return ok && after[0] != 'Z' && after[0] != 'X'
}

func number(t *testing.T, s string) int {
	t.Helper()
	pid, err := strconv.Atoi(strings.TrimSpace(s))
	if err != nil {
		t.Fatalf("no process number in %q", s)
	}
	return pid
}

// Bugs 49: a child that has left the group is found by its mark.
func TestAStrayInAnotherSessionIsKilledOnTimeout(t *testing.T) {
	fx := fixture(t)
	defer cleaned(t, fx.Env)
	var text strings.Builder
	_, err := fx.Env.Exec(t.Context(), env.Command{
		Script:  `setsid sh -c 'trap "" TERM; echo $$; sleep 124; sleep 124' & wait; sleep 124`,
		Timeout: 500 * time.Millisecond,
		Output:  func(_ env.Stream, chunk []byte) error { text.Write(chunk); return nil },
	})
	if env.CodeOf(err) != env.Timeout {
		t.Fatalf("got %v", err)
	}
	if pid := number(t, text.String()); alive(t, pid) {
		t.Errorf("process %d lives on", pid)
	}
}

func TestALeftoverLivesUntilCleanup(t *testing.T) {
	fx := fixture(t)
	var text strings.Builder
	// The script ends once its child has let go of the output, however busy the machine is.
	exit, err := fx.Env.Exec(t.Context(), env.Command{Script: `setsid sleep 125 >/dev/null 2>&1 & p=$!
until [ "$(readlink /proc/$p/fd/1)$(readlink /proc/$p/fd/2)" = /dev/null/dev/null ]; do :; done; echo $p`,
		Output: func(_ env.Stream, chunk []byte) error { text.Write(chunk); return nil }})
	if err != nil || exit.Detached {
		t.Fatalf("got %+v, %v", exit, err)
	}
	pid := number(t, text.String())
	if !alive(t, pid) {
		t.Fatal("the background process did not outlive its command")
	}
	cleaned(t, fx.Env)
	if alive(t, pid) {
		t.Error("the background process outlived the environment")
	}
}
