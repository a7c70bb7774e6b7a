package prepare

import (
	"slices"
	"time"

	"github.com/sotabuild/sotabuild/engine/cache"
	"github.com/sotabuild/sotabuild/engine/compile"
	"github.com/sotabuild/sotabuild/engine/graph"
	"github.com/sotabuild/sotabuild/engine/key"
	"github.com/sotabuild/sotabuild/engine/plan"
	"github.com/sotabuild/sotabuild/lang"
	"github.com/sotabuild/sotabuild/stdlib/campaign"
	"github.com/sotabuild/sotabuild/stdlib/probe"
)

// questions are the nodes whose answers decide what else there is. They have no
// inputs, so they can be looked up before the campaign is compiled. A CPU
// campaign has no host to look at, a flow check no client to calibrate.
func questions(c *lang.Campaign, f campaign.Facts) []compile.Decl {
	decls := slices.Concat(campaign.HostProbe(c, f), campaign.ClientCalibration(c, f))
	for _, fw := range campaign.Compared(c) {
		decls = append(decls, campaign.Asks(c, f, fw)...)
	}
	return decls
}

// output is the answer of a kind whose nodes are asked first; "" of the others.
func output(k *compile.Kind) string {
	switch k {
	case campaign.HelpKind:
		return "text"
	case campaign.HostKind:
		return "report"
	case campaign.ClientKind:
		return "calibration"
	}
	return ""
}

// answers are what the store knows, by address.
type answers map[string]answer

type answer struct {
	digest key.Digest
	bytes  []byte
}

// digest names them.
func (known answers) digest() key.Digest {
	var b key.Builder
	for addr, a := range known {
		b.Digest("answer", addr, a.digest)
	}
	return key.Digest(b.Finish().Key())
}

// answersOf looks up what is asked first, in any graph that has those nodes.
func answersOf(g *compile.Graph, r cache.Reader, now time.Time) answers {
	found := answers{}
	for i := range g.Actions {
		a := &g.Actions[i]
		name := output(a.Kind)
		if name == "" {
			continue
		}
		m, ok := g.Manifest(a.ID, func(graph.NodeID, string) (key.Digest, bool) { return key.Digest{}, false })
		if !ok {
			continue // it has inputs, so it cannot be asked first
		}
		rec, _ := plan.Hit(a, r.Lookup(m.Key()), now)
		if rec == nil || rec.Outcome.State != cache.OK {
			continue
		}
		b, err := r.Bytes(rec.Output(name))
		if err != nil {
			continue // as good as never asked: it is asked again
		}
		if _, err := seen(a.Addr, b, nil); err == nil {
			found[a.Addr] = answer{rec.Output(name), b}
		}
	}
	return found
}

// unasked are the addresses without an answer: helps first, then the host and
// the client.
func unasked(g *compile.Graph, known answers) []string {
	var helps, others []string
	for i := range g.Actions {
		a := &g.Actions[i]
		if _, ok := known[a.Addr]; ok || output(a.Kind) == "" {
			continue
		}
		if a.Kind == campaign.HelpKind {
			helps = append(helps, a.Addr)
		} else {
			others = append(others, a.Addr)
		}
	}
	return append(helps, others...)
}

// seen are the facts that the answer of a probe holds; none of a help.
func seen(addr string, b []byte, cards []string) ([]cache.Observed, error) {
	switch addr {
	case campaign.HostAddr:
		report, err := probe.ReadReport(b)
		return campaign.Observed(report, cards), err
	case campaign.ClientAddr:
		return campaign.Calibrated(b)
	}
	return nil, nil
}
