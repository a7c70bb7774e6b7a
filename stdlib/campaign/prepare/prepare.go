// Package prepare turns a loaded campaign into a compiled graph on this host: it
// reads the host's facts (Reader), finds the help texts that the store already
// has, checks the base flags against them and compiles. It starts nothing but
// nvidia-smi and changes nothing.
package prepare

import (
	"fmt"
	"slices"
	"time"

	"github.com/sotabuild/sotabuild/engine/cache"
	"github.com/sotabuild/sotabuild/engine/compile"
	"github.com/sotabuild/sotabuild/engine/graph"
	"github.com/sotabuild/sotabuild/engine/key"
	"github.com/sotabuild/sotabuild/lang"
	"github.com/sotabuild/sotabuild/stdlib/campaign"
	"github.com/sotabuild/sotabuild/stdlib/probe"
)

// Prepared is a campaign ready to be planned.
type Prepared struct {
	Campaign *lang.Campaign
	Facts    campaign.Facts
	Declared campaign.Declared
	Graph    *compile.Graph
	// Unasked are the addresses of nodes whose answer is not known yet, helps
	// and the probe of the host: apply runs them first and prepares again
	// (DESIGN 11.2).
	Unasked []string
}

// From looks up the known help texts, checks the base flags against them and
// compiles. With an error among the diagnostics the result is nil.
func From(c *lang.Campaign, f campaign.Facts, r cache.Reader, now time.Time) (*Prepared, lang.Diagnostics) {
	p, diags := from(c, f, r, now)
	return p, lang.Quote(c.Files, diags)
}

func from(c *lang.Campaign, f campaign.Facts, r cache.Reader, now time.Time) (*Prepared, lang.Diagnostics) {
	p := &Prepared{Campaign: c}
	f.Helps, p.Unasked = knownHelps(c, f, r)
	p.Facts = f
	env := f.Env
	if seen, ok := knownHost(c, f, r, now); ok {
		env.Recorded = slices.Concat(env.Recorded, seen)
	} else {
		p.Unasked = append(p.Unasked, campaign.HostAddr)
	}
	if seen, ok := knownClient(c, f, r, now); ok {
		env.Recorded = slices.Concat(env.Recorded, seen)
	} else {
		p.Unasked = append(p.Unasked, campaign.ClientAddr)
	}
	diags := append(campaign.CheckBase(c, f), campaign.CheckAccept(c)...)
	if diags.HasErrors() {
		return nil, diags
	}
	p.Declared = campaign.Declare(c, f)
	for _, w := range p.Declared.Warnings {
		diags = append(diags, lang.Diagnostic{Severity: lang.Warning, Code: "candidate_skipped", Summary: "Candidate is skipped", Detail: w})
	}
	g, problems := compile.Build(p.Declared.Decls, env)
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

// knownHost finds what the accepted probe of this host saw; false when it has to
// be looked at first. A CPU campaign has nothing to look at.
func knownHost(c *lang.Campaign, f campaign.Facts, r cache.Reader, now time.Time) ([]cache.Observed, bool) {
	decls := campaign.HostProbe(c, f)
	if len(decls) == 0 {
		return nil, true
	}
	b, ok := alone(decls, "report", f, r, now)
	if !ok {
		return nil, false
	}
	report, err := probe.ReadReport(b)
	return campaign.Observed(report, f.Cards), err == nil
}

// knownClient finds the accepted calibration of this machine's client; false
// when it has to be calibrated first. A flow check needs none.
func knownClient(c *lang.Campaign, f campaign.Facts, r cache.Reader, now time.Time) ([]cache.Observed, bool) {
	decls := campaign.ClientCalibration(c, f)
	if len(decls) == 0 {
		return nil, true
	}
	b, ok := alone(decls, "calibration", f, r, now)
	if !ok {
		return nil, false
	}
	seen, err := campaign.Calibrated(b)
	return seen, err == nil
}

// alone reads the accepted output of a node that has no inputs.
func alone(decls []compile.Decl, output string, f campaign.Facts, r cache.Reader, now time.Time) ([]byte, bool) {
	g, problems := compile.Build(decls, f.Env)
	if len(problems) > 0 {
		panic("prepare: " + decls[0].Addr + " does not compile: " + problems[0].Text)
	}
	m, ok := g.Manifest(0, func(graph.NodeID, string) (key.Digest, bool) { return key.Digest{}, false })
	if !ok {
		return nil, false
	}
	rec := decls[0].Kind.Accept(decls[0].Spec, r.Lookup(m.Key()), now).Result
	if rec == nil {
		return nil, false
	}
	b, err := r.Bytes(rec.Output(output))
	return b, err == nil
}
