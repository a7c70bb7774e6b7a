// Package prepare turns a loaded campaign into a compiled graph on this host: it
// reads the host's facts (Reader), finds the help texts that the store already
// has, checks the base flags against them and compiles. It starts nothing but
// nvidia-smi and changes nothing.
package prepare

import (
	"fmt"

	"github.com/sotabuild/sotabuild/engine/cache"
	"github.com/sotabuild/sotabuild/engine/compile"
	"github.com/sotabuild/sotabuild/engine/graph"
	"github.com/sotabuild/sotabuild/engine/key"
	"github.com/sotabuild/sotabuild/lang"
	"github.com/sotabuild/sotabuild/stdlib/campaign"
)

// Prepared is a campaign ready to be planned.
type Prepared struct {
	Campaign *lang.Campaign
	Facts    campaign.Facts
	Declared campaign.Declared
	Graph    *compile.Graph
	// Unasked are the addresses of help nodes whose text is not known yet:
	// apply runs them first and prepares again (DESIGN 11.2).
	Unasked []string
}

// From looks up the known help texts, checks the base flags against them and
// compiles. With an error among the diagnostics the result is nil.
func From(c *lang.Campaign, f campaign.Facts, r cache.Reader) (*Prepared, lang.Diagnostics) {
	p, diags := from(c, f, r)
	return p, lang.Quote(c.Files, diags)
}

func from(c *lang.Campaign, f campaign.Facts, r cache.Reader) (*Prepared, lang.Diagnostics) {
	p := &Prepared{Campaign: c}
	f.Helps, p.Unasked = knownHelps(c, f, r)
	p.Facts = f
	diags := campaign.CheckBase(c, f)
	if diags.HasErrors() {
		return nil, diags
	}
	p.Declared = campaign.Declare(c, f)
	for _, w := range p.Declared.Warnings {
		diags = append(diags, lang.Diagnostic{Severity: lang.Warning, Code: "candidate_skipped", Summary: "Candidate is skipped", Detail: w})
	}
	g, problems := compile.Build(p.Declared.Decls, f.Env)
	for _, pr := range problems {
		diags = append(diags, lang.Diagnostic{Severity: lang.Error, Code: "graph", Summary: "Campaign cannot be compiled", Detail: fmt.Sprintf("%s: %s", pr.Addr, pr.Text)})
	}
	if diags.HasErrors() {
		return nil, diags
	}
	p.Graph = g
	return p, diags
}

// knownHelps finds the help snapshots that the store has for exactly this
// software and this question, by key.
func knownHelps(c *lang.Campaign, f campaign.Facts, r cache.Reader) (texts map[string]string, unasked []string) {
	texts = map[string]string{}
	for _, fw := range campaign.Compared(c) {
		g, problems := compile.Build(campaign.Asks(c, f, fw), f.Env)
		if len(problems) > 0 {
			panic("prepare: help nodes do not compile: " + problems[0].Text)
		}
		for i := range g.Actions {
			a := &g.Actions[i]
			if a.Kind != campaign.HelpKind {
				continue
			}
			text, ok := stored(g, a.ID, r)
			if !ok {
				unasked = append(unasked, a.Addr)
			} else if a.Addr == campaign.HelpAddr(fw, "server") {
				texts[fw.Label] = text
			}
		}
	}
	return texts, unasked
}

func stored(g *compile.Graph, id graph.NodeID, r cache.Reader) (string, bool) {
	m, ok := g.Manifest(id, func(graph.NodeID, string) (key.Digest, bool) { return key.Digest{}, false })
	if !ok {
		return "", false
	}
	for _, rec := range r.Lookup(m.Key()) {
		if rec.Outcome.State != cache.OK {
			continue
		}
		if b, err := r.Bytes(rec.Output("text")); err == nil {
			return string(b), true
		}
	}
	return "", false
}
