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
	"github.com/sotabuild/sotabuild/lang"
	"github.com/sotabuild/sotabuild/stdlib/campaign"
)

// Outline is what a plan needs of a campaign: what its compiled form keeps.
type Outline struct {
	Name   string
	Run    Run
	Graph  *compile.Graph
	Rounds []string // blocks of the campaign that ask for rounds, such as noise
	// Unasked are the addresses of nodes whose answer is not known yet, helps
	// and the probe of the host: apply runs them first and prepares again
	// (DESIGN 11.2).
	Unasked []string
	answers answers
}

// Run says which run directory a campaign has.
type Run struct {
	Artifacts string `json:"artifacts"` // the folder of run directories
	Campaign  string `json:"campaign"`
	Model     string `json:"model"`
}

// RunOf is the campaign's.
func RunOf(c *lang.Campaign) Run { return Run{c.Artifacts, c.Name, c.Model.ID} }

// Prepared is a campaign ready to be applied.
type Prepared struct {
	Outline
	Campaign *lang.Campaign
	Facts    campaign.Facts
	Declared campaign.Declared
}

// From looks up the known help texts, checks the base flags against them and
// compiles. With an error among the diagnostics the result is nil.
func From(c *lang.Campaign, f campaign.Facts, r cache.Reader, now time.Time) (*Prepared, lang.Diagnostics) {
	p, diags := from(c, f, r, now)
	return p, lang.Quote(c.Files, diags)
}

func from(c *lang.Campaign, f campaign.Facts, r cache.Reader, now time.Time) (*Prepared, lang.Diagnostics) {
	o := Outline{Name: c.Name, Run: RunOf(c), Rounds: rounds(c)}
	asked, problems := compile.Build(questions(c, f), f.Env)
	if len(problems) > 0 {
		panic("prepare: what is asked first does not compile: " + problems[0].String())
	}
	o.answers = answersOf(asked, r, now)
	o.Unasked = unasked(asked, o.answers)
	p := whole(o, c, f)
	diags := slices.Concat(campaign.CheckBase(c, p.Facts), campaign.CheckAccept(c), checkBinds(c))
	if diags.HasErrors() {
		return nil, diags
	}
	p.Declared = campaign.Declare(c, p.Facts)
	diags = append(diags, p.Declared.Warnings...)
	g, problems := compile.Build(p.Declared.Decls, p.environment())
	for _, pr := range problems {
		diags = append(diags, lang.Diagnostic{Severity: lang.Error, Code: "graph", Summary: "Campaign cannot be compiled", Detail: fmt.Sprintf("%s: %s", pr.Addr, pr.Text)})
	}
	if diags.HasErrors() {
		return nil, diags
	}
	p.Graph = g
	return p, diags
}

// Whole adds to an outline what its loops need of the campaign that it is the
// outline of. Its graph stays the outline's, which cannot run.
func Whole(o Outline, c *lang.Campaign, f campaign.Facts) *Prepared {
	p := whole(o, c, f)
	p.Declared = campaign.Declare(c, p.Facts)
	p.Graph.Env = p.environment()
	return p
}

// whole joins facts and answers.
func whole(o Outline, c *lang.Campaign, f campaign.Facts) *Prepared {
	f.Helps = map[string]string{}
	for _, fw := range campaign.Compared(c) {
		if a, ok := o.answers[campaign.HelpAddr(fw, "server")]; ok {
			f.Helps[fw.Label] = string(a.bytes)
		}
	}
	return &Prepared{Outline: o, Campaign: c, Facts: f}
}

// environment is that of the facts, with what the accepted probe of the host and
// the accepted calibration of the client saw.
func (p *Prepared) environment() compile.Env {
	env := p.Facts.Env
	for _, addr := range []string{campaign.HostAddr, campaign.ClientAddr} {
		if a, ok := p.answers[addr]; ok {
			seen, _ := seen(addr, a.bytes, p.Facts.Cards) // what cannot be read is no answer
			env.Recorded = slices.Concat(env.Recorded, seen)
		}
	}
	return env
}

// rounds are the campaign's blocks that ask for rounds.
func rounds(c *lang.Campaign) (blocks []string) {
	if c.Judge.Noise.Written {
		blocks = append(blocks, "noise")
	}
	if c.Judge.Rate != nil {
		blocks = append(blocks, "rate_search")
	}
	return blocks
}
