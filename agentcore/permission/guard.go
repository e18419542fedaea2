package permission

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/workflowd/workflowd/agentcore/env"
	"github.com/workflowd/workflowd/agentcore/fault"
)

// Reach says where file tools may go. The zero value is the current directory under Workspace.
type Reach struct {
	Policy  Policy
	Workdir string // "" = the current directory of the process
	// AllowedDirectories are further roots; relative ones are taken from Workdir (P-431).
	AllowedDirectories []string
}

// Guard is the reach of file tools on this machine. It is immutable and safe for concurrent use. It holds one open
// directory per root, so that it belongs to a turn and not to an idle session: Close gives them back.
type Guard struct {
	roots    []root
	confined bool
	home     string // for "~"; "" = unknown

	mu      sync.Mutex
	volumes map[string]*os.Root // unconfined only: the file system roots used so far
	closed  bool
}

type root struct {
	path string // canonical
	dir  *os.Root
}

var _ env.Locator = (*Guard)(nil)

// New resolves and opens the roots. A directory that is missing, is none or cannot be opened is a fault.InputValidation
// that names it.
func New(r Reach) (*Guard, error) {
	policy, err := ParsePolicy(string(r.Policy))
	if err != nil {
		return nil, err
	}
	g := &Guard{confined: policy != Auto, volumes: map[string]*os.Root{}}
	if home, err := os.UserHomeDir(); err == nil {
		g.home = home
	}
	workdir, err := filepath.Abs(r.Workdir)
	if err != nil {
		return nil, fault.New(fault.InputValidation, "working directory %q: %w", r.Workdir, err)
	}
	for i, dir := range append([]string{workdir}, r.AllowedDirectories...) {
		what := "working directory"
		if i > 0 {
			what = "allowed directory"
			if dir == "" {
				err = errors.New("the name is empty")
			} else if dir = g.expand(dir); !filepath.IsAbs(dir) {
				dir = filepath.Join(workdir, dir)
			}
		}
		if err == nil {
			err = g.add(dir)
		}
		if err != nil {
			return nil, errors.Join(fault.New(fault.InputValidation, "%s %q: %w", what, dir, err), g.Close())
		}
	}
	return g, nil
}

// add opens dir as a root unless it is one already.
func (g *Guard) add(dir string) error {
	real, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return err
	}
	for _, r := range g.roots {
		if r.path == real {
			return nil
		}
	}
	if info, err := os.Stat(real); err != nil || !info.IsDir() { // before OpenRoot, which waits for the writer of a FIFO
		return errors.Join(err, errors.New("it is not a directory"))
	}
	opened, err := os.OpenRoot(real)
	if err != nil {
		return err
	}
	g.roots = append(g.roots, root{real, opened})
	return nil
}

// Close closes the roots. Files opened through them stay open; Locate fails from then on.
func (g *Guard) Close() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.closed = true
	var all []error
	for _, r := range g.roots {
		all = append(all, r.dir.Close())
	}
	for _, v := range g.volumes {
		all = append(all, v.Close())
	}
	clear(g.volumes)
	return errors.Join(all...)
}

// Roots returns the canonical roots, the working directory first.
func (g *Guard) Roots() []string {
	paths := make([]string, len(g.roots))
	for i, r := range g.roots {
		paths[i] = r.path
	}
	return paths
}

// Confined is false under Auto.
func (g *Guard) Confined() bool { return g.confined }

// Locate returns where path really is. "~" is the home directory; a path that is not absolute starts at the working
// directory. A path outside the roots is an *OutsideError unless the policy is Auto.
func (g *Guard) Locate(path string) (env.Place, error) {
	switch {
	case path == "":
		return env.Place{}, fmt.Errorf("the path is empty: %w", fs.ErrInvalid)
	case strings.ContainsRune(path, 0):
		return env.Place{}, fmt.Errorf("the path contains a NUL byte: %w", fs.ErrInvalid)
	}
	abs := g.expand(path)
	if !filepath.IsAbs(abs) {
		abs = filepath.Join(g.roots[0].path, abs)
	}
	real, err := resolve(filepath.Clean(abs))
	if err != nil {
		return env.Place{}, err
	}
	best := -1
	for i, r := range g.roots {
		if inside(r.path, real) && (best < 0 || len(r.path) > len(g.roots[best].path)) {
			best = i
		}
	}
	if best >= 0 {
		return place(g.roots[best].path, g.roots[best].dir, real)
	}
	if g.confined {
		return env.Place{}, &OutsideError{Path: path, Real: real, Roots: g.Roots()}
	}
	volume := filepath.VolumeName(real) + string(filepath.Separator)
	dir, err := g.volume(volume)
	if err != nil {
		return env.Place{}, err
	}
	return place(volume, dir, real)
}

// volume returns the open root directory of a file system, opening it at first use.
func (g *Guard) volume(path string) (*os.Root, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return nil, fs.ErrClosed
	}
	if dir := g.volumes[path]; dir != nil {
		return dir, nil
	}
	dir, err := os.OpenRoot(path)
	if err != nil {
		return nil, err
	}
	g.volumes[path] = dir
	return dir, nil
}

func (g *Guard) expand(path string) string {
	if g.home == "" || path != "~" && !strings.HasPrefix(path, "~/") {
		return path
	}
	return filepath.Join(g.home, path[1:])
}

func place(rootPath string, dir *os.Root, real string) (env.Place, error) {
	name, err := filepath.Rel(rootPath, real)
	if err != nil {
		return env.Place{}, err
	}
	return env.Place{Root: dir, Name: name, Path: real}, nil
}

// inside reports whether path is root or below it. Both are clean and canonical.
func inside(root, path string) bool {
	rel, err := filepath.Rel(root, path)
	return err == nil && filepath.IsLocal(rel)
}

// OutsideError says that a path leads out of the roots. Its text tells the model where it may go.
type OutsideError struct {
	Path  string // as asked for
	Real  string // where it leads
	Roots []string
}

// Error names the path, where it really leads and the allowed directories.
func (e *OutsideError) Error() string {
	quoted := make([]string, len(e.Roots))
	for i, r := range e.Roots {
		quoted[i] = fmt.Sprintf("%q", r)
	}
	return fmt.Sprintf("the path leads to %q, outside the directories this session may use: %s; use a path inside them", e.Real, strings.Join(quoted, ", "))
}

// Is makes an OutsideError a fs.ErrPermission.
func (e *OutsideError) Is(target error) bool { return target == fs.ErrPermission }

// Remote is a Reach on a machine that only its environment can see. Nothing is resolved here. Its first root is the
// working directory.
type Remote struct {
	Dirs     []string
	Anywhere bool
}

var _ env.Scope = Remote{}

// Roots returns the directories as given.
func (r Remote) Roots() []string { return slices.Clone(r.Dirs) }

// Confined is the opposite of Anywhere.
func (r Remote) Confined() bool { return !r.Anywhere }
