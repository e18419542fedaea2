//go:build linux

package strace

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/workflowd/workflowd/daemon"
	"github.com/workflowd/workflowd/daemon/stock"
)

// childEnv makes this binary be workflowd.
const childEnv = "WORKFLOWD_STRACE_CHILD"

func TestMain(m *testing.M) {
	if os.Getenv(childEnv) != "" {
		stdio := daemon.IO{In: os.Stdin, Out: os.Stdout, Err: os.Stderr}
		os.Exit(daemon.Run(context.Background(), os.Args[1:], stdio, stock.Parts()...))
	}
	os.Exit(m.Run())
}

// patience bounds the traced command: far more than it takes on a loaded machine.
const patience = 2 * time.Minute

// traced are the calls that strace writes down; the data of a write must be long enough for a page of a database.
const (
	traced    = "trace=" + "execve,fsync,fdatasync,write,pwrite64,writev,pwritev"
	mostBytes = "4096"
)

// printed is output that can be waited for while it comes.
type printed struct {
	mu   sync.Mutex
	text bytes.Buffer
	over bool
	more *sync.Cond // mu
}

func newPrinted() *printed {
	p := &printed{}
	p.more = sync.NewCond(&p.mu)
	return p
}

func (p *printed) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.more.Broadcast()
	return p.text.Write(b)
}

func (p *printed) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.over = true
	p.more.Broadcast()
}

// await waits until words are printed, or never will be: then it returns an error.
func (p *printed) await(words string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	for !strings.Contains(p.text.String(), words) {
		if p.over {
			return fmt.Errorf("the command never printed %q but:\n%s", words, p.text.String())
		}
		p.more.Wait()
	}
	return nil
}

// run runs workflowd with the arguments in the directory work under strace, and returns what the kernel was asked.
func run(t *testing.T, work string, out *printed, args ...string) trace {
	t.Helper()
	defer out.end()
	program, err := exec.LookPath("strace")
	if err != nil {
		t.Fatalf("%v; fix: apt-get install -y strace", err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	file := filepath.Join(t.TempDir(), "trace")
	cmd := exec.CommandContext(ctx, program, append([]string{"-f", "-y", "-I2", "-s", mostBytes, "-e", traced, "-o", file, "--", self}, args...)...)
	var stderr bytes.Buffer
	cmd.Dir, cmd.Stdout, cmd.Stderr = work, out, &stderr
	cmd.Cancel, cmd.WaitDelay = func() error { return cmd.Process.Signal(syscall.SIGTERM) }, patience // -I2: strace passes it on
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "WORKFLOWD_") && !strings.HasPrefix(v, "OPENAI_") {
			cmd.Env = append(cmd.Env, v)
		}
	}
	cmd.Env = append(cmd.Env, childEnv+"=1")
	if err := cmd.Run(); err != nil {
		t.Fatal(told(err, stderr.String()))
	}
	raw, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer raw.Close()
	list, err := parse(raw)
	if err != nil {
		t.Fatalf("trace: %v", err)
	}
	return list
}

// forbidden is strace's own complaint that it may not trace.
var forbidden = regexp.MustCompile(`^\S*strace: .*(ptrace|PTRACE)`)

// told is the error of a traced command. A machine that forbids tracing is told apart from a command that failed.
func told(err error, stderr string) error {
	for line := range strings.Lines(stderr) {
		if forbidden.MatchString(line) {
			return fmt.Errorf("this machine does not let strace trace its own child (%s); allow ptrace: in a container "+
				"run it with --cap-add=SYS_PTRACE, elsewhere type sysctl -w kernel.yama.ptrace_scope=1", strings.TrimSpace(line))
		}
	}
	if _, exited := errors.AsType[*exec.ExitError](err); exited {
		return fmt.Errorf("the command ended with %w: %s", err, stderr)
	}
	return err
}

func TestAMachineThatForbidsTracingIsToldWhatToAllow(t *testing.T) {
	failed := errors.New("exit status 1")
	for _, test := range []struct{ name, stderr, says string }{
		{"a container without the right", "/usr/bin/strace: test_ptrace_get_syscall_info: PTRACE_TRACEME: Operation not permitted\n", "allow ptrace"},
		{"a filter of system calls", "strace: ptrace(PTRACE_SEIZE, 12): Operation not permitted\n", "--cap-add=SYS_PTRACE"},
		{"the command's own error", "workflowd: run: strace: ptrace\n", "exit status 1"},
	} {
		if got := told(failed, test.stderr).Error(); !strings.Contains(got, test.says) {
			t.Errorf("%s: %q, want %q in it", test.name, got, test.says)
		}
	}
}
