package cookbook

import (
	"math"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/sotabuild/sotabuild/internal/lazyregexp"
)

// table is a mapping of the file by key. The zero table has nothing; ok says
// whether there is one.
type table struct {
	r     *reader
	what  string
	at    *yaml.Node
	order []string
	nodes map[string]*yaml.Node
	keys  map[string]*yaml.Node // the places of the keys
	ok    bool
}

// mapping reads a mapping whose keys are known; words say what to write for
// others.
func (r *reader) mapping(n, place *yaml.Node, what string, keys, required []string, words map[string]string) table {
	t := r.open(n, place, what)
	for _, key := range t.order {
		if slices.Contains(keys, key) {
			continue
		}
		hint := words[key]
		if hint == "" {
			hint = "Its keys are " + known(keys) + "."
		}
		r.bad(t.keys[key], unknown, "%s has no key %q. %s", what, key, hint)
	}
	for _, key := range required {
		if t.ok && t.nodes[key] == nil {
			r.bad(t.at, missing, "%s lacks %s.", what, key)
		}
	}
	return t
}

// open reads a mapping with any keys. place is where what it lacks is told.
func (r *reader) open(n, place *yaml.Node, what string) table {
	t := table{r: r, what: what, at: place, nodes: map[string]*yaml.Node{}, keys: map[string]*yaml.Node{}}
	if n == nil {
		return t
	}
	if n.Kind != yaml.MappingNode {
		r.bad(n, value, "%s must be a mapping.", what)
		return t
	}
	t.ok = true
	for i := 0; i+1 < len(n.Content); i += 2 {
		k, v := n.Content[i], n.Content[i+1]
		switch {
		case k.Kind != yaml.ScalarNode || v.Kind == yaml.AliasNode:
			r.bad(k, value, "%s has a key or value that is no plain one. Write it out, without anchors.", what)
		case t.nodes[k.Value] != nil:
			r.bad(k, value, "%q stands twice in %s. Keep one of them.", k.Value, what)
		default:
			t.order = append(t.order, k.Value)
			t.nodes[k.Value], t.keys[k.Value] = v, k
		}
	}
	return t
}

func (t table) node(key string) *yaml.Node { return t.nodes[key] }

// need is a value that must be there.
func (t table) need(key, why string) *yaml.Node {
	v := t.node(key)
	if v == nil && t.ok {
		t.r.bad(t.at, missing, "%s lacks %s. %s", t.what, key, why)
	}
	return v
}

func (t table) mapping(key string, keys, required []string, words map[string]string) table {
	if t.node(key) == nil && t.ok && slices.Contains(topKeys, key) {
		t.r.bad(t.at, missing, "%s lacks %s.", t.what, key)
	}
	return t.r.mapping(t.node(key), t.keys[key], key, keys, required, words)
}

// table is a mapping with any keys.
func (t table) table(key string) table { return t.r.open(t.node(key), t.keys[key], key) }

func (t table) text(key string) string {
	v := t.node(key)
	if v == nil || v.Tag == "!!null" {
		return ""
	}
	return t.r.text(v, key)
}

func (t table) count(key string) int {
	v := t.node(key)
	if v == nil {
		return 0
	}
	return t.r.count(v, key)
}

func (t table) yes(key string) bool {
	v := t.node(key)
	if v == nil {
		return false
	}
	var b bool
	if v.Tag != "!!bool" || v.Decode(&b) != nil {
		t.r.bad(v, value, "%s is true or false, and this is %q.", key, v.Value)
	}
	return b
}

func (t table) list(key string) []*yaml.Node {
	v := t.node(key)
	switch {
	case v == nil:
		return nil
	case v.Kind != yaml.SequenceNode || len(v.Content) == 0:
		if len(t.r.diags) == 0 || !t.r.told(v) {
			t.r.bad(v, value, "%s is a list with at least one value.", key)
		}
		return nil
	}
	return v.Content
}

// told reports whether a problem with a node is told already.
func (r *reader) told(n *yaml.Node) bool {
	for _, d := range r.diags {
		if d.Range.Line == n.Line && d.Range.Col == n.Column {
			return true
		}
	}
	return false
}

func (r *reader) text(n *yaml.Node, key string) string {
	if n.Kind != yaml.ScalarNode || n.Tag != "!!str" || strings.TrimSpace(n.Value) == "" || strings.ContainsAny(n.Value, "\n\r\x00") {
		r.bad(n, value, "%s must be a text on one line that is not empty.", key)
		return ""
	}
	return n.Value
}

func (r *reader) count(n *yaml.Node, key string) int {
	var i int64
	if n.Tag != "!!int" || n.Decode(&i) != nil || i < 1 || i > 1<<40 {
		if !r.told(n) {
			r.bad(n, value, "%s must be a whole number of at least 1, and this is %q.", key, n.Value)
		}
		return 0
	}
	return int(i)
}

func (r *reader) number(n *yaml.Node, key string) string {
	if n.Tag != "!!int" && n.Tag != "!!float" {
		r.bad(n, value, "%s must be a number, and this is %q.", key, n.Value)
		return "0"
	}
	return r.scalar(n, key)
}

var flag = lazyregexp.New(`^[A-Za-z][A-Za-z0-9_.]*$`) // of at most 128 bytes

// scalar is a plain value as HCL.
func (r *reader) scalar(n *yaml.Node, key string) string {
	if len(key) > 128 || !flag.MatchString(key) {
		r.bad(n, value, "%q is no name of a flag. Flags have underscores and no leading dashes.", key)
		return "null"
	}
	var (
		b   bool
		i   int64
		f   float64
		err error
	)
	switch {
	case n.Kind != yaml.ScalarNode:
		r.bad(n, value, "%s takes one plain value. A flag that takes JSON or a list is written as one text.", key)
	case n.Tag == "!!null":
	case n.Tag == "!!bool":
		if err = n.Decode(&b); err == nil {
			return strconv.FormatBool(b)
		}
	case n.Tag == "!!int":
		if err = n.Decode(&i); err == nil {
			return strconv.FormatInt(i, 10)
		}
	case n.Tag == "!!float":
		if err = n.Decode(&f); err == nil && !math.IsNaN(f) && !math.IsInf(f, 0) {
			return strconv.FormatFloat(f, 'f', -1, 64)
		}
		r.bad(n, value, "%s is %s, which no server takes.", key, n.Value)
	case strings.ContainsAny(n.Value, "\n\r\x00"):
		r.bad(n, value, "%s has a line end, which no command line can show.", key)
	default:
		return quote(n.Value)
	}
	if err != nil {
		r.bad(n, value, "%s: %q cannot be read: %v.", key, n.Value, err)
	}
	return "null"
}

// quote writes a text as HCL does.
func quote(s string) string {
	s = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\t", `\t`, "${", "$${", "%{", "%%{").Replace(s)
	return `"` + s + `"`
}
