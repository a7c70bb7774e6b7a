package lang

// Stops reads a file of stop blocks and nothing else, such as the prescribed
// ones. Such a file is part of no campaign, so its conditions name facts and
// plain values, and no scenario of their own. With an error there are none.
func Stops(name string, src []byte) ([]Stop, Diagnostics) {
	p := &problems{}
	s := source{name, src}
	var l Loop
	if body := parse(s, "loop", p); body != nil {
		d := &decoder{scope: newScope(), p: p, sources: map[string][]byte{name: src}, at: map[string]Range{}, unsure: map[string]bool{}}
		row := blockAt("loop.stop")
		first := map[string]Range{}
		for _, a := range sortedAttrs(body.Attributes) {
			p.add(cUnknownAttr, rangeOf(a.NameRange), "A file of stop blocks has no attribute at its top. Write: stop \"NAME\" { … }")
		}
		for _, b := range body.Blocks {
			if b.Type != row.name() {
				p.add(cUnknownBlock, rangeOf(b.TypeRange), "Only stop blocks stand here, and this is %q. Write: stop \"NAME\" { … }", b.Type)
				continue
			}
			label, ok := d.label(row, b)
			if !ok {
				continue
			}
			if before, twice := first[label]; twice {
				x := p.add(cDuplicate, rangeOf(b.DefRange()), "There are two stop blocks %q. Keep one of them.", label)
				x.Related = []Range{before}
				continue
			}
			first[label] = rangeOf(b.DefRange())
			d.block(row, b, label, label, &l)
		}
	}
	for _, x := range l.Stops {
		if c, ok := x.When.(*condition); ok {
			for _, n := range c.needs {
				if n.scenario != "" {
					p.add(cUnknownName, n.at, "The condition of %q names the scenario %q, which not every campaign has. Use round.worst_gap or round.best_gap.", x.Name, n.scenario)
				}
			}
		}
	}
	diags := p.finish([]source{s})
	if diags.HasErrors() {
		return nil, diags
	}
	return l.Stops, diags
}
