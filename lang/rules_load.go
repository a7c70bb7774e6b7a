package lang

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// standard are the default scenarios (R065–R067).
var standard = []Scenario{
	{Name: "chat", InputLen: 1000, OutputLen: 1000, NumPrompts: 80},
	{Name: "summarization", InputLen: 8000, OutputLen: 1000, NumPrompts: 80},
}

// longest is the scenario with the longest sequence, with the lengths that it
// comes to: of the last turn of a session, or where they are spread.
func (d *draft) longest() Scenario {
	var longest Scenario
	for _, s := range d.Load.Scenarios {
		w := d.Load.Of(s)
		for _, x := range append([]Shape{{InputLen: s.InputLen, OutputLen: s.OutputLen}}, s.Mix...) {
			s.InputLen, s.OutputLen = x.InputLen, x.OutputLen
			for _, n := range []*int{&s.InputLen, &s.OutputLen} {
				if w.Dataset == "random" {
					*n += int(w.Prompts.Spread * float64(*n))
				}
				if w.Dataset == "sessions" {
					*n *= max(1, w.Prompts.Turns)
				}
			}
			if s.InputLen+s.OutputLen > longest.InputLen+longest.OutputLen {
				longest = s
			}
		}
	}
	return longest
}

func (d *draft) checkModel(p *problems) {
	m := &d.Model
	if m.ID == "" {
		return // told as missing
	}
	place := func(attr string) Range { return d.place("model."+m.ID+"."+attr, m.Range) }
	if m.Path != "" && m.Revision != "" {
		p.add(cExclusive, place("revision"), "A model has either a path or a revision: weights on disk are identified by what they are, weights of a hub by their commit. Remove one of them.")
	}
	d.checkWords(p)
	if m.Tokenizer == "" {
		m.Tokenizer = m.ID
		if m.Path != "" {
			m.Tokenizer = m.Path
		}
	}
	ids := slices.ContainsFunc(d.Load.Workloads(), func(w Workload) bool {
		return w.Dataset == "random" && w.Endpoint != "chat" || w.Dataset == "prefix" || w.Dataset == "sessions" || w.Dataset == "mooncake"
	})
	if ids && m.Vocab == [2]int{} && !d.told("model."+m.ID, "vocab") {
		why := "The model has no path with a config.json that says it"
		if m.Path != "" {
			why = "There is no config.json with vocab_size in its path"
		}
		if _, err := os.Stat(m.Path); m.Path != "" && errors.Is(err, fs.ErrNotExist) {
			name := m.Path
			if rel, err := filepath.Rel(d.Dir, name); err == nil {
				name = rel
			}
			p.add(cRead, place("path"), "The model has path = %q, and there is nothing. Write the folder or file of its weights. The vocabulary's size would be read there; to check this file without the weights, write vocab = [0, SIZE].", name)
			return
		}
		p.add(cVocab, m.Range, "Random prompts are drawn from the model's vocabulary, and its size is not known. %s. Write into the model block: vocab = [0, SIZE]", why)
	}
}

// Precisions are the number formats of weights that have a name in serving
// systems. The attribute is free text: new ones come faster than new versions of
// this language.
var Precisions = []string{"auto", "bf16", "fp16", "fp32", "fp8", "fp4", "nvfp4", "mxfp4", "mxfp8", "int8", "int4",
	"bfloat16", "float16", "float32", "half", "float", "fp8_e4m3", "fp8_e5m2", "float8_e4m3fn", "float8_e5m2"}

// quantizations are methods by their names in serving systems, for the same.
var quantizations = []string{"none", "fp8", "fp4", "nvfp4", "mxfp4", "mxfp8", "int8", "int4", "awq", "gptq", "gguf", "hqq", "aqlm", "bitsandbytes",
	"compressed-tensors", "modelopt", "modelopt_fp4", "torchao", "quark", "w8a8_int8", "w8a8_fp8", "w4a16", "w4a8", "w8a8", "w8a16", "awq_marlin",
	"gptq_marlin", "marlin", "fbgemm_fp8", "experts_int8", "moe_wna16", "auto-round", "q4_0", "q4_1", "q5_0", "q5_1", "q8_0"}

// checkWords warns of words of the model block that look like slips: a report
// repeats them, and they are part of every key. A precision is one of few, and
// any other is told; a method of quantization only where it is nearly a known one.
func (d *draft) checkWords(p *problems) {
	m := &d.Model
	at := func(attr string) Range { return d.place("model."+m.ID+"."+attr, m.Range) }
	if m.Precision != "" && !known(m.Precision, Precisions) {
		hint := didYouMean(m.Precision, Precisions)
		if hint == "" {
			hint = "Known are " + oneOf(Precisions[:5]) + ", and others."
		}
		p.warn(cUnfamiliar, at("precision"), "%q is no precision with a known name. %s It stands in every report and key as it is written.", m.Precision, hint)
	}
	if m.Quantization != "" && !known(m.Quantization, quantizations) {
		if hint := didYouMean(m.Quantization, quantizations); hint != "" {
			p.warn(cUnfamiliar, at("quantization"), "%q is no method of quantization with a known name. %s It stands in every report and key as it is written.", m.Quantization, hint)
		}
	}
}

func known(word string, names []string) bool {
	return slices.ContainsFunc(names, func(n string) bool { return strings.EqualFold(n, word) })
}

func (d *draft) checkScenarios(p *problems) {
	if _, written := d.at["scenario"]; len(d.Load.Main()) == 0 && (!written || len(d.Load.Scenarios) > 0) {
		d.Load.Scenarios = append(slices.Clone(standard), d.Load.Scenarios...)
	}
	d.checkLanes(p)
	seen := map[string]Range{}
	for _, s := range d.Load.Scenarios {
		before, ok := seen[s.Name]
		switch {
		case ok && before == (Range{}):
			p.add(cDuplicate, s.Range, "The main lane has no scenario of yours, so the default ones are measured, and one of them is %q. Give this one another name.", s.Name)
		case ok:
			x := p.add(cDuplicate, s.Range, "Two scenarios have the name %q. for_each names them LABEL_KEY; change one of the labels.", s.Name)
			x.Related = []Range{before}
		}
		seen[s.Name] = s.Range
	}
	if m := d.Model; m.MaxContext > 0 {
		if s := d.longest(); s.InputLen+s.OutputLen > m.MaxContext {
			p.add(cContext, d.place("model."+m.ID+".max_context", m.Range), "The scenario %q needs %d + %d = %d tokens, and the model serves %d. Raise max_context if the model can do it, or shorten the scenario.",
				s.Name, s.InputLen, s.OutputLen, s.InputLen+s.OutputLen, m.MaxContext)
		}
	}
	w := d.Load.Workload
	for _, s := range d.Load.Scenarios {
		if s.InputLen == 0 || s.OutputLen == 0 || s.NumPrompts == 0 {
			return // what it is to be is not known
		}
	}
	if w.Dataset == "" || d.Name == "" {
		return
	}
	main := d.Load.Main()
	if isStandard(main) && w.Dataset == "random" && w.Prompts.plain() || d.Smoke || w.Production && w.Reason != "" {
		return
	}
	at := d.at["scenario"]
	what := "These scenarios are not the default pair (chat: 1000 in, 1000 out; summarization: 8000 in, 1000 out; 80 prompts each)"
	if isStandard(main) {
		at, what = d.at["workload.dataset"], fmt.Sprintf("The data set %q is not the default (random)", w.Dataset)
		if w.Dataset == "random" {
			at, what = d.at["workload"], "These prompts are not the default ones (of one length, one model, none cancelled)"
		}
	}
	p.add(cScenario, at, "%s, and such a choice needs a word of its own. For your production workload write into the workload block\n  production = true\n  reason     = \"…\"\nand for a quick check of the flow write smoke = true into the campaign block; its numbers decide nothing.", what)
}

// checkLanes checks that scenarios and lane blocks name each other.
func (d *draft) checkLanes(p *problems) {
	var names []string
	for _, w := range d.Load.Lanes {
		names = append(names, w.Lane)
		at := d.at["lane."+w.Lane]
		switch {
		case w.Lane == "main":
			p.add(cBadValue, at, "The main lane is the workload block. Write its attributes there, or give this lane another name.")
		case !slices.ContainsFunc(d.Load.Scenarios, func(s Scenario) bool { return s.Lane == w.Lane }):
			p.add(cMissing, at, "No scenario is sent by the lane %q. Write lane = %q into a scenario block, or remove the lane.", w.Lane, w.Lane)
		}
	}
	for _, s := range d.Load.Scenarios {
		if s.Lane != "" && s.Lane != "main" && !slices.Contains(names, s.Lane) {
			p.add(cUnknownName, d.place("scenario."+s.Name+".lane", s.Range), "There is no lane block %q. %s Write lane %q { … } with how its requests are sent, or leave lane out.", s.Lane, didYouMean(s.Lane, names), s.Lane)
		}
		if s.Lane == "main" {
			p.add(cBadValue, d.place("scenario."+s.Name+".lane", s.Range), "Scenarios of the main lane have no lane. Remove it.")
		}
	}
}

// isStandard reports whether the scenarios are the default pair, in any order.
func isStandard(list []Scenario) bool {
	if len(list) != len(standard) {
		return false
	}
	for _, want := range standard {
		if !slices.ContainsFunc(list, func(s Scenario) bool {
			return s.Name == want.Name && s.InputLen == want.InputLen && s.OutputLen == want.OutputLen && s.NumPrompts == want.NumPrompts && len(s.Mix) == 0
		}) {
			return false
		}
	}
	return true
}

func (d *draft) checkWorkload(p *problems) {
	d.checkSent(p, d.Load.Workload, "workload")
	for _, w := range d.Load.Lanes {
		d.checkSent(p, w, "lane."+w.Lane)
	}
	w, place := d.Load.Workload, func(attr string) Range { return d.place("workload."+attr, d.at["workload"]) }
	switch {
	case w.Production && w.Reason == "":
		p.add(cMissing, place("production"), "A production workload replaces the default scenarios, so it needs its reason. Write reason = \"…\" into the workload block.")
	case !w.Production && w.Reason != "":
		p.add(cExclusive, place("reason"), "A reason alone changes nothing. Write production = true beside it, or remove it.")
	}
}

// checkSent checks the workload of a block, by its path.
func (d *draft) checkSent(p *problems, w Workload, path string) {
	block := d.at[path]
	place := func(attr string) Range { return d.place(path+"."+attr, block) }
	made := w.Dataset == "random" || w.Dataset == "prefix" || w.Dataset == "sessions"
	switch {
	case made && w.Path != "":
		p.add(cExclusive, place("path"), "Random prompts have no file. Remove path, or write dataset = \"jsonl\".")
	case !made && w.Dataset != "" && w.Path == "":
		p.add(cMissing, place("dataset"), "The data set %q is read from a file. Write path = \"FILE\" into the workload block.", w.Dataset)
	}
	switch {
	case w.Arrival == "trace" && w.Dataset != "jsonl" && w.Dataset != "mooncake":
		p.add(cExclusive, place("arrival"), "Arrivals of a trace come from the times in the data set's file. Write dataset = \"jsonl\" or \"mooncake\" and path, or another arrival.")
	case (w.Arrival == "inf" || w.Arrival == "trace") && w.Rate != nil:
		p.add(cExclusive, place("rate"), "With arrival = %q there is no rate. Remove it, or write arrival = \"poisson\".", w.Arrival)
	case w.Arrival != "inf" && w.Arrival != "trace" && w.Arrival != "" && w.Rate == nil:
		p.add(cMissing, place("arrival"), "Arrivals that are %q have a mean rate. Write rate = NUMBER (requests/s) into the workload block.", w.Arrival)
	}
	d.checkPrompts(p, w, path)
}

// checkPrompts checks how prompts and arrivals are shaped: each word belongs to
// one choice, and standing beside another it would be silently left out.
func (d *draft) checkPrompts(p *problems, w Workload, path string) {
	if w.Dataset == "" || w.Arrival == "" || w.Endpoint == "" {
		return // told already
	}
	place := func(attr string) Range { return d.place(path+"."+attr, d.at[path]) }
	only := func(is bool, attr, needs, instead string) {
		if is {
			p.add(cExclusive, place(attr), "%q belongs to %s. Remove it, or write %s.", attr, needs, instead)
		}
	}
	x, pace := w.Prompts, w.Pace
	only(x.Spread > 0 && w.Dataset != "random", "len_spread", "random prompts", `dataset = "random"`)
	only(x.Groups > 0 && w.Dataset != "prefix", "prefix_groups", "prompts with shared prefixes", `dataset = "prefix"`)
	only(x.Shared > 0 && w.Dataset != "prefix", "prefix_len", "prompts with shared prefixes", `dataset = "prefix"`)
	only(x.Turns > 0 && w.Dataset != "sessions", "turns", "sessions", `dataset = "sessions"`)
	only(x.Think > 0 && w.Dataset != "sessions" && w.Dataset != "multi-turn", "think_time", "sessions and conversations", `dataset = "sessions"`)
	only(pace.Burstiness != nil && w.Arrival != "gamma", "burstiness", "gamma arrivals", `arrival = "gamma"`)
	only(pace.Ramp != "" && (w.Arrival == "inf" || w.Arrival == "trace"), "ramp", "arrivals with a rate", `arrival = "poisson" and rate`)
	missing := func(is bool, attr, write string) {
		if is {
			p.add(cMissing, place(attr), "%q does not say enough. Write %s beside it.", attr, write)
		}
	}
	missing(w.Dataset == "prefix" && x.Shared == 0, "dataset", "prefix_len = TOKENS that a group shares")
	missing(w.Dataset == "sessions" && x.Turns == 0, "dataset", "turns = NUMBER")
	missing(w.Arrival == "gamma" && pace.Burstiness == nil, "arrival", "burstiness = NUMBER")
	missing(pace.Ramp != "" && pace.RampTo == nil, "ramp", "ramp_to = NUMBER (requests/s)")
	missing(pace.Ramp == "" && pace.RampTo != nil, "ramp_to", `ramp = "linear" or "exponential"`)
	missing(x.Cancel > 0 && x.CancelAfter == 0, "cancel", `cancel_after = "DURATION"`)
	missing(x.Cancel == 0 && x.CancelAfter > 0, "cancel_after", "cancel = SHARE")
	ids := w.Dataset == "prefix" || w.Dataset == "sessions" || w.Dataset == "mooncake"
	if ids && w.Endpoint == "chat" {
		p.add(cExclusive, place("endpoint"), "The prompts of %q are token ids, and the chat endpoint takes none. Write endpoint = \"completions\", or another data set.", w.Dataset)
	}
	if w.Dataset == "multi-turn" && w.Endpoint != "chat" {
		p.add(cExclusive, place("dataset"), "Conversations are messages, and only the chat endpoint takes them. Write endpoint = \"chat\", or dataset = \"sharegpt\" for their first questions.")
	}
	for _, s := range d.Load.Scenarios {
		if d.Load.Of(s).Lane != w.Lane {
			continue
		}
		d.checkMix(p, s, w)
		if w.Dataset == "prefix" && s.InputLen > 0 && x.Shared >= s.InputLen {
			p.add(cBadValue, place("prefix_len"), "Groups share %d tokens, and prompts of the scenario %q have %d. Write less, so that prompts differ.", x.Shared, s.Name, s.InputLen)
		}
	}
}

// checkMix checks the further shapes of a scenario.
func (d *draft) checkMix(p *problems, s Scenario, w Workload) {
	rest := 1.
	for _, x := range s.Mix {
		if w.Dataset != "random" {
			p.add(cExclusive, x.Range, "\"mix\" belongs to random prompts; the data set %q has lengths of its own. Remove it, or write dataset = \"random\".", w.Dataset)
			return
		}
		rest -= x.Share
		d.checkShare(p, s, x.Share, x.Range)
	}
	if rest < 1e-9 {
		p.add(cBadValue, s.Mix[len(s.Mix)-1].Range, "The mix blocks of the scenario %q have shares of %.6g together, which leaves nothing for its own lengths, %d in and %d out. Write less than 1, or give the scenario the lengths of one of them.", s.Name, 1-rest, s.InputLen, s.OutputLen)
	} else if len(s.Mix) > 0 {
		d.checkShare(p, s, rest, s.Range)
	}
}

// checkShare refuses a share that is less than one request: what is rounded away
// is not measured.
func (d *draft) checkShare(p *problems, s Scenario, share float64, at Range) {
	if n := share * float64(s.NumPrompts); share > 0 && s.NumPrompts > 0 && n < 1-1e-9 {
		p.add(cBadValue, at, "A share of %.6g of the %d requests of the scenario %q is less than one request. Write num_prompts = %.0f or more, or remove the block.", share, s.NumPrompts, s.Name, math.Ceil(1/share-1e-9))
	}
}

// plain reports whether random prompts are the default ones.
func (x Prompts) plain() bool { return x.Spread == 0 && len(x.Adapters) == 0 && x.Cancel == 0 }
