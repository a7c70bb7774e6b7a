package prepare

import (
	"crypto/sha256"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/sotabuild/sotabuild/engine/cache"
	"github.com/sotabuild/sotabuild/engine/compile"
	"github.com/sotabuild/sotabuild/engine/graph"
	"github.com/sotabuild/sotabuild/engine/key"
	"github.com/sotabuild/sotabuild/engine/plan"
	"github.com/sotabuild/sotabuild/lang"
	"github.com/sotabuild/sotabuild/stdlib/campaign"
	"github.com/sotabuild/sotabuild/stdlib/campaign/internal/sample"
	"github.com/sotabuild/sotabuild/stdlib/frameworks"
)

// edited is a campaign with its folder, that is edited at random.
type edited struct {
	t     *testing.T
	rand  *rand.Rand
	dir   string
	moved int
	// what the campaign says
	names                  [2]string // of the frameworks, the target first
	kernel                 [2]string
	searched               [2][]string
	env                    [2]string // A of the framework's environment; "" declares none
	inputLen, prompts      int
	second                 bool // a second scenario
	concurrency, seed      string
	minSuccess, ttft       string
	remarks, turned, older bool
	driver                 string // of the host
	own                    bool   // the model's own config.json has the vocabulary
	real                   bool   // no flow check
}

func newEdited(t *testing.T, r *rand.Rand) *edited {
	e := &edited{t: t, rand: r, dir: filepath.Join(t.TempDir(), "place0"), names: [2]string{"fast", "slow"}, kernel: [2]string{"blocked", "naive"},
		searched: [2][]string{{"2"}, {}}, inputLen: 8, prompts: 3, concurrency: "2", seed: "1", minSuccess: "1", driver: "580"}
	e.file("server0", "#!/bin/true\n", 0o755)
	e.file("server1", "#!/bin/true\n", 0o755)
	e.file("model/config.json", `{"vocab_size":512}`, 0o644)
	e.write()
	return e
}

func (e *edited) file(name, text string, mode fs.FileMode) {
	path := filepath.Join(e.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		e.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		e.t.Fatal(err)
	}
	if err := os.Chmod(path, mode); err != nil {
		e.t.Fatal(err)
	}
}

// write writes the campaign's file.
func (e *edited) write() {
	searched, load := e.searched, ""
	if e.real {
		searched, load = [2][]string{{"2"}, {"2"}}, "  production = true\n  reason = \"it is ours\"\n"
	}
	vocab := "  vocab = [0, 512]\n"
	if e.own {
		vocab = ""
	}
	parts := []string{
		fmt.Sprintf("campaign \"c\" {\n  target = %q\n  compare = [%q]\n  smoke = %v\n}\n", e.names[0], e.names[1], !e.real),
		"model \"tiny\" {\n  path = \"model\"\n  precision = \"fp32\"\n  quantization = \"none\"\n" + vocab + "}\n",
		"workload {\n  arrival = \"inf\"\n  concurrency = [" + e.concurrency + "]\n  warmup = 1\n  seed = " + e.seed + "\n" + load + "}\n",
		fmt.Sprintf("scenario \"one\" {\n  input_len = %d\n  output_len = 4\n  num_prompts = %d\n}\n", e.inputLen, e.prompts),
	}
	sla := "sla {\n  min_success_rate = " + e.minSuccess + "\n"
	if e.ttft != "" {
		sla += "  max_p50_ttft_ms = " + e.ttft + "\n"
	}
	parts = append(parts, sla+"}\n")
	if e.second {
		parts = append(parts, "scenario \"two\" {\n  input_len = 16\n  output_len = 4\n  num_prompts = 2\n}\n")
	}
	if e.older {
		parts = append(parts, "quality {\n  max_age = \"900d\"\n}\n")
	}
	for i, name := range e.names {
		b := fmt.Sprintf("framework %q {\n  use = \"tinyserve\"\n  program = \"server%d\"\n  flags = { kernel = %q, max_model_len = 64 }\n", name, i, e.kernel[i])
		if e.env[i] != "" {
			b += fmt.Sprintf("  env = { A = %q }\n", e.env[i])
		}
		b += fmt.Sprintf("  search {\n    max_candidates = 4\n    space = { max_num_seqs = [%s] }\n  }\n}\n", strings.Join(searched[i], ", "))
		if len(searched[i]) == 0 {
			b = strings.Replace(b, "{ max_num_seqs = [] }", "{}", 1)
		}
		parts = append(parts, b)
	}
	if e.turned {
		slices.Reverse(parts)
	}
	text := strings.Join(parts, "\n")
	if e.remarks {
		text = "# a remark\n" + strings.ReplaceAll(text, "  program", "  // another\n  program")
	}
	e.file("campaign.hcl", text, 0o644)
}

// edit changes one thing of the campaign, its files or the host.
func (e *edited) edit() {
	r, i := e.rand, e.rand.IntN(2)
	one := func(of ...string) string { return of[r.IntN(len(of))] }
	switch r.IntN(17) {
	case 0:
		e.kernel[i] = one("blocked", "naive")
	case 1:
		e.searched[i] = [][]string{{}, {"2"}, {"2", "4"}, {"4", "2"}, {"3"}}[r.IntN(5)]
	case 2:
		e.env[i] = one("", "1", "2")
	case 3:
		e.inputLen = 8 + r.IntN(2)
	case 4:
		e.prompts = 2 + r.IntN(2)
	case 5:
		e.second = !e.second
	case 6:
		e.concurrency = one("2", "2, 3", "null", "3, 2")
	case 7:
		e.seed = one("1", "2")
	case 8:
		e.minSuccess = one("1", "0.5")
	case 9:
		e.ttft = one("", "100", "200")
	case 10: // names only
		e.names[i] = one("fast", "quick", "lazy", "x") + strconv.Itoa(i)
	case 11: // appearance only
		e.remarks, e.turned, e.older = r.IntN(2) == 0, r.IntN(2) == 0, r.IntN(2) == 0
	case 12:
		e.file(fmt.Sprint("server", i), "#!/bin/true\n"+one("", "# a\n", "# b\n"), 0o755)
	case 13:
		switch name := filepath.Join(e.dir, "model", one("w1", "w2")); r.IntN(4) {
		case 0:
			_ = os.RemoveAll(name) // it may not be there
		case 1:
			_ = os.RemoveAll(name)
			e.file(strings.TrimPrefix(name, e.dir+"/"), one("a", "b"), 0o644)
		case 2:
			_ = os.Remove(name)
			_ = os.Symlink(one("config.json", "nowhere"), name)
		case 3:
			_ = os.RemoveAll(name)
			_ = os.Mkdir(name, 0o755) // an empty folder counts
		}
	case 14: // times only
		now := time.Unix(1_700_000_000+r.Int64N(1e8), 0)
		if err := os.Chtimes(filepath.Join(e.dir, fmt.Sprint("server", i)), now, now); err != nil {
			e.t.Fatal(err)
		}
	case 15: // another place
		e.moved++
		to := filepath.Join(filepath.Dir(e.dir), fmt.Sprint("place", e.moved))
		if err := os.Rename(e.dir, to); err != nil {
			e.t.Fatal(err)
		}
		e.dir = to
	case 16:
		e.driver = one("580", "590")
	}
	e.write()
}

// slow is the reference: it remembers what was run by the whole text of what it
// depends on, and knows no key, no plan, no store.
type slow struct {
	outputs map[string]map[string]string // text → output name → bytes
}

// run recomputes everything from scratch and returns the outputs of each node
// and the nodes that had to run, by address.
func (s *slow) run(e *edited, decls []compile.Decl) (outputs map[string]map[string]string, ran map[string]bool) {
	outputs, ran = map[string]map[string]string{}, map[string]bool{}
	byAddr := map[string]*compile.Decl{}
	for i := range decls {
		byAddr[decls[i].Addr] = &decls[i]
	}
	var visit func(addr string)
	visit = func(addr string) {
		d := byAddr[addr]
		if _, done := outputs[addr]; done || d.Skip != "" {
			return
		}
		var inputs []string
		for _, o := range d.Order {
			visit(o)
		}
		for _, in := range d.Inputs {
			visit(in.From)
			inputs = append(inputs, in.Name+" "+outputs[in.From][in.Output])
		}
		slices.Sort(inputs)
		text := fmt.Sprintf("%s %q %q", d.Kind.Name, e.said(d), inputs)
		if s.outputs[text] == nil {
			ran[addr] = true
			out := map[string]string{}
			for _, name := range d.Kind.Outputs {
				sum := sha256.Sum256([]byte(text + name))
				n := 1 << 8
				if d.Kind.Name == "check" || d.Kind.Name == "select" { // often the same again, so that others are cut off
					n = 2
				}
				out[name] = fmt.Sprintf("%s %s %d", d.Kind.Name, name, (int(sum[0])<<8|int(sum[1]))%n)
			}
			s.outputs[text] = out
		}
		outputs[addr] = s.outputs[text]
	}
	for i := range decls {
		visit(decls[i].Addr)
	}
	return outputs, ran
}

// said is everything that a node's result depends on beside its inputs, in the
// words of the campaign. It is written by hand, from what a person expects of
// each kind, and looks at no spec.
func (e *edited) said(d *compile.Decl) string {
	side := slices.Index(e.names[:], strings.TrimPrefix(d.Block, "framework."))
	program, flags, env := "", "", ""
	if side >= 0 {
		program = content(e.t, filepath.Join(e.dir, fmt.Sprint("server", side))).String()
		_, candidate, _ := strings.Cut(d.Addr, `["`)
		candidate, _, _ = strings.Cut(candidate, `"]`)
		flags, env = e.kernel[side]+" "+candidate, e.env[side]
	}
	load := d.Addr[strings.LastIndex(d.Addr, ".")+1:] // the concurrency
	switch d.Kind.Name {
	case "help", "version":
		return program + env
	case "check":
		return flags
	case "dataset":
		if strings.HasPrefix(d.Addr, "dataset.two") {
			return fmt.Sprint("two ", load, e.seed)
		}
		return fmt.Sprint(e.inputLen, e.prompts, load, e.seed)
	case "bench":
		return fmt.Sprint(program, content(e.t, filepath.Join(e.dir, "model")), flags, " ", env, " ", load, e.seed, e.minSuccess, e.driver)
	case "select":
		return e.minSuccess + " " + e.ttft
	case "winners":
		return ""
	}
	panic("no kind " + d.Kind.Name)
}

// content is a file or a tree, read whole.
func content(t *testing.T, path string) key.Digest {
	var all strings.Builder
	err := filepath.WalkDir(path, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		fmt.Fprintf(&all, "%q %s ", strings.TrimPrefix(p, path), d.Type())
		switch {
		case d.Type()&fs.ModeSymlink != 0:
			to, err := os.Readlink(p)
			fmt.Fprintf(&all, "%q", to)
			return err
		case d.Type().IsRegular():
			b, err := os.ReadFile(p)
			fmt.Fprintf(&all, "%q", b)
			return err
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return key.Sum([]byte(all.String()))
}

// TestRandomEditsAgainstScratch edits a campaign, its files and its host at
// random. After each edit the plan is applied, and exactly those nodes run whose
// whole text was never run before; what the plan said of each holds.
func TestRandomEditsAgainstScratch(t *testing.T) {
	const perSeed = 50
	seen := map[string]int{}
	for seed := range uint64(edits() / perSeed) {
		e, s := newEdited(t, rand.New(rand.NewPCG(seed, 9))), &slow{map[string]map[string]string{}}
		cacheFile := filepath.Join(t.TempDir(), "files")
		dir, err := os.MkdirTemp("/dev/shm", "edits-*") // syncing a disk is not what is tested
		if err != nil {
			dir = t.TempDir()
		}
		store := open(t, dir)
		for step := range perSeed {
			compared(t, e, s, store, cacheFile, seen)
			if t.Failed() {
				t.Fatalf("seed %d step %d", seed, step)
			}
			if e.rand.IntN(20) == 0 {
				closing(t, store)
				store = open(t, dir)
			}
			e.edit()
		}
		closing(t, store)
		if err := os.RemoveAll(dir); err != nil {
			t.Fatal(err)
		}
	}
	for _, what := range []string{"new ran", "stale ran", "cached", "later ran", "later cut off", "twin"} {
		if seen[what] < 20 {
			t.Errorf("%q was met %d times: the test no longer tests it (%v)", what, seen[what], seen)
		}
	}
}

// edits is how many steps are tried: 300, or 21 for each of SOTABUILD_SOAK.
func edits() int {
	n, _ := strconv.Atoi(os.Getenv("SOTABUILD_SOAK")) // none is 0
	return max(300, 21*n)
}

func open(t *testing.T, dir string) *cache.Local {
	t.Helper()
	l, err := cache.OpenLocal(filepath.Join(dir, "store"), cache.Options{Command: "test"})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func closing(t *testing.T, l *cache.Local) {
	t.Helper()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
}

// compared applies the campaign as it stands, both ways, and compares.
func compared(t *testing.T, e *edited, s *slow, store *cache.Local, cacheFile string, seen map[string]int) {
	t.Helper()
	c, diags := lang.Load(lang.Input{Dir: e.dir, Definitions: frameworks.FS})
	if diags.HasErrors() {
		t.Fatal(diags.Text(false))
	}
	own := campaign.Facts{Software: map[string]campaign.Software{}, Helps: map[string]string{}, Weights: content(t, filepath.Join(e.dir, "model"))}
	for i, name := range e.names {
		own.Software[name] = campaign.Software{Digest: content(t, filepath.Join(e.dir, fmt.Sprint("server", i)))}
		own.Helps[name] = sample.Help
	}
	outputs, want := s.run(e, campaign.Declare(c, own).Decls)

	files, err := key.OpenFiles(cacheFile)
	if err != nil {
		t.Fatal(err)
	}
	f, _, diags := Reader{Files: files, Self: "self"}.Probe(t.Context(), c)
	if diags.HasErrors() {
		t.Fatal(diags.Text(false))
	}
	if err := files.Close(); err != nil {
		t.Fatal(err)
	}
	var env key.Builder
	env.Text("env.driver", "", e.driver)
	f.Env, f.Helps = compile.Env{Binding: env.Finish().Facts()}, own.Helps
	g, problems := compile.Build(campaign.Declare(c, f).Decls, f.Env)
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	p, problems := plan.Make(g, store, plan.Options{Now: time.Now()})
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	ran := apply(t, g, store, outputs)
	keys := map[key.Key]bool{}
	for i := range g.Actions {
		addr, n := g.Actions[i].Addr, &p.Nodes[i]
		if ran[addr] != want[addr] {
			t.Errorf("%s ran: %v, from scratch: %v; the plan said %s: %s", addr, ran[addr], want[addr], n.Verdict.Word(), p.Why(g, graph.NodeID(i)))
		}
		switch what := n.Verdict.Word(); {
		case n.Verdict == plan.Cached && ran[addr]:
			t.Errorf("%s is cached, and ran", addr)
		case (n.Verdict == plan.New || n.Verdict == plan.Stale) && !ran[addr]:
			if !keys[n.Key] {
				t.Errorf("%s is %s, and did not run", addr, what)
			}
			seen["twin"]++
		case n.Verdict == plan.Later && !ran[addr]:
			seen[what+" cut off"]++
		case ran[addr]:
			seen[what+" ran"]++
		default:
			seen[what]++
		}
		keys[n.Key] = true
	}
}

// apply runs what has no result, in graph order, and says what ran.
func apply(t *testing.T, g *compile.Graph, store *cache.Local, outputs map[string]map[string]string) map[string]bool {
	t.Helper()
	ran, records := map[string]bool{}, make([]*cache.Record, len(g.Actions))
	for i := range g.Actions {
		a := &g.Actions[i]
		if a.Skip != "" {
			continue
		}
		m, known := g.Manifest(a.ID, func(from graph.NodeID, output string) (key.Digest, bool) {
			return records[from].Output(output), true
		})
		if !known {
			t.Fatalf("an input of %s has no output", a.Addr)
		}
		if records[i], _ = plan.Hit(a, store.Lookup(m.Key()), time.Now()); records[i] != nil {
			continue
		}
		ran[a.Addr] = true
		r := cache.Record{Key: m.Key(), Node: a.Addr, Kind: a.Kind.Name, Manifest: m.Text(), Outcome: cache.Outcome{State: cache.OK}, Time: cache.Span{Started: time.Now()}}
		for name, text := range outputs[a.Addr] {
			d, n, err := store.Object(strings.NewReader(text))
			if err != nil {
				t.Fatal(err)
			}
			r.Outputs = append(r.Outputs, cache.Output{Name: name, Digest: d, Size: n})
		}
		var err error
		if records[i], err = store.Put(t.Context(), r); err != nil {
			t.Fatal(err)
		}
	}
	return ran
}
