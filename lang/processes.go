package lang

import (
	"slices"
	"strings"

	"github.com/sotabuild/sotabuild/internal/lazyregexp"
)

// Types of objects whose names mean something.
var (
	reasonsType = Type{Name: "object of texts: framework = \"reason\"", decode: func(g *given) any {
		return named(g, nameProblem)
	}}
	envType = Type{Name: "object of texts: environment variables", decode: func(g *given) any {
		return named(g, func(name string) string {
			switch {
			case !envName.MatchString(name):
				return "names of environment variables have letters, digits and underscores and start with no digit"
			case secretName.MatchString(name):
				return "its value would be read by many and stand in every key; name it in the secrets block and set it in your shell"
			}
			return ""
		})
	}}
)

// secretName are names of variables whose values are secrets.
var secretName = lazyregexp.New(`(?i)(^|_)(token|secret|password|passwd|api_?key|credentials?)$`)

// named decodes an object of texts whose names have rules of their own.
func named(g *given, problem func(string) string) any {
	pairs, ok := g.pairs()
	if !ok {
		return nil
	}
	out := make(map[string]string, len(pairs))
	for _, x := range pairs {
		if why := problem(x.name); why != "" {
			x.p.add(cBadValue, x.nameAt, "%q: %q cannot stand here: %s.", g.row.Name, x.name, why)
			return nil
		}
		s, ok := textType.decode(x.given).(string)
		if !ok {
			return nil
		}
		out[x.name] = s
	}
	return out
}

// absent lists a map of reasons in order of the names.
func absent(reasons map[string]string) []Absent {
	list := []Absent{}
	for _, name := range sortedNames(reasons) {
		list = append(list, Absent{name, reasons[name]})
	}
	return list
}

// checkProcesses checks that several processes make one system.
func (d *draft) checkProcesses(f *Framework, p *problems) {
	roles := make([]string, len(f.Processes))
	for i, x := range f.Processes {
		roles[i] = x.Role
	}
	at := d.place("framework."+f.Label+".endpoint", f.Range)
	switch {
	case len(roles) == 0 && f.Endpoint != "":
		p.add(cExclusive, at, "endpoint names one of several processes, and %q has none. Remove it, or write process %q { … }.", f.Label, f.Endpoint)
		return
	case len(roles) == 0 || d.told("framework."+f.Label, "endpoint"):
		return
	case f.Endpoint == "":
		p.add(cMissing, f.Range, "%q has several processes, and nothing says which of them answers the requests. Write endpoint = \"ROLE\" into the framework block; the roles are %s.", f.Label, oneOf(roles))
	case !slices.Contains(roles, f.Endpoint):
		p.add(cProcess, at, "There is no process %q. %s The roles are %s.", f.Endpoint, didYouMean(f.Endpoint, roles), oneOf(roles))
	}
	for i := range f.Processes {
		d.checkProcess(f, &f.Processes[i], roles, p)
	}
	checkOrder(f, p)
	d.checkProcessGPUs(f, p)
}

func (d *draft) checkProcess(f *Framework, x *Process, roles []string, p *problems) {
	if x.Role == f.Endpoint && x.Count > 1 {
		p.add(cProcess, x.Range, "The process %q is the endpoint and runs %d times, so that requests would reach only one of them. Write count = 1, or put a router before them.", x.Role, x.Count)
	}
	for _, a := range x.After {
		switch {
		case a == x.Role:
			p.add(cProcess, x.Range, "The process %q waits for itself. Remove it from after.", x.Role)
		case !slices.Contains(roles, a):
			p.add(cProcess, x.Range, "The process %q starts after %q, which is none of the processes. %s The roles are %s.", x.Role, a, didYouMean(a, roles), oneOf(roles))
		}
	}
	if err := checkWords(x.Command, "command of process "+x.Role, serverWords...); err != nil {
		p.add(cProcess, x.Range, "%v.", err)
	}
	if f.Definition == nil {
		return
	}
	if len(x.Command) == 0 && len(f.Definition.Server.Command) == 0 {
		p.add(cMissing, x.Range, "Nothing says how the process %q is started: the definition %q has no server command. Write command = […].", x.Role, f.Use)
	}
	if len(x.Command) == 0 {
		for _, flag := range x.Flags {
			if slices.Contains(reservedFlags(f.Definition), canonicalFlag(f.Definition, flag.Name)) {
				p.add(cFlag, flag.Range, "%q is passed by the server command itself. Remove it.", flag.Name)
			}
		}
	}
}

// checkOrder refuses processes that wait for each other, with the whole path.
func checkOrder(f *Framework, p *problems) {
	after := map[string][]string{}
	at := map[string]Range{}
	for _, x := range f.Processes {
		after[x.Role], at[x.Role] = x.After, x.Range
	}
	done := map[string]bool{}
	var visit func(role string, path []string) bool
	visit = func(role string, path []string) bool {
		if i := slices.Index(path, role); i >= 0 {
			if len(path)-i > 1 { // waiting for itself is told already
				p.add(cProcess, at[role], "%s: each starts after the next, so that none of them starts. Remove one of the words from after.", strings.Join(append(path[i:], role), " → "))
			}
			return false
		}
		if done[role] {
			return true
		}
		done[role] = true
		for _, next := range after[role] {
			if !visit(next, append(slices.Clone(path), role)) {
				return false
			}
		}
		return true
	}
	for _, x := range f.Processes {
		if !done[x.Role] && !visit(x.Role, nil) {
			return
		}
	}
}

func (d *draft) checkProcessGPUs(f *Framework, p *problems) {
	total := 0
	for _, x := range f.Processes {
		total = min(total+min(x.Count, 1<<15)*min(x.GPUs, 1<<15), 1<<30)
	}
	switch {
	case d.GPUs == nil && total > 0:
		p.add(cGPUs, f.Range, "The processes of %q use %d GPUs, and the campaign has no gpus block. Write one, or gpus = 0.", f.Label, total)
	case d.GPUs != nil && len(d.GPUs.IDs) > 0 && d.takesPart(f) && total != len(d.GPUs.IDs):
		p.add(cGPUs, f.Range, "The processes of %q use %d GPUs together (count × gpus of each), and the campaign has %d. Every framework uses the same GPUs: change count or gpus of the processes, or ids in the gpus block.", f.Label, total, len(d.GPUs.IDs))
	}
}
