package strictjson

import (
	"encoding"
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"strconv"
	"time"
	"unicode/utf8"
)

var timeType = reflect.TypeFor[time.Time]()

// CheckValue refuses a Go value that is no plain JSON: NaN and infinities, functions, channels, complex numbers, time.Time,
// maps with keys that are not strings, text that is not UTF-8, and nesting beyond MaxDepth, which is also how a cycle is found.
// Values with their own MarshalJSON or MarshalText are judged by what they write. The error is an *Error whose pointer is
// that of the value in v's JSON. Source: P-156.
func CheckValue(v any) error { return checkValue(reflect.ValueOf(v), MaxDepth) }

func checkValue(v reflect.Value, depth int) error {
	for hops := 0; v.Kind() == reflect.Pointer || v.Kind() == reflect.Interface; hops++ {
		if hops == MaxDepth {
			return tooDeep()
		}
		v = v.Elem()
	}
	if !v.IsValid() {
		return nil
	}
	t := v.Type()
	if t.Kind() == reflect.Struct && t.ConvertibleTo(timeType) {
		return &Error{Detail: "a time is no plain JSON; pass text or a number"}
	}
	self := v.Interface()
	if v.CanAddr() {
		self = v.Addr().Interface()
	}
	switch self.(type) {
	case json.Marshaler, encoding.TextMarshaler:
		raw, err := json.Marshal(self)
		if err != nil {
			return &Error{Detail: err.Error()}
		}
		return check(raw)
	}
	switch t.Kind() {
	case reflect.Slice, reflect.Array, reflect.Map, reflect.Struct:
		if depth == 0 {
			return tooDeep()
		}
	}
	switch t.Kind() {
	case reflect.Bool, reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
		reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Uintptr:
		return nil
	case reflect.Float32, reflect.Float64:
		if f := v.Float(); math.IsNaN(f) || math.IsInf(f, 0) {
			return &Error{Detail: fmt.Sprintf("%v is no JSON number", f)}
		}
		return nil
	case reflect.String:
		return checkString(v.String())
	case reflect.Slice, reflect.Array:
		if t.Elem().Kind() == reflect.Uint8 {
			return nil
		}
		for i := range v.Len() {
			if err := checkValue(v.Index(i), depth-1); err != nil {
				return Under(strconv.Itoa(i), err)
			}
		}
		return nil
	case reflect.Map:
		return checkMap(v, depth)
	case reflect.Struct:
		set := fieldsOf(t)
		for _, name := range set.names {
			f, err := v.FieldByIndexErr(set.index[name])
			if err != nil {
				continue // below a nil embedded pointer there is nothing to encode
			}
			if err := checkValue(f, depth-1); err != nil {
				return Under(name, err)
			}
		}
		return nil
	default:
		return &Error{Detail: fmt.Sprintf("a %s is no JSON value", t.Kind())}
	}
}

func checkMap(v reflect.Value, depth int) error {
	if v.Type().Key().Kind() != reflect.String {
		return &Error{Detail: fmt.Sprintf("a map with keys of type %s is no plain JSON", v.Type().Key())}
	}
	for it := v.MapRange(); it.Next(); {
		key := it.Key().String()
		if err := checkString(key); err != nil {
			return err
		}
		if err := checkValue(it.Value(), depth-1); err != nil {
			return Under(key, err)
		}
	}
	return nil
}

func tooDeep() error { return &Error{Detail: fmt.Sprintf("nested deeper than %d", MaxDepth)} }

func checkString(s string) error {
	if !utf8.ValidString(s) {
		return &Error{Detail: "a string is not UTF-8"}
	}
	return nil
}
