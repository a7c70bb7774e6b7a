// Package campaign turns a lang.Campaign into the engine's declarations, from
// the table of node kinds (Kinds, one row a kind), and joins names to what the
// engine recorded when results are shown (View).
//
// It is the only room that knows both the language and the engine. Declare is
// a function of a campaign and cheap facts about this host; it starts nothing
// and reads no file. The facts come from package prepare, which reads and asks, and
// changes nothing.
//
// No label reaches a key: specs hold what is measured, and names of
// frameworks, scenarios and candidates are joined by address in View. So a
// renamed block or another order of blocks makes nothing stale.
package campaign

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sotabuild/sotabuild/engine/compile"
	"github.com/sotabuild/sotabuild/engine/key"
	"github.com/sotabuild/sotabuild/lang"
	"github.com/sotabuild/sotabuild/stdlib/dataset"
	"github.com/sotabuild/sotabuild/stdlib/result"
	"github.com/sotabuild/sotabuild/stdlib/search"
	"github.com/sotabuild/sotabuild/stdlib/weights"
	"github.com/sotabuild/sotabuild/stdlib/winners"
)

// Facts are what plan reads from the host before it compiles.
type Facts struct {
	// Software is the identity of each framework's program, by label.
	Software map[string]Software
	// Weights is the identity of the model's files; zero when the campaign
	// names neither path nor anything on this host.
	Weights key.Digest
	// Tokenizer is the identity of a tokenizer on this host that lies apart from
	// the model; zero where it is part of the model or only named.
	Tokenizer key.Digest
	Datasets  map[string]key.Digest // of the workloads' files, by path
	Graded    key.Digest            // of the accuracy block's file; zero without one
	// Revision is where the model lies, if it is a pinned revision of a hub, and
	// Hub how it is fetched.
	Revision Revision
	Hub      weights.Options
	Env      compile.Env
	Hardware result.Hardware
	// Cards are the UUIDs of the campaign's GPUs, in the order of its ids.
	Cards []string
	// Helps are the help texts already known for a framework's software, by
	// label; a missing one means that apply has to take the snapshot first.
	Helps map[string]string
	// Self is the path of the running sotabuild binary: it is runner and
	// client inside every task.
	Self string
}

// Software is what a framework runs, by content, and where (DESIGN 11.5).
type Software struct {
	// Digest is of the program's bytes or tree, on the host or in the image;
	// zero where only an image is known, which Image then identifies.
	Digest key.Digest `json:"digest"`
	// Image is the identity of the image that tasks run in; zero without one.
	Image key.Digest `json:"image"`
	Place Place      `json:"place"`
}

// Place is where a framework's tasks run. No part of it is in a key.
type Place struct {
	Executor string `json:"executor"` // the kind of executor, never auto
	Image    string `json:"image"`    // as the campaign names it; "" runs on the host itself
	Program  string `json:"program"`  // absolute path where the task runs, or a name on its PATH
	// Env is the image's own environment where the image is all that is known
	// of the software; it is part of the image's identity.
	Env     []string `json:"env,omitempty"`
	ShmSize int64    `json:"shm_size,omitempty"` // bytes
	IPCHost bool     `json:"ipc_host,omitempty"`
}

// Declared is a compiled-ready campaign: declarations and how their addresses
// belong together.
type Declared struct {
	Decls []compile.Decl
	Cells []Cell
	// Selects and Winners are addresses by framework label and cell group.
	Selects []Select
	Winners []Winner
	// Warnings are of skipped candidates, those of one cause as one.
	Warnings lang.Diagnostics
}

// Cell is one candidate in one scenario at one concurrency.
type Cell struct {
	Framework   string // label
	Candidate   search.Candidate
	Scenario    lang.Scenario
	Concurrency *int
	Addr        string       // of its measurement
	Row         string       // of the node whose row counts: Addr, or the accuracy gate behind it
	Skip        string       // why it is not run; "" if it is
	SkipClass   result.Class // class of the skipped row
}

// Select is the node that picks a framework's best cell of a scenario.
type Select struct{ Framework, Scenario, Addr string }

// Winner is the node that ranks the frameworks of a scenario.
type Winner struct{ Scenario, Addr string }

// Declare expands the campaign. The order of the declarations is the order of
// the file: the host, the client, weights, helps, versions, checks, datasets, cells, selections, winners.
func Declare(c *lang.Campaign, f Facts) Declared {
	var d Declared
	frameworks := Compared(c)
	d.Decls = slices.Concat(d.Decls, HostProbe(c, f), ClientCalibration(c, f), weightsDecl(c, f))
	var checks []string
	type life struct {
		fw         lang.Framework
		candidates []search.Candidate
	}
	var lives []life
	for _, fw := range frameworks {
		d.Decls = append(d.Decls, Asks(c, f, fw)...)
		lives = append(lives, life{fw, search.Expand(fw.Flags, fw.Search)})
	}
	skips := map[string]string{}
	for _, l := range lives {
		var skipped []skip
		for _, cand := range l.candidates {
			addr := address("check", l.fw.Label, cand.Name)
			given := Given(l.fw, cand.Flags)
			if s := skipReason(c, f, l.fw, cand, given); s.reason != "" {
				s.addr = address("bench", l.fw.Label, cand.Name)
				skips[s.addr] = s.reason
				skipped = append(skipped, s)
				continue
			}
			d.Decls = append(d.Decls, compile.Decl{
				Addr: addr, Kind: checkKind, Block: block(l.fw), Spec: newCheckSpec(given),
				Inputs: []compile.Input{{Name: "help", From: HelpAddr(l.fw, "server"), Output: "text"}},
			})
			// The help of a program that does not even print one may not keep
			// the other frameworks from running.
			if _, ok := f.Helps[l.fw.Label]; ok {
				checks = append(checks, addr)
			}
		}
		d.Warnings = append(d.Warnings, skipWarnings(l.fw, skipped, len(l.candidates))...)
	}
	for _, s := range c.Load.Scenarios {
		for _, n := range c.Load.Of(s).Concurrency {
			d.Decls = append(d.Decls, compile.Decl{
				Addr: datasetAddr(s, n), Kind: DatasetKind, Block: "scenario." + s.Name,
				Spec: CellDataset(c, f, s, n),
			})
		}
	}
	if c.Judge.Accuracy != nil {
		d.Decls = append(d.Decls, compile.Decl{Addr: answersDataset, Kind: DatasetKind, Block: "accuracy", Spec: answersSpec(c, f)})
	}
	for _, l := range lives {
		baseline := skips[address("bench", l.fw.Label, search.Baseline)] == ""
		for i, cand := range l.candidates {
			skip := skips[address("bench", l.fw.Label, cand.Name)]
			d.declareCells(c, f, l.fw, cand, skip, checks, i, baseline)
		}
	}
	d.declareRanking(c, frameworks)
	return d
}

// Compared lists the frameworks that run: the target first, then the
// competitors in the order of compare. Blocks outside both are never run
// (R034, R035, R037).
func Compared(c *lang.Campaign) []lang.Framework {
	var out []lang.Framework
	for _, name := range append([]string{c.Sides.Target}, c.Sides.Compare...) {
		if i := slices.IndexFunc(c.Frameworks, func(f lang.Framework) bool { return f.Label == name }); i >= 0 {
			out = append(out, c.Frameworks[i])
		}
	}
	return out
}

// address is KIND.LABEL["candidate"].
func address(kind, label, cand string) string {
	return kind + "." + label + "[" + strconv.Quote(cand) + "]"
}

func block(fw lang.Framework) string { return "framework." + fw.Label }

// HelpAddr is the address of a help node.
func HelpAddr(fw lang.Framework, name string) string { return "help." + fw.Label + "." + name }

// Asks declares what is asked of a framework's program: its helps and its
// version.
func Asks(c *lang.Campaign, f Facts, fw lang.Framework) []compile.Decl {
	var out []compile.Decl
	for _, h := range fw.Definition.Helps {
		out = append(out, compile.Decl{
			Addr: HelpAddr(fw, h.Name), Kind: HelpKind, Block: block(fw),
			Spec:    newAskSpec(c, f, fw, h.Command, h.Stderr, ""),
			Timeout: askTimeout,
		})
	}
	if v := fw.Definition.Version; v != nil {
		out = append(out, compile.Decl{
			Addr: VersionAddr(fw), Kind: versionKind, Block: block(fw),
			Spec:    newAskSpec(c, f, fw, v.Command, false, v.Pattern),
			Timeout: askTimeout,
		})
	}
	return out
}

// VersionAddr is the address of a version node.
func VersionAddr(fw lang.Framework) string { return "version." + fw.Label }

// streamName sets the cells of one scenario apart, so that no two of them
// share a prompt in one server life.
func streamName(n *int) string {
	if n == nil {
		return "unlimited"
	}
	return "c" + strconv.Itoa(*n)
}

func datasetAddr(s lang.Scenario, n *int) string { return "dataset." + s.Name + suffix(n) }

func suffix(n *int) string {
	if n == nil {
		return ""
	}
	return "." + streamName(n)
}

// CellDataset is the frozen prompts of a cell.
func CellDataset(c *lang.Campaign, f Facts, s lang.Scenario, n *int) dataset.Spec {
	return DatasetSpec(c, f, s, streamName(n))
}

// DatasetSpec is the frozen prompts of a scenario; stream sets them apart from
// others of the same shape.
func DatasetSpec(c *lang.Campaign, f Facts, s lang.Scenario, stream string) dataset.Spec {
	w := c.Load.Of(s)
	form := dataset.Form{Chat: w.Endpoint == "chat", Path: w.Path, Spread: w.Prompts.Spread, Mix: mixOf(s), Groups: w.Prompts.Groups, Shared: w.Prompts.Shared,
		Turns: w.Prompts.Turns, Think: w.Prompts.Think.Seconds(),
		Extras: dataset.Extras{Adapters: w.Prompts.Adapters, Cancel: w.Prompts.Cancel, CancelAfter: w.Prompts.CancelAfter.Seconds()}}
	if w.Path != "" {
		form.File = f.Datasets[w.Path].String()
	}
	return dataset.Spec{
		Form: form,
		Kind: w.Dataset, InputLen: s.InputLen, OutputLen: s.OutputLen,
		Prompts: s.NumPrompts, Warmup: w.Warmup,
		VocabLo: c.Model.Vocab[0], VocabHi: c.Model.Vocab[1],
		Seed: w.Seed, Stream: stream,
	}
}

// mixOf are the further shapes of a scenario.
func mixOf(s lang.Scenario) (out []dataset.Part) {
	for _, x := range s.Mix {
		out = append(out, dataset.Part{Share: x.Share, In: x.InputLen, Out: x.OutputLen})
	}
	return out
}

// MixOf are they in words; "" if there are none.
func MixOf(s lang.Scenario) string { return dataset.Describe(mixOf(s)) }

// declareCells declares the cells of a framework's nth candidate. All frameworks'
// first candidates, the base flags, tell more than the second of any.
func (d *Declared) declareCells(c *lang.Campaign, f Facts, fw lang.Framework, cand search.Candidate, skip string, checks []string, nth int, baseline bool) {
	life := address("bench", fw.Label, cand.Name)
	asked := false
	for _, s := range c.Load.Scenarios {
		for _, n := range c.Load.Of(s).Concurrency {
			cell := Cell{Framework: fw.Label, Candidate: cand, Scenario: s, Concurrency: n,
				Addr: life + "." + s.Name + suffix(n), Skip: skip}
			decl := compile.Decl{
				Addr: cell.Addr, Kind: BenchKind, Block: block(fw),
				Spec: NewBenchSpec(c, f, fw, cand, s, n), Batch: life,
				Resources: compile.Resources{Quiet: true},
				Timeout:   CellTimeout(s),
				Skip:      skip,
				Turn:      nth,
			}
			if c.GPUs != nil {
				decl.Resources.GPUs = c.GPUs.IDs
			}
			if skip != "" {
				class, _, _ := strings.Cut(skip, ":")
				cell.SkipClass = result.Class(class)
			} else {
				decl.Inputs = []compile.Input{
					{Name: "prompts", From: datasetAddr(s, n), Output: "prompts"},
					{Name: "check", From: address("check", fw.Label, cand.Name), Output: "flags"},
				}
				if fw.Definition.Version != nil {
					decl.Order = append(decl.Order, VersionAddr(fw))
				}
				if c.GPUs != nil {
					decl.Order = append(decl.Order, HostAddr)
				}
				if fetched(c) {
					decl.Order = append(decl.Order, WeightsAddr)
				}
				if !c.Smoke {
					decl.Order = append(decl.Order, ClientAddr)
				}
				// Every candidate's flags are checked before the first server
				// starts (DESIGN 11.2).
				decl.Order = append(decl.Order, checks...)
			}
			cell.Row = cell.Addr
			if c.Judge.Accuracy != nil && skip == "" {
				if !asked {
					asked = true
					d.declareAccuracy(c, f, fw, cand, decl, baseline)
				}
				cell.Row = gateAddr(cell.Addr)
				d.Decls = append(d.Decls, compile.Decl{Addr: cell.Row, Kind: gateKind, Block: block(fw), Inputs: []compile.Input{
					{Name: "row", From: cell.Addr, Output: "row"}, {Name: "agreement", From: agreementAddr(fw.Label, cand.Name), Output: "agreement"}}})
			}
			d.Decls = append(d.Decls, decl)
			d.Cells = append(d.Cells, cell)
		}
	}
}

// CellTimeout bounds one cell well above what any useful server needs: 10
// minutes and 10 s a prompt.
func CellTimeout(s lang.Scenario) time.Duration {
	return 10*time.Minute + time.Duration(s.NumPrompts)*10*time.Second
}

func (d *Declared) declareRanking(c *lang.Campaign, frameworks []lang.Framework) {
	sla := SLA(c)
	for _, s := range c.Load.Scenarios {
		var inputs []compile.Input
		for _, fw := range frameworks {
			sel := Select{fw.Label, s.Name, "select." + fw.Label + "." + s.Name}
			var rows []compile.Input
			for _, cell := range d.Cells {
				if cell.Framework == fw.Label && cell.Scenario.Name == s.Name && cell.Skip == "" {
					rows = append(rows, compile.Input{Name: "row", From: cell.Row, Output: "row"})
				}
			}
			d.Decls = append(d.Decls, compile.Decl{
				Addr: sel.Addr, Kind: selectKind, Block: block(fw),
				Spec: SelectSpec{SLA: sla}, Inputs: rows,
			})
			d.Selects = append(d.Selects, sel)
			name := "competitor"
			if fw.Label == c.Sides.Target {
				name = "target"
			}
			inputs = append(inputs, compile.Input{Name: name, From: sel.Addr, Output: "selection"})
		}
		w := Winner{s.Name, "winners." + s.Name}
		d.Decls = append(d.Decls, compile.Decl{
			Addr: w.Addr, Kind: winnersKind, Block: "winners",
			Spec: WinnersSpec{Smoke: c.Smoke, CachedShare: c.Judge.Quality.CachedShare}, Inputs: inputs,
		})
		d.Winners = append(d.Winners, w)
	}
}

// SLA is the campaign's, in the units of rows.
func SLA(c *lang.Campaign) winners.SLA {
	s := c.Judge.SLA
	sec := func(d *time.Duration) *float64 {
		if d == nil {
			return nil
		}
		v := d.Seconds()
		return &v
	}
	return winners.SLA{MaxP50TTFT: sec(s.MaxP50TTFT), MaxP50TPOT: sec(s.MaxP50TPOT), MaxP50E2E: sec(s.MaxP50E2E), MinSuccess: s.MinSuccessRate, CachedShare: &c.Judge.Quality.CachedShare}
}

// RulesOf are how frameworks are compared.
func RulesOf(c *lang.Campaign) winners.Rules {
	return winners.Rules{CachedShare: &c.Judge.Quality.CachedShare, Noise: c.Judge.Noise.Threshold}
}
