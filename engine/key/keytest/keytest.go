// Package keytest checks what a spec's fields do to its key, for the tests of the
// rooms that have specs: whatever of a keyed field changes, the key changes, and
// whatever of another one changes, it does not. It knows no spec.
package keytest

import (
	"fmt"
	"reflect"
	"testing"

	"github.com/sotabuild/sotabuild/engine/key"
)

// EachField changes every value that can be reached in a spec, one at a time,
// and reports a key that did not follow, or did where it must not. Empty slices
// and maps get a member, nil pointers a value. factor gives, for a value that
// states its own facts (key.Factor), values that differ from it and from each
// other; nil if the spec has none. It returns how many changes were made.
func EachField(t testing.TB, spec any, factor func(any) []any) (changes int) {
	t.Helper()
	c := &checker{t: t, factor: factor}
	root := reflect.New(reflect.TypeOf(spec)).Elem()
	root.Set(reflect.ValueOf(spec))
	c.whole = root
	c.before = keyOf(root)
	c.value(root, root.Type().String(), true)
	if after := keyOf(root); after != c.before {
		panic("keytest: a change was not undone")
	}
	return c.changes
}

func keyOf(v reflect.Value) key.Key {
	var b key.Builder
	b.Struct(v.Interface())
	return b.Finish().Key()
}

type checker struct {
	t       testing.TB
	factor  func(any) []any
	whole   reflect.Value
	before  key.Key
	changes int
}

// try compares the key after a change with the one before all.
func (c *checker) try(what string, keyed bool) {
	c.t.Helper()
	c.changes++
	if changed := keyOf(c.whole) != c.before; changed != keyed {
		c.t.Errorf("%s: the key changed: %v, want %v", what, changed, keyed)
	}
}

// set tries a value in the place of another and puts the old one back.
func (c *checker) set(v, other reflect.Value, what string, keyed bool) {
	c.t.Helper()
	old := reflect.New(v.Type()).Elem()
	old.Set(v)
	v.Set(other)
	c.try(what, keyed)
	v.Set(old)
}

var (
	digest = reflect.TypeFor[key.Digest]()
	factor = reflect.TypeFor[key.Factor]()
)

func (c *checker) value(v reflect.Value, at string, keyed bool) {
	t := v.Type()
	switch {
	case t == digest:
		c.set(v, reflect.ValueOf(key.Sum([]byte(at))), at, keyed)
		return
	case t.Kind() != reflect.Pointer && t.Implements(factor):
		for _, other := range c.factor(v.Interface()) {
			c.set(v, reflect.ValueOf(other), fmt.Sprintf("%s → %v", at, other), keyed)
		}
		return
	}
	switch t.Kind() {
	case reflect.String:
		c.set(v, reflect.ValueOf(v.String()+"'").Convert(t), at, keyed)
	case reflect.Bool:
		c.set(v, reflect.ValueOf(!v.Bool()).Convert(t), at, keyed)
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		c.set(v, reflect.ValueOf(v.Int()+1).Convert(t), at, keyed)
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		c.set(v, reflect.ValueOf(v.Uint()+1).Convert(t), at, keyed)
	case reflect.Float32, reflect.Float64:
		c.set(v, reflect.ValueOf(v.Float()+1).Convert(t), at, keyed)
	case reflect.Struct:
		for i := range t.NumField() {
			if f := t.Field(i); f.IsExported() {
				c.value(v.Field(i), at+"."+f.Name, keyed && f.Tag.Get("key") != "-")
			}
		}
	case reflect.Pointer:
		c.pointer(v, at, keyed)
	case reflect.Slice:
		c.slice(v, at, keyed)
	case reflect.Map:
		c.table(v, at, keyed)
	}
}

func (c *checker) pointer(v reflect.Value, at string, keyed bool) {
	if v.IsNil() {
		c.set(v, reflect.New(v.Type().Elem()), at+" (nil → zero)", keyed)
		return
	}
	c.set(v, reflect.Zero(v.Type()), at+" → nil", keyed)
	old := v.Elem()
	fresh := reflect.New(v.Type().Elem()) // what it points to may be shared
	fresh.Elem().Set(old)
	was := reflect.New(v.Type()).Elem()
	was.Set(v)
	v.Set(fresh)
	c.value(v.Elem(), at, keyed)
	v.Set(was)
}

func (c *checker) slice(v reflect.Value, at string, keyed bool) {
	n := v.Len()
	longer := reflect.MakeSlice(v.Type(), n+1, n+1)
	reflect.Copy(longer, v)
	c.set(v, longer, at+" with one more", keyed)
	if n == 0 {
		return
	}
	c.set(v, v.Slice(0, n-1), at+" without the last", keyed)
	was := reflect.New(v.Type()).Elem()
	was.Set(v)
	own := reflect.MakeSlice(v.Type(), n, n)
	reflect.Copy(own, v)
	v.Set(own)
	for i := range n {
		c.value(v.Index(i), fmt.Sprintf("%s[%d]", at, i), keyed)
	}
	if n > 1 && !reflect.DeepEqual(v.Index(0).Interface(), v.Index(n-1).Interface()) {
		reflect.Swapper(own.Interface())(0, n-1)
		c.try(at+" in another order", keyed)
	}
	v.Set(was)
}

func (c *checker) table(v reflect.Value, at string, keyed bool) {
	if v.Type().Key().Kind() != reflect.String {
		return
	}
	copyOf := func(except string) reflect.Value {
		m := reflect.MakeMap(v.Type())
		for it := v.MapRange(); it.Next(); {
			if it.Key().String() != except {
				m.SetMapIndex(it.Key(), it.Value())
			}
		}
		return m
	}
	more := copyOf("\x00")
	more.SetMapIndex(reflect.ValueOf("another").Convert(v.Type().Key()), reflect.Zero(v.Type().Elem()))
	c.set(v, more, at+" with one more", keyed)
	for _, k := range v.MapKeys() {
		name := fmt.Sprintf("%s[%q]", at, k.String())
		c.set(v, copyOf(k.String()), at+" without "+k.String(), keyed)
		renamed := copyOf(k.String())
		renamed.SetMapIndex(reflect.ValueOf(k.String()+"'").Convert(v.Type().Key()), v.MapIndex(k))
		c.set(v, renamed, name+" renamed", keyed)
		was := reflect.New(v.Type()).Elem()
		was.Set(v)
		own := copyOf("\x00")
		v.Set(own)
		member := reflect.New(v.Type().Elem()).Elem()
		member.Set(own.MapIndex(k))
		for _, other := range others(c, member) {
			own.SetMapIndex(k, other)
			c.try(name, keyed)
		}
		v.Set(was)
	}
}

// others are values that differ from a map's member.
func others(c *checker, member reflect.Value) []reflect.Value {
	t := member.Type()
	switch {
	case t.Implements(factor):
		var out []reflect.Value
		for _, o := range c.factor(member.Interface()) {
			out = append(out, reflect.ValueOf(o))
		}
		return out
	case t.Kind() == reflect.String:
		return []reflect.Value{reflect.ValueOf(member.String() + "'").Convert(t)}
	}
	panic(fmt.Sprintf("keytest: a map of %s is not understood; teach it", t))
}
