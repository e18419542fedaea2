//go:build unix

package sessionstore

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/workflowd/workflowd/agentcore/session"
	"github.com/workflowd/workflowd/internal/faultpoint"
	"github.com/workflowd/workflowd/store/sqlite"
)

// The test binary acts as another process when childPath names a session file: it opens it, commits until it is killed or
// its standard input ends, and reports every commit that returned.
const childPath = "SESSIONSTORE_TEST_PATH"

func TestMain(m *testing.M) {
	if path := os.Getenv(childPath); path != "" {
		if err := child(path); err != nil {
			fmt.Println("child:", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func child(path string) error {
	s, err := Open(context.Background(), path, Options{})
	if err != nil {
		return err
	}
	state, err := s.Acquire(context.Background())
	if err != nil {
		return err
	}
	o := &owner{Store: s, state: state}
	if err := o.put(session.Batch{Conversations: []session.Conversation{{ID: session.Root}}}); err != nil {
		return err
	}
	fmt.Println("ready")
	in := bufio.NewReader(os.Stdin)
	for {
		if _, err := in.ReadString('\n'); err == io.EOF {
			return s.Close()
		}
		b := o.note(`"from the child"`)
		b.Durability = session.Synced
		if err := o.put(b); err != nil {
			return err
		}
		fmt.Println("committed")
	}
}

// process is a running child.
type process struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
}

func spawn(t *testing.T, path string, env ...string) *process {
	t.Helper()
	p := &process{cmd: exec.Command(os.Args[0])}
	p.cmd.Env = append(append(os.Environ(), childPath+"="+path), env...)
	p.cmd.Stderr = os.Stderr
	var err error
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	p.out = bufio.NewReader(out)
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return p
}

func (p *process) says(t *testing.T, want string) {
	t.Helper()
	if got, err := p.out.ReadString('\n'); got != want+"\n" {
		t.Fatalf("the child says %q (%v), want %q", got, err, want)
	}
}

// killed waits for the child's end and checks that SIGKILL was it.
func (p *process) killed(t *testing.T) {
	t.Helper()
	err := p.cmd.Wait()
	exit, ok := errors.AsType[*exec.ExitError](err)
	if !ok || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
		t.Fatalf("the child ended with %v, want SIGKILL", err)
	}
}

// Promise: P-300, P-301
func TestAKilledOwnersLockIsFreeAtOnceAndItsCommitsAreThere(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.db")
	p := spawn(t, path)
	p.says(t, "ready")
	_, err := Open(t.Context(), path, Options{})
	locked, ok := errors.AsType[*sqlite.ErrLocked](err)
	if !ok || locked.Holder.PID != p.cmd.Process.Pid {
		t.Fatalf("beside a live owner: %v", err)
	}
	for range 3 {
		if _, err := io.WriteString(p.in, "\n"); err != nil {
			t.Fatal(err)
		}
		p.says(t, "committed")
	}
	if err := p.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	p.killed(t)
	o := acquired(t, path)
	if got := o.count(t, "entries"); got != 3 {
		t.Errorf("%d entries, want 3", got)
	}
	if o.state.Seq != 4 || o.state.Epoch != 2 {
		t.Errorf("got %+v", o.state)
	}
}

// The child's commits at the points are: Acquire, the conversation, then notes. It dies at the third.
func TestACommitIsWholeOrAbsentWhereverTheProcessDies(t *testing.T) {
	for _, test := range []struct {
		point string
		seq   session.Seq
	}{{"sqlite.commit.before", 1}, {"sqlite.commit.after", 2}} {
		t.Run(test.point, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "x.db")
			p := spawn(t, path, faultpoint.Env+"="+test.point+":3")
			p.says(t, "ready")
			if _, err := io.WriteString(p.in, "\n"); err != nil {
				t.Fatal(err)
			}
			p.killed(t)
			o := acquired(t, path)
			if o.state.Seq != test.seq || o.count(t, "entries") != int64(test.seq)-1 {
				t.Errorf("sequence %d with %d entries, want %d with %d", o.state.Seq, o.count(t, "entries"), test.seq, test.seq-1)
			}
			o.must(t, o.note(`"goes on"`))
		})
	}
}

func TestAnOwnerDiesInItsFirstCommitAndTheFileIsStillGood(t *testing.T) {
	for _, point := range []string{"sqlite.commit.before", "sqlite.commit.after"} {
		path := filepath.Join(t.TempDir(), "x.db")
		spawn(t, path, faultpoint.Env+"="+point).killed(t)
		o := acquired(t, path)
		o.root(t)
		if o.state.StoreID == "" {
			t.Errorf("%s: no identity", point)
		}
	}
}
