package demo

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
)

// submitTool is the tool that takes an answer in a shape of the caller's.
const submitTool = "submit_answer"

// shape is what the demo reads of a JSON Schema.
type shape struct {
	Type       json.RawMessage            `json:"type"`
	Properties map[string]json.RawMessage `json:"properties"`
	Required   []string                   `json:"required"`
	Items      json.RawMessage            `json:"items"`
	Enum       []any                      `json:"enum"`
	Const      any                        `json:"const"`
	AnyOf      []json.RawMessage          `json:"anyOf"`
	OneOf      []json.RawMessage          `json:"oneOf"`
	AllOf      []json.RawMessage          `json:"allOf"`
	Ref        string                     `json:"$ref"`
	MinItems   int                        `json:"minItems"`
	MaxItems   *int                       `json:"maxItems"`
	MinLength  int                        `json:"minLength"`
	MaxLength  *int                       `json:"maxLength"`
	Minimum    *float64                   `json:"minimum"`
	Maximum    *float64                   `json:"maximum"`
	Above      *float64                   `json:"exclusiveMinimum"`
	Below      *float64                   `json:"exclusiveMaximum"`
}

// typedAnswer builds the arguments of submit_answer: a value of the schema made of the facts.
func typedAnswer(schema json.RawMessage, t turn, f facts) string {
	m := maker{root: schema, facts: f, lines: typedLines(t, f)}
	value, ok := m.value(schema, "", 0).(map[string]any)
	if !ok {
		value = map[string]any{}
	}
	return marshal(value)
}

// typedLines are the facts as sentences, most telling first. There is always one.
func typedLines(t turn, f facts) []string {
	var out []string
	can, _ := t.deeds()
	for i, e := range t.called("write", "bash") {
		if i < len(can) {
			out = append(out, can[i].String()+": "+said(e))
		}
	}
	return append(out, evidence(f)...)
}

// maker builds values. next is the fact that the next string without a better source gets.
type maker struct {
	root  json.RawMessage
	facts facts
	lines []string
	next  int
	made  int
}

func (m *maker) value(raw json.RawMessage, name string, depth int) any {
	var s shape
	if m.made++; depth > maxDepth || m.made > maxValues || json.Unmarshal(raw, &s) != nil {
		return m.text(shape{}, name) // also for the schemas true and false
	}
	switch {
	case s.Ref != "":
		return m.value(m.resolve(s.Ref), name, depth+1)
	case s.Const != nil:
		return s.Const
	case len(s.Enum) > 0:
		return s.Enum[0]
	case len(s.AnyOf) > 0:
		return m.value(s.AnyOf[0], name, depth+1)
	case len(s.OneOf) > 0:
		return m.value(s.OneOf[0], name, depth+1)
	case len(s.AllOf) > 0:
		return m.all(s, name, depth)
	}
	switch s.kind() {
	case "object":
		return m.object(s, depth)
	case "array":
		return m.list(s, name, depth)
	case "integer", "number":
		return m.number(s, name)
	case "boolean":
		return len(m.facts.names()) > 0
	case "null":
		return nil
	}
	return m.text(s, name)
}

// kind is the type of s: the first that is not null when it lists several, and what its keywords tell when it has none.
func (s shape) kind() string {
	var one string
	if json.Unmarshal(s.Type, &one) == nil {
		return one
	}
	var several []string
	if json.Unmarshal(s.Type, &several) == nil {
		for _, t := range several {
			if t != "null" {
				return t
			}
		}
	}
	switch {
	case s.Properties != nil:
		return "object"
	case s.Items != nil:
		return "array"
	}
	return "string"
}

// resolve follows a reference inside the document, by its JSON Pointer; anything else is the empty schema.
func (m *maker) resolve(ref string) json.RawMessage {
	at := m.root
	ref, ok := strings.CutPrefix(ref, "#")
	if !ok {
		return json.RawMessage(`{}`)
	}
	unescape := strings.NewReplacer("~1", "/", "~0", "~")
	for _, part := range strings.Split(strings.TrimPrefix(ref, "/"), "/") {
		if part == "" {
			continue
		}
		var level map[string]json.RawMessage
		if json.Unmarshal(at, &level) != nil {
			return json.RawMessage(`{}`)
		}
		at = level[unescape.Replace(part)]
	}
	return at
}

// object fills every property; at the deepest levels only the required ones, so that recursive schemas end.
func (m *maker) object(s shape, depth int) any {
	out := map[string]any{}
	keys := make([]string, 0, len(s.Properties))
	for key := range s.Properties {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	for _, key := range keys {
		if depth < maxDepth/2 || slices.Contains(s.Required, key) {
			out[key] = m.value(s.Properties[key], key, depth+1)
		}
	}
	for _, key := range s.Required {
		if _, have := out[key]; !have {
			out[key] = m.text(shape{}, key)
		}
	}
	return out
}

// all merges the objects of allOf; of other kinds the first counts.
func (m *maker) all(s shape, name string, depth int) any {
	own, _ := m.object(s, depth).(map[string]any)
	for i, part := range s.AllOf {
		v := m.value(part, name, depth+1)
		fields, ok := v.(map[string]any)
		if !ok && i == 0 && len(own) == 0 {
			return v
		}
		for key, value := range fields {
			own[key] = value
		}
	}
	return own
}

// list has an element per fact that fits its name, within the bounds of the schema.
func (m *maker) list(s shape, name string, depth int) any {
	out := []any{}
	if depth >= maxDepth/2 && s.MinItems == 0 {
		return out
	}
	most := maxItems
	if s.MaxItems != nil {
		most = min(most, *s.MaxItems)
	}
	names := m.facts.names()
	var item shape
	if json.Unmarshal(s.Items, &item) == nil && item.kind() == "string" && item.Enum == nil && item.Ref == "" && item.Const == nil && len(item.AnyOf)+len(item.OneOf)+len(item.AllOf) == 0 {
		source := m.lines
		if about(name, "file", "path", "name", "entr", "document") {
			source = names
		}
		for _, line := range source[:min(len(source), max(most, 0))] {
			out = append(out, item.fit(line))
		}
	} else if most > 0 {
		out = append(out, m.value(s.Items, name, depth+1))
	}
	for n := len(out); n < s.MinItems && n < math.MaxInt16; n++ {
		out = append(out, m.value(s.Items, fmt.Sprintf("%s %d", name, n+1), depth+1))
	}
	return out
}

func (m *maker) number(s shape, name string) any {
	v := float64(len(m.facts.names()))
	switch {
	case about(name, "line") && len(m.facts.matches) > 0:
		v = float64(m.facts.matches[0].line)
	case about(name, "match", "hit"):
		v = float64(len(m.facts.matches))
	case about(name, "folder", "dir"):
		v = float64(len(m.facts.listing.folders))
	case about(name, "file", "entr"):
		v = float64(len(m.facts.listing.files))
	}
	if s.Minimum != nil {
		v = max(v, math.Ceil(*s.Minimum))
	}
	if s.Above != nil {
		v = max(v, math.Floor(*s.Above)+1)
	}
	if s.Maximum != nil && v > *s.Maximum {
		v = math.Floor(*s.Maximum)
	}
	if s.Below != nil && v >= *s.Below {
		v = math.Ceil(*s.Below) - 1
	}
	return v
}

// text is the fact that fits the name of the property, else the next one.
func (m *maker) text(s shape, name string) string {
	f := m.facts
	r, read := f.main()
	switch {
	case about(name, "file", "path") && len(f.names()) > 0:
		if read {
			return s.fit(r.file)
		}
		return s.fit(f.names()[0])
	case about(name, "title", "heading", "name") && read && r.heading != "":
		return s.fit(clip(r.heading))
	case about(name, "next", "action", "recommend"):
		return s.fit(following(nil, nil, f))
	case about(name, "summary", "answer", "text", "description", "result", "message", "report"):
		return s.fit(strings.Join(m.lines, " "))
	}
	m.next++
	return s.fit(m.lines[(m.next-1)%len(m.lines)])
}

// fit cuts or fills text to the lengths of the schema, counted in characters.
func (s shape) fit(text string) string {
	runes := []rune(text)
	for len(runes) < s.MinLength && len(runes) < math.MaxInt16 {
		runes = append(append(runes, ' '), []rune(signature)...)
	}
	if s.MaxLength != nil && len(runes) > *s.MaxLength {
		runes = runes[:max(*s.MaxLength, 0)]
	}
	return string(runes)
}

func about(name string, hints ...string) bool {
	name = strings.ToLower(name)
	return slices.ContainsFunc(hints, func(h string) bool { return strings.Contains(name, h) })
}
