// Package profile is a trace with everything that is known of each GPU event
// in one place: where it was launched, what its name means, and what its
// neighbours say about it. The analyses (layers, tables, differences) start
// here. A Profile is immutable.
package profile

import (
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/sotabuild/sotabuild/internal/lazyregexp"
	"github.com/sotabuild/sotabuild/stdlib/trace/kernel"
	"github.com/sotabuild/sotabuild/stdlib/trace/launch"
	"github.com/sotabuild/sotabuild/stdlib/trace/read"
)

// Profile is one trace, linked and classified. Slices go by Trace.GPU.
type Profile struct {
	Trace     *read.Trace
	Links     *launch.Links
	Classes   []kernel.Class // of each event, neighbours considered
	Framework string         // "vllm", "sglang", …; "unknown"
	Rank      int            // -1 when nothing says
	symbols   map[uint32]kernel.Symbol
}

// Build links and classifies t.
func Build(t *read.Trace) *Profile {
	p := &Profile{
		Trace:   t,
		Links:   launch.Build(t),
		Classes: make([]kernel.Class, len(t.GPU)),
		Rank:    rank(t),
		symbols: map[uint32]kernel.Symbol{},
	}
	for i, g := range t.GPU {
		s, ok := p.symbols[g.Name]
		if !ok {
			s = kernel.Parse(t.Name(g.Name))
			p.symbols[g.Name] = s
		}
		p.Classes[i] = s.Class
		if g.Kind != read.Kernel {
			p.Classes[i] = kernel.Class{Family: "memory", Group: kernel.Memory, Rule: "copy-engine"}
		}
	}
	p.routing()
	p.Framework = framework(p)
	return p
}

// Symbol is the parsed name of event i.
func (p *Profile) Symbol(i int32) kernel.Symbol { return p.symbols[p.Trace.GPU[i].Name] }

// Op is the name of the operator around the launch of event i, "" if unknown.
func (p *Profile) Op(i int32) string {
	if op := p.Links.Events[i].Op; op >= 0 {
		return p.Trace.Name(p.Trace.Ops[op].Name)
	}
	return ""
}

// Location is the Python line around the launch of event i. A replayed graph
// has no line of its own and says so; "" is unknown.
func (p *Profile) Location(i int32) string {
	e := p.Links.Events[i]
	if e.Graph {
		return "graph replay (" + p.Trace.Name(p.Trace.Calls[e.Call].Name) + ")"
	}
	if e.Site >= 0 {
		return p.Links.Sites[e.Site].Location
	}
	return ""
}

// routing gives sorts and counts that feed a grouped GEMM to the MoE family: a
// router written in plain operators has no telling kernel names. The evidence
// is order on the stream: between two attention kernels, before a grouped GEMM.
func (p *Profile) routing() {
	type lane struct{ device, stream int32 }
	waiting := map[lane][]int32{}
	for i := range p.Trace.GPU {
		g := p.Trace.GPU[i]
		k := lane{g.Device, g.Stream}
		switch c := p.Classes[i]; {
		case c.Family == kernel.Sort:
			waiting[k] = append(waiting[k], int32(i))
		case c.Anchor():
			waiting[k] = nil
		case c.Rule == "moe-grouped-gemm":
			for _, w := range waiting[k] {
				p.Classes[w] = kernel.Class{Family: kernel.MoE, Group: kernel.Compute, Rule: "sort before a grouped GEMM"}
			}
			waiting[k] = nil
		}
	}
}

// frameworks is how a framework shows in Python paths and step names, the most
// specific first: TensorRT-LLM's and SGLang's traces also hold vLLM paths.
var frameworks = []struct{ name, dir, step string }{
	{"tokenspeed", "tokenspeed/", ""},
	{"tensorrt-llm", "tensorrt_llm/", "[Executor]"},
	{"sglang", "sglang/", "step["},
	{"vllm", "vllm/", "execute_"},
	{"xdit", "xfuser/", ""},
}

func framework(p *Profile) string {
	for _, f := range frameworks {
		for _, s := range p.Links.Sites {
			if strings.HasPrefix(s.Location, f.dir) {
				return f.name
			}
		}
	}
	// With stacks, a framework would have shown; and a loop that only names its
	// steps like a server has no KV cache.
	if len(p.Links.Sites) > 0 || !slices.ContainsFunc(p.Classes, func(c kernel.Class) bool { return c.Rule == "kv-cache" }) {
		return "unknown"
	}
	for _, f := range frameworks {
		for _, s := range p.Links.Steps {
			if f.step != "" && strings.HasPrefix(s.Name, f.step) {
				return f.name
			}
		}
	}
	return "unknown"
}

var rankName = lazyregexp.New(`(?i)(?:^|[-_.])(?:rank|tp|worker)[-_]?([0-9]+)(?:[-_.]|$)`)

// rank trusts the file's own word, then its name ("rank0", "TP-0"): a name
// that has both, as dp0_pp0_tp0_rank0, says the rank last.
func rank(t *read.Trace) int {
	if t.Meta.Rank >= 0 {
		return t.Meta.Rank
	}
	return RankOf(t.Meta.Path)
}

// RankOf is the rank in a file name, or -1.
func RankOf(path string) int {
	base := filepath.Base(path)
	if i := strings.Index(base, "rank"); i > 0 && rankName.MatchString("."+base[i:]) {
		base = "." + base[i:]
	}
	m := rankName.FindStringSubmatch(base)
	if m == nil {
		return -1
	}
	n, err := strconv.Atoi(m[1])
	if err != nil {
		return -1
	}
	return n
}
