package strictjson

import (
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"
)

// fieldSet is the JSON side of one struct type: exact member names, each with its index path.
type fieldSet struct {
	names []string // sorted
	index map[string][]int
}

var fieldSets sync.Map // reflect.Type -> *fieldSet

func fieldsOf(t reflect.Type) *fieldSet {
	if known, ok := fieldSets.Load(t); ok {
		return known.(*fieldSet)
	}
	set := &fieldSet{index: map[string][]int{}}
	set.collect(t, nil)
	set.names = slices.Sorted(maps.Keys(set.index))
	known, _ := fieldSets.LoadOrStore(t, set)
	return known.(*fieldSet)
}

// collect adds the fields of t below the index path prefix; fields of embedded structs count as fields of the outer one, and
// the shallowest of equal names wins.
func (s *fieldSet) collect(t reflect.Type, prefix []int) {
	for i := range t.NumField() {
		f := t.Field(i)
		tag := f.Tag.Get("json")
		if tag == "-" {
			continue
		}
		name, _, _ := strings.Cut(tag, ",")
		path := append(slices.Clone(prefix), i)
		if inner, ok := embedded(f); ok && name == "" {
			if len(path) < MaxDepth {
				s.collect(inner, path)
			}
			continue
		}
		if !f.IsExported() {
			continue
		}
		if name == "" {
			name = f.Name
		}
		if old, ok := s.index[name]; !ok || len(path) < len(old) {
			s.index[name] = path
		}
	}
}

// embedded returns the struct type that f embeds and whose fields can be set through it.
func embedded(f reflect.StructField) (reflect.Type, bool) {
	switch {
	case !f.Anonymous:
		return nil, false
	case f.Type.Kind() == reflect.Struct:
		return f.Type, true
	case f.IsExported() && f.Type.Kind() == reflect.Pointer && f.Type.Elem().Kind() == reflect.Struct:
		return f.Type.Elem(), true
	}
	return nil, false
}

// field returns the field of struct v at path and allocates embedded pointers on the way.
func field(v reflect.Value, path []int) reflect.Value {
	for _, i := range path {
		if v.Kind() == reflect.Pointer {
			if v.IsNil() {
				v.Set(reflect.New(v.Type().Elem()))
			}
			v = v.Elem()
		}
		v = v.Field(i)
	}
	return v
}

// unknown is the refusal of a member that no field takes.
func (s *fieldSet) unknown(name string) error {
	if len(s.names) == 0 {
		return &Error{Detail: "unknown field; the object has none"}
	}
	return &Error{Detail: "unknown field; the nearest known one is \"" + Nearest(name, s.names) + "\""}
}

// Nearest returns the known name that the fewest changed bytes make of name, the first of several, "" when none is known.
func Nearest(name string, known []string) string {
	best, least := "", -1
	for _, k := range known {
		if d := distance(shown(name), k); least < 0 || d < least {
			best, least = k, d
		}
	}
	return best
}

// distance is the Levenshtein distance of a and b in bytes.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
