// Package compare says what differs between two records of a store: what was
// asked (their manifests), what came out, and under which circumstances. It
// knows records only; it reads no store and judges nothing.
package compare

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/sotabuild/sotabuild/engine/cache"
	"github.com/sotabuild/sotabuild/engine/key"
)

// Difference is what differs from one record to another.
type Difference struct {
	A, B *cache.Record
	// Facts are the differing lines of the manifests, in canonical order; none
	// when both are samples of one key.
	Facts []key.Change
	// Outputs, Seen and Origin are phrases "name: old → new".
	Outputs []string
	Seen    []string // observed facts, recorded and never keyed
	Origin  []string // host, tool, task, attempt
}

// Records compares two records. A manifest of another key scheme is an error:
// it cannot be read.
func Records(a, b *cache.Record) (Difference, error) {
	d := Difference{A: a, B: b}
	old, err := key.ParseManifest(a.Manifest)
	if err != nil {
		return d, fmt.Errorf("comparing record %d: %w", a.Serial, err)
	}
	now, err := key.ParseManifest(b.Manifest)
	if err != nil {
		return d, fmt.Errorf("comparing record %d: %w", b.Serial, err)
	}
	d.Facts = key.Diff(old, now)
	d.Outputs = pairs(outputs(a), outputs(b))
	d.Seen = pairs(seen(a), seen(b))
	d.Origin = pairs(origin(a), origin(b))
	return d, nil
}

// named is one named value.
type named struct{ name, value string }

func outputs(r *cache.Record) []named {
	var out []named
	for _, o := range r.Outputs {
		out = append(out, named{o.Name, fmt.Sprintf("sha256:%s (%d bytes)", o.Digest.Short(), o.Size)})
	}
	return out
}

func seen(r *cache.Record) []named {
	var out []named
	for _, o := range r.Observed {
		out = append(out, named{o.Name, o.Value})
	}
	return out
}

func origin(r *cache.Record) []named {
	return []named{{"host", r.Origin.Host}, {"tool", r.Origin.Tool}, {"task", r.Origin.Task}, {"attempt", fmt.Sprint(r.Origin.Attempt)}}
}

// pairs lists the names whose values differ, those of a in its order, then
// those only b has.
func pairs(a, b []named) []string {
	var out []string
	at := func(list []named, name string) (string, bool) {
		i := slices.IndexFunc(list, func(n named) bool { return n.name == name })
		if i < 0 {
			return "(none)", false
		}
		return list[i].value, true
	}
	for _, n := range a {
		if v, _ := at(b, n.name); v != n.value {
			out = append(out, n.name+": "+n.value+" → "+v)
		}
	}
	for _, n := range b {
		if _, ok := at(a, n.name); !ok {
			out = append(out, n.name+": (none) → "+n.value)
		}
	}
	return out
}

// Text is the difference for people.
func (d Difference) Text() string {
	var b strings.Builder
	for _, r := range []*cache.Record{d.A, d.B} {
		fmt.Fprintf(&b, "%d  %s  %s  %s  %s in %.1f s", r.Serial, r.Node, r.Time.Started.UTC().Format(time.RFC3339), r.Key.Short(), r.Outcome.State, r.Time.Seconds)
		if r.Outcome.State != cache.OK {
			b.WriteString("  " + r.Outcome.Text())
		}
		b.WriteByte('\n')
	}
	if len(d.Facts) == 0 {
		b.WriteString("facts: the same; both are samples of one key\n")
	}
	section := func(name string, lines []string) {
		if len(lines) > 0 {
			b.WriteString(name + "\n  " + strings.Join(lines, "\n  ") + "\n")
		}
	}
	var facts []string
	for _, c := range d.Facts {
		facts = append(facts, c.String())
	}
	section("facts", facts)
	section("outputs", d.Outputs)
	section("observed", d.Seen)
	section("origin", d.Origin)
	return b.String()
}
