package schema

import (
	"encoding/json"
	"fmt"
	"reflect"

	"github.com/invopop/jsonschema"
)

// Reflect returns the schema of t as one JSON object: closed (unknown properties are refused), without references,
// $schema or $id, properties in field order, byte-equal on every call. Required are fields whose json tag has neither
// omitempty nor omitzero. Keywords come from the jsonschema tag. A type that contains itself and a type that is not a
// struct or a map with string keys are errors, because a model's arguments are one finite object.
func Reflect(t reflect.Type) (json.RawMessage, error) {
	for t != nil && t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t == nil || t.Kind() != reflect.Struct && (t.Kind() != reflect.Map || t.Key().Kind() != reflect.String) {
		return nil, fmt.Errorf("schema of %v: arguments are a JSON object, so the type is a struct or a map with string keys", t)
	}
	if name := recursion(t, nil); name != "" {
		return nil, fmt.Errorf("schema of %v: type %s contains itself", t, name)
	}
	r := jsonschema.Reflector{DoNotReference: true, ExpandedStruct: true, Anonymous: true}
	s := r.ReflectFromType(t)
	s.Version, s.ID = "", ""
	raw, err := json.Marshal(s)
	if err != nil {
		return nil, fmt.Errorf("schema of %v: %w", t, err)
	}
	return raw, nil
}

// recursion returns the name of the first struct type on a path from t back to itself, or "". path holds the structs
// that enclose t.
func recursion(t reflect.Type, path []reflect.Type) string {
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Array, reflect.Map:
		return recursion(t.Elem(), path)
	case reflect.Struct:
	default:
		return ""
	}
	for _, outer := range path {
		if outer == t {
			return t.String()
		}
	}
	path = append(path[:len(path):len(path)], t)
	for i := range t.NumField() {
		f := t.Field(i)
		if !f.IsExported() && !f.Anonymous {
			continue
		}
		if name := recursion(f.Type, path); name != "" {
			return name
		}
	}
	return ""
}
