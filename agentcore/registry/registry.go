package registry

import (
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/workflowd/workflowd/agentcore/task"
)

// Reader is what an agent sees of a registry. It is a task.Source: a scheduler takes definitions from it.
type Reader interface {
	task.Source
	// Current returns what is installed now. Who works with it keeps it until the work is done.
	Current() *Publication
}

// Registry is where a project installs extensions, before and while agents run. It is safe for concurrent use; one
// registry may serve many sessions. Use New.
type Registry struct {
	current atomic.Pointer[Publication]

	mu      sync.Mutex // one change at a time; guards the rest
	taken   map[name]bool
	watch   map[int]func()
	watches int // handed out so far
}

var _ Reader = (*Registry)(nil)

// New returns an empty registry. builtin are the names of tools that exist beside it and cannot be replaced.
func New(builtin ...string) *Registry {
	r := &Registry{taken: map[name]bool{}, watch: map[int]func(){}}
	for _, n := range builtin {
		r.taken[name{spaceTool, n}] = true
	}
	r.current.Store(&Publication{})
	return r
}

// Reserve says that tools of these names exist beside the registry, as those given to New do: an agent's own. Error:
// ErrDuplicate when an extension has one of them; nothing changes then.
func (r *Registry) Reserve(tools ...string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, n := range tools {
		if _, is := r.current.Load().Tool(n); is {
			return fmt.Errorf("tool %q: %w", n, ErrDuplicate)
		}
	}
	for _, n := range tools {
		r.taken[name{spaceTool, n}] = true
	}
	return nil
}

// Current returns what is installed now.
func (r *Registry) Current() *Publication { return r.current.Load() }

// Definition returns the definition of a kind of task that is installed now, or nil.
func (r *Registry) Definition(kind string) *task.Definition { return r.Current().Task(kind) }

// Watch calls changed after each change, until stop. changed returns at once and must not change the registry.
func (r *Registry) Watch(changed func()) (stop func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	id := r.watches
	r.watches++
	r.watch[id] = changed
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.watch, id)
	}
}

// Install adds an extension behind the others. Errors: ErrDuplicate when it or something in it has a name that is taken,
// ErrReserved, ErrInvalid; nothing changes then.
func (r *Registry) Install(e Extension) error {
	return r.change("install", e.Name, func(list []Extension, at int) ([]Extension, error) {
		if at >= 0 {
			return nil, ErrDuplicate
		}
		return append(list, e.clone()), nil
	})
}

// Replace puts e where the extension of its name is. What runs keeps the code it began with. Errors: ErrUnknown, and
// those of Install.
func (r *Registry) Replace(e Extension) error {
	return r.change("replace", e.Name, func(list []Extension, at int) ([]Extension, error) {
		if at < 0 {
			return nil, ErrUnknown
		}
		list[at] = e.clone()
		return list, nil
	})
}

// Uninstall removes an extension. What runs goes on; tasks whose definition is gone are blocked at their next phase.
// Error: ErrUnknown.
func (r *Registry) Uninstall(extension string) error {
	return r.change("uninstall", extension, func(list []Extension, at int) ([]Extension, error) {
		if at < 0 {
			return nil, ErrUnknown
		}
		return slices.Delete(list, at, at+1), nil
	})
}

// change publishes what edit makes of a copy of the list; at is where the extension is, or -1.
func (r *Registry) change(act, extension string, edit func(list []Extension, at int) ([]Extension, error)) error {
	r.mu.Lock()
	before := r.current.Load()
	list, err := edit(slices.Clone(before.extensions), before.place(extension))
	var next *Publication
	if err == nil {
		next, err = publish(before.revision+1, list, r.taken)
	}
	if err != nil {
		r.mu.Unlock()
		return fmt.Errorf("%s extension %q: %w", act, extension, err)
	}
	r.current.Store(next)
	watch := slices.Collect(maps.Values(r.watch))
	r.mu.Unlock()
	for _, changed := range watch {
		changed()
	}
	return nil
}
