package lang

import (
	"slices"

	"github.com/sotabuild/sotabuild/internal/lazyregexp"
)

// prescribed are the stop predicates that every loop has (R195).
var prescribed = []string{"reached", "tied", "external", "near_limit"}

// remote is a registry and a repository, without a password.
var remote = lazyregexp.New(`^oci://[A-Za-z0-9.-]+(:[0-9]+)?(/[a-z0-9._-]+)+$`)

func (d *draft) checkRun(p *problems) {
	r := &d.Run
	if r.Executor.Type == "" {
		r.Executor.Type = "auto"
	}
	checkExecutor(&r.Executor, p)
	if c := r.Cache; c.Remote != "" && !remote.MatchString(c.Remote) {
		p.add(cBadValue, d.at["cache.remote"], "%q: write the registry and the repository as oci://HOST/NAME, in small letters and without name or password; the credentials of the registry's own client are used.", "remote")
	}
	for _, t := range r.Traces {
		if d.framework(t.Framework) == nil {
			p.add(cUnknownFw, d.place("trace."+t.Name+".framework", t.Range), "The trace %q is of %q, which has no framework block. %s", t.Name, t.Framework, d.frameworkHint(t.Framework, nil))
		}
	}
	if r.Loop == nil {
		return
	}
	if f := d.framework(d.Sides.Target); f != nil && f.Checkout == "" {
		p.add(cLoop, r.Loop.Range, "The loop patches the target %q, and nothing says where its sources are. Write checkout = \"PATH\" into its framework block.", f.Label)
	}
	switch a := r.Loop.Agent; {
	case a.Type == "script" && len(a.Command) == 0 && !d.told("loop.agent."+a.Type, "command"):
		p.add(cMissing, d.place("loop.agent", r.Loop.Range), "An agent that is a script needs its command. Write command = [\"PROGRAM\", …] into the agent block.")
	case a.Type != "script" && len(a.Command) > 0:
		p.add(cExclusive, d.at["loop.agent."+a.Type+".command"], "The agent %q has a command of its own. Remove this one, or write agent \"script\" {.", a.Type)
	}
	for _, g := range r.Loop.Gates {
		if c, ok := g.When.(*condition); ok {
			d.checkNeeds(c, p)
		}
	}
	for _, s := range r.Loop.Stops {
		if slices.Contains(prescribed, s.Name) {
			p.add(cLoop, s.Range, "The predicate %q is prescribed, and a stop block cannot change it. Choose another name.", s.Name)
		}
		if c, ok := s.When.(*condition); ok {
			d.checkNeeds(c, p)
		}
	}
}

// checkNeeds checks that a fact by scenario names one that exists.
func (d *draft) checkNeeds(c *condition, p *problems) {
	names := make([]string, len(d.Load.Main()))
	for i, s := range d.Load.Main() {
		names[i] = s.Name
	}
	for _, n := range c.needs {
		if n.scenario != "" && !slices.Contains(names, n.scenario) {
			p.add(cUnknownName, n.at, "There is no scenario %q. %s The scenarios are %s.", n.scenario, didYouMean(n.scenario, names), oneOf(names))
		}
	}
}
