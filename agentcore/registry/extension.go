package registry

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/workflowd/workflowd/agentcore/session"
	"github.com/workflowd/workflowd/agentcore/task"
	"github.com/workflowd/workflowd/agentcore/tool"
)

// Errors of a change. Nothing is published.
var (
	// ErrReserved reports a name that belongs to the product.
	ErrReserved = errors.New("registry: the name is reserved")
	// ErrDuplicate reports a name that is taken.
	ErrDuplicate = errors.New("registry: the name is taken")
	// ErrInvalid reports an extension that cannot work: something without a name, a task without code.
	ErrInvalid = errors.New("registry: the extension is not valid")
	// ErrUnknown reports an extension that is not installed.
	ErrUnknown = errors.New("registry: no such extension")
)

// reserved are the prefixes of names that a project cannot install. Source: spec create-agent "Extension execution and
// recovery".
var reserved = []string{"workflow.", "pi."}

// Extension is what one part of a project adds. Once installed it must not be changed; a Replace takes a new one. The zero
// value of every field but Name adds nothing.
type Extension struct {
	Name     string
	Tasks    []task.Definition
	Tools    []tool.Tool
	Sections []Section
	Hooks    Hooks
	Docs     []Doc
}

// Section is a part of the system prompt. Equal settings must give equal text: a provider's prompt cache depends on it.
type Section struct {
	Key  string // letters, digits, "-", "_" and "."; unique
	Text string
}

// Doc declares a kind of document that an extension keeps. DocOf makes one.
type Doc struct {
	Kind    string
	Version int
	Scope   session.Scope
	fork    session.ForkRule
	wrong   error
}

// DocOf declares the documents of d: forks of a conversation follow its rule.
func DocOf[T any](d session.Doc[T]) Doc {
	doc := Doc{Kind: d.Kind, Version: d.Version, Scope: d.Scope, wrong: d.Check()}
	if d.Scope == session.ScopeConversation {
		doc.fork = d.ForkRule()
	}
	return doc
}

// name is one name that an extension claims, with the space in which it is unique.
type name struct{ space, text string }

func (n name) String() string { return fmt.Sprintf("%s %q", n.space, n.text) }

// The spaces of names.
const (
	spaceExtension = "extension"
	spaceTask      = "task"
	spaceTool      = "tool"
	spaceSection   = "section"
	spaceDoc       = "document"
)

// clone returns e with slices of its own.
func (e Extension) clone() Extension {
	e.Tasks, e.Tools = slices.Clone(e.Tasks), slices.Clone(e.Tools)
	e.Sections, e.Docs = slices.Clone(e.Sections), slices.Clone(e.Docs)
	return e
}

// names returns what e claims, or why e cannot be installed.
func (e Extension) names() ([]name, error) {
	list := []name{{spaceExtension, e.Name}}
	for _, d := range e.Tasks {
		if len(d.Phases) == 0 {
			return nil, fmt.Errorf("task %q has no phase: %w", d.Kind, ErrInvalid)
		}
		for phase, code := range d.Phases {
			if code == nil {
				return nil, fmt.Errorf("task %q has no code for phase %q: %w", d.Kind, phase, ErrInvalid)
			}
		}
		list = append(list, name{spaceTask, d.Kind})
	}
	for _, t := range e.Tools {
		if t == nil {
			return nil, fmt.Errorf("a tool is nil: %w", ErrInvalid)
		}
		list = append(list, name{spaceTool, t.Spec().Name})
	}
	for _, s := range e.Sections {
		if strings.ContainsFunc(s.Key, func(r rune) bool { return !strings.ContainsRune(keyLetters, r) }) {
			return nil, fmt.Errorf("section %q: %w", s.Key, ErrInvalid)
		}
		list = append(list, name{spaceSection, s.Key})
	}
	for _, d := range e.Docs {
		if d.wrong != nil {
			return nil, fmt.Errorf("%w: %w", ErrInvalid, d.wrong)
		}
		list = append(list, name{spaceDoc, d.Kind})
	}
	for _, n := range list {
		if n.text == "" {
			return nil, fmt.Errorf("%s without a name: %w", n.space, ErrInvalid)
		}
		if slices.ContainsFunc(reserved, func(prefix string) bool { return strings.HasPrefix(n.text, prefix) }) {
			return nil, fmt.Errorf("%s: %w", n, ErrReserved)
		}
	}
	return list, nil
}

const keyLetters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_."
