package imports

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
)

// object is a JSON object as it stands in a file. Looking up what is not there
// gives nil or an empty object: forms differ by version.
type object map[string]json.RawMessage

// parse reads one JSON value, an array of them or JSON lines. Python writes
// NaN and Infinity as bare words, which JSON forbids; they are read as null and
// as a text.
func parse(b []byte) ([]object, error) {
	d := json.NewDecoder(bytes.NewReader(quoteWords(b)))
	var out []object
	for {
		var raw json.RawMessage
		err := d.Decode(&raw)
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		if err != nil {
			return nil, err
		}
		var list []object
		if json.Unmarshal(raw, &list) == nil {
			out = append(out, list...)
			continue
		}
		var o object
		if err := json.Unmarshal(raw, &o); err != nil {
			return nil, fmt.Errorf("value %d is neither an object nor a list of objects", len(out)+1)
		}
		out = append(out, o)
	}
}

// quoteWords replaces NaN by null and puts quotes around Infinity, outside of
// texts.
func quoteWords(b []byte) []byte {
	out := make([]byte, 0, len(b))
	inside := false
	for i := 0; i < len(b); i++ {
		switch c := b[i]; {
		case inside && c == '\\' && i+1 < len(b):
			out = append(out, c, b[i+1])
			i++
			continue
		case c == '"':
			inside = !inside
		case inside:
		case bytes.HasPrefix(b[i:], []byte("NaN")):
			out = append(out, "null"...)
			i += 2
			continue
		case bytes.HasPrefix(b[i:], []byte("-Infinity")):
			out = append(out, `"-Infinity"`...)
			i += len("-Infinity") - 1
			continue
		case bytes.HasPrefix(b[i:], []byte("Infinity")):
			out = append(out, `"Infinity"`...)
			i += len("Infinity") - 1
			continue
		}
		out = append(out, b[i])
	}
	return out
}

func (o object) has(key string) bool { _, ok := o[key]; return ok }

func (o object) object(key string) object {
	var out object
	if json.Unmarshal(o[key], &out) != nil {
		return nil
	}
	return out
}

func (o object) list(key string) (out []object) {
	if json.Unmarshal(o[key], &out) != nil {
		return nil
	}
	return out
}

// text is the text at key; "" if there is none.
func (o object) text(key string) (s string) {
	if json.Unmarshal(o[key], &s) != nil {
		return ""
	}
	return s
}

// number is the finite number at key; nil if there is none.
func (o object) number(key string) *float64 {
	var f *float64
	if json.Unmarshal(o[key], &f) != nil || f == nil || math.IsInf(*f, 0) {
		return nil
	}
	return f
}

// count is the whole number at key, from 0; nil if there is none.
func (o object) count(key string) *int64 {
	f := o.number(key)
	if f == nil || *f < 0 || *f > 1<<53 || *f != math.Trunc(*f) {
		return nil
	}
	n := int64(*f)
	return &n
}

func (o object) int(key string) *int {
	n := o.count(key)
	if n == nil || *n > math.MaxInt32 {
		return nil
	}
	i := int(*n)
	return &i
}

// must is a count that the form promises.
func (o object) must(key string) (int, error) {
	n := o.int(key)
	if n == nil {
		return 0, fmt.Errorf("%s is not a count", key)
	}
	return *n, nil
}

// statistic turns a tool's word for a statistic into ours: mean, std, p50,
// p99, p99.9. Not ok for what is none (a confidence bound, a mode).
func statistic(word string) (string, bool) {
	switch word {
	case "mean", "avg":
		return "mean", true
	case "median":
		return "p50", true
	case "std", "std_dev":
		return "std", true
	}
	p, ok := strings.CutPrefix(word, "p")
	if !ok {
		return "", false
	}
	v, err := strconv.ParseFloat(p, 64)
	if err != nil || !(v > 0 && v < 100) {
		return "", false
	}
	return "p" + strconv.FormatFloat(v, 'f', -1, 64), true
}
