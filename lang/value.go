package lang

import (
	"strconv"

	"math"
)

// Kind is the type of a Value.
type Kind byte

// The kinds.
const (
	Null Kind = iota // the flag is left out
	String
	Int
	Float
	Bool
)

// Value is a flag's value: a small sealed union that can leave this room. The
// zero Value is null.
type Value struct {
	Kind Kind
	Str  string
	Int  int64
	Num  float64
	Bool bool
}

// Text is the value as a server's command line takes it: integers without a
// point, floats as the shortest decimal, booleans as true and false.
func (v Value) Text() string {
	switch v.Kind {
	case String:
		return v.Str
	case Int:
		return strconv.FormatInt(v.Int, 10)
	case Float:
		return strconv.FormatFloat(v.Num, 'f', -1, 64)
	case Bool:
		return strconv.FormatBool(v.Bool)
	}
	return ""
}

// Any is the value as encoding/json writes it.
func (v Value) Any() any {
	switch v.Kind {
	case String:
		return v.Str
	case Int:
		return v.Int
	case Float:
		return v.Num
	case Bool:
		return v.Bool
	}
	return nil
}

// Equal reports whether two values are the same value of the same kind. An
// integer and a float of the same number are equal: 1 and 1.0 are one value.
func (v Value) Equal(w Value) bool { return v.canonical() == w.canonical() }

func (v Value) canonical() Value {
	if v.Kind == Float && v.Num == math.Trunc(v.Num) && math.Abs(v.Num) < 1<<53 {
		return Value{Kind: Int, Int: int64(v.Num)}
	}
	return v
}
