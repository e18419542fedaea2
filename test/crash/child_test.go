//go:build unix

package crash

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/workflowd/workflowd/internal/faultpoint"
)

// patience bounds every wait for a child: far more than any of them takes on a loaded machine.
const patience = 2 * time.Minute

// place is where one story happens: the directories that all its processes share.
type place struct {
	root  string
	work  string // the current directory of the command
	data  string // what --data-dir or --demo-dir names
	env   []string
	procs int
}

// files are what the agent finds.
var files = map[string]string{
	"README.md": "# Harbour\n\nHarbour keeps the timetable of a small ferry line.\n",
	"main.go":   "package main\n\nfunc main() {\n\tprintln(\"next ferry at 9:40\")\n}\n",
	"notes.md":  "# Notes\n\n- The winter timetable starts in November.\n",
}

func newPlace(t *testing.T) *place {
	t.Helper()
	root := t.TempDir()
	p := &place{root: root, work: filepath.Join(root, "work"), data: filepath.Join(root, "data")}
	must(t, os.Mkdir(p.work, 0o755))
	for name, text := range files {
		must(t, os.WriteFile(filepath.Join(p.work, name), []byte(text), 0o644))
	}
	return p
}

// plain is s with the place's own path taken out.
func (p *place) plain(s string) string { return strings.ReplaceAll(s, p.root, "PLACE") }

// process is one started command.
type process struct {
	cmd    *exec.Cmd
	out    watched
	err    watched
	log    string // file of the fault points it passed
	cancel context.CancelFunc
	begun  time.Time
}

// start starts the command. point arms a fault point, "" none.
func (p *place) start(t *testing.T, args []string, point string) *process {
	t.Helper()
	exe, err := os.Executable()
	must(t, err)
	p.procs++
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	c := &process{cmd: exec.CommandContext(ctx, exe, args...), cancel: cancel, log: filepath.Join(p.root, fmt.Sprintf("hits-%d", p.procs))}
	c.cmd.Dir, c.cmd.WaitDelay = p.work, patience
	c.cmd.Stdout, c.cmd.Stderr = &c.out, &c.err
	c.out.init()
	c.err.init()
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "WORKFLOWD_") && !strings.HasPrefix(v, "OPENAI_") {
			c.cmd.Env = append(c.cmd.Env, v)
		}
	}
	c.cmd.Env = append(append(c.cmd.Env, p.env...), childEnv+"=1", faultpoint.LogEnv+"="+c.log, faultpoint.Env+"="+point)
	c.begun = time.Now()
	must(t, c.cmd.Start())
	t.Cleanup(func() { c.cancel() })
	return c
}

// ended is how a process ended.
type ended struct {
	code   int
	killed bool // by SIGKILL
	took   time.Duration
	out    string
	err    string
	hits   []hit
}

func (e ended) String() string {
	how := fmt.Sprintf("exit code %d", e.code)
	if e.killed {
		how = "killed"
	}
	return fmt.Sprintf("%s after %d ms\nstdout: %s\nstderr: %s", how, e.took.Milliseconds(), e.out, e.err)
}

// wait waits for the end of the process.
func (c *process) wait(t *testing.T) ended {
	t.Helper()
	err := c.cmd.Wait()
	if _, exited := errors.AsType[*exec.ExitError](err); err != nil && !exited {
		t.Fatalf("wait for the command: %v", err)
	}
	e := ended{code: c.cmd.ProcessState.ExitCode(), took: time.Since(c.begun), out: c.out.text(), err: c.err.text(), hits: readHits(t, c.log)}
	if s, ok := c.cmd.ProcessState.Sys().(syscall.WaitStatus); ok && s.Signaled() {
		if e.killed = s.Signal() == syscall.SIGKILL; !e.killed {
			t.Fatalf("the command died of %v: %s", s.Signal(), e)
		}
	}
	c.cancel()
	return e
}

// hit is one passage of a fault point.
type hit struct{ point, by string }

func readHits(t *testing.T, file string) []hit {
	t.Helper()
	raw, err := os.ReadFile(file)
	if errors.Is(err, os.ErrNotExist) {
		return nil // killed before it began
	}
	must(t, err)
	var list []hit
	for line := range strings.Lines(string(raw)) {
		f := strings.Fields(line)
		if len(f) < 2 {
			t.Fatalf("log of hits: line %q", line)
		}
		h := hit{point: f[1]}
		if len(f) > 2 {
			h.by = f[2]
		}
		list = append(list, h)
	}
	return list
}

// times counts the hits of each point.
func times(hits []hit) map[string]int {
	n := map[string]int{}
	for _, h := range hits {
		n[h.point]++
	}
	return n
}

// watched is output that can be waited for.
type watched struct {
	mu      sync.Mutex
	buf     bytes.Buffer
	changed chan struct{}
}

func (w *watched) init() { w.changed = make(chan struct{}) }

func (w *watched) Write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	close(w.changed)
	w.changed = make(chan struct{})
	return w.buf.Write(b)
}

func (w *watched) text() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.buf.String()
}

// await waits until ready accepts the output so far.
func (w *watched) await(t *testing.T, what string, ready func(string) bool) {
	t.Helper()
	late := time.NewTimer(patience)
	defer late.Stop()
	for {
		w.mu.Lock()
		text, changed := w.buf.String(), w.changed
		w.mu.Unlock()
		if ready(text) {
			return
		}
		select {
		case <-changed:
		case <-late.C:
			t.Fatalf("the command never showed %s; it said %d bytes, in the end:\n%s", what, len(text), text[max(0, len(text)-1000):])
		}
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
