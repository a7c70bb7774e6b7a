package campaign

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/sotabuild/sotabuild/engine/compile"
	"github.com/sotabuild/sotabuild/engine/graph"
	"github.com/sotabuild/sotabuild/engine/key"
	"github.com/sotabuild/sotabuild/lang"
	"github.com/sotabuild/sotabuild/stdlib/campaign/internal/sample"
	"github.com/sotabuild/sotabuild/stdlib/help"
)

func facts(c *lang.Campaign) Facts {
	f := Facts{Software: map[string]Software{}, Weights: key.Sum([]byte("weights")), Helps: map[string]string{},
		Env: compile.Env{Binding: sample.Binding()}}
	for _, fw := range c.Frameworks {
		f.Software[fw.Label] = Software{Digest: key.Sum([]byte("program"))}
		f.Helps[fw.Label] = sample.Help
	}
	return f
}

func build(t *testing.T, d Declared, f Facts) *compile.Graph {
	t.Helper()
	g, problems := compile.Build(d.Decls, f.Env)
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	return g
}

// keys gives every node a key as if each output were named by its node's own
// key, so that a change anywhere upstream shows.
func keys(t *testing.T, src string, change func(*Facts)) map[string]key.Key {
	t.Helper()
	c := sample.Load(t, src)
	f := facts(c)
	if change != nil {
		change(&f)
	}
	g := build(t, Declare(c, f), f)
	out := map[string]key.Key{}
	byID := make([]key.Key, len(g.Actions))
	for i := range g.Actions {
		m, ok := g.Manifest(graph.NodeID(i), func(from graph.NodeID, output string) (key.Digest, bool) {
			k := byID[from]
			return key.Sum(append(k[:], output...)), true
		})
		if !ok {
			t.Fatalf("no key for %s", g.Actions[i].Addr)
		}
		byID[i] = m.Key()
		out[g.Actions[i].Addr] = byID[i]
	}
	return out
}

func values(m map[string]key.Key) []string {
	var out []string
	for _, k := range m {
		out = append(out, k.String())
	}
	slices.Sort(out)
	return out
}

// changed lists the addresses whose key is not among the old ones.
func changed(before, after map[string]key.Key) []string {
	old := values(before)
	var out []string
	for addr, k := range after {
		if _, found := slices.BinarySearch(old, k.String()); !found {
			out = append(out, addr)
		}
	}
	slices.Sort(out)
	return out
}

// TestDeclaredNodes counts what the campaign must expand to: 3 + 2 candidates,
// each with a check and 2 scenarios × 2 concurrencies (R053, R054, R066–R068).
func TestDeclaredNodes(t *testing.T) {
	c := sample.Load(t, sample.Text)
	f := facts(c)
	d := Declare(c, f)
	count := map[string]int{}
	for _, decl := range d.Decls {
		count[decl.Kind.Name]++
	}
	want := map[string]int{"help": 2, "version": 2, "check": 5, "dataset": 4, "bench": 20, "select": 4, "winners": 2}
	if fmt.Sprint(count) != fmt.Sprint(want) {
		t.Errorf("nodes %v, want %v", count, want)
	}
	g := build(t, d, f)
	id, ok := g.Lookup(`bench.fast["max_num_seqs=2"].short.c2`)
	if !ok {
		t.Fatal("no cell of that address")
	}
	a := g.Actions[id]
	var inputs []string
	for _, in := range a.Inputs {
		inputs = append(inputs, in.Name+"="+in.From)
	}
	if got, want := strings.Join(inputs, " "), `prompts=dataset.short.c2 check=check.fast["max_num_seqs=2"]`; got != want {
		t.Errorf("inputs %s, want %s", got, want)
	}
	// All checks of all frameworks come before any server (DESIGN 11.2).
	checks := 0
	for _, o := range a.Order {
		if strings.HasPrefix(o, "check.") {
			checks++
		}
	}
	if checks != 5 {
		t.Errorf("the cell waits for %d checks, want all 5", checks)
	}
	// A program without a help keeps only its own cells from running.
	delete(f.Helps, "slow")
	g = build(t, Declare(c, f), f)
	id, _ = g.Lookup(`bench.fast["max_num_seqs=2"].short.c2`)
	for _, o := range g.Actions[id].Order {
		if strings.HasPrefix(o, "check.slow") {
			t.Errorf("the cell waits for %s", o)
		}
	}
	if a.Batch != `bench.fast["max_num_seqs=2"]` || !a.Resources.Quiet {
		t.Errorf("batch %q, resources %+v: a candidate's cells share one quiet life", a.Batch, a.Resources)
	}
}

// TestLabelsReachNoKey renames everything that is a name and turns the blocks
// round; no key may change.
func TestLabelsReachNoKey(t *testing.T) {
	before := keys(t, sample.Text, nil)
	renamed := strings.NewReplacer(`"fast"`, `"quick"`, `"slow"`, `"lazy"`, `scenario "short"`, `scenario "chat"`, `campaign "c"`, `campaign "other"`).Replace(sample.Text)
	for name, src := range map[string]string{
		"renamed":   renamed,
		"commented": "# remark\n" + strings.ReplaceAll(sample.Text, "kernel", "/* why */ kernel"),
		"reordered": reorder(sample.Text),
	} {
		after := keys(t, src, nil)
		if got := changed(before, after); len(got) > 0 || len(after) != len(before) {
			t.Errorf("%s: new keys for %v, %d nodes for %d", name, got, len(after), len(before))
		}
	}
}

// reorder moves the first framework block to the front and the scenarios to
// the end.
func reorder(src string) string {
	i := strings.Index(src, `framework "fast"`)
	j := strings.Index(src, `framework "slow"`)
	return src[j:] + src[:i] + src[i:j]
}

// TestEachChangeTouchesItsOwnNodes is the promise of plan: what an edit makes
// new, and nothing else.
func TestEachChangeTouchesItsOwnNodes(t *testing.T) {
	before := keys(t, sample.Text, nil)
	for name, c := range map[string]struct {
		old, new string
		facts    func(*Facts)
		touched  func(addr string) bool
	}{
		"base flag of one framework": {old: `kernel = "naive"`, new: `kernel = "blocked", threads = 1`, touched: func(a string) bool {
			return strings.Contains(a, ".slow") && !strings.HasPrefix(a, "help.") && !strings.HasPrefix(a, "version.") || strings.HasPrefix(a, "winners.")
		}},
		"searched value": {old: "{ max_num_seqs = [2, 4] }", new: "{ max_num_seqs = [2, 3] }", touched: func(a string) bool {
			return strings.Contains(a, "max_num_seqs=3") || strings.HasPrefix(a, "select.fast.") || strings.HasPrefix(a, "winners.")
		}},
		"prompts of one scenario": {old: "num_prompts = 3", new: "num_prompts = 4", touched: func(a string) bool { return strings.Contains(a, "short") }},
		"SLA":                     {old: "min_success_rate = 1", new: "min_success_rate = 1\n  max_p50_ttft_ms = 100", touched: func(a string) bool { return strings.HasPrefix(a, "select.") || strings.HasPrefix(a, "winners.") }},
		"weights": {facts: func(f *Facts) { f.Weights = key.Sum([]byte("other")) }, touched: func(a string) bool {
			return !pureAsk(a) && !strings.HasPrefix(a, "check.") && !strings.HasPrefix(a, "dataset.")
		}},
		"host": {facts: func(f *Facts) { f.Env.Binding[0].Value = "another" }, touched: func(a string) bool {
			return !pureAsk(a) && !strings.HasPrefix(a, "check.") && !strings.HasPrefix(a, "dataset.")
		}},
		"program of one framework": {facts: func(f *Facts) { f.Software["slow"] = Software{Digest: key.Sum([]byte("v2"))} }, touched: func(a string) bool {
			return strings.Contains(a, ".slow") || strings.HasPrefix(a, "winners.")
		}},
	} {
		src := sample.Text
		if c.old != "" {
			if strings.Count(src, c.old) != 1 {
				t.Fatalf("%s: %q is not once in the campaign", name, c.old)
			}
			src = strings.Replace(src, c.old, c.new, 1)
		}
		after := keys(t, src, c.facts)
		var want []string
		for addr := range after {
			if c.touched(addr) {
				want = append(want, addr)
			}
		}
		slices.Sort(want)
		if got := changed(before, after); !slices.Equal(got, want) {
			t.Errorf("%s touched\n  %s\nwant\n  %s", name, strings.Join(got, "\n  "), strings.Join(want, "\n  "))
		}
	}
}

func pureAsk(a string) bool { return strings.HasPrefix(a, "help.") || strings.HasPrefix(a, "version.") }

// TestPathsReachNoKey loads the same campaign from two folders.
func TestPathsReachNoKey(t *testing.T) {
	if a, b := keys(t, sample.Text, nil), keys(t, sample.Text, nil); !slices.Equal(values(a), values(b)) {
		t.Error("keys differ between two folders: a path is part of one")
	}
}

// TestFlagsAsWords covers every style and habit that a definition can name.
func TestFlagsAsWords(t *testing.T) {
	flags := []lang.Flag{
		{Name: "max_num_seqs", Value: lang.Value{Kind: lang.Int, Int: 8}},
		{Name: "share", Value: lang.Value{Kind: lang.Float, Num: 0.9}},
		{Name: "eager", Value: lang.Value{Kind: lang.Bool, Bool: true}},
		{Name: "cache", Value: lang.Value{Kind: lang.Bool}},
		{Name: "dtype", Value: lang.Value{}},
	}
	for _, c := range []struct{ style, booleans, want string }{
		{"kebab", "bare", "--fixed 1 --max-num-seqs 8 --share 0.9 --eager"},
		{"snake", "value", "--fixed 1 --max_num_seqs 8 --share 0.9 --eager true --cache false"},
		{"kebab", "pair", "--fixed 1 --max-num-seqs 8 --share 0.9 --eager --no-cache"},
	} {
		d := &lang.Definition{Server: lang.Server{FlagStyle: c.style, Booleans: c.booleans},
			Flags: lang.FlagRules{Fixed: []lang.Flag{{Name: "fixed", Value: lang.Value{Kind: lang.Int, Int: 1}}}}}
		if got := strings.Join(Words(Given(lang.Framework{Definition: d}, flags)), " "); got != c.want {
			t.Errorf("%s/%s: %s, want %s", c.style, c.booleans, got, c.want)
		}
		own := []lang.Flag{{Name: "fixed", Value: lang.Value{Kind: lang.Int, Int: 2}}}
		if got := strings.Join(Words(Given(lang.Framework{Definition: d}, own)), " "); got != "--fixed 2" {
			t.Errorf("a flag of the campaign gives way to a fixed one: %s", got)
		}
	}
}

// TestFlagValuesThatAreNotTaken: what is told is to write another value.
func TestFlagValuesThatAreNotTaken(t *testing.T) {
	for written, want := range map[string]string{
		`kernel = "fast"`:       "takes one of naive, blocked, not \"fast\". The default is blocked. Write a value that it takes, or remove the flag;",
		`prefix_cache = "true"`: "--prefix-cache takes no value, but \"true\" was given. Write prefix_cache = true, without quotes;",
	} {
		c := sample.Load(t, strings.Replace(sample.Text, `kernel = "blocked"`, written, 1))
		f := facts(c)
		for label := range f.Helps {
			f.Helps[label] = sample.Help + "  --prefix-cache             keep blocks\n"
		}
		if diags := CheckBase(c, f); len(diags) != 1 || !strings.Contains(diags[0].Detail, want) {
			t.Errorf("%s: %+v, want %q", written, diags, want)
		}
	}
}

// TestUnknownFlags: in flags an error with the place to mend, in a search space
// a skipped candidate with its reason (R058, R075, DESIGN 11.3).
func TestUnknownFlags(t *testing.T) {
	c := sample.Load(t, strings.Replace(sample.Text, `kernel = "blocked"`, `kernal = "blocked"`, 1))
	diags := CheckBase(c, facts(c))
	if len(diags) != 1 || !diags.HasErrors() || !strings.Contains(diags[0].Detail, "Did you mean --kernel? Remove") || diags[0].Range.Line == 0 {
		t.Errorf("diagnostics %+v: want one error that names --kernel and a line", diags)
	}
	c = sample.Load(t, strings.Replace(sample.Text, "space          = { max_num_seqs = [2] }", "space          = { max_num_sex = [2] }", 1))
	f := facts(c)
	if diags := CheckBase(c, f); len(diags) != 0 {
		t.Errorf("an unknown searched flag is an error: %+v", diags)
	}
	d := Declare(c, f)
	skipped := 0
	for _, cell := range d.Cells {
		if cell.Skip != "" {
			skipped++
			if cell.SkipClass != "unknown_flag" || !strings.Contains(cell.Skip, "--max-num-sex") {
				t.Errorf("skipped as %q: %s", cell.SkipClass, cell.Skip)
			}
		}
	}
	if skipped != 4 || len(d.Warnings) != 1 {
		t.Errorf("%d cells skipped, %d warnings; want the candidate's 4 cells and 1", skipped, len(d.Warnings))
	}
	build(t, d, f) // nothing may depend on what is never run
}

// TestSkippedCandidatesAreOneWarning: one for each cause, at the flag in the
// search space, with the near name; where no searched candidate is left, that is said.
func TestSkippedCandidatesAreOneWarning(t *testing.T) {
	for _, tt := range []struct {
		space string
		want  []string // words of each warning
		left  bool     // whether a searched candidate is left
	}{
		{"{ max_num_sex = [2, 3, 4] }", []string{`"max_num_sex=2"] and 2 further candidates of that search are skipped: unknown_flag: `}, false},
		{"{ max_num_seqs = [2, \"x\", \"y\"] }", []string{`"max_num_seqs=x"] is skipped: bad_flag_value`, `"max_num_seqs=y"] is skipped`}, true},
	} {
		c := sample.Load(t, strings.NewReplacer("{ max_num_seqs = [2] }", tt.space, "max_candidates = 2", "max_candidates = 4").Replace(sample.Text))
		d := Declare(c, facts(c))
		if len(d.Warnings) != len(tt.want) {
			t.Fatalf("%s: %+v, want %d warnings", tt.space, d.Warnings, len(tt.want))
		}
		for i, w := range d.Warnings {
			line := strings.Split(string(c.Files[0].Bytes), "\n")[max(1, w.Range.Line)-1]
			if w.Severity != lang.Warning || !strings.Contains(w.Detail, tt.want[i]) || !strings.Contains(line, tt.space) {
				t.Errorf("%s: %+v at %q, want %q", tt.space, w, line, tt.want[i])
			}
			if strings.Contains(w.Detail, "but its baseline is measured") == tt.left {
				t.Errorf("%s: %s", tt.space, w.Detail)
			}
			if !tt.left && !strings.Contains(w.Detail, "did you mean --max-num-seqs?") {
				t.Errorf("%s: no near name in %s", tt.space, w.Detail)
			}
		}
	}
}

func TestEverySpecIsKeyed(t *testing.T) {
	for _, spec := range []any{AskSpec{}, BenchSpec{}, CheckSpec{Flags: map[string]passed{"": {}}}, SelectSpec{}, WinnersSpec{}} {
		var b key.Builder
		b.Struct(spec) // panics on a field that does not say what it is to the key
		if len(b.Finish().Facts()) == 0 {
			t.Errorf("%T has no fact", spec)
		}
	}
}

// A flag's fact carries its name, so that a plan can say --max-num-seqs 4 → 3.
func TestCheckIsKeyedByFlag(t *testing.T) {
	s := newCheckSpec([]help.Given{{Name: "--threads", Value: "1"}, {Name: "--prefix-cache", Bare: true}, {Name: "--max-num-seqs", Value: "4"}})
	var b key.Builder
	b.Struct(s)
	want := `flag "--max-num-seqs" s "4"` + "\n" + `flag "--prefix-cache" b "true"` + "\n" + `flag "--threads" s "1"`
	if got := b.Finish().Text(); !strings.Contains(got, want) {
		t.Errorf("manifest\n%s\nwants\n%s", got, want)
	}
	if got := s.given(); len(got) != 3 || got[1] != (help.Given{Name: "--prefix-cache", Bare: true}) || got[2] != (help.Given{Name: "--threads", Value: "1"}) {
		t.Errorf("given again: %+v", got)
	}
}
