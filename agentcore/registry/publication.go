package registry

import (
	"fmt"
	"iter"
	"maps"
	"slices"

	"github.com/workflowd/workflowd/agentcore/session"
	"github.com/workflowd/workflowd/agentcore/task"
	"github.com/workflowd/workflowd/agentcore/tool"
)

// Publication is what is installed at one moment. It never changes and is safe for concurrent use. The zero value is
// empty.
type Publication struct {
	revision   int
	extensions []Extension // in the order of their first installation
	tasks      map[string]*task.Definition
	tools      map[string]tool.Tool
}

// publish checks the extensions together and returns their publication. taken are names outside of all extensions. A
// definition keeps its pointer over the publications until its extension is replaced.
func publish(revision int, extensions []Extension, taken map[name]bool) (*Publication, error) {
	p := &Publication{revision: revision, extensions: extensions,
		tasks: map[string]*task.Definition{}, tools: map[string]tool.Tool{}}
	owners := map[name]string{}
	for _, e := range extensions {
		names, err := e.names()
		if err != nil {
			return nil, err
		}
		for _, n := range names {
			if taken[n] {
				return nil, fmt.Errorf("%s is built in: %w", n, ErrDuplicate)
			}
			if owner, twice := owners[n]; twice {
				return nil, fmt.Errorf("%s belongs to extension %q: %w", n, owner, ErrDuplicate)
			}
			owners[n] = e.Name
		}
		for i := range e.Tasks {
			p.tasks[e.Tasks[i].Kind] = &e.Tasks[i]
		}
		for _, t := range e.Tools {
			p.tools[t.Spec().Name] = t
		}
	}
	return p, nil
}

// Revision numbers the publications of one registry from 0, the empty one.
func (p *Publication) Revision() int { return p.revision }

// Extensions yields the names of the extensions in order.
func (p *Publication) Extensions() iter.Seq[string] {
	return func(yield func(string) bool) {
		for _, e := range p.extensions {
			if !yield(e.Name) {
				return
			}
		}
	}
}

// Task returns the definition of a kind of task, or nil. It must not be changed.
func (p *Publication) Task(kind string) *task.Definition { return p.tasks[kind] }

// TaskKinds yields the kinds of tasks there are, in no order.
func (p *Publication) TaskKinds() iter.Seq[string] { return maps.Keys(p.tasks) }

// ForkRules returns what a fork of a conversation does with the documents of the extensions.
func (p *Publication) ForkRules() []session.ForkRule {
	var rules []session.ForkRule
	for _, e := range p.extensions {
		for _, d := range e.Docs {
			if d.Scope == session.ScopeConversation {
				rules = append(rules, d.fork)
			}
		}
	}
	return rules
}

// Tool returns the tool of a name. ok is false when there is none.
func (p *Publication) Tool(name string) (t tool.Tool, ok bool) {
	t, ok = p.tools[name]
	return t, ok
}

// Tools returns all tools in the order of their extensions. The slice is the caller's.
func (p *Publication) Tools() []tool.Tool {
	var list []tool.Tool
	for _, e := range p.extensions {
		list = append(list, e.Tools...)
	}
	return list
}

// Sections returns all sections in the order of their extensions. The slice is the caller's.
func (p *Publication) Sections() []Section {
	var list []Section
	for _, e := range p.extensions {
		list = append(list, e.Sections...)
	}
	return list
}

// Docs returns all kinds of documents in the order of their extensions. The slice is the caller's.
func (p *Publication) Docs() []Doc {
	var list []Doc
	for _, e := range p.extensions {
		list = append(list, e.Docs...)
	}
	return list
}

// Hooks returns the hooks of all extensions in order. report is told about hooks that failed and were skipped; nil = they
// are skipped without a word.
func (p *Publication) Hooks(report func(HookError)) Chain {
	c := Chain{report: report}
	for _, e := range p.extensions {
		c.links = append(c.links, link{e.Name, e.Hooks})
	}
	return c
}

// place returns where an extension is, or -1.
func (p *Publication) place(extension string) int {
	return slices.IndexFunc(p.extensions, func(e Extension) bool { return e.Name == extension })
}
