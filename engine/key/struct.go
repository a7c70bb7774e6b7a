package key

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Struct adds the fields of a node's spec as facts. Every field must say what
// it is to the key: `key:"name"` makes it a fact of that name, `key:"-"` leaves
// it out (DESIGN 4 lists what is out: labels, paths, timeouts, retries). A
// field without a tag panics, so that a new field cannot be forgotten; the
// specs' own tests walk them once. Embedded structs are fields like any other;
// unexported fields can only be left out.
//
// Strings, integers, floats, booleans, Digests, pointers to these or to a
// struct (nil is absent), slices (one fact each, in order, with the index as
// label), maps with string keys (the key as label), nested structs (facts named
// "outer.inner"), Factors and interfaces holding one of these are understood.
// An empty slice or map adds an absent fact. A time.Duration is an integer of
// nanoseconds and its name must end in "_ns". Everything else panics.
func (b *Builder) Struct(v any) {
	rv := reflect.ValueOf(v)
	if rv.Kind() == reflect.Pointer {
		rv = rv.Elem()
	}
	if rv.Kind() != reflect.Struct {
		panic(fmt.Sprintf("key: %T is not a struct, or nil", v))
	}
	b.fields("", "", rv)
}

// Factor is implemented by values that state their own facts, such as typed
// flag values. It is implemented on the value, not on a pointer to it.
type Factor interface {
	// KeyFact returns type and canonical value.
	KeyFact() (Type, string)
}

var (
	digestType   = reflect.TypeFor[Digest]()
	factorType   = reflect.TypeFor[Factor]()
	durationType = reflect.TypeFor[time.Duration]()
)

func (b *Builder) fields(prefix, label string, rv reflect.Value) {
	for _, f := range keyed(rv.Type()) {
		name := f.tag
		if prefix != "" {
			name = prefix + f.tag
		}
		b.value(name, label, rv.Field(f.index))
	}
}

// field is a field of a struct that is a fact.
type field struct {
	index int
	tag   string
}

// known remembers keyed by type: a graph has as many specs as nodes and as many
// types as kinds.
var known sync.Map // reflect.Type → []field

// keyed lists the fields of a struct that are facts; a struct that breaks the
// rules of Struct panics.
func keyed(t reflect.Type) []field {
	if fields, ok := known.Load(t); ok {
		return fields.([]field)
	}
	var fields []field
	for i := range t.NumField() {
		f := t.Field(i)
		tag := f.Tag.Get("key")
		switch {
		case tag == "-":
			continue
		case !f.IsExported():
			panic(fmt.Sprintf("key: %s.%s is unexported and cannot be keyed", t, f.Name))
		case tag == "":
			panic(fmt.Sprintf("key: %s.%s says not whether it is part of the key", t, f.Name))
		case slices.ContainsFunc(fields, func(o field) bool { return shared(o.tag, tag) }):
			panic(fmt.Sprintf("key: %s has two fields whose facts could share a name, one tagged %q", t, tag))
		}
		fields = append(fields, field{i, tag})
	}
	known.Store(t, fields)
	return fields
}

// shared reports whether facts of fields tagged so could have one name, as the
// tag "a.b" and the field b of a struct tagged "a" have.
func shared(a, b string) bool {
	return a == b || strings.HasPrefix(a, b+".") || strings.HasPrefix(b, a+".")
}

func (b *Builder) value(name, label string, v reflect.Value) {
	t := v.Type()
	switch {
	case t == digestType:
		var d Digest
		reflect.Copy(reflect.ValueOf(d[:]), v)
		b.Digest(name, label, d)
		return
	case t == durationType:
		if !strings.HasSuffix(name, "_ns") {
			panic(fmt.Sprintf("key: fact %s is a duration, so its name must end in _ns", name))
		}
	case v.Kind() == reflect.Interface:
		if v.IsNil() {
			b.Absent(name, label)
			return
		}
		b.value(name, label, v.Elem())
		return
	case t.Kind() != reflect.Pointer && t.NumMethod() > 0 && t.Implements(factorType):
		typ, text := v.Interface().(Factor).KeyFact()
		b.Add(Fact{name, label, typ, text})
		return
	case t.Kind() != reflect.Pointer && (t.PkgPath() != "" || t.Kind() == reflect.Struct) && reflect.PointerTo(t).Implements(factorType):
		panic(fmt.Sprintf("key: fact %s: KeyFact of %s has a pointer receiver and would be passed over", name, t))
	}
	b.kind(name, label, v)
}

func (b *Builder) kind(name, label string, v reflect.Value) {
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
		b.pointer(name, label, v)
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			panic(fmt.Sprintf("key: fact %s is bytes; key their Digest", name))
		}
		if v.Len() == 0 {
			b.Absent(name, label)
		}
		for i := range v.Len() {
			b.value(name, join(label, fmt.Sprintf("%03d", i)), v.Index(i))
		}
	case reflect.Map:
		if v.Type().Key().Kind() != reflect.String {
			panic(fmt.Sprintf("key: fact %s is a %s; only string keys have one order", name, v.Type()))
		}
		if v.Len() == 0 {
			b.Absent(name, label)
		}
		// The order of a map's iteration does not matter: Finish sorts.
		for it := v.MapRange(); it.Next(); {
			b.value(name, join(label, it.Key().String()), it.Value())
		}
	case reflect.Struct:
		b.fields(name+".", label, v)
	default:
		panic(fmt.Sprintf("key: fact %s has type %s, which has no canonical form", name, v.Type()))
	}
}

// pointer refuses a pointer to what can be absent by itself: "no list" and "an
// empty list" would be one fact.
func (b *Builder) pointer(name, label string, v reflect.Value) {
	switch v.Type().Elem().Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Map, reflect.Interface:
		panic(fmt.Sprintf("key: fact %s has type %s: nil and empty could not be told apart", name, v.Type()))
	}
	if v.IsNil() {
		b.Absent(name, label)
		return
	}
	b.value(name, label, v.Elem())
}

// join keeps labels unambiguous: a part that is empty or holds the separator
// or a quote is quoted.
func join(outer, part string) string {
	if part == "" || strings.ContainsAny(part, `/"`) {
		part = strconv.Quote(part)
	}
	if outer == "" {
		return part
	}
	return outer + "/" + part
}
