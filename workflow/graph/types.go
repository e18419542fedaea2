package graph

import (
	"encoding/json"
	"fmt"
	"reflect"
	"sync"

	"github.com/invopop/jsonschema"
)

var types sync.Map // reflect.Type -> reflected

type reflected struct {
	id     TypeID
	schema json.RawMessage
	err    error
}

// SchemaOf returns the JSON Schema of values of t: objects are closed, a type that contains itself uses $defs. The bytes
// are equal on every call and shared: do not change them. A type that JSON cannot carry is an error.
func SchemaOf(t reflect.Type) (json.RawMessage, error) {
	r := typeOf(t)
	return r.schema, r.err
}

// Add puts t into the document's types and returns its id.
func (g *Graph) Add(t reflect.Type) (TypeID, error) {
	r := typeOf(t)
	if r.err != nil {
		return "", r.err
	}
	if g.Types == nil {
		g.Types = map[TypeID]Type{}
	}
	if _, known := g.Types[r.id]; !known {
		g.Types[r.id] = Type{Name: t.String(), Schema: r.schema}
	}
	return r.id, nil
}

func typeOf(t reflect.Type) reflected {
	if known, ok := types.Load(t); ok {
		return known.(reflected) //nolint:forcetypeassert // only typeOf stores
	}
	schema, err := reflectType(t)
	r := reflected{schema: schema, err: err}
	if err == nil {
		r.id = TypeID(digest(schema)[:typeIDChars])
	}
	types.Store(t, r)
	return r
}

// typeIDChars is the length of a TypeID: 64 bits.
const typeIDChars = 16

func reflectType(t reflect.Type) (raw json.RawMessage, err error) {
	if name := impossible(t, map[reflect.Type]bool{}); name != "" {
		return nil, fmt.Errorf("type %v: JSON cannot carry a %s", t, name)
	}
	defer func() { // the reflector panics on what it does not know
		if p := recover(); p != nil {
			err = fmt.Errorf("schema of %v: %v", t, p)
		}
	}()
	flat := !recursive(t, nil)
	r := jsonschema.Reflector{DoNotReference: flat, ExpandedStruct: flat && isStruct(t), Anonymous: true}
	s := r.ReflectFromType(t)
	s.Version, s.ID = "", ""
	raw, err = json.Marshal(s)
	if err != nil {
		return nil, fmt.Errorf("schema of %v: %w", t, err)
	}
	return raw, nil
}

func isStruct(t reflect.Type) bool {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	return t.Kind() == reflect.Struct
}

// impossible returns the kind of the first part of t that encoding/json refuses, or "".
func impossible(t reflect.Type, seen map[reflect.Type]bool) string {
	if seen[t] {
		return ""
	}
	seen[t] = true
	switch t.Kind() {
	case reflect.Chan, reflect.Func, reflect.Complex64, reflect.Complex128, reflect.UnsafePointer:
		return t.Kind().String()
	case reflect.Pointer, reflect.Slice, reflect.Array, reflect.Map:
		return impossible(t.Elem(), seen)
	case reflect.Struct:
		if encodesItself(t) {
			return ""
		}
		for i := range t.NumField() {
			f := t.Field(i)
			if !f.IsExported() && !f.Anonymous || f.Tag.Get("json") == "-" {
				continue
			}
			if name := impossible(f.Type, seen); name != "" {
				return name
			}
		}
	default:
	}
	return ""
}

// recursive reports whether t contains itself. path holds the structs around t.
func recursive(t reflect.Type, path []reflect.Type) bool {
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Array, reflect.Map:
		return recursive(t.Elem(), path)
	case reflect.Struct:
		if encodesItself(t) {
			return false
		}
	default:
		return false
	}
	for _, outer := range path {
		if outer == t {
			return true
		}
	}
	path = append(path[:len(path):len(path)], t)
	for i := range t.NumField() {
		if f := t.Field(i); (f.IsExported() || f.Anonymous) && f.Tag.Get("json") != "-" && recursive(f.Type, path) {
			return true
		}
	}
	return false
}

func encodesItself(t reflect.Type) bool {
	marshaler := reflect.TypeFor[json.Marshaler]()
	return t.Implements(marshaler) || reflect.PointerTo(t).Implements(marshaler)
}
