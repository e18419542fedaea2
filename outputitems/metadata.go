package outputitems

import (
	"encoding/json"
	"maps"
	"slices"
	"unicode/utf8"

	"github.com/workflowd/workflowd/internal/strictjson"
)

// The members of metadata that this package knows.
const (
	memberKind     = "kind"
	memberPartType = "partType"
	memberPlan     = "plan"
)

// Metadata says what an item is and carries its producer's further members. Kind, PartType and Plan never change once the item
// is open. Extra holds the other members; it has neither those three names nor null values, which mean removal in a Patch.
type Metadata struct {
	Kind     Kind
	PartType PartType
	Plan     bool
	Extra    map[string]JSON
}

// Patch changes the further members of metadata: a value replaces the member of its name, null removes it.
type Patch map[string]JSON

func (m Metadata) equal(other Metadata) bool {
	return m.sameThing(other) && maps.Equal(m.Extra, other.Extra)
}

// sameThing reports whether m and other say the same about what their item is.
func (m Metadata) sameThing(other Metadata) bool {
	return m.Kind == other.Kind && m.PartType == other.PartType && m.Plan == other.Plan
}

// clone returns a copy that shares no map with m; an empty map becomes nil.
func (m Metadata) clone() Metadata {
	if len(m.Extra) == 0 {
		m.Extra = nil
	}
	m.Extra = maps.Clone(m.Extra)
	return m
}

// merged returns m with patch applied, sharing no map with m unless nothing changed.
func (m Metadata) merged(patch Patch) (Metadata, bool) {
	changed := false
	for name, value := range patch {
		old, has := m.Extra[name]
		if has == value.IsNull() || old != value {
			changed = changed || has || !value.IsNull()
		}
	}
	if !changed {
		return m, false
	}
	m = m.clone()
	if m.Extra == nil {
		m.Extra = make(map[string]JSON, len(patch))
	}
	for name, value := range patch {
		if value.IsNull() {
			delete(m.Extra, name)
		} else {
			m.Extra[name] = value
		}
	}
	if len(m.Extra) == 0 {
		m.Extra = nil
	}
	return m, true
}

// patchTo returns the patch that makes m's further members those of to, nil when they are.
func (m Metadata) patchTo(to Metadata) Patch {
	patch := Patch{}
	for name := range m.Extra {
		if _, kept := to.Extra[name]; !kept {
			patch[name] = JSON{}
		}
	}
	for name, value := range to.Extra {
		if old, has := m.Extra[name]; !has || old != value {
			patch[name] = value
		}
	}
	if len(patch) == 0 {
		return nil
	}
	return patch
}

// checkMembers applies the rules for further members to those of metadata or, with nulls allowed, of a patch.
func checkMembers(members map[string]JSON, nulls bool) error {
	size := 0
	for name, value := range members {
		size += len(name) + len(value.text)
		switch {
		case name == memberKind || name == memberPartType || name == memberPlan:
			return strictjson.Under(name, &Error{Detail: "the member is fixed when the item is opened"})
		case !utf8.ValidString(name):
			return &Error{Detail: "a member's name is not UTF-8"}
		case !nulls && value.IsNull():
			return strictjson.Under(name, &Error{Detail: "null removes a member; only op set may carry it"})
		}
	}
	if size > MaxMetadataBytes {
		return tooLong(size, MaxMetadataBytes)
	}
	return nil
}

func (m Metadata) check() error {
	if m.Kind != "" {
		if err := oneOf(m.Kind, Kinds()); err != nil {
			return strictjson.Under(memberKind, err)
		}
	}
	switch {
	case m.Kind == KindPart:
		if err := oneOf(m.PartType, PartTypes()); err != nil {
			return strictjson.Under(memberPartType, err)
		}
	case m.PartType != "":
		return strictjson.Under(memberPartType, &Error{Detail: "only an agent-part has a part type"})
	}
	if m.Plan && m.Kind != KindNotice {
		return strictjson.Under(memberPlan, &Error{Detail: "only an agent-notice can be a plan"})
	}
	return checkMembers(m.Extra, false)
}

// MarshalJSON returns one object of all members: kind, partType and plan first where they have a value, the others sorted.
func (m Metadata) MarshalJSON() ([]byte, error) {
	if err := m.check(); err != nil {
		return nil, err
	}
	return m.appendJSON(nil), nil
}

func (m Metadata) appendJSON(dst []byte) []byte {
	dst = append(dst, '{')
	start := len(dst)
	name := func(s string) {
		if len(dst) > start {
			dst = append(dst, ',')
		}
		dst = append(strictjson.AppendString(dst, s), ':')
	}
	if m.Kind != "" {
		name(memberKind)
		dst = strictjson.AppendString(dst, string(m.Kind))
	}
	if m.PartType != "" {
		name(memberPartType)
		dst = strictjson.AppendString(dst, string(m.PartType))
	}
	if m.Plan {
		name(memberPlan)
		dst = append(dst, "true"...)
	}
	for _, key := range slices.Sorted(maps.Keys(m.Extra)) {
		name(key)
		dst = append(dst, m.Extra[key].String()...)
	}
	return append(dst, '}')
}

// UnmarshalJSON decodes strictly. `plan: false` is the same as no plan.
func (m *Metadata) UnmarshalJSON(raw []byte) error {
	var members map[string]json.RawMessage
	if err := strictjson.Decode(raw, MaxWireBytes, &members); err != nil {
		return err
	}
	if members == nil {
		return &Error{Detail: "want an object, got null"}
	}
	out := Metadata{}
	known := map[string]any{memberKind: &out.Kind, memberPartType: &out.PartType, memberPlan: &out.Plan}
	for name, value := range members {
		if into, ok := known[name]; ok {
			if err := strictjson.Decode(value, len(value), into); err != nil {
				return strictjson.Under(name, err)
			}
			continue
		}
		parsed, err := ParseJSON(value)
		if err != nil {
			return strictjson.Under(name, err)
		}
		if out.Extra == nil {
			out.Extra = map[string]JSON{}
		}
		out.Extra[name] = parsed
	}
	if err := out.check(); err != nil {
		return err
	}
	*m = out
	return nil
}
