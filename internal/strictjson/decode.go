package strictjson

import (
	"encoding"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strconv"
)

var (
	numberType = reflect.TypeFor[json.Number]()
	textType   = reflect.TypeFor[encoding.TextUnmarshaler]()
	selfType   = reflect.TypeFor[json.Unmarshaler]()
)

// Decode stores the single JSON value data in the variable that into points to. data may have up to limit bytes. Member names
// are case-sensitive; null is taken only by pointers, maps, slices, interfaces and json.Unmarshaler; members that are absent
// leave their field alone. A refusal is an *Error, and the variable is then in no particular state. A type with its own
// UnmarshalJSON or UnmarshalText is asked after its text passed the untyped rules; the pointer of an *Error it returns
// is extended. The `,string` option of field tags is not supported.
func Decode(data []byte, limit int, into any) error {
	v := reflect.ValueOf(into)
	if v.Kind() != reflect.Pointer || v.IsNil() {
		return &Error{Detail: fmt.Sprintf("decode into %T: not a pointer to a variable", into)}
	}
	if len(data) > limit {
		return &Error{Detail: fmt.Sprintf("%d bytes are over the limit of %d", len(data), limit)}
	}
	w, err := newWalker(data)
	if err != nil {
		return err
	}
	return w.value(v.Elem(), MaxDepth)
}

// check applies the untyped rules to data.
func check(data []byte) error {
	w, err := newWalker(data)
	if err != nil {
		return err
	}
	return w.value(reflect.Value{}, MaxDepth)
}

func newWalker(data []byte) (*walker, error) {
	if !json.Valid(data) {
		detail := "not JSON"
		var raw json.RawMessage
		err := json.Unmarshal(data, &raw)
		if s, ok := errors.AsType[*json.SyntaxError](err); ok {
			detail = fmt.Sprintf("not JSON: %v, at byte %d", s, s.Offset)
		}
		return nil, &Error{Detail: detail}
	}
	return &walker{data: data}, nil
}

// value checks the next value and stores it in v; an invalid v only checks. depth is how many containers may still open.
func (w *walker) value(v reflect.Value, depth int) error {
	w.space()
	first := w.data[w.pos]
	switch {
	case !v.IsValid():
	case v.Kind() == reflect.Pointer:
		if first == 'n' {
			v.SetZero()
			return w.scalar(reflect.Value{})
		}
		if v.IsNil() {
			v.Set(reflect.New(v.Type().Elem()))
		}
		return w.value(v.Elem(), depth)
	case first == 'n' && textual(v.Type()):
		return wrongType(v.Type(), w.data[w.pos:])
	case opaque(v):
		start := w.pos
		if err := w.value(reflect.Value{}, depth); err != nil {
			return err
		}
		return assign(v, w.data[start:w.pos])
	case first == 'n':
		switch v.Kind() {
		case reflect.Map, reflect.Slice:
			v.SetZero()
			return w.scalar(reflect.Value{})
		default:
			return wrongType(v.Type(), w.data[w.pos:])
		}
	}
	if first != '{' && first != '[' {
		return w.scalar(v)
	}
	if depth == 0 {
		return tooDeep()
	}
	if first == '{' {
		return w.object(v, depth-1)
	}
	return w.array(v, depth-1)
}

// opaque reports whether v decodes itself or takes any value.
func opaque(v reflect.Value) bool {
	switch v.Addr().Interface().(type) {
	case json.Unmarshaler, encoding.TextUnmarshaler:
		return true
	}
	return v.Kind() == reflect.Interface && v.NumMethod() == 0
}

// textual reports whether values of t decode themselves, from strings only.
func textual(t reflect.Type) bool {
	p := reflect.PointerTo(t)
	return p.Implements(textType) && !p.Implements(selfType)
}

// assign stores raw, checked already, in v by the rules of encoding/json.
func assign(v reflect.Value, raw []byte) error {
	if v.Type() == numberType && raw[0] == '"' {
		return wrongType(numberType, raw)
	}
	err := json.Unmarshal(raw, v.Addr().Interface())
	if err == nil {
		return nil
	}
	if inner, ok := errors.AsType[*Error](err); ok {
		return inner
	}
	if _, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		return wrongType(v.Type(), raw)
	}
	return &Error{Detail: err.Error()}
}

func (w *walker) object(v reflect.Value, depth int) error {
	var set *fieldSet
	switch {
	case !v.IsValid():
	case v.Kind() == reflect.Struct:
		set = fieldsOf(v.Type())
	case v.Kind() == reflect.Map && v.Type().Key().Kind() == reflect.String:
		if v.IsNil() {
			v.Set(reflect.MakeMap(v.Type()))
		}
	default:
		return wrongType(v.Type(), w.data[w.pos:])
	}
	seen := map[string]struct{}{}
	for w.next('}') {
		key, err := w.key()
		if err != nil {
			return err
		}
		if _, twice := seen[key]; twice {
			return Under(key, &Error{Detail: "the member appears twice"})
		}
		seen[key] = struct{}{}
		var slot reflect.Value
		switch {
		case set != nil:
			path, ok := set.index[key]
			if !ok {
				return Under(key, set.unknown(key))
			}
			slot = field(v, path)
		case v.IsValid():
			slot = reflect.New(v.Type().Elem()).Elem()
		}
		if err := w.value(slot, depth); err != nil {
			return Under(key, err)
		}
		if set == nil && v.IsValid() {
			v.SetMapIndex(reflect.ValueOf(key).Convert(v.Type().Key()), slot)
		}
	}
	return nil
}

func (w *walker) array(v reflect.Value, depth int) error {
	fixed := false
	switch {
	case !v.IsValid():
	case v.Kind() == reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 0, 0))
	case v.Kind() == reflect.Array:
		fixed = true
	default:
		return wrongType(v.Type(), w.data[w.pos:])
	}
	n := 0
	for ; w.next(']'); n++ {
		var slot reflect.Value
		switch {
		case fixed && n >= v.Len():
			return &Error{Detail: fmt.Sprintf("want %d elements, got more", v.Len())}
		case fixed:
			slot = v.Index(n)
		case v.IsValid():
			v.Set(reflect.Append(v, reflect.Zero(v.Type().Elem())))
			slot = v.Index(n)
		}
		if err := w.value(slot, depth); err != nil {
			return Under(strconv.Itoa(n), err)
		}
	}
	if fixed && n < v.Len() {
		return &Error{Detail: fmt.Sprintf("want %d elements, got %d", v.Len(), n)}
	}
	return nil
}

func (w *walker) scalar(v reflect.Value) error {
	raw, err := w.token()
	if err != nil || !v.IsValid() {
		return err
	}
	return assign(v, raw)
}
