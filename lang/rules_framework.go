package lang

import (
	"maps"
	"slices"
	"strings"
)

// takesPart reports whether a framework is measured.
func (d *draft) takesPart(f *Framework) bool {
	return f.Label == d.Sides.Target || slices.Contains(d.Sides.Compare, f.Label)
}

func (d *draft) checkFramework(f *Framework, p *problems) {
	d.checkSource(f, p)
	if f.Executor != nil {
		checkExecutor(f.Executor, p)
	}
	if f.Definition == nil {
		return
	}
	known := len(p.list)
	checkFlagNames(f, p)
	checkFlagRules(f, p)
	if len(p.list) > known {
		return // values of wrong flags are nobody's concern
	}
	if len(f.URL) == 0 && !d.told("framework."+f.Label, "flags") && !d.told("framework."+f.Label, "url") {
		d.checkContext(f, p)
		if len(f.Processes) == 0 {
			d.checkParallel(f, p)
		}
	}
	d.checkProcesses(f, p)
	if n := combinations(f.Search.Space); n > f.Search.MaxCandidates-1 && f.Search.MaxCandidates > 1 && len(f.Search.Space) > 0 {
		p.warn(cSearchCut, f.Search.Range, "The search space of %q has %d combinations, and only the first %d are measured beside the baseline; the last flag varies fastest, so that the first flags may keep their first value. Raise max_candidates, or try fewer values.",
			f.Label, n, f.Search.MaxCandidates-1)
	}
}

// combinations is the size of a product, capped.
func combinations(axes []Axis) int {
	n := 1
	for _, a := range axes {
		n = min(n*len(a.Values), 1<<30)
	}
	return n
}

// checkSource checks where the program comes from.
func (d *draft) checkSource(f *Framework, p *problems) {
	place := "framework." + f.Label + "."
	var ways []string
	for _, attr := range []string{"image", "program", "url"} {
		if _, ok := d.written(place + attr); ok {
			ways = append(ways, attr)
		}
	}
	switch {
	case len(ways) > 1 && ways[len(ways)-1] == "url":
		p.add(cExclusive, d.at[place+"url"], "A framework is a url that already runs, or it is started from an image, a program on the host, or whichever of both its executor takes; here stand %s. Keep the url, or remove it.", oneOf(ways))
	case len(ways) == 0 && d.takesPart(f):
		p.add(cMissing, f.Range, "Nothing says where %q comes from. Write one of image = \"NAME:TAG\", program = \"/path/of/the/program\", or url = [\"http://HOST:PORT\"].", f.Label)
	}
	if len(f.URL) > 0 {
		attrs := map[string]Range{"search": f.Search.Range}
		for _, a := range []string{"flags", "port", "env", "compile_cache", "endpoint", "start_timeout", "tree"} {
			attrs[a] = d.at[place+a]
		}
		if len(f.Processes) > 0 {
			attrs["process"] = f.Processes[0].Range
		}
		for attr, at := range attrs {
			if at != (Range{}) {
				p.add(cExclusive, at, "%q already runs at its url, so that %s change nothing. Remove this, or let the server be started from an image or program.", f.Label, attr)
			}
		}
		return
	}
	started := len(f.Processes) > 0 && !slices.ContainsFunc(f.Processes, func(x Process) bool { return len(x.Command) == 0 })
	if f.Definition != nil && len(f.Definition.Server.Command) == 0 && !started && len(ways) > 0 && !d.told("framework."+f.Label, "url") {
		p.add(cDefinition, f.Range, "The definition %q has no server command, so that it can only be a url. Write url = [\"http://HOST:PORT\"], or a server command in the definition.", f.Use)
	}
}

// checkFlagNames checks flags and searched flags against what the definition
// says of them (R054, R062, R071). Whether the program knows a flag is checked
// against its own help, later.
func checkFlagNames(f *Framework, p *problems) {
	def := f.Definition
	reserved := reservedFlags(def)
	fixed := map[string]Value{}
	for _, x := range def.Flags.Fixed {
		fixed[x.Name] = x.Value
	}
	seen := map[string]Flag{}
	check := func(name string, at Range, searched bool) bool {
		real := name
		if to := def.Flags.Aliases[name]; to != "" {
			real = to
		}
		reason, never := def.Flags.NotSearched[real]
		_, isFixed := fixed[real]
		switch before, twice := seen[real]; {
		case slices.Contains(reserved, real):
			p.add(cFlag, at, "%q is passed by the server command itself. Remove it; a fixed port is written as port = … in the framework block, the model in the model block.", name)
		case searched && never:
			p.add(cFlag, at, "%q may not stand in a search space: %s Remove it from space.", name, reason)
		case searched && isFixed:
			p.add(cFlag, at, "%q is fixed to %s for every candidate of %q, so it cannot be searched. Remove it from space.", name, fixed[real].Text(), f.Use)
		case twice:
			x := p.add(cDuplicate, at, "%q and %q are two spellings of one flag. Keep one of them.", before.Name, name)
			x.Related = []Range{before.Range}
		default:
			return true
		}
		return false
	}
	for _, x := range f.Flags {
		if !check(x.Name, x.Range, false) {
			continue
		}
		real := canonicalFlag(def, x.Name)
		if v, ok := fixed[real]; ok && !v.Equal(x.Value) {
			reason := def.Flags.NotSearched[real]
			p.add(cFlag, x.Range, "%q is %s for every candidate of %q and cannot be %s. %s Remove it from flags.", x.Name, v.Text(), f.Use, x.Value.Text(), reason)
		}
		seen[real] = x
	}
	clear(seen) // a searched flag may have a base value
	for _, x := range f.Search.Space {
		if check(x.Name, x.Range, true) {
			seen[canonicalFlag(def, x.Name)] = Flag{Name: x.Name, Range: x.Range}
		}
	}
}

// checkFlagRules checks what a definition says of flags together.
func checkFlagRules(f *Framework, p *problems) {
	given := map[string]Range{}
	for _, x := range f.Definition.Flags.Fixed {
		given[x.Name] = f.Range
	}
	for _, x := range f.Flags {
		if x.Value.Kind != Null {
			given[canonicalFlag(f.Definition, x.Name)] = x.Range
		}
	}
	for _, x := range f.Search.Space {
		given[canonicalFlag(f.Definition, x.Name)] = x.Range
	}
	for _, r := range f.Definition.Flags.Rules {
		at, ok := given[r.Flag]
		if !ok {
			continue
		}
		if _, there := given[r.Needs]; r.Needs != "" && !there {
			p.add(cFlag, at, "%q needs the flag %q: %s Write it into flags or space, or remove %q.", r.Flag, r.Needs, r.Because, r.Flag)
		}
		if _, there := given[r.Excludes]; r.Excludes != "" && there {
			p.add(cFlag, at, "%q cannot stand beside the flag %q: %s Remove one of them.", r.Flag, r.Excludes, r.Because)
		}
	}
}

func canonicalFlag(def *Definition, name string) string {
	if to := def.Flags.Aliases[name]; to != "" {
		return to
	}
	return name
}

// candidateValue is one value that candidates give a flag.
type candidateValue struct {
	value Value
	at    Range
}

// valuesOf lists every value that a candidate of f gives a flag: its base
// value and the searched ones, else the fixed one. The baseline leaves out a
// flag that has only searched values; then missing is true.
func valuesOf(f *Framework, flag string) (list []candidateValue, missing bool) {
	missing = true
	for _, x := range f.Flags {
		if canonicalFlag(f.Definition, x.Name) == flag && x.Value.Kind != Null {
			list, missing = append(list, candidateValue{x.Value, x.Range}), false
		}
	}
	for _, x := range f.Definition.Flags.Fixed {
		if x.Name == flag && missing {
			list, missing = append(list, candidateValue{x.Value, f.Range}), false
		}
	}
	for _, x := range f.Search.Space {
		if canonicalFlag(f.Definition, x.Name) != flag {
			continue
		}
		for _, v := range x.Values {
			if v.Kind == Null {
				missing = true
				continue
			}
			list = append(list, candidateValue{v, x.Range})
		}
	}
	return list, missing
}

// checkContext checks that every candidate can hold the longest request.
func (d *draft) checkContext(f *Framework, p *problems) {
	flag, s := f.Definition.Flags.Context, d.longest()
	need := s.InputLen + s.OutputLen
	if flag == "" || need == 0 || !d.takesPart(f) {
		return
	}
	shares, share := 1, f.Definition.Flags.ContextPer
	if share != "" {
		counts, _ := valuesOf(f, share)
		for _, c := range counts {
			shares = max(shares, int(min(c.value.Int, 1<<20)))
		}
	}
	values, missing := valuesOf(f, flag)
	if missing && !f.Definition.Flags.ContextFromModel {
		p.add(cContext, f.Range, "Each candidate of %q needs the flag %s: without it the server chooses by itself, and the scenario %q needs %d + %d = %d tokens. Write into flags: %s = %d",
			f.Label, flag, s.Name, s.InputLen, s.OutputLen, need, flag, need*shares)
	}
	for _, v := range values {
		switch {
		case v.value.Kind != Int:
			p.add(cContext, v.at, "The flag %s is a number of tokens, and this is %q. Write a whole number without quotes, at least %d.", flag, v.value.Text(), need*shares)
		case v.value.Int < int64(need)*int64(shares) && shares > 1:
			p.add(cContext, v.at, "The flag %s is %d, which %s = %d divides among so many requests, and the scenario %q needs %d + %d = %d tokens for each. Write at least %d.",
				flag, v.value.Int, share, shares, s.Name, s.InputLen, s.OutputLen, need, need*shares)
		case v.value.Int < int64(need)*int64(shares):
			p.add(cContext, v.at, "The flag %s is %d, and the scenario %q needs %d + %d = %d tokens. Write at least %d.", flag, v.value.Int, s.Name, s.InputLen, s.OutputLen, need, need)
		}
	}
}

// GPUCount is how many GPUs a candidate with these flags uses: the product of
// the definition's parallel flags, where a flag that is not given counts as 1.
// It is false where no flag says it.
func (f *Framework) GPUCount(flags []Flag) (int, bool) {
	if len(f.Definition.Flags.Parallel) == 0 || len(f.Processes) > 0 || len(f.URL) > 0 {
		return 0, false
	}
	product := int64(1)
	for _, x := range flags {
		if slices.Contains(f.Definition.Flags.Parallel, canonicalFlag(f.Definition, x.Name)) && x.Value.Kind == Int {
			product = min(product*max(x.Value.Int, 1), 1<<30)
		}
	}
	return int(product), true
}

// checkParallel checks that the baseline uses exactly the campaign's GPUs
// (R055), and that searched parallelism has combinations that do. A product of
// two axes has others too; those candidates are skipped.
func (d *draft) checkParallel(f *Framework, p *problems) {
	flags := f.Definition.Flags.Parallel
	if d.GPUs == nil || len(d.GPUs.IDs) == 0 || len(flags) == 0 || !d.takesPart(f) {
		return
	}
	product, _ := f.GPUCount(f.Flags)
	at := f.Range
	for _, x := range f.Flags {
		if slices.Contains(flags, canonicalFlag(f.Definition, x.Name)) {
			at = x.Range
		}
	}
	defer d.checkSearchedGPUs(f, p)
	if product != len(d.GPUs.IDs) {
		p.add(cGPUs, at, "%q uses as many GPUs as the product of %s, which is %d, and the campaign has %d. Every framework uses the same GPUs: change the flags, or ids in the gpus block.", f.Label, strings.Join(flags, " × "), product, len(d.GPUs.IDs))
	}
}

// checkSearchedGPUs counts the combinations of searched parallel flags that use
// the campaign's GPUs.
func (d *draft) checkSearchedGPUs(f *Framework, p *problems) {
	var axes []Axis
	var names []string
	for _, a := range f.Search.Space {
		if slices.Contains(f.Definition.Flags.Parallel, canonicalFlag(f.Definition, a.Name)) {
			axes, names = append(axes, a), append(names, a.Name)
		}
	}
	all := combinations(axes)
	if len(axes) == 0 || all > maxInstances {
		return // the search says so, candidate by candidate
	}
	fit := 0
	for i := range all {
		flags, rest := slices.Clone(f.Flags), i
		for _, a := range axes {
			flags = slices.DeleteFunc(flags, func(x Flag) bool {
				return canonicalFlag(f.Definition, x.Name) == canonicalFlag(f.Definition, a.Name)
			})
			flags = append(flags, Flag{Name: a.Name, Value: a.Values[rest%len(a.Values)]})
			rest /= len(a.Values)
		}
		if n, _ := f.GPUCount(flags); n == len(d.GPUs.IDs) {
			fit++
		}
	}
	what := strings.Join(names, " × ")
	switch {
	case fit == 0:
		p.add(cGPUs, axes[0].Range, "No searched combination of %s of %q uses the campaign's %d GPUs. Every framework uses the same GPUs: write values whose product is %d.", what, f.Label, len(d.GPUs.IDs), len(d.GPUs.IDs))
	case fit < all:
		p.warn(cGPUs, axes[0].Range, "%d of the %d searched combinations of %s of %q use another number of GPUs than the campaign's %d; those candidates are skipped.", all-fit, all, what, f.Label, len(d.GPUs.IDs))
	}
}

// checkSearches refuses a tuned target beside competitors that only get their
// defaults (R053, R054). A flow check may do it: it decides nothing.
func (d *draft) checkSearches(p *problems) {
	target := d.framework(d.Sides.Target)
	if target == nil || d.Smoke || len(target.Search.Space) == 0 {
		return
	}
	for _, c := range d.Sides.Compare {
		f := d.framework(c)
		if f == nil || len(f.URL) > 0 || len(f.Search.Space) > 0 || f.Label == target.Label {
			continue
		}
		p.add(cSearch, f.Range, "The target %q is searched and %q is not: a tuned target beside a competitor with default flags decides nothing. Write search { space = { … } } for %q, or mark the campaign with smoke = true.", target.Label, f.Label, f.Label)
	}
	for _, f := range d.Frameworks {
		if d.takesPart(&f) && len(f.Search.Space) > 0 && f.Search.MaxCandidates < 2 {
			p.add(cSearch, f.Search.Range, "max_candidates = 1 of %q measures the baseline alone, so that its space is never tried. Write at least 2, or remove the search block of every framework.", f.Label)
		}
	}
}

func (d *draft) checkJudge(p *problems) {
	j := &d.Judge
	for _, name := range slices.Sorted(maps.Keys(j.Waived)) {
		if !slices.Contains(fairnessFields, name) {
			p.add(cBadValue, d.place("fairness.waive", Range{}), "%q is no field that can be waived. %s The fields are %s.", name, didYouMean(name, fairnessFields), oneOf(fairnessFields))
		}
	}
	if a := j.Accuracy; a != nil && a.MinScore > 0 && a.Path == "" {
		p.add(cMissing, d.place("accuracy.min_score", d.at["accuracy"]), "Only graded prompts have a score. Write path = \"FILE\" with lines that have prompt and answer, or remove min_score.")
	}
	if r, s := j.Rate, j.SLA; r != nil && s.MaxP50TTFT == nil && s.MaxP50TPOT == nil && s.MaxP50E2E == nil {
		p.add(cMissing, r.Range, "A rate search asks how far the SLA is kept, and the campaign has no limit of a time. Write max_p50_ttft_ms, max_p50_tpot_ms or max_p50_e2e_ms into the sla block.")
	}
	if r, w := j.Rate, d.Load.Workload; r != nil && w.Arrival == "trace" {
		p.add(cExclusive, r.Range, "A rate search sends requests at rates of its own, by a Poisson process, and arrival = \"trace\" sends them at the times of its file: what would be found is not the trace's. Remove the rate_search block, or write arrival = \"poisson\" and rate into the workload block.")
	}
	if n := j.Noise; n.MaxRepeats > 0 && n.MinRepeats > n.MaxRepeats {
		p.add(cBadValue, d.place("noise.min_repeats", d.at["noise"]), "min_repeats is %d and max_repeats is %d. Write a maximum that is not below the minimum.", n.MinRepeats, n.MaxRepeats)
	}
}
