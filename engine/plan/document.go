package plan

import (
	"strings"
	"time"

	"github.com/sotabuild/sotabuild/engine/cache"
	"github.com/sotabuild/sotabuild/engine/compile"
	"github.com/sotabuild/sotabuild/engine/graph"
	"github.com/sotabuild/sotabuild/engine/key"
)

// DocumentVersion is the version of Document's JSON form. Fields are only ever
// added; a changed meaning raises it.
const DocumentVersion = 1

// Document is a plan for machines: nothing is folded, and nodes are named by
// address.
type Document struct {
	V        int              `json:"v"`
	Serial   uint64           `json:"serial"`
	Counts   map[string]int   `json:"counts"` // every verdict's word, also at zero
	Roots    []DocumentRoot   `json:"roots"`
	Estimate DocumentEstimate `json:"estimate"`
	Nodes    []DocumentNode   `json:"nodes"` // in graph order
}

// DocumentRoot is a Root.
type DocumentRoot struct {
	Node       string `json:"node"`
	Downstream int    `json:"downstream"`
}

// DocumentEstimate is an Estimate.
type DocumentEstimate struct {
	Seconds    float64 `json:"seconds"`
	GPUSeconds float64 `json:"gpu_seconds"`
	Known      int     `json:"known"`
	Unknown    int     `json:"unknown"`
}

// DocumentNode is a Node. Key is "" while it is not known; Root is only there
// when it is another node.
type DocumentNode struct {
	Addr    string           `json:"node"`
	Kind    string           `json:"kind"`
	Block   string           `json:"block,omitempty"`
	Verdict string           `json:"verdict"`
	Cause   Cause            `json:"cause,omitempty"`
	Reason  string           `json:"reason"`
	Root    string           `json:"root,omitempty"`
	Was     string           `json:"was,omitempty"`
	Changes []DocumentChange `json:"changes,omitempty"`
	Key     string           `json:"key,omitempty"`
	Record  *DocumentRecord  `json:"record,omitempty"`
}

// DocumentChange is a key.Change. A side is null where the fact is not there.
type DocumentChange struct {
	Name  string        `json:"name"`
	Label string        `json:"label,omitempty"`
	Old   *DocumentFact `json:"old"`
	New   *DocumentFact `json:"new"`
}

// DocumentFact is a fact's value with its type's tag (key.Type).
type DocumentFact struct {
	Type  string `json:"type"`
	Value string `json:"value"`
}

// DocumentRecord is the result that a cached node has.
type DocumentRecord struct {
	Serial  uint64        `json:"serial"`
	Node    string        `json:"node"` // its address when it ran
	Outcome cache.Outcome `json:"outcome"`
	Started time.Time     `json:"started"`
	Seconds float64       `json:"seconds"`
	Host    string        `json:"host"`
}

// Document is the plan's form for machines.
func (p *Plan) Document(g *compile.Graph) Document {
	c := p.Counts
	d := Document{
		V: DocumentVersion, Serial: p.Serial,
		Counts: map[string]int{
			New.Word(): c.New, Stale.Word(): c.Stale, Cached.Word(): c.Cached, Later.Word(): c.Later,
			Blocked.Word(): c.Blocked, Sealed.Word(): c.Sealed, Skipped.Word(): c.Skipped,
		},
		Roots:    []DocumentRoot{},
		Estimate: DocumentEstimate(p.Estimate),
		Nodes:    make([]DocumentNode, 0, len(p.Nodes)),
	}
	for _, r := range p.Roots {
		d.Roots = append(d.Roots, DocumentRoot{g.Actions[r.Node].Addr, r.Downstream})
	}
	for i := range p.Nodes {
		d.Nodes = append(d.Nodes, p.documentNode(g, graph.NodeID(i)))
	}
	return d
}

func (p *Plan) documentNode(g *compile.Graph, id graph.NodeID) DocumentNode {
	n, a := &p.Nodes[id], &g.Actions[id]
	d := DocumentNode{
		Addr: a.Addr, Kind: a.Kind.Name, Block: a.Block, Verdict: n.Verdict.Word(),
		Cause: n.Reason.Cause, Reason: p.Why(g, id), Was: n.Reason.Was,
	}
	if n.Reason.Root != id {
		d.Root = g.Actions[n.Reason.Root].Addr
	}
	if !n.Key.IsZero() {
		d.Key = n.Key.String()
	}
	d.Changes = DocumentChanges(n.Reason.Changes)
	if r := n.Record; r != nil {
		d.Record = &DocumentRecord{r.Serial, r.Node, r.Outcome, r.Time.Started, r.Time.Seconds, r.Origin.Host}
	}
	return d
}

// ExplanationDocument is an Explanation for machines, with the same version as
// Document.
type ExplanationDocument struct {
	V        int              `json:"v"`
	Addr     string           `json:"node"`
	Kind     string           `json:"kind"`
	Verdict  string           `json:"verdict"`
	Reason   string           `json:"reason"`
	Changes  []DocumentChange `json:"changes,omitempty"`
	Key      string           `json:"key,omitempty"`
	Manifest []string         `json:"manifest"` // a known fact each
	Waits    []string         `json:"waits,omitempty"`
	History  []*cache.Record  `json:"history"` // oldest first
}

// Document is the explanation's form for machines.
func (e Explanation) Document() ExplanationDocument {
	d := ExplanationDocument{
		V: DocumentVersion, Addr: e.Addr, Kind: e.Kind, Verdict: e.Verdict.Word(), Reason: e.Why,
		Manifest: strings.Split(strings.TrimSuffix(e.Manifest.Text(), "\n"), "\n"),
		Waits:    e.Waits, History: append([]*cache.Record{}, e.History...),
	}
	if !e.Key.IsZero() {
		d.Key = e.Key.String()
	}
	d.Changes = DocumentChanges(e.Changes)
	return d
}

// DocumentChanges are changes for machines, in the same order.
func DocumentChanges(changes []key.Change) []DocumentChange {
	var out []DocumentChange
	for _, c := range changes {
		out = append(out, DocumentChange{c.Name, c.Label, documentFact(c.Old), documentFact(c.New)})
	}
	return out
}

func documentFact(f *key.Fact) *DocumentFact {
	if f == nil {
		return nil
	}
	return &DocumentFact{string(rune(f.Type)), f.Value}
}
