package lang

import (
	"fmt"
	"slices"
	"strings"
)

// competitors are the default competitors by target (R022, R024).
var competitors = map[string][]string{
	"vllm":   {"sglang", "tensorrt_llm"},
	"sglang": {"vllm", "tensorrt_llm", "tokenspeed"},
}

// canonical are other names of frameworks, in small letters without dashes,
// points, underscores and spaces (R033).
var canonical = map[string]string{
	"trtllm": "tensorrt_llm", "trt": "tensorrt_llm", "tensorrt": "tensorrt_llm", "tensorrtllm": "tensorrt_llm",
	"sgl": "sglang", "ts": "tokenspeed", "llamaserver": "llamacpp", "llama": "llamacpp",
	"vllm": "vllm", "sglang": "sglang", "tokenspeed": "tokenspeed", "llamacpp": "llamacpp",
}

// canonicalHint names the framework that another spelling means.
func canonicalHint(given string) string {
	key := strings.NewReplacer("-", "", "_", "", ".", "", " ", "").Replace(strings.ToLower(given))
	if name := canonical[key]; name != "" && name != given {
		return fmt.Sprintf("Write %q.", name)
	}
	return ""
}

// check applies the rules that concern several attributes or blocks. Each
// works on what is there; what is missing has been told.
func (d *draft) check(lib *library, p *problems) {
	d.useDefinitions(lib, p)
	if d.Sides.Target != "" {
		d.checkSides(lib, p)
	}
	d.checkModel(p)
	d.checkScenarios(p)
	d.checkWorkload(p)
	for i := range d.Frameworks {
		d.checkFramework(&d.Frameworks[i], p)
	}
	d.checkSearches(p)
	d.checkJudge(p)
	d.checkRun(p)
}

// labels are the frameworks with a block, in file order.
func (d *draft) labels() []string {
	list := make([]string, len(d.Frameworks))
	for i, f := range d.Frameworks {
		list[i] = f.Label
	}
	return list
}

func (d *draft) framework(label string) *Framework {
	for i := range d.Frameworks {
		if d.Frameworks[i].Label == label {
			return &d.Frameworks[i]
		}
	}
	return nil
}

// useDefinitions joins each framework with its definition.
func (d *draft) useDefinitions(lib *library, p *problems) {
	first := map[string]int{}
	for i := range d.Frameworks {
		f := &d.Frameworks[i]
		if j, twice := first[f.Label]; twice {
			x := p.add(cDuplicate, f.Range, "Two frameworks have the name %q. for_each names them LABEL_KEY; change one of the labels.", f.Label)
			x.Related = []Range{d.Frameworks[j].Range}
		} else {
			first[f.Label] = i
		}
		def, found := lib.named(f.Use)
		if found {
			f.Definition = def
			continue
		}
		at := d.place("framework."+f.Label+".use", f.Range)
		hint := canonicalHint(f.Use)
		if hint == "" {
			hint = didYouMean(f.Use, lib.names())
		}
		p.add(cUnknownFw, at, "There is no definition %q. %s The definitions are %s. For a system of your own write %s%s beside the campaign, or use = \"NAME\" if only the label is your own.",
			f.Use, hint, strings.Join(lib.names(), ", "), f.Use, definitionSuffix)
	}
}

// checkSides settles who takes part (R022–R024, R032–R038).
func (d *draft) checkSides(lib *library, p *problems) {
	s := &d.Sides
	at := d.place("campaign."+d.Name+".target", s.Range)
	if d.framework(s.Target) == nil {
		p.add(cUnknownFw, at, "The target %q has no framework block. %s", s.Target, d.sideHint(s.Target, nil))
	}
	excludedAt := d.place("campaign."+d.Name+".excluded", s.Range)
	known := append(append(lib.names(), d.labels()...), "tokenspeed")
	for _, x := range s.Excluded {
		switch {
		case x == s.Target:
			p.add(cSides, excludedAt, "%q is the target, so it cannot be excluded. Remove it from excluded, or choose another target.", x)
		case !slices.Contains(known, x):
			p.add(cUnknownFw, excludedAt, "There is no framework %q to exclude. %s", x, d.frameworkHint(x, lib.names()))
		}
	}
	d.checkAbsent("unsupported", s.Unsupported, known, lib, p)
	d.checkAbsent("unavailable", s.Unavailable, known, lib, p)
	compareAt, written := d.written("campaign." + d.Name + ".compare")
	switch {
	case written && !d.unsure["campaign."+d.Name+".compare"]:
		d.checkCompare(compareAt, lib, p)
	case d.told("campaign."+d.Name, "compare"):
		return // who takes part is not known
	default:
		d.defaultCompare(at, p)
	}
	d.warnIdle(p)
	d.checkVerified(p)
}

// warnIdle names the blocks that take no part. Where a side has no block, one
// of them may be the one that was meant, and nothing is said.
func (d *draft) warnIdle(p *problems) {
	s := &d.Sides
	sides := append([]string{s.Target}, s.Compare...)
	if slices.ContainsFunc(sides, func(name string) bool { return d.framework(name) == nil }) {
		return
	}
	for _, f := range d.Frameworks {
		if !slices.Contains(sides, f.Label) && !slices.Contains(s.Excluded, f.Label) && !s.absent(f.Label) {
			p.warn(cNoPart, f.Range, "%q has a block but takes no part: a framework is never added because a block exists. Add it to compare, or name it in excluded.", f.Label)
		}
	}
}

// absent reports whether a framework is recorded as unsupported or unavailable.
func (s *Sides) absent(name string) bool {
	is := func(a Absent) bool { return a.Name == name }
	return slices.ContainsFunc(s.Unsupported, is) || slices.ContainsFunc(s.Unavailable, is)
}

// checkAbsent checks one of the lists of frameworks that cannot take part. The
// words are kept apart (R038): excluded is a choice, unsupported is the
// framework's limit, unavailable the environment's.
func (d *draft) checkAbsent(word string, list []Absent, known []string, lib *library, p *problems) {
	s := &d.Sides
	at := d.place("campaign."+d.Name+"."+word, s.Range)
	for _, a := range list {
		other := ""
		switch {
		case a.Name == s.Target:
			other = "the target"
		case slices.Contains(s.Compare, a.Name):
			other = "in compare"
		case slices.Contains(s.Excluded, a.Name):
			other = "in excluded"
		case word == "unavailable" && slices.ContainsFunc(s.Unsupported, func(b Absent) bool { return b.Name == a.Name }):
			other = "in unsupported"
		case !slices.Contains(known, a.Name):
			p.add(cUnknownFw, at, "There is no framework %q to call %s. %s", a.Name, word, d.frameworkHint(a.Name, lib.names()))
			continue
		default:
			continue
		}
		p.add(cSides, at, "%q is %s and also %s. A framework takes part, or is excluded by choice, or is unsupported by itself, or is unavailable in this environment. Keep one of the words.", a.Name, other, word)
	}
}

// checkVerified refuses TokenSpeed beside a vllm target unless its benchmark
// path is verified by a step (R039).
func (d *draft) checkVerified(p *problems) {
	target := d.framework(d.Sides.Target)
	if target == nil || target.Use != "vllm" {
		return
	}
	for _, name := range d.Sides.Compare {
		if f := d.framework(name); f != nil && f.Use == "tokenspeed" && f.Verification == nil {
			p.add(cVerify, f.Range, "TokenSpeed stays out of a comparison with a vllm target until its benchmark path is verified end to end. Write verification {} into the framework block, which adds the step that proves it, or move %q to excluded.", name)
		}
	}
}

// frameworkHint helps with a name that has no block.
func (d *draft) frameworkHint(name string, more []string) string {
	if hint := canonicalHint(name); hint != "" {
		return hint
	}
	return didYouMean(name, append(d.labels(), more...))
}

// sideHint helps with a side of the comparison that has no block.
func (d *draft) sideHint(name string, more []string) string {
	if hint := d.frameworkHint(name, more); hint != "" {
		return hint
	}
	if len(d.Frameworks) == 0 {
		return fmt.Sprintf("Write: framework %q { … }", name)
	}
	return fmt.Sprintf("Frameworks with a block: %s. Write one of these, or the block: framework %q { … }", strings.Join(d.labels(), ", "), name)
}

func (d *draft) checkCompare(at Range, lib *library, p *problems) {
	s := &d.Sides
	for _, c := range s.Compare {
		switch {
		case c == s.Target:
			p.add(cSides, at, "%q is the target, so it is not among its own competitors. Remove it from compare: the list holds competitors only.", c)
		case slices.Contains(s.Excluded, c):
			p.add(cSides, at, "%q stands in compare and in excluded. Remove it from one of them.", c)
		case d.framework(c) == nil && (slices.Contains(lib.names(), c) || competitors[c] != nil):
			p.add(cUnknownFw, at, "The competitor %q has no framework block. Write framework %q { … }, or move it to excluded.", c, c)
		case d.framework(c) == nil:
			p.add(cUnknownFw, at, "There is no framework %q. %s", c, d.sideHint(c, lib.names()))
		}
	}
	if len(s.Compare) == 0 && !d.Smoke {
		p.warn(cNoCompetitor, at, "compare is empty, so that only the target is measured and nothing is decided. Name the competitors.")
	}
}

// defaultCompare takes the prescribed competitors; those without a block are
// unavailable, which is not the same as excluded.
func (d *draft) defaultCompare(at Range, p *problems) {
	s := &d.Sides
	list, ok := competitors[s.Target]
	if !ok {
		p.add(cCompareNeeded, at, "Only the targets vllm and sglang have prescribed competitors. For %q write them: compare = [%s]", s.Target, quoteAll(others(d.labels(), s.Target)))
		return
	}
	for _, c := range list {
		switch {
		case slices.Contains(s.Excluded, c), s.absent(c):
		case d.framework(c) == nil:
			s.Unavailable = append(s.Unavailable, Absent{c, "the campaign has no framework block for it"})
		default:
			s.Compare = append(s.Compare, c)
		}
	}
	if len(s.Compare) == 0 && !d.Smoke {
		p.warn(cNoCompetitor, at, "None of the default competitors of %q (%s) has a framework block, so that nothing is decided. Write their blocks, or name others in compare.", s.Target, strings.Join(list, ", "))
	}
}

func others(list []string, name string) []string {
	return slices.DeleteFunc(slices.Clone(list), func(x string) bool { return x == name })
}
