package session

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/workflowd/workflowd/internal/strictjson"
)

// The verbs of an Op.
const (
	OpSet     = "set"     // object member or array element at Path := Value; no Value removes the member
	OpAppend  = "append"  // string at Path += Value, a JSON string
	OpTrim    = "trim"    // string at Path loses its last N bytes of UTF-8; the cut must lie between runes
	OpSplice  = "splice"  // array element Path: N elements go, those of Value (an array, may be absent) come; index "-" is the end
	OpReplace = "replace" // the whole document := Value; Path is ""
)

// Op is one step of a document delta. Path is a JSON pointer (RFC 6901). The zero value is not a valid step.
// Source: durable kernel 1.5.
type Op struct {
	Op    string          `json:"op"`
	Path  string          `json:"path,omitempty"`
	Value json.RawMessage `json:"value,omitempty"`
	N     int             `json:"n,omitempty"`
}

// OpError says which step of a delta does not fit the value, and where.
type OpError struct {
	Index  int    // of the step in the list
	Op     string // its verb
	Path   string // JSON pointer of the first place that does not fit
	Reason string
}

// Error names the step, the place and the reason.
func (e *OpError) Error() string {
	return fmt.Sprintf("op %d %s %q: %s", e.Index, e.Op, e.Path, e.Reason)
}

// ParseOps decodes a stored delta: a JSON list of steps, strictly (no unknown field, nothing behind the list). The steps
// are not checked against a value; ApplyOps does that.
func ParseOps(delta []byte) ([]Op, error) {
	dec := json.NewDecoder(bytes.NewReader(delta))
	dec.DisallowUnknownFields()
	var ops []Op
	if err := dec.Decode(&ops); err != nil {
		return nil, fmt.Errorf("parse ops: %w", err)
	}
	if _, err := dec.Token(); err != io.EOF {
		return nil, fmt.Errorf("parse ops: data behind the list")
	}
	return ops, nil
}

// ApplyOps returns value after the steps, in order. It is pure: neither argument changes and the result shares no memory
// with them. What no step touches keeps its bytes, number spelling and member order; new members come last. A step that
// does not fit is an *OpError and there is no result. Cost is linear in the value and the steps, also for many appends.
func ApplyOps(value json.RawMessage, ops []Op) (json.RawMessage, error) {
	if !strictjson.Valid(value) {
		return nil, fmt.Errorf("apply ops: the value is not JSON")
	}
	root := &node{raw: value}
	for i, op := range ops {
		next, err := root.apply(op)
		if err != nil {
			err.Index, err.Op = i, op.Op
			return nil, fmt.Errorf("apply ops: %w", err)
		}
		root = next
	}
	return root.render(make([]byte, 0, len(value)+64)), nil
}

// Replay returns the value of a document from its newest base and the deltas behind it, oldest first. It is pure. A missing
// base or a delta that does not fit is ErrCorrupt, never an empty value.
func Replay(base json.RawMessage, deltas [][]byte) (json.RawMessage, error) {
	if len(base) == 0 {
		return nil, fmt.Errorf("%w: deltas without a base", ErrCorrupt)
	}
	var steps []Op
	for _, delta := range deltas {
		ops, err := ParseOps(delta)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrCorrupt, err)
		}
		steps = append(steps, ops...)
	}
	value, err := ApplyOps(base, steps)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	return value, nil
}

// node is a JSON value that is parsed one level at a time, only where a step goes. Exactly one of the fields is set.
type node struct {
	raw    json.RawMessage // not looked into yet
	object *object
	array  *array
	text   []byte // string that was appended to or trimmed: JSON without the closing quote
}

type (
	object struct {
		keys   []string // in order of appearance
		member map[string]*node
	}
	array struct{ items []*node }
)

func misfit(path, format string, args ...any) *OpError {
	return &OpError{Path: path, Reason: fmt.Sprintf(format, args...)}
}

// apply performs op below the root n and returns the root after it.
func (n *node) apply(op Op) (*node, *OpError) {
	if op.Value != nil && !strictjson.Valid(op.Value) {
		return nil, misfit(op.Path, "the value is not JSON")
	}
	tokens, err := pointer(op.Path)
	if err != nil {
		return nil, err
	}
	switch op.Op {
	case OpReplace, OpSet:
		if op.Op == OpReplace && len(tokens) > 0 {
			return nil, misfit(op.Path, "replace takes the whole document: the path must be empty")
		}
		if len(tokens) > 0 {
			return n, n.set(op, tokens)
		}
		if op.Value == nil {
			return nil, misfit(op.Path, "a value is needed")
		}
		return &node{raw: op.Value}, nil
	case OpAppend, OpTrim:
		target, err := n.descend(tokens)
		if err != nil {
			return nil, err
		}
		return n, target.edit(op)
	case OpSplice:
		return n, n.splice(op, tokens)
	default:
		return nil, misfit(op.Path, "unknown verb")
	}
}

func (n *node) set(op Op, tokens []string) *OpError {
	last := len(tokens) - 1
	parent, err := n.descend(tokens[:last])
	if err != nil {
		return err
	}
	if err := parent.expand(tokens[:last]); err != nil {
		return err
	}
	switch key := tokens[last]; {
	case parent.object != nil:
		o := parent.object
		_, there := o.member[key]
		if op.Value != nil {
			if !there {
				o.keys = append(o.keys, key)
			}
			o.member[key] = &node{raw: op.Value}
			return nil
		}
		if !there {
			return misfit(op.Path, "no such member")
		}
		delete(o.member, key)
		o.keys = slices.DeleteFunc(o.keys, func(k string) bool { return k == key })
		return nil
	case parent.array != nil:
		if op.Value == nil {
			return misfit(op.Path, "an element is removed by splice")
		}
		i, err := index(key, len(parent.array.items)-1, op.Path)
		if err != nil {
			return err
		}
		parent.array.items[i] = &node{raw: op.Value}
		return nil
	default:
		return misfit(joinPointer(tokens[:last]), "neither object nor array")
	}
}

// edit appends to or trims the string n, which sits at tokens. What it holds stays encoded: an append decodes nothing.
func (n *node) edit(op Op) *OpError {
	if n.text == nil {
		raw := bytes.TrimSpace(n.raw)
		if len(raw) == 0 || raw[0] != '"' {
			return misfit(op.Path, "not a string")
		}
		n.text, n.raw = slices.Clone(raw[:len(raw)-1]), nil
	}
	if op.Op == OpAppend {
		tail, ok := decode(op.Value)
		if !ok {
			return misfit(op.Path, "the appended value is not a string")
		}
		quoted := quote(nil, tail)
		n.text = append(n.text, quoted[1:len(quoted)-1]...)
		return nil
	}
	text, _ := decode(append(slices.Clone(n.text), '"')) // it is a string
	cut := len(text) - op.N
	if op.N < 0 || cut < 0 {
		return misfit(op.Path, "cannot drop %d of %d bytes", op.N, len(text))
	}
	if cut < len(text) && !utf8.RuneStart(text[cut]) {
		return misfit(op.Path, "dropping %d bytes cuts a rune", op.N)
	}
	quoted := quote(nil, text[:cut])
	n.text = quoted[:len(quoted)-1]
	return nil
}

// decode returns the string that raw, which is JSON or nothing, stands for; not ok when it is no string.
func decode(raw json.RawMessage) (s string, ok bool) {
	raw = bytes.TrimSpace(raw)
	if len(raw) == 0 || raw[0] != '"' || json.Unmarshal(raw, &s) != nil {
		return "", false
	}
	return s, true
}

func (n *node) splice(op Op, tokens []string) *OpError {
	if len(tokens) == 0 {
		return misfit(op.Path, "splice needs an array and an index")
	}
	last := len(tokens) - 1
	parent, err := n.descend(tokens[:last])
	if err != nil {
		return err
	}
	if err := parent.expand(tokens[:last]); err != nil {
		return err
	}
	if parent.array == nil {
		return misfit(joinPointer(tokens[:last]), "not an array")
	}
	items := parent.array.items
	at := len(items)
	if tokens[last] != "-" {
		if at, err = index(tokens[last], len(items), op.Path); err != nil {
			return err
		}
	}
	if op.N < 0 || op.N > len(items)-at {
		return misfit(op.Path, "cannot remove %d of %d elements", op.N, len(items)-at)
	}
	var come []*node
	if op.Value != nil {
		list := &node{raw: op.Value}
		if err := list.expand(tokens); err != nil {
			return err
		}
		if list.array == nil {
			return misfit(op.Path, "the inserted value is not an array")
		}
		come = list.array.items
	}
	parent.array.items = slices.Replace(items, at, at+op.N, come...)
	return nil
}

// descend walks tokens from n. Every step must exist.
func (n *node) descend(tokens []string) (*node, *OpError) {
	for i, token := range tokens {
		if err := n.expand(tokens[:i]); err != nil {
			return nil, err
		}
		switch {
		case n.object != nil:
			next, ok := n.object.member[token]
			if !ok {
				return nil, misfit(joinPointer(tokens[:i+1]), "no such member")
			}
			n = next
		case n.array != nil:
			at, err := index(token, len(n.array.items)-1, "")
			if err != nil {
				err.Path = joinPointer(tokens[:i+1])
				return nil, err
			}
			n = n.array.items[at]
		default:
			return nil, misfit(joinPointer(tokens[:i]), "neither object nor array")
		}
	}
	return n, nil
}

// expand parses one level of an object or array n, which sits at tokens; anything else stays as it is. The raw text is
// valid JSON, so the scan only has to find where values end.
func (n *node) expand(tokens []string) *OpError {
	raw := bytes.TrimSpace(n.raw)
	if len(raw) == 0 || raw[0] != '[' && raw[0] != '{' {
		return nil // expanded before, or nothing to expand
	}
	if raw[0] == '[' {
		n.array = &array{}
	} else {
		n.object = &object{member: map[string]*node{}}
	}
	n.raw = nil
	for rest := next(raw[1:]); rest[0] != ']' && rest[0] != '}'; {
		key := ""
		if n.object != nil {
			end := valueEnd(rest)
			key, _ = decode(json.RawMessage(rest[:end])) // a member's name is a string
			rest = next(rest[end:])
			if n.object.member[key] != nil {
				return misfit(joinPointer(tokens), "member %q appears twice", key)
			}
		}
		end := valueEnd(rest)
		item := &node{raw: json.RawMessage(rest[:end])}
		rest = next(rest[end:])
		if n.array != nil {
			n.array.items = append(n.array.items, item)
		} else {
			n.object.keys = append(n.object.keys, key)
			n.object.member[key] = item
		}
	}
	return nil
}

// next skips white space, commas and colons. Behind it is a value or a closing bracket.
func next(b []byte) []byte { return bytes.TrimLeft(b, " \t\r\n,:") }

// valueEnd returns the length of the value that b starts with.
func valueEnd(b []byte) int {
	switch b[0] {
	case '"':
		return stringEnd(b)
	case '{', '[':
		depth := 0
		for i := 0; ; i++ {
			switch b[i] {
			case '"':
				i += stringEnd(b[i:]) - 1
			case '{', '[':
				depth++
			case '}', ']':
				if depth--; depth == 0 {
					return i + 1
				}
			}
		}
	default:
		if i := bytes.IndexAny(b, " \t\r\n,]}"); i >= 0 {
			return i
		}
		return len(b)
	}
}

// stringEnd returns the length of the string that b starts with: up to the first quote behind an even number of
// backslashes.
func stringEnd(b []byte) int {
	for i := 1; ; i++ {
		i += bytes.IndexByte(b[i:], '"')
		slashes := 0
		for b[i-1-slashes] == '\\' {
			slashes++
		}
		if slashes%2 == 0 {
			return i + 1
		}
	}
}

// render appends n's JSON to b.
func (n *node) render(b []byte) []byte {
	switch {
	case n.object != nil:
		b = append(b, '{')
		for i, key := range n.object.keys {
			if i > 0 {
				b = append(b, ',')
			}
			b = append(quote(b, key), ':')
			b = n.object.member[key].render(b)
		}
		return append(b, '}')
	case n.array != nil:
		b = append(b, '[')
		for i, item := range n.array.items {
			if i > 0 {
				b = append(b, ',')
			}
			b = item.render(b)
		}
		return append(b, ']')
	case n.text != nil:
		return append(append(b, n.text...), '"')
	default:
		return append(b, n.raw...)
	}
}

// quote appends s as a JSON string. Only what JSON itself demands is escaped.
func quote(b []byte, s string) []byte {
	var w bytes.Buffer
	enc := json.NewEncoder(&w)
	enc.SetEscapeHTML(false)
	if enc.Encode(s) != nil { // a string always encodes; this keeps the result valid JSON whatever happens
		return append(b, `""`...)
	}
	return append(b, bytes.TrimSuffix(w.Bytes(), []byte("\n"))...)
}

// The escapes of a JSON pointer token.
var (
	escape       = strings.NewReplacer("~", "~0", "/", "~1")
	unescape     = strings.NewReplacer("~0", "~", "~1", "/")
	stripEscapes = strings.NewReplacer("~0", "", "~1", "")
)

// pointer splits a JSON pointer into its unescaped tokens; "" is the root.
func pointer(path string) ([]string, *OpError) {
	if path == "" {
		return nil, nil
	}
	if path[0] != '/' {
		return nil, misfit(path, "a JSON pointer starts with a slash")
	}
	tokens := strings.Split(path[1:], "/")
	if !utf8.ValidString(path) {
		return nil, misfit(path, "a JSON pointer is UTF-8")
	}
	if !strings.Contains(path, "~") {
		return tokens, nil
	}
	for i, token := range tokens {
		if strings.Contains(stripEscapes.Replace(token), "~") {
			return nil, misfit(path, "bad escape in a JSON pointer")
		}
		tokens[i] = unescape.Replace(token)
	}
	return tokens, nil
}

// joinPointer is the inverse of pointer.
func joinPointer(tokens []string) string {
	var b strings.Builder
	for _, token := range tokens {
		b.WriteString("/" + escape.Replace(token))
	}
	return b.String()
}

// index parses an array index in [0, most].
func index(token string, most int, path string) (int, *OpError) {
	i, err := strconv.Atoi(token)
	if err != nil || strconv.Itoa(i) != token || i < 0 {
		return 0, misfit(path, "not an array index")
	}
	if i > most {
		return 0, misfit(path, "index out of range")
	}
	return i, nil
}
