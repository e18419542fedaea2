//go:build unix

package sqlite

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
)

// childEnv makes the test binary act as another process: its value is what to do.
const childEnv = "SQLITE_TEST_CHILD"

func TestMain(m *testing.M) {
	switch path := os.Getenv("SQLITE_TEST_PATH"); os.Getenv(childEnv) {
	case "unwritable":
		_, err := Open(path, Options{})
		if e, ok := errors.AsType[*ErrUnwritable](err); ok {
			fmt.Print(e.Path)
		} else {
			fmt.Printf("unexpected: %v", err)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// nobody is the user id of a process without rights.
const nobody = 65534

func TestAnUnwritableDirectoryIsNamed(t *testing.T) {
	dir, err := os.MkdirTemp("", "unwritable")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	if err := os.Chmod(dir, 0o555); err != nil {
		t.Fatal(err)
	}
	binary := filepath.Join(t.TempDir(), "child")
	for _, test := range []struct{ name, path, want string }{
		{"the directory exists", filepath.Join(dir, "x.db"), filepath.Join(dir, "x.db"+LockSuffix)},
		{"a directory below it is needed", filepath.Join(dir, "sub", "x.db"), filepath.Join(dir, "sub")},
	} {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), childEnv+"=unwritable", "SQLITE_TEST_PATH="+test.path)
		if os.Getuid() == 0 { // root may write anywhere: act as nobody, from a place nobody can execute
			copyBinary(t, os.Args[0], binary)
			cmd.Path = binary
			cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
		}
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%s: %v: %s", test.name, err, out)
		}
		if string(out) != test.want {
			t.Errorf("%s: got %q, want %q", test.name, out, test.want)
		}
	}
}

func copyBinary(t *testing.T, from, to string) {
	t.Helper()
	text, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(to, text, 0o755); err != nil {
		t.Fatal(err)
	}
	for dir := filepath.Dir(to); dir != os.TempDir() && dir != "/"; dir = filepath.Dir(dir) {
		if err := os.Chmod(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
}
