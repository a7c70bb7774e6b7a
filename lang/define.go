package lang

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2/hclsyntax"

	"github.com/sotabuild/sotabuild/internal/lazyregexp"
)

// library is the definitions that a campaign can use. The user's own are all
// read and checked; a built-in one only when it is used.
type library struct {
	own      map[string]*Definition // nil: there, but broken
	builtins fs.FS
	p        *problems
	sources  []source // of the built-in ones that were read
	read     map[string]*Definition
}

// builtinPrefix marks a built-in definition's file in ranges.
const builtinPrefix = "builtin/"

func newLibrary(own []source, builtins fs.FS, p *problems) *library {
	l := &library{own: map[string]*Definition{}, builtins: builtins, p: p, read: map[string]*Definition{}}
	names := l.builtinNames()
	for _, s := range own {
		list, sound := definitions(s, p)
		for _, d := range list {
			if slices.Contains(names, d.Name) {
				p.add(cShadow, d.Range, "%q is a built-in definition, and a file of one's own never replaces it silently. Choose a name of your own, such as %q, and write use = %q in the framework block.",
					d.Name, d.Name+"_own", d.Name+"_own")
				continue
			}
			if before, twice := l.own[d.Name]; twice {
				x := p.add(cDuplicate, d.Range, "The definition %q stands in two files. Keep one of them.", d.Name)
				if before != nil {
					x.Related = []Range{before.Range}
				}
				continue
			}
			l.own[d.Name] = nil
			if sound {
				l.own[d.Name] = d
			}
		}
	}
	return l
}

// builtinNames lists the built-in definitions: a file's name is its
// definition's name.
func (l *library) builtinNames() []string {
	var names []string
	if l.builtins == nil {
		return nil
	}
	files, err := fs.Glob(l.builtins, "*.hcl")
	if err != nil { // only for a bad pattern
		panic("lang: " + err.Error())
	}
	for _, f := range files {
		names = append(names, strings.TrimSuffix(f, ".hcl"))
	}
	return names
}

// names lists every definition, sorted.
func (l *library) names() []string {
	all := append(l.builtinNames(), slices.Collect(maps.Keys(l.own))...)
	slices.Sort(all)
	return all
}

// named returns a definition; nil if there is none, or if it is broken, which
// has been told.
func (l *library) named(name string) (*Definition, bool) {
	if d, ok := l.own[name]; ok {
		return d, true
	}
	if d, ok := l.read[name]; ok {
		return d, true
	}
	if !slices.Contains(l.builtinNames(), name) {
		return nil, false
	}
	l.read[name] = nil
	b, ok := readFile(l.builtins, name+".hcl", builtinPrefix+name+".hcl", l.p)
	if !ok {
		return nil, true
	}
	s := source{builtinPrefix + name + ".hcl", b}
	l.sources = append(l.sources, s)
	list, sound := definitions(s, l.p)
	for _, d := range list {
		if d.Name == name && sound {
			l.read[name] = d
		}
	}
	return l.read[name], true
}

// definitions decodes and checks the definitions of one file; sound is false
// if anything is wrong with them.
func definitions(s source, p *problems) (list []*Definition, sound bool) {
	before := len(p.list)
	body := parse(s, "file", p)
	if body == nil {
		return nil, false
	}
	d := &decoder{scope: newScope(), p: p, at: map[string]Range{"file": {File: s.name}}, unsure: map[string]bool{}}
	for _, a := range sortedAttrs(body.Attributes) {
		p.add(cUnknownAttr, rangeOf(a.NameRange), "A definition's file has no attribute at its top. Put %q into the definition block.", a.Name)
	}
	d.blocks("file", "file", body.Blocks, &list)
	if p.list[before:].HasErrors() {
		return list, false // what parts mean together is checked once each is right
	}
	for _, x := range list {
		if x.Server.Program == "" {
			x.Server.Program = x.Name
		}
		for _, problem := range checkDefinition(x) {
			p.add(cDefinition, x.Range, "The definition %q: %s", x.Name, problem)
		}
	}
	return list, !p.list[before:].HasErrors()
}

func sortedAttrs(attrs hclsyntax.Attributes) []*hclsyntax.Attribute {
	list := slices.Collect(maps.Values(attrs))
	slices.SortFunc(list, func(a, b *hclsyntax.Attribute) int { return a.NameRange.Start.Byte - b.NameRange.Start.Byte })
	return list
}

var placeholder = lazyregexp.New(`\{[a-z_]*\}`)

// checkDefinition checks what a definition's parts mean together.
func checkDefinition(d *Definition) []string {
	var list []string
	add := func(format string, args ...any) { list = append(list, fmt.Sprintf(format, args...)) }

	if err := checkWords(d.Server.Command, "server command", serverWords...); err != nil {
		add("%v.", err)
	}
	checkProfiler(d, add)
	for _, r := range d.Flags.Rules {
		if (r.Needs == "") == (r.Excludes == "") {
			add("the rule %q has both needs and excludes, or neither. Write one of them.", r.Name)
		}
	}
	if d.Version != nil {
		if err := checkWords(d.Version.Command, "version command", "{program}"); err != nil {
			add("%v.", err)
		}
		if regexp.MustCompile(d.Version.Pattern).NumSubexp() < 1 {
			add("the version pattern has no group. Put parentheses around the version: \"version: ([0-9.]+)\".")
		}
	}
	if err := checkWords(d.Native, "command of native_bench", "{program}", "{model}", "{served_name}", "{url}"); err != nil {
		add("%v.", err)
	}
	for _, h := range d.Helps {
		if err := checkWords(h.Command, "help command "+h.Name, "{program}"); err != nil {
			add("%v.", err)
		}
	}
	if len(d.Server.Command) == 0 {
		return list
	}
	for _, need := range []string{"{port}", "{flags}", "{model}"} {
		// Port and model may be part of a word: "{model}/model.gguf".
		if !slices.ContainsFunc(d.Server.Command, func(w string) bool { return strings.Contains(w, need) }) {
			add("the server command has no word %s. Without it %s. Put %q into the list as a word of its own.", need, without[need], need)
		}
	}
	if !slices.ContainsFunc(d.Helps, func(h Help) bool { return h.Name == "server" }) {
		add("there is no help \"server\". Flags are checked against the program's own help before it is started; write help \"server\" { command = [\"{program}\", \"--help\"] }.")
	}
	reserved := reservedFlags(d)
	for _, f := range d.Flags.Fixed {
		if slices.Contains(reserved, f.Name) {
			add("the flag %q is fixed and also part of the server command. Keep one of them.", f.Name)
		}
	}
	for alias, name := range d.Flags.Aliases {
		if !flagName.MatchString(alias) || !flagName.MatchString(name) || d.Flags.Aliases[name] != "" {
			add("the alias %q = %q does not lead to one name of a flag. Names have underscores and no leading dashes, and an alias leads to the name itself.", alias, name)
		}
	}
	slices.Sort(list)
	return list
}

// serverWords are the words in braces of a server's command.
var serverWords = []string{"{program}", "{model}", "{served_name}", "{host}", "{port}", "{flags}"}

// checkProfiler checks that a profiler can be driven, and only as it says.
func checkProfiler(d *Definition, add func(format string, args ...any)) {
	x := d.Profiler
	if x == nil {
		return
	}
	switch {
	case x.Offline && (x.Start != nil || x.Stop != nil):
		add("its profiler is offline and has start or stop requests. Remove them, or offline.")
	case !x.Offline && (x.Start == nil || x.Stop == nil):
		add("its profiler needs a start and a stop block, each with path = \"/…\". Where it cannot be driven while it serves, write offline = true.")
	case x.Offline && x.Mapping != nil:
		add("its profiler is offline and has a mapping block, which is for traces that are taken while it serves. Remove one of the two.")
	}
	flags, env, bodies := x.Flags, []map[string]string{x.Env}, []string{}
	for _, c := range []*Call{x.Start, x.Stop} {
		if c != nil {
			bodies = append(bodies, c.Body)
		}
	}
	if m := x.Mapping; m != nil {
		if len(m.Flags) == 0 && len(m.Env) == 0 && m.Body == "" {
			add("the mapping block of its profiler is empty, so its trace would be the same. Write the flag that turns graphs off, or remove the block.")
		}
		flags, env, bodies = slices.Concat(flags, m.Flags), append(env, m.Env), append(bodies, m.Body)
	}
	texts := []string{}
	for _, f := range flags {
		texts = append(texts, f.Value.Text())
	}
	for _, e := range env {
		for _, name := range sortedNames(e) {
			texts = append(texts, e[name])
		}
	}
	for _, body := range bodies {
		if body == "" {
			continue
		}
		texts = append(texts, body)
		if !json.Valid([]byte(body)) {
			add("a body of its profiler is no JSON: %s. Write it with jsonencode({ … }).", body)
		}
	}
	for _, t := range texts {
		for _, w := range placeholder.FindAllString(t, -1) {
			if !slices.Contains([]string{"{dir}", "{stage}", "{steps}", "{range}", "{}"}, w) {
				add("its profiler has %s, which is not filled in. The words in braces are {dir}, {stage}, {steps}, {range}.", w)
			}
		}
	}
}

// without says what is wrong with a server command that lacks a word.
var without = map[string]string{
	"{port}":  "two servers could not run side by side, and a foreign one could answer",
	"{flags}": "every candidate would be the same",
	"{model}": "the model of the campaign would not be served",
}

func checkWords(command []string, what string, allowed ...string) error {
	for i, w := range command {
		for _, x := range placeholder.FindAllString(w, -1) {
			if !slices.Contains(allowed, x) {
				return fmt.Errorf("the %s has %s, which is not filled in. The words in braces are %s", what, x, strings.Join(allowed, ", "))
			}
			if x == "{flags}" && w != x {
				return fmt.Errorf("the %s has {flags} inside %q. It is replaced by many words, so it stands alone", what, w)
			}
		}
		if i == 0 && strings.HasPrefix(w, "-") {
			return errors.New("the " + what + " starts with a flag. Its first word is the program, such as \"{program}\"")
		}
	}
	return nil
}

// reservedFlags are the flags that the server's command passes itself, in the
// spelling of a campaign.
func reservedFlags(d *Definition) []string {
	var list []string
	for _, w := range d.Server.Command {
		if strings.HasPrefix(w, "-") {
			list = append(list, strings.ReplaceAll(strings.TrimLeft(w, "-"), "-", "_"))
		}
	}
	return list
}
