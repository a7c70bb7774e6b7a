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
	"github.com/sotabuild/sotabuild/engine/plan"
)

// Difference is what differs from one record to another.
type Difference struct {
	A, B *cache.Record
	// Facts are the differing lines of the manifests, in canonical order; none
	// when both are samples of one key.
	Facts   []key.Change
	Outputs []Change
	Seen    []Change // observed facts, recorded and never keyed
	Origin  []Change // host, tool, task, attempt
}

// Change is one value that differs; nil is none.
type Change struct {
	Name string  `json:"name"`
	Old  *string `json:"old"`
	New  *string `json:"new"`
}

// String is the phrase "name: old → new".
func (c Change) String() string { return c.Name + ": " + orNone(c.Old) + " → " + orNone(c.New) }

func orNone(v *string) string {
	if v == nil {
		return "(none)"
	}
	return *v
}

// Document is a difference for machines, with the version of plan.Document.
type Document struct {
	V        int                   `json:"v"`
	A        *cache.Record         `json:"a"`
	B        *cache.Record         `json:"b"`
	Facts    []plan.DocumentChange `json:"facts,omitempty"`
	Outputs  []Change              `json:"outputs,omitempty"`
	Observed []Change              `json:"observed,omitempty"`
	Origin   []Change              `json:"origin,omitempty"`
}

// Document is the difference's form for machines.
func (d Difference) Document() Document {
	return Document{plan.DocumentVersion, d.A, d.B, plan.DocumentChanges(d.Facts), d.Outputs, d.Seen, d.Origin}
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
func pairs(a, b []named) []Change {
	var out []Change
	at := func(list []named, name string) *string {
		i := slices.IndexFunc(list, func(n named) bool { return n.name == name })
		if i < 0 {
			return nil
		}
		return &list[i].value
	}
	for _, n := range a {
		if v := at(b, n.name); v == nil || *v != n.value {
			out = append(out, Change{n.name, &n.value, v})
		}
	}
	for _, n := range b {
		if at(a, n.name) == nil {
			out = append(out, Change{n.name, nil, &n.value})
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
	switch {
	case d.A.Serial == d.B.Serial:
		b.WriteString("both are the same record\n")
	case len(d.Facts) == 0:
		b.WriteString("facts: the same; both are samples of one key\n")
	}
	section(&b, "facts", d.Facts)
	section(&b, "outputs", d.Outputs)
	section(&b, "observed", d.Seen)
	section(&b, "origin", d.Origin)
	return b.String()
}

func section[C fmt.Stringer](b *strings.Builder, name string, changes []C) {
	for i, c := range changes {
		if i == 0 {
			b.WriteString(name + "\n")
		}
		b.WriteString("  " + c.String() + "\n")
	}
}
