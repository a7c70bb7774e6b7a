package conformance

import (
	"bytes"
	"context"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// bin is a folder with the programs, built once, static and without the race
// detector.
var bin string

func TestMain(m *testing.M) {
	code, err := buildAndRun(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func buildAndRun(m *testing.M) (int, error) {
	dir, err := os.MkdirTemp("", "sotabuild-bin-")
	if err != nil {
		return 1, err
	}
	defer os.RemoveAll(dir)
	cmd := exec.Command("go", "build", "-trimpath", "-o", dir+"/", "./cmd/sotabuild", "./examples/tinyserve", "./conformance/badserve")
	cmd.Dir = ".."
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return 1, fmt.Errorf("building the programs: %w\n%s", err, out)
	}
	bin = dir
	return m.Run(), nil
}

// site is a copy of the examples with the programs where the campaigns expect
// them, so that a test may change files.
type site struct {
	t   *testing.T
	dir string // of the campaign
}

// example copies examples/NAME, the models and the programs.
func example(t *testing.T, name string) *site {
	t.Helper()
	root := t.TempDir()
	copyTree(t, "../examples/"+name, filepath.Join(root, "examples", name))
	copyTree(t, "../examples/models", filepath.Join(root, "examples", "models"))
	copyTree(t, bin, filepath.Join(root, "bin"))
	return &site{t, filepath.Join(root, "examples", name)}
}

// newSite makes a site from files.
func newSite(t *testing.T, files map[string]string) *site {
	t.Helper()
	dir := t.TempDir()
	s := &site{t, dir}
	for name, text := range files {
		s.write(name, text)
	}
	return s
}

func (s *site) write(name, text string) {
	s.t.Helper()
	path := filepath.Join(s.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		s.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		s.t.Fatal(err)
	}
}

func (s *site) read(name string) string {
	s.t.Helper()
	b, err := os.ReadFile(filepath.Join(s.dir, name))
	if err != nil {
		s.t.Fatal(err)
	}
	return string(b)
}

// edit replaces exactly one place of a file.
func (s *site) edit(name, old, new string) {
	s.t.Helper()
	text := s.read(name)
	if n := strings.Count(text, old); n != 1 {
		s.t.Fatalf("%s holds %q %d times, want once", name, old, n)
	}
	s.write(name, strings.Replace(text, old, new, 1))
}

// result is how a command ended.
type result struct {
	code     int
	out, err string
	cpu      time.Duration // of the process alone
}

// command is sotabuild on this site, not yet started.
func (s *site) command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, filepath.Join(bin, "sotabuild"), append([]string{"-C", s.dir}, args...)...)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + s.dir, "NO_COLOR=1"}
	for _, name := range []string{"SLURM_CONF", "DOCKER_HOST"} { // of the test daemons
		if v, ok := os.LookupEnv(name); ok {
			cmd.Env = append(cmd.Env, name+"="+v)
		}
	}
	if hub, ok := os.LookupEnv("HF_ENDPOINT"); ok {
		cmd.Env = append(cmd.Env, "HF_ENDPOINT="+hub)
	}
	cmd.WaitDelay = 10 * time.Second
	return cmd
}

// run runs sotabuild to its end, at most three minutes.
func (s *site) run(args ...string) result {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	cmd := s.command(ctx, args...)
	var out, errText bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errText
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		s.t.Fatalf("sotabuild %v: %v", args, err)
	}
	return result{cmd.ProcessState.ExitCode(), out.String(), errText.String(), cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()}
}

// must is run with an expected exit code.
func (s *site) must(code int, args ...string) result {
	s.t.Helper()
	r := s.run(args...)
	if r.code != code {
		s.t.Fatalf("sotabuild %v: exit code %d, want %d\n%s\n%s", args, r.code, code, r.out, r.err)
	}
	return r
}

// planned is the part of plan --json that tests read.
type planned struct {
	Counts map[string]int `json:"counts"`
	Nodes  []plannedNode  `json:"nodes"`
}

type plannedNode struct {
	Node    string   `json:"node"`
	Kind    string   `json:"kind"`
	Verdict string   `json:"verdict"`
	Cause   string   `json:"cause"`
	Reason  string   `json:"reason"`
	Root    string   `json:"root"`
	Changes []change `json:"changes"`
}

// change is one differing fact; a side is nil where the fact is not there.
type change struct {
	Name  string `json:"name"`
	Label string `json:"label"`
	Old   *fact  `json:"old"`
	New   *fact  `json:"new"`
}

type fact struct {
	Value string `json:"value"`
}

// from and to compare one side's value.
func (c change) from(value string) bool { return c.Old != nil && c.Old.Value == value }
func (c change) to(value string) bool   { return c.New != nil && c.New.Value == value }

func (s *site) plan() planned {
	s.t.Helper()
	r := s.must(0, "plan", "--json")
	var p planned
	if err := json.Unmarshal([]byte(r.out), &p); err != nil {
		s.t.Fatalf("plan --json: %v\n%s", err, r.out)
	}
	if len(p.Nodes) == 0 {
		s.t.Fatal("plan --json lists no node")
	}
	return p
}

// node is the plan's word on one node.
func (p planned) node(t *testing.T, addr string) plannedNode {
	t.Helper()
	i := slices.IndexFunc(p.Nodes, func(n plannedNode) bool { return n.Node == addr })
	if i < 0 {
		t.Fatalf("plan --json does not list %s", addr)
	}
	return p.Nodes[i]
}

// verdicts maps each node that is not cached to its verdict.
func (p planned) verdicts() map[string]string {
	out := map[string]string{}
	for _, n := range p.Nodes {
		if n.Verdict != "cached" {
			out[n.Node] = n.Verdict
		}
	}
	return out
}

// row is one cell of the CSV report, by column.
type row map[string]string

type rows []row

// get is a column's text; a column that is not there is a mistake of the test.
func (r row) get(name string) string {
	v, ok := r[name]
	if !ok {
		panic("the CSV report has no column " + name)
	}
	return v
}

// of is the rows of one framework.
func (all rows) of(framework string) rows {
	return slices.DeleteFunc(slices.Clone(all), func(r row) bool { return r.get("framework") != framework })
}

// rows reads the CSV report.
func (s *site) rows() rows {
	s.t.Helper()
	lines, err := csv.NewReader(strings.NewReader(s.must(0, "report", "--format", "csv").out)).ReadAll()
	if err != nil {
		s.t.Fatal(err)
	}
	var all rows
	for _, line := range lines[1:] {
		r := row{}
		for i, cell := range line {
			r[lines[0][i]] = cell
		}
		all = append(all, r)
	}
	return all
}

// runDir is the only run directory of the site.
func runDir(t *testing.T, s *site) string {
	t.Helper()
	dirs, err := filepath.Glob(filepath.Join(s.dir, "runs", "*_sota_humanize"))
	if err != nil || len(dirs) != 1 {
		t.Fatalf("run directories %v, %v; want one (R027)", dirs, err)
	}
	return dirs[0]
}

func copyTree(t *testing.T, from, to string) {
	t.Helper()
	err := filepath.WalkDir(from, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(from, p)
		if err != nil {
			return err
		}
		dst := filepath.Join(to, rel)
		if d.IsDir() {
			if d.Name() == ".sotabuild" || d.Name() == "runs" {
				return filepath.SkipDir
			}
			return os.MkdirAll(dst, 0o755)
		}
		b, err := os.ReadFile(p)
		if err != nil {
			return err
		}
		st, err := d.Info()
		if err != nil {
			return err
		}
		return os.WriteFile(dst, b, st.Mode().Perm())
	})
	if err != nil {
		t.Fatal(err)
	}
}
