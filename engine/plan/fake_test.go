package plan

import (
	"context"
	"fmt"
	"io"
	"slices"
	"testing"
	"time"

	"github.com/sotabuild/sotabuild/engine/cache"
	"github.com/sotabuild/sotabuild/engine/compile"
	"github.com/sotabuild/sotabuild/engine/graph"
	"github.com/sotabuild/sotabuild/engine/key"
	"github.com/sotabuild/sotabuild/executors"
)

// memory is a store of records in memory. It has no objects, since plan must
// read none: gone says which outputs count as missing.
type memory struct {
	records []*cache.Record
	byKey   map[key.Key][]*cache.Record
	byNode  map[string][]*cache.Record
	gone    map[key.Digest]bool
}

func newMemory(records ...*cache.Record) *memory {
	m := &memory{byKey: map[key.Key][]*cache.Record{}, byNode: map[string][]*cache.Record{}, gone: map[key.Digest]bool{}}
	for _, r := range records {
		m.put(*r)
	}
	return m
}

func (m *memory) put(r cache.Record) *cache.Record {
	r.Version, r.Serial = cache.RecordVersion, uint64(len(m.records)+1)
	m.records = append(m.records, &r)
	m.byKey[r.Key] = append(m.byKey[r.Key], &r)
	m.byNode[r.Node] = append(m.byNode[r.Node], &r)
	return &r
}

func (m *memory) Lookup(k key.Key) []*cache.Record {
	var out []*cache.Record
	for _, r := range m.byKey[k] {
		if !slices.ContainsFunc(r.Outputs, func(o cache.Output) bool { return m.gone[o.Digest] }) {
			out = append(out, r)
		}
	}
	return out
}

func (m *memory) History(node string) []*cache.Record { return m.byNode[node] }

func (m *memory) Kind(kind string) []*cache.Record {
	var out []*cache.Record
	for _, r := range m.records {
		if of := m.byKey[r.Key]; r.Kind == kind && of[len(of)-1] == r {
			out = append(out, r)
		}
	}
	return out
}

func (m *memory) Open(key.Digest) (io.ReadCloser, error) { panic("plan opened an object") }
func (m *memory) Bytes(key.Digest) ([]byte, error)       { panic("plan read an object") }
func (m *memory) Serial() uint64                         { return uint64(len(m.records)) }
func (m *memory) Defects() []string                      { return nil }

// world is what an apply meets: how nodes end and what they give. It is the
// slow and obviously right reference: it knows no plan, only keys.
type world struct {
	*memory
	outcome map[string]cache.Outcome // by address; default ok
	output  map[string]string        // content by address; default follows from the manifest
}

func newWorld() *world {
	return &world{newMemory(), map[string]cache.Outcome{}, map[string]string{}}
}

// apply runs the graph from scratch in order. It returns each node's record,
// nil where it could not run, and the addresses that were run.
func (w *world) apply(g *compile.Graph) (results []*cache.Record, ran []string) {
	results = make([]*cache.Record, len(g.Actions))
	usable := func(from graph.NodeID) bool {
		r := results[from]
		return r != nil && (r.Outcome.State == cache.OK || r.Outcome.State == cache.Failed && g.Actions[from].Kind.KeepsFailures)
	}
	for i := range g.Actions {
		a := &g.Actions[i]
		m, known := g.Manifest(a.ID, func(from graph.NodeID, output string) (key.Digest, bool) {
			if !usable(from) {
				return key.Digest{}, false
			}
			return results[from].Output(output), true
		})
		if !known || a.Skip != "" {
			continue
		}
		for _, r := range w.Lookup(m.Key()) {
			if r.Outcome.Final() {
				results[i] = r
			}
		}
		// Order matters to a node that has to run, not to one that is there.
		if results[i] == nil && !slices.ContainsFunc(g.Needs(a.ID), func(from graph.NodeID) bool { return !usable(from) }) {
			results[i] = w.run(a, m)
			ran = append(ran, a.Addr)
		}
	}
	return results, ran
}

func (w *world) run(a *compile.Action, m key.Manifest) *cache.Record {
	r := cache.Record{
		Key: m.Key(), Node: a.Addr, Kind: a.Kind.Name, Manifest: m.Text(), Outcome: cache.Outcome{State: cache.OK},
		Time:   cache.Span{Started: time.Date(2026, 11, 30, 15, 0, len(w.records), 0, time.UTC), Seconds: 1},
		Origin: cache.Origin{Host: "node7"},
	}
	if a.Kind == bench {
		r.Time.Seconds = 90
	}
	if o, ok := w.outcome[a.Addr]; ok {
		r.Outcome = o
	}
	content, ok := w.output[a.Addr]
	if !ok {
		content = m.Text() + fmt.Sprint(r.Outcome)
	}
	if r.Outcome.State != cache.Failed || a.Kind.KeepsFailures {
		for _, name := range a.Kind.Outputs {
			d := key.Sum([]byte(name + "\n" + content))
			delete(w.gone, d) // Stored anew.
			r.Outputs = append(r.Outputs, cache.Output{Name: name, Digest: d})
		}
	}
	return w.put(r)
}

func pure(name, output string) *compile.Kind {
	return &compile.Kind{
		Name: name, Version: 1, Purity: compile.Pure, Outputs: []string{output},
		Func: func(context.Context, compile.Job) compile.Result { return compile.Result{} },
	}
}

var (
	help    = pure("help", "text")
	check   = pure("check", "verdict")
	dataset = pure("dataset", "prompts")
	winners = pure("winners", "table")
	report  = pure("report", "page")
	bench   = &compile.Kind{
		Name: "bench", Version: 1, Purity: compile.Measured, Outputs: []string{"row"}, KeepsFailures: true,
		Task:    func([]compile.Job, string) (executors.Task, error) { return executors.Task{}, nil },
		Collect: func(compile.Job, compile.StepResult) compile.Result { return compile.Result{} },
	}
)

// campaign is a small one in the engine's words: two programs, candidates by
// threads, scenarios by length. The zero value is not one; see base.
type campaign struct {
	software  map[string]string // of a and b
	threads   []int
	base      int // a flag that every candidate of a has, in no address
	scenarios map[string]int
	driver    string
	benchKind *compile.Kind
	report    string // address of the report
	skip      string // reason to skip b
	reversed  bool   // blocks in another order
}

func base() campaign {
	return campaign{
		software: map[string]string{"a": "a 1.0", "b": "b 1.0"}, threads: []int{1, 2}, base: 8,
		scenarios: map[string]int{"chat": 100}, driver: "580", benchKind: bench, report: "report",
	}
}

type helpSpec struct {
	Software key.Digest `key:"software"`
}
type datasetSpec struct {
	Len int `key:"input_len"`
}
type benchSpec struct {
	Software key.Digest     `key:"software"`
	Flags    map[string]int `key:"flag"`
}

func (c campaign) decls() []compile.Decl {
	var decls []compile.Decl
	sum := compile.Decl{Addr: "winners", Kind: winners, Block: "winners"}
	for _, name := range []string{"code", "chat"} {
		if n, ok := c.scenarios[name]; ok {
			decls = append(decls, compile.Decl{Addr: "dataset." + name, Kind: dataset, Block: "scenario." + name, Spec: datasetSpec{n}})
		}
	}
	for _, f := range []string{"a", "b"} {
		skip := ""
		if f == "b" {
			skip = c.skip
		}
		software, block := key.Sum([]byte(c.software[f])), "framework."+f
		decls = append(decls,
			compile.Decl{Addr: "help." + f, Kind: help, Block: block, Spec: helpSpec{software}, Skip: skip},
			compile.Decl{Addr: "check." + f, Kind: check, Block: block, Skip: skip,
				Inputs: []compile.Input{{Name: "help", From: "help." + f, Output: "text"}}})
		for _, threads := range c.threads {
			for _, scenario := range []string{"chat", "code"} {
				if _, ok := c.scenarios[scenario]; !ok {
					continue
				}
				flags := map[string]int{"threads": threads}
				if f == "a" {
					flags["ctx"] = c.base
				}
				addr := fmt.Sprintf(`bench.%s["threads=%d"].%s`, f, threads, scenario)
				decls = append(decls, compile.Decl{
					Addr: addr, Kind: c.benchKind, Block: block, Skip: skip, Spec: benchSpec{software, flags},
					Inputs:    []compile.Input{{Name: "dataset", From: "dataset." + scenario, Output: "prompts"}},
					Order:     []string{"check." + f},
					Batch:     fmt.Sprintf("%s %d", f, threads),
					Resources: compile.Resources{GPUs: []string{"0"}, Quiet: true},
				})
				if skip == "" {
					sum.Inputs = append(sum.Inputs, compile.Input{Name: "row", From: addr, Output: "row"})
				}
			}
		}
	}
	decls = append(decls, sum, compile.Decl{Addr: c.report, Kind: report, Block: "report",
		Inputs: []compile.Input{{Name: "table", From: "winners", Output: "table"}}})
	if c.reversed {
		for i, j := 0, len(decls)-1; i < j; i, j = i+1, j-1 {
			decls[i], decls[j] = decls[j], decls[i]
		}
	}
	return decls
}

func (c campaign) graph(t *testing.T) *compile.Graph {
	t.Helper()
	return mustBuild(t, c.decls(), compile.Env{Binding: []key.Fact{{Name: "env.driver", Type: key.Text, Value: c.driver}}})
}

func mustBuild(t testing.TB, decls []compile.Decl, env compile.Env) *compile.Graph {
	t.Helper()
	g, problems := compile.Build(decls, env)
	if len(problems) > 0 {
		t.Fatalf("problems: %v", problems)
	}
	return g
}

func mustMake(t testing.TB, g *compile.Graph, r cache.Reader, o Options) *Plan {
	t.Helper()
	p, problems := Make(g, r, o)
	if len(problems) > 0 {
		t.Fatalf("problems: %v", problems)
	}
	return p
}
