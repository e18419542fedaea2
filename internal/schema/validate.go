package schema

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// resource is the address under which the one document of a Validator is known. Relative references resolve against it.
const resource = "mem:///schema"

// Validator checks documents against one schema. It is immutable and safe for concurrent use.
type Validator struct {
	compiled *jsonschema.Schema
	warnings []string
}

// Compile prepares a schema, draft 2020-12 where $schema names none. A reference to anything outside the document is an
// error: nothing is loaded from disk or network.
func Compile(schema json.RawMessage) (*Validator, error) {
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(schema))
	if err != nil {
		return nil, fmt.Errorf("parse schema: %w", err)
	}
	engine := tolerant{seen: map[string]bool{}}
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020)
	c.UseLoader(jsonschema.SchemeURLLoader{})
	c.UseRegexpEngine(engine.compile)
	if err := c.AddResource(resource, doc); err != nil {
		return nil, fmt.Errorf("add schema: %w", err)
	}
	compiled, err := c.Compile(resource)
	if err != nil {
		return nil, fmt.Errorf("compile schema: %w", err)
	}
	return &Validator{compiled: compiled, warnings: engine.warnings}, nil
}

// Warnings returns one line for each keyword that this validator cannot check and therefore accepts. The slice is shared.
func (v *Validator) Warnings() []string { return v.warnings }

// Validate returns nil when doc fits, an *Error that lists the violations when it does not, and another error when doc
// is not one JSON value.
func (v *Validator) Validate(doc json.RawMessage) error {
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(doc))
	if err != nil {
		return fmt.Errorf("not one JSON value: %w", err)
	}
	err = v.compiled.Validate(value)
	if err == nil {
		return nil
	}
	failure, ok := errors.AsType[*jsonschema.ValidationError](err)
	if !ok {
		return fmt.Errorf("validate: %w", err)
	}
	return newError(failure)
}

// tolerant compiles patterns with Go's engine and lets foreign ones (look-ahead, back references) match everything.
type tolerant struct {
	mu       sync.Mutex
	seen     map[string]bool
	warnings []string
}

func (t *tolerant) compile(pattern string) (jsonschema.Regexp, error) {
	re, err := regexp.Compile(pattern)
	if err == nil {
		return re, nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.seen[pattern] {
		t.seen[pattern] = true
		t.warnings = append(t.warnings, clip(fmt.Sprintf("pattern %q is not checked: %v", pattern, err)))
	}
	return anything(pattern), nil
}

type anything string

func (anything) MatchString(string) bool { return true }
func (a anything) String() string        { return string(a) }

// clip bounds a message at a rune edge.
func clip(s string) string {
	if len(s) <= MaxMessageBytes {
		return s
	}
	return strings.ToValidUTF8(s[:MaxMessageBytes], "") + "…"
}
