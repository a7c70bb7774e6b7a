package graph

import (
	"encoding/json"
	"fmt"
	"strings"
)

// Picture is a graph for people and for other tools: what is drawn and in
// which order. The zero Picture is empty and can be drawn.
type Picture struct {
	Nodes []Shape `json:"nodes"`
	Edges []Arrow `json:"edges"`
}

// Shape is one node of a picture. Class, such as a verdict's word, may be "".
type Shape struct {
	ID    string `json:"id"`
	Label string `json:"label"`
	Class string `json:"class,omitempty"`
}

// Arrow is one edge of a picture, between ids of its nodes. A dashed one is an
// order, not a use.
type Arrow struct {
	From   string `json:"from"`
	To     string `json:"to"`
	Dashed bool   `json:"dashed,omitempty"`
}

// Only is the part of the picture between the named nodes.
func (p Picture) Only(names map[string]bool) Picture {
	var out Picture
	for _, n := range p.Nodes {
		if names[n.ID] {
			out.Nodes = append(out.Nodes, n)
		}
	}
	for _, e := range p.Edges {
		if names[e.From] && names[e.To] {
			out.Edges = append(out.Edges, e)
		}
	}
	return out
}

// Dot is the picture in Graphviz's language.
func (p Picture) Dot() string {
	var b strings.Builder
	b.WriteString("digraph {\n  rankdir=LR\n  node [shape=box]\n")
	for _, n := range p.Nodes {
		fmt.Fprintf(&b, "  %s [label=%s", dotQuote(n.ID), dotQuote(n.Label))
		if n.Class != "" {
			fmt.Fprintf(&b, " class=%s", dotQuote(n.Class))
		}
		b.WriteString("]\n")
	}
	for _, e := range p.Edges {
		fmt.Fprintf(&b, "  %s -> %s", dotQuote(e.From), dotQuote(e.To))
		if e.Dashed {
			b.WriteString(" [style=dashed]")
		}
		b.WriteString("\n")
	}
	b.WriteString("}\n")
	return b.String()
}

// dotEscape is what a quoted dot string needs. Graphviz reads other backslash
// pairs as layout, so a backslash is always doubled.
var dotEscape = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`)

func dotQuote(s string) string { return `"` + dotEscape.Replace(s) + `"` }

// mermaidEscape writes what Mermaid would read as syntax as its entity codes.
var mermaidEscape = strings.NewReplacer("#", "#35;", `"`, "#quot;", "<", "#lt;", ">", "#gt;", "\n", " ")

// Mermaid is the picture in Mermaid's language, which Markdown viewers draw.
// Ids are numbered: Mermaid reads some words and most signs in an id as syntax.
func (p Picture) Mermaid() string {
	var b strings.Builder
	b.WriteString("flowchart LR\n")
	ids := make(map[string]int, len(p.Nodes))
	for i, n := range p.Nodes {
		ids[n.ID] = i
		fmt.Fprintf(&b, "  n%d[\"%s\"]", i, mermaidEscape.Replace(n.Label))
		if n.Class != "" {
			b.WriteString(":::" + n.Class)
		}
		b.WriteString("\n")
	}
	for _, e := range p.Edges {
		arrow := "-->"
		if e.Dashed {
			arrow = "-.->"
		}
		fmt.Fprintf(&b, "  n%d %s n%d\n", ids[e.From], arrow, ids[e.To])
	}
	return b.String()
}

// JSON is the picture as indented JSON, one line break at the end.
func (p Picture) JSON() ([]byte, error) {
	p.Nodes, p.Edges = append([]Shape{}, p.Nodes...), append([]Arrow{}, p.Edges...) // Empty, not null.
	b, err := json.MarshalIndent(p, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("writing picture: %w", err)
	}
	return append(b, '\n'), nil
}
