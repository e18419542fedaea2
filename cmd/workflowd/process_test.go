//go:build unix

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/workflowd/workflowd/agentcore/llm/scripted"
)

// limit ends a process that hangs, and with it the test.
const limit = 2 * time.Minute

// process is the product as a child process, in a directory of its own.
type process struct {
	t      *testing.T
	cmd    *exec.Cmd
	stdout bytes.Buffer
	stderr bytes.Buffer
}

// launch starts `workflowd args` in dir, with the data directory dir/data and no key of the caller's.
func launch(t *testing.T, dir string, change func(*exec.Cmd), args ...string) *process {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	t.Cleanup(cancel)
	p := &process{t: t, cmd: exec.CommandContext(ctx, "workflowd", args...)}
	p.cmd.Dir = dir
	p.cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "WORKFLOWD_DATA_DIR=" + filepath.Join(dir, "data")}
	p.cmd.Stdout, p.cmd.Stderr = &p.stdout, &p.stderr
	if change != nil {
		change(p.cmd)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return p
}

func (p *process) signal(s os.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		p.t.Fatal(err)
	}
}

// end waits for the process and returns its exit code (-1 when it was killed) and what it said on stderr.
func (p *process) end() (int, string) {
	p.t.Helper()
	if err := p.cmd.Wait(); err != nil {
		if _, ok := errors.AsType[*exec.ExitError](err); !ok {
			p.t.Fatal(err)
		}
	}
	return p.cmd.ProcessState.ExitCode(), p.stderr.String()
}

// run is launch and end, for a command that must end with code.
func run(t *testing.T, dir string, code int, args ...string) (stdout, stderr string) {
	t.Helper()
	p := launch(t, dir, nil, args...)
	got, stderr := p.end()
	if got != code {
		t.Fatalf("workflowd %s: exit code %d, want %d\n%s", strings.Join(args, " "), got, code, stderr)
	}
	return p.stdout.String(), stderr
}

// gated is a scripted model that holds each request until it is let through or the client leaves.
type gated struct {
	*scripted.Model
	flags []string      // that name it
	asked chan struct{} // one value for each request that arrived
	open  chan struct{} // closed or sent to: lets requests through
	gone  chan struct{} // one value for each held request whose client left
}

func gate(t *testing.T, lines ...string) *gated {
	g := &gated{Model: scripted.New(scripted.MustParse(lines...), scripted.Options{}), asked: make(chan struct{}, 16), open: make(chan struct{}), gone: make(chan struct{}, 16)}
	server := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body) // only then does the server notice a client that leaves
		if err != nil {
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		g.asked <- struct{}{}
		select {
		case <-g.open:
			g.ServeHTTP(rw, r)
		case <-r.Context().Done():
			g.gone <- struct{}{}
		}
	}))
	t.Cleanup(server.Close)
	g.flags = []string{"--model", "m", "--base-url", server.URL + "/v1"}
	return g
}

func (g *gated) wait(t *testing.T) {
	t.Helper()
	select {
	case <-g.asked:
	case <-time.After(limit):
		t.Fatal("the model was not asked")
	}
}

func TestASecondProcessIsToldWhoHasTheData(t *testing.T) {
	t.Parallel()
	dir, model := t.TempDir(), gate(t, `text "done"`)
	args := append([]string{"run", "agent", "-i", "prompt=x", "--request-id", "one"}, model.flags...)
	first := launch(t, dir, nil, args...)
	model.wait(t)

	_, stderr := run(t, dir, 7, args...)
	if !strings.Contains(stderr, fmt.Sprint(first.cmd.Process.Pid)) || !strings.Contains(stderr, "; wait for that process, stop it, or choose another --data-dir\n") || strings.Count(stderr, "\n") != 1 {
		t.Errorf("want one line that names process %d: %s", first.cmd.Process.Pid, stderr)
	}

	close(model.open)
	if code, said := first.end(); code != 0 || first.stdout.String() != "done\n" {
		t.Errorf("the first process was disturbed: exit code %d, stdout %q\n%s", code, first.stdout.String(), said)
	}
	if n := len(model.Requests()); n != 1 {
		t.Errorf("the model was asked %d times, want once", n)
	}
}

// Looking at a run needs no ownership: a second process lists it, shows it and follows it to its end.
func TestARunIsWatchedWhileAnotherProcessWorksOnIt(t *testing.T) {
	t.Parallel()
	dir, model := t.TempDir(), gate(t, `text "done"`)
	first := launch(t, dir, nil, append([]string{"run", "agent", "-i", "prompt=x"}, model.flags...)...)
	model.wait(t)

	list, _ := run(t, dir, 0, "runs", "list", "--status", "running")
	id := runID(t, list)
	if shown, _ := run(t, dir, 0, "runs", "show", id); !strings.Contains(shown, "agent") || !strings.Contains(shown, "running") {
		t.Errorf("shown while it runs:\n%s", shown)
	}
	watching := launch(t, dir, nil, "runs", "watch", id)
	leaving := launch(t, dir, nil, "runs", "watch", id)
	leaving.signal(os.Interrupt)
	if code, said := leaving.end(); code != 130 && code != -1 { // -1: before it could take signals
		t.Errorf("an interrupted watch: exit code %d\n%s", code, said)
	}
	close(model.open)
	if code, said := first.end(); code != 0 {
		t.Fatalf("the watched run was disturbed: exit code %d\n%s", code, said)
	}
	code, said := watching.end()
	if told := watching.stdout.String(); code != 0 || said != "" || !strings.Contains(told, "  done\n") || !strings.Contains(told, "▸ "+id+" succeeded") {
		t.Errorf("exit code %d\n%s%s", code, told, said)
	}
}

func TestAnInterruptStopsAnAgentRunForGood(t *testing.T) {
	t.Parallel()
	dir, model := t.TempDir(), gate(t, `text "never said"`)
	args := append([]string{"run", "agent", "-i", "prompt=x", "--request-id", "one"}, model.flags...)
	p := launch(t, dir, nil, args...)
	model.wait(t)
	p.signal(os.Interrupt)
	code, said := p.end()
	if code != 130 || !regexp.MustCompile(`(?m)^run_\S+ aborted$`).MatchString(said) || p.stdout.Len() > 0 {
		t.Fatalf("exit code %d, want 130 and the run aborted\n%s", code, said)
	}

	close(model.open)
	stdout, stderr := run(t, dir, 130, append(args, "--output", "json")...)
	if !strings.Contains(stdout, `"status":"aborted"`) || !strings.Contains(stderr, "finished before") {
		t.Errorf("the run was not stopped for good\n%s\n%s", stdout, stderr)
	}
	if n := len(model.Requests()); n != 0 {
		t.Errorf("a stopped run asked the model %d times more", n)
	}
}

// However a demo is cut off, the same command carries it on: finished tools do not run again, and nothing is asked twice.
func TestADemoThatWasCutOffIsCarriedOn(t *testing.T) {
	t.Parallel()
	for name, s := range map[string]os.Signal{"interrupted": os.Interrupt, "killed": os.Kill} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir, model := t.TempDir(), gate(t, `call ls {"path":"."} | text "# Plan\n\n1. Do it."`, `text "# Plan\n\n1. Another."`)
			if err := os.WriteFile(filepath.Join(dir, "main.go"), []byte("package main\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			args := append([]string{"run", "demo", "--demo-dir", ".demo"}, model.flags...)
			p := launch(t, dir, nil, args...)
			model.wait(t)
			model.open <- struct{}{} // the call of ls
			model.wait(t)            // the next request: ls has run
			p.signal(s)
			code, before := p.end()
			if s == os.Interrupt && (code != 130 || !strings.HasSuffix(before, "interrupted; the same command carries on from here\n")) {
				t.Fatalf("exit code %d, want 130\n%s", code, before)
			}

			select { // the held request must not be let through now
			case <-model.gone:
			case <-time.After(limit):
				t.Fatal("the server did not notice that its client is gone")
			}
			close(model.open)
			stdout, after := run(t, dir, 0, args...)
			if id := runID(t, before); !strings.Contains(after, "▸ demo carried on  "+id+"\n") || !strings.Contains(stdout, "after 1 tool calls") {
				t.Errorf("run %s was not carried on\n%s%s", id, after, stdout)
			}
			if n := len(model.Requests()); n != 2 { // the request that was held never reached the script
				t.Errorf("the model was asked %d times, want 2", n)
			}
			_, next := run(t, dir, 0, args...)
			if !strings.Contains(next, "▸ demo started") || runID(t, next) == runID(t, before) {
				t.Errorf("after the end a new run was to start\n%s", next)
			}
		})
	}
}

func runID(t *testing.T, text string) string {
	t.Helper()
	id := regexp.MustCompile(`run_\w+`).FindString(text)
	if id == "" {
		t.Fatalf("no run is named in\n%s", text)
	}
	return id
}

// A directory that cannot be written is named at once, and nothing is left in it.
func TestAnUnwritableDataDirectoryIsNamed(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	data := filepath.Join(dir, "data")
	if err := os.Mkdir(data, 0o500); err != nil {
		t.Fatal(err)
	}
	p := launch(t, dir, powerless(t, dir), "run", "agent", "-i", "prompt=x")
	code, stderr := p.end()
	if code != 1 || strings.Count(stderr, "\n") != 1 || !strings.Contains(stderr, data) || !strings.Contains(stderr, "permission denied; choose another with --data-dir, or change its permissions\n") {
		t.Errorf("exit code %d, want 1 and one line that names %s\n%s", code, data, stderr)
	}
	if left, err := os.ReadDir(data); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// nobody is the user that owns nothing.
const nobody = 65534

// powerless takes the power of root away from a child: permissions mean nothing to it otherwise.
func powerless(t *testing.T, dir string) func(*exec.Cmd) {
	if os.Geteuid() != 0 {
		return nil
	}
	program, err := exec.LookPath("workflowd")
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range []string{dir, filepath.Dir(dir), filepath.Dir(program), filepath.Dir(filepath.Dir(program))} {
		if err := os.Chmod(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return func(c *exec.Cmd) {
		c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	}
}
