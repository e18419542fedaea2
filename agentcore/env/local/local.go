package local

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"sync"

	"github.com/workflowd/workflowd/agentcore/env"
)

// DefaultID is the ID of this machine in a session's records.
const DefaultID = "local"

// Options configure New. The zero value is the current directory, bash from PATH and the variables of this process.
type Options struct {
	ID    string   // "" = DefaultID
	Dir   string   // working directory; "" = the current one
	Shell string   // program that takes -c SCRIPT; "" = bash from PATH
	Env   []string // variables of commands; nil = those of this process. Leave credentials out that commands do not need
}

// Environment is this machine. It is safe for concurrent use.
type Environment struct {
	id, dir, shell string
	env            []string
	mark           string // names this instance in WORKFLOWD_EXEC

	ctx     context.Context // ends at Cleanup; commands stop with it
	cancel  context.CancelFunc
	mu      sync.Mutex // guards the rest
	closed  bool
	running sync.WaitGroup // Add only while open, under mu
	calls   int
	temp    string // directory of temporary files, made at first use
}

var _ env.Environment = (*Environment)(nil)

// New returns the local environment. A working directory that is missing or is none is an error.
func New(o Options) (*Environment, error) {
	dir, err := filepath.Abs(o.Dir)
	if err != nil {
		return nil, &env.Error{Op: "open environment", Path: o.Dir, Code: env.Invalid, Cause: err}
	}
	info, err := os.Stat(dir)
	if err != nil {
		return nil, &env.Error{Op: "open environment", Path: dir, Code: env.Classify(err), Cause: err}
	}
	if !info.IsDir() {
		return nil, &env.Error{Op: "open environment", Path: dir, Code: env.NotDirectory, Cause: errors.New("the working directory is not a directory")}
	}
	e := &Environment{id: o.ID, dir: dir, shell: o.Shell, env: o.Env, mark: rand.Text()}
	if e.id == "" {
		e.id = DefaultID
	}
	if e.env == nil {
		e.env = os.Environ()
	}
	if e.shell == "" {
		if path, err := exec.LookPath("bash"); err == nil {
			e.shell = path
		}
	}
	e.ctx, e.cancel = context.WithCancel(context.Background())
	return e, nil
}

// ID returns the stable name.
func (e *Environment) ID() string { return e.id }

// Dir returns the working directory.
func (e *Environment) Dir() string { return e.dir }

// Files returns the file system inside scope, which must be an env.Locator.
func (e *Environment) Files(scope env.Scope) (env.FileSystem, error) {
	locator, ok := scope.(env.Locator)
	if !ok {
		return nil, &env.Error{Op: "open file system", Code: env.Invalid, Cause: fmt.Errorf("a scope of type %T cannot be enforced on the local machine", scope)}
	}
	return &fileSystem{scope: locator}, nil
}

// Temp creates a file in a directory of this instance below the system's temporary directory.
func (e *Environment) Temp(ctx context.Context, name string) (env.TempFile, error) {
	fail := func(err error) (env.TempFile, error) {
		return nil, &env.Error{Op: "create temporary file", Path: name, Code: env.Classify(err), Cause: err}
	}
	if err := ctx.Err(); err != nil {
		return fail(err)
	}
	if name == "" || name != filepath.Base(name) || !filepath.IsLocal(name) {
		return fail(fmt.Errorf("a plain file name is needed: %w", fs.ErrInvalid))
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return fail(fs.ErrClosed)
	}
	if e.temp == "" {
		dir, err := os.MkdirTemp("", "workflowd-")
		if err != nil {
			return fail(err)
		}
		e.temp = dir
	}
	f, err := os.OpenFile(filepath.Join(e.temp, name), os.O_WRONLY|os.O_CREATE|os.O_EXCL, tempMode)
	if err != nil {
		return fail(err)
	}
	return tempFile{f}, nil
}

type tempFile struct{ *os.File }

func (t tempFile) Path() string { return t.Name() }

// Cleanup stops running commands, kills what earlier ones left in the background and removes temporary files.
func (e *Environment) Cleanup(ctx context.Context) error {
	e.mu.Lock()
	e.closed = true
	temp := e.temp
	e.temp = ""
	e.mu.Unlock()
	e.cancel()
	e.running.Wait()
	err := e.killStrays(ctx, e.mark+".")
	if temp != "" {
		err = errors.Join(err, os.RemoveAll(temp))
	}
	if err != nil {
		return &env.Error{Op: "clean up", Code: env.Classify(err), Cause: err}
	}
	return nil
}
