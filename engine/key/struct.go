package key

import (
	"fmt"
	"reflect"
	"slices"
)

// Struct adds the fields of a node's spec as facts. Every exported field must
// say what it is to the key: `key:"name"` makes it a fact of that name,
// `key:"-"` leaves it out (DESIGN 4 lists what is out: labels, paths, timeouts,
// retries). A field without a tag panics, so that a new field cannot be
// forgotten; the specs' own tests walk them once.
//
// Strings, integers, floats, booleans, Digests, pointers to them (nil is
// absent), slices (one fact each, in order, with the index as label), maps
// with string keys (the key as label) and nested structs (facts named
// "outer.inner") are understood. An empty slice or map adds an absent fact.
func (b *Builder) Struct(v any) {
	rv := reflect.Indirect(reflect.ValueOf(v))
	if rv.Kind() != reflect.Struct {
		panic(fmt.Sprintf("key: %T is not a struct", v))
	}
	b.fields("", "", rv)
}

// Factor is implemented by values that state their own facts, such as typed
// flag values.
type Factor interface {
	// KeyFact returns type and canonical value.
	KeyFact() (Type, string)
}

var (
	digestType = reflect.TypeFor[Digest]()
	factorType = reflect.TypeFor[Factor]()
)

func (b *Builder) fields(prefix, label string, rv reflect.Value) {
	for i := range rv.NumField() {
		f := rv.Type().Field(i)
		if !f.IsExported() {
			panic(fmt.Sprintf("key: %s.%s is unexported and cannot be keyed", rv.Type(), f.Name))
		}
		tag, ok := f.Tag.Lookup("key")
		if !ok || tag == "" {
			panic(fmt.Sprintf("key: %s.%s says not whether it is part of the key", rv.Type(), f.Name))
		}
		if tag == "-" {
			continue
		}
		b.value(prefix+tag, label, rv.Field(i))
	}
}

func (b *Builder) value(name, label string, v reflect.Value) {
	switch {
	case v.Type() == digestType:
		b.Digest(name, label, v.Interface().(Digest))
		return
	case v.Type().Implements(factorType) && !(v.Kind() == reflect.Pointer && v.IsNil()):
		t, s := v.Interface().(Factor).KeyFact()
		b.add(name, label, t, s)
		return
	}
	switch v.Kind() {
	case reflect.String:
		b.Text(name, label, v.String())
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		b.Int(name, label, v.Int())
	case reflect.Uint8, reflect.Uint16, reflect.Uint32:
		b.Int(name, label, int64(v.Uint()))
	case reflect.Float32, reflect.Float64:
		b.Float(name, label, v.Float())
	case reflect.Bool:
		b.Bool(name, label, v.Bool())
	case reflect.Pointer:
		if v.IsNil() {
			b.Absent(name, label)
			return
		}
		b.value(name, label, v.Elem())
	case reflect.Slice:
		if v.Len() == 0 {
			b.Absent(name, label)
		}
		for i := range v.Len() {
			b.value(name, join(label, fmt.Sprintf("%03d", i)), v.Index(i))
		}
	case reflect.Map:
		if v.Len() == 0 {
			b.Absent(name, label)
		}
		keys := v.MapKeys()
		slices.SortFunc(keys, func(x, y reflect.Value) int { return cmpString(x.String(), y.String()) })
		for _, k := range keys {
			b.value(name, join(label, k.String()), v.MapIndex(k))
		}
	case reflect.Struct:
		b.fields(name+".", label, v)
	default:
		panic(fmt.Sprintf("key: fact %s has type %s, which has no canonical form", name, v.Type()))
	}
}

// join keeps labels unambiguous: a part that holds the separator is quoted.
func join(outer, inner string) string {
	if outer == "" {
		return inner
	}
	return outer + "/" + inner
}

func cmpString(a, b string) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}
