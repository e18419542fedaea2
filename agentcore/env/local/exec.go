package local

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/workflowd/workflowd/agentcore/env"
)

// markVariable carries the mark by which strays are found. A value that is there already is kept in front, so that a
// daemon inside a command of another daemon belongs to both.
const markVariable = "WORKFLOWD_EXEC"

// Exec runs one command. See the package comment for how it ends.
func (e *Environment) Exec(ctx context.Context, c env.Command) (env.Exit, error) {
	if err := c.Check(); err != nil {
		return env.Exit{}, err
	}
	number, err := e.enter(ctx)
	if err != nil {
		return env.Exit{}, err
	}
	defer e.running.Done()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(e.ctx, cancel)()

	mark := fmt.Sprintf("%s.%d/", e.mark, number)
	cmd, err := e.command(c, mark)
	if err != nil {
		return env.Exit{}, err
	}
	out, err := start(cmd, c)
	if err != nil {
		return env.Exit{}, spawnError(cmd, err)
	}
	return e.supervise(ctx, c, cmd, out, mark)
}

// enter counts a command in, unless ctx or the environment has ended.
func (e *Environment) enter(ctx context.Context) (int, error) {
	err := ctx.Err()
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed && err == nil {
		err = errors.New("the environment is closed")
	}
	if err != nil {
		return 0, &env.Error{Op: "run", Code: env.Aborted, Cause: err}
	}
	e.running.Add(1)
	e.calls++
	return e.calls, nil
}

func (e *Environment) command(c env.Command, mark string) (*exec.Cmd, error) {
	argv := c.Argv
	if c.Script != "" {
		if e.shell == "" {
			return nil, &env.Error{Op: "run", Code: env.ShellUnavailable, Cause: errors.New("bash is not installed on this machine")}
		}
		argv = []string{e.shell, "-c", "--", c.Script} // a script may begin with a dash
	}
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Dir = e.dir
	if c.Dir != "" {
		cmd.Dir = c.Dir
		if !filepath.IsAbs(cmd.Dir) {
			cmd.Dir = filepath.Join(e.dir, cmd.Dir)
		}
	}
	if !c.CleanEnv {
		cmd.Env = append(append(cmd.Env, e.env...), "PWD="+cmd.Dir)
	}
	cmd.Env = append(cmd.Env, c.Env...)
	outer := ""
	for _, v := range cmd.Env {
		if value, ok := strings.CutPrefix(v, markVariable+"="); ok {
			outer = value
		}
	}
	cmd.Env = append(cmd.Env, markVariable+"="+outer+mark)
	isolate(cmd)
	return cmd, nil
}

func spawnError(cmd *exec.Cmd, err error) error {
	if info, serr := os.Stat(cmd.Dir); serr != nil || !info.IsDir() {
		err = fmt.Errorf("working directory %q is not there: %w", cmd.Dir, err)
	}
	return &env.Error{Op: "run", Path: cmd.Path, Code: env.SpawnFailed, Cause: err}
}

// supervise waits for the end of a started command and of its output.
func (e *Environment) supervise(ctx context.Context, c env.Command, cmd *exec.Cmd, out *output, mark string) (env.Exit, error) {
	began := time.Now()
	exited := make(chan error, 1)
	go func() { exited <- cmd.Wait() }() // ends with the process: output is not exec's business
	var limit <-chan time.Time
	if c.Timeout > 0 {
		timer := time.NewTimer(c.Timeout)
		defer timer.Stop()
		limit = timer.C
	}

	var waitErr error
	var stopped *env.Error
	select {
	case waitErr = <-exited:
	case <-ctx.Done():
		stopped = &env.Error{Op: "run", Code: env.Aborted, Cause: context.Cause(ctx)}
	case <-limit:
		stopped = &env.Error{Op: "run", Code: env.Timeout, Cause: fmt.Errorf("the command ran longer than %v and was killed", c.Timeout)}
	case <-out.failed:
		stopped = &env.Error{Op: "run", Code: env.CallbackFailed}
	}
	if stopped != nil {
		killed := killTree(cmd.Process.Pid)
		killed = errors.Join(killed, e.killStrays(context.WithoutCancel(ctx), mark))
		if killed != nil {
			stopped.Cause = errors.Join(stopped.Cause, killed)
			killed = cmd.Process.Kill()
			if killed != nil && !errors.Is(killed, os.ErrProcessDone) {
				stopped.Cause = errors.Join(stopped.Cause, killed)
			}
		}
		waitErr = <-exited
	}
	out.processEnded()
	if stopped == nil {
		select {
		case <-out.done:
		case <-ctx.Done():
			out.abandon()
		}
	}
	<-out.done
	exit := env.Exit{Duration: time.Since(began), Detached: out.detached()}
	exit.Code, exit.Signal = ending(cmd.ProcessState)
	if err := out.err(); err != nil && (stopped == nil || stopped.Code == env.CallbackFailed) {
		stopped = &env.Error{Op: "run", Code: env.CallbackFailed, Cause: err}
	}
	if _, ok := errors.AsType[*exec.ExitError](waitErr); waitErr != nil && !ok && stopped == nil {
		stopped = &env.Error{Op: "run", Code: env.Unknown, Cause: waitErr}
	}
	if stopped != nil {
		return exit, stopped
	}
	return exit, nil
}

// start runs the command with its output connected. The pipes are ours, not exec's, so that waiting for the process
// does not wait for whoever else holds them.
func start(cmd *exec.Cmd, c env.Command) (*output, error) {
	out := &output{callback: c.Output, failed: make(chan struct{}), done: make(chan struct{})}
	var writers []*os.File
	open := func(s env.Stream) (*os.File, error) {
		r, w, err := os.Pipe()
		if err != nil {
			return nil, err
		}
		out.pipes = append(out.pipes, &pipe{stream: s, r: r, out: out})
		writers = append(writers, w)
		return w, nil
	}
	w, err := open(env.Stdout)
	if err == nil {
		cmd.Stdout, cmd.Stderr = w, w
		if !c.Merge {
			if w, err = open(env.Stderr); err == nil {
				cmd.Stderr = w
			}
		}
	}
	if err == nil {
		err = cmd.Start()
	}
	for _, w := range writers {
		err = errors.Join(err, w.Close())
	}
	if err != nil {
		for _, p := range out.pipes {
			err = errors.Join(err, p.r.Close())
		}
		return nil, err
	}
	out.run()
	return out, nil
}

// output carries what a command writes to its callback, one chunk at a time.
type output struct {
	callback func(env.Stream, []byte) error
	pipes    []*pipe
	failed   chan struct{} // closed when the callback has failed
	done     chan struct{} // closed when every pipe has ended

	call  sync.Mutex // one callback at a time; guards cause
	cause error

	mu        sync.Mutex // guards the rest, together with setting read deadlines
	ended     time.Time  // when the process ended; zero before
	abandoned bool       // nobody waits for background output any more
	left      bool       // a pipe was left open
}

func (o *output) run() {
	var wg sync.WaitGroup
	for _, p := range o.pipes {
		wg.Go(p.pump)
	}
	go func() { wg.Wait(); close(o.done) }()
}

// deliver hands a chunk to the callback. After the first error nothing more is handed over, but pipes are read on so
// that the command can die.
func (o *output) deliver(s env.Stream, chunk []byte) {
	o.call.Lock()
	defer o.call.Unlock()
	if o.callback == nil || o.cause != nil || len(chunk) == 0 {
		return
	}
	if err := o.callback(s, chunk); err != nil {
		o.cause = err
		close(o.failed)
	}
}

func (o *output) err() error {
	o.call.Lock()
	defer o.call.Unlock()
	return o.cause
}

func (o *output) detached() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.left
}

// processEnded lets every pipe wait for drainIdle from now on.
func (o *output) processEnded() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.ended = time.Now()
	o.wake()
}

// abandon ends every pipe at its next read.
func (o *output) abandon() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.abandoned = true
	o.wake()
}

// wake interrupts reads that were begun under older rules. The caller holds mu.
func (o *output) wake() {
	for _, p := range o.pipes {
		if p.closed {
			continue
		}
		if err := p.r.SetReadDeadline(o.ended); err != nil {
			o.abandoned = true // cannot happen for a pipe; never wait without a limit
		}
	}
}

// pipe is the reading end of one stream. pump owns it.
type pipe struct {
	stream env.Stream
	r      *os.File
	out    *output
	after  int  // bytes read since the process ended
	closed bool // guarded by output.mu: a pipe that ended just now must not be taken for one that cannot be woken
	empty  bool // since then a read has emptied the pipe: all that the process itself wrote has come
}

// next decides under which rule the next read is: windowed is true once it is bounded by drainIdle, stop ends the pipe.
func (p *pipe) next() (windowed, stop bool) {
	o := p.out
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.ended.IsZero() {
		return false, false
	}
	now := time.Now()
	stop = o.abandoned || now.Sub(o.ended) > drainMax && (p.empty || p.after > drainBytes)
	if !stop {
		stop = p.r.SetReadDeadline(now.Add(drainIdle)) != nil
	}
	o.left = o.left || stop
	return true, stop
}

// pump reads to the end of the stream, or to the first silence after the process has ended.
func (p *pipe) pump() {
	defer func() {
		p.out.mu.Lock()
		defer p.out.mu.Unlock()
		p.closed = true
		_ = p.r.Close() // a reading end: nothing can be lost
	}()
	buf := make([]byte, readChunk)
	kept := 0 // bytes of an unfinished rune at the start of buf
	defer func() { p.out.deliver(p.stream, buf[:kept]) }()
	for {
		windowed, stop := p.next()
		if stop {
			return
		}
		n, err := p.r.Read(buf[kept:])
		if windowed && errors.Is(err, os.ErrDeadlineExceeded) { // or this process slept over the deadline: look once without waiting
			n, err = readNow(p.r, buf[kept:])
		}
		if windowed {
			p.after += n
			p.empty = p.empty || n < len(buf)-kept
		}
		if n > 0 {
			text := buf[:kept+n]
			whole := wholeRunes(text)
			p.out.deliver(p.stream, text[:whole])
			kept = copy(buf, text[whole:])
		}
		switch {
		case err == nil:
		case errors.Is(err, os.ErrDeadlineExceeded) && !windowed: // woken, because the process has ended
		case errors.Is(err, os.ErrDeadlineExceeded):
			p.out.mu.Lock()
			p.out.left = true
			p.out.mu.Unlock()
			return
		default: // end of file: nobody holds the other end
			return
		}
	}
}
