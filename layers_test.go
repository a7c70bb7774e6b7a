package sotabuild_test

import (
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/sotabuild/sotabuild"

// mayImport is the whole list of arrows between rooms, each with its reason in
// ARCHITECTURE.md. A room is the longest prefix listed here. "stdlib/*" stands
// for every room of stdlib but the one that imports.
var mayImport = map[string][]string{
	"lang": {},

	anywhere:           {},
	"internal/garbage": {},

	"executors":                     {},
	"executors/runner":              {"executors", "executors/proc"},
	"executors/proc":                {},
	"executors/redact":              {"executors/proc"},
	"executors/logfile":             {},
	"executors/supervisor":          {"executors", "executors/runner", "executors/proc", "executors/redact", "executors/logfile", "executors/supervisor/takedown"},
	"executors/supervisor/takedown": {"executors/proc", "executors/runner"},
	"executors/ledger":              {},
	"executors/hoststate":           {"executors", "executors/ledger", "executors/proc"},
	"executors/creation":            {"executors/ledger", "executors/proc"},
	// Docker's rooms: one speaks with the daemon, the others speak with that one.
	"executors/docker":        {"executors", "executors/ledger", "executors/image", "executors/docker/daemon", "executors/docker/images", "executors/docker/folder"},
	"executors/docker/daemon": {"executors", "executors/image", "executors/docker/folder"},
	"executors/docker/images": {"executors/image", "executors/docker/daemon"},
	"executors/docker/folder": {},
	// The program of Slurm's jobs is also the one inside a container that runs already.
	"executors/docker/inside": {"executors", "executors/ledger", "executors/image", "executors/runner", "executors/slurm", "executors/docker/daemon", "executors/docker/folder"},
	"executors/local":         {"executors", "executors/runner", "executors/proc", "executors/ledger"},
	"executors/image":         {},
	"executors/slurm":         {"executors", "executors/runner", "executors/proc", "executors/ledger"},
	// The one place that makes executors.
	"executors/kind": {"executors", "executors/*"},
	// A container's watcher is a task of local.
	"executors/oci": {"executors", "executors/runner", "executors/proc", "executors/ledger", "executors/local", "executors/image"},
	// Programs that are wrong on purpose; tests re-execute themselves as one.
	"executors/internal/puppet": {"executors/*"},
	// What the tests of executors share.
	"executors/internal/trial": {"executors", "executors/runner", "executors/proc", "executors/internal/puppet"},

	"engine/key":     {},
	"engine/event":   {},
	"engine/graph":   {},
	"engine/cache":   {"engine/key"},
	"engine/compile": {"engine/key", "engine/graph", "engine/cache", "executors"},
	"engine/plan":    {"engine/key", "engine/graph", "engine/cache", "engine/compile"},
	"engine/loop":    {"engine/key", "engine/cache", "engine/compile", "engine/plan"},
	"engine/sched": {"engine/key", "engine/graph", "engine/cache", "engine/compile", "engine/plan",
		"engine/event", "executors", "executors/runner"},

	"stdlib/frameworks": {},
	"stdlib/stops":      {},
	"stdlib/reference":  {"lang"},
	"stdlib/cookbook":   {"lang"},
	"stdlib/editor":     {"lang"},
	"stdlib/dataset":    {},
	"stdlib/result":     {"executors"},
	"stdlib/help":       {"stdlib/result"},
	"stdlib/search":     {"lang"},
	"stdlib/bench":      {"executors", "executors/runner", "stdlib/result", "stdlib/dataset", "stdlib/stats", "stdlib/imports"},
	"stdlib/stats":      {},
	"stdlib/imports":    {"stdlib/result"},
	"stdlib/ncu":        {},
	"stdlib/simserve":   {},
	"stdlib/weights":    {},
	"stdlib/probe":      {"executors", "executors/runner", "stdlib/result", "stdlib/trace/bounds"},
	"stdlib/winners":    {"engine/key", "stdlib/result"},
	"stdlib/report":     {"engine/key", "stdlib/result", "stdlib/winners"},
	"stdlib/draft":      {"lang"},
	"stdlib/doctor":     {},
	"stdlib/repeat":     {"engine/*", "stdlib/stats"},

	// Tests of these rooms load recorded traces by stdlib/trace/internal.
	"stdlib/trace/scan":     {},
	"stdlib/trace/read":     {"stdlib/trace/scan", "stdlib/trace/internal"},
	"stdlib/trace/kernel":   {},
	"stdlib/trace/interval": {},
	"stdlib/trace/bounds":   {},
	"stdlib/trace/host":     {"stdlib/trace/read", "stdlib/trace/launch", "stdlib/trace/profile", "stdlib/trace/internal"},
	"stdlib/trace/launch":   {"stdlib/trace/read", "stdlib/trace/internal"},
	"stdlib/trace/profile":  {"stdlib/trace/read", "stdlib/trace/launch", "stdlib/trace/kernel", "stdlib/trace/internal"},
	"stdlib/trace/layers":   {"stdlib/trace/read", "stdlib/trace/launch", "stdlib/trace/kernel", "stdlib/trace/interval", "stdlib/trace/profile", "stdlib/trace/internal"},
	"stdlib/trace/mapping":  {"stdlib/trace/kernel", "stdlib/trace/launch", "stdlib/trace/profile", "stdlib/trace/internal", "stdlib/trace/layers"},
	"stdlib/trace/fuse":     {"stdlib/trace/read", "stdlib/trace/launch", "stdlib/trace/kernel", "stdlib/trace/profile", "stdlib/trace/layers", "stdlib/trace/internal"},
	"stdlib/trace/diff":     {"stdlib/trace/launch", "stdlib/trace/profile", "stdlib/trace/layers", "stdlib/trace/internal", "stdlib/trace/read"},
	"stdlib/trace/pipeline": {"stdlib/trace/read", "stdlib/trace/kernel", "stdlib/trace/layers", "stdlib/trace/internal", "stdlib/trace/profile"},
	"stdlib/trace/triage": {"stdlib/trace/read", "stdlib/trace/launch", "stdlib/trace/kernel", "stdlib/trace/interval", "stdlib/trace/bounds",
		"stdlib/trace/profile", "stdlib/trace/layers", "stdlib/trace/mapping", "stdlib/trace/fuse", "stdlib/trace/internal"},
	"stdlib/trace/show":     {"stdlib/trace/kernel", "stdlib/trace/triage", "stdlib/trace/diff", "stdlib/trace/pipeline"},
	"stdlib/trace/internal": {"stdlib/trace/read", "stdlib/trace/launch"},
	"stdlib/trace":          {"stdlib/trace/*"},

	// The kinds of the loop's evidence: they build on the specs of servers.
	"stdlib/profile": {"lang", "engine/*", "executors", "executors/runner", "stdlib/*"},

	// It reads images as files and who holds a port, and starts nothing.
	"stdlib/campaign": {"lang", "engine/*", "executors", "executors/runner", "executors/image", "executors/hoststate", "executors/proc", "stdlib/*"},

	"cmd": {"internal/garbage", "lang", "engine/*", "executors", "executors/*", "stdlib/*"},

	"examples": {},
	// Suites and whole-program tests may look into every room.
	"conformance": {"internal/garbage", "lang", "engine/*", "executors", "executors/*", "stdlib/*", "cmd"},
}

// anywhere is a room that every room may import: package regexp, later.
const anywhere = "internal/lazyregexp"

// testMayImport are further arrows of test files.
var testMayImport = map[string][]string{
	"executors/supervisor":          {"executors/internal/puppet"},
	"executors/supervisor/takedown": {"executors/internal/puppet", "executors/internal/trial"},
	"executors/proc":                {"executors/internal/puppet"},
	"engine/plan":                   {"executors"},
	"engine/sched":                  {"engine/*"},
	"engine/loop":                   {"engine/*"},
	"stdlib/repeat":                 {"engine/*", "stdlib/simserve"},
	"executors/local":               {"executors/internal/puppet", "executors/internal/trial", "executors/supervisor"},
	"executors/slurm":               {"executors/internal/puppet", "executors/internal/trial", "executors/supervisor"},
	"executors/oci":                 {"executors/supervisor"},
	"stdlib/bench":                  {"stdlib/simserve"},
	"stdlib/dataset":                {"engine/key"},
	"stdlib/frameworks":             {"lang"},
	"stdlib/draft":                  {"stdlib/frameworks"},
	"stdlib/stops":                  {"lang"},
	"stdlib/reference":              {"stdlib/*"},
	"stdlib/cookbook":               {"stdlib/*"},
	"stdlib/editor":                 {"stdlib/*"},
	"stdlib/search":                 {"stdlib/*"},
	"stdlib/report":                 {"stdlib/*"},
	// Its tests run nodes for real: the test's binary is supervisor and client.
	"stdlib/profile": {"executors/*"},
}

// onlyIn confines each third-party module to the rooms named, so that it can
// be replaced in one place. Test files may also use the modules of testOnly.
var onlyIn = map[string][]string{
	"github.com/hashicorp/hcl/v2":             {"lang"},
	"github.com/zclconf/go-cty":               {"lang"},
	"github.com/agext/levenshtein":            {"lang"},
	"github.com/heimdalr/dag":                 {"engine/graph"},
	"github.com/opencontainers/runtime-spec":  {"executors", "executors/*", "engine/sched", "stdlib/campaign", "conformance"},
	"github.com/cespare/xxhash/v2":            {"engine/key", "engine/cache", "engine/compile"},
	"github.com/gofrs/flock":                  {"engine/cache"},
	"golang.org/x/sys":                        {"conformance", "engine/cache", "engine/key", "executors/*", "stdlib/bench", "stdlib/doctor"},
	"github.com/google/go-containerregistry":  {"executors/image", "executors/docker"}, // docker: its tests alone, a registry to pull from
	"github.com/docker/docker":                {"executors/docker/daemon", "conformance"},
	"github.com/docker/cli":                   {"executors/docker/daemon"},
	"github.com/docker/go-connections":        {"executors/docker/daemon"},
	"github.com/docker/go-units":              {"executors/docker/daemon"},
	"github.com/containerd/errdefs":           {"executors/docker/daemon", "conformance"},
	"tags.cncf.io/container-device-interface": {"executors/oci"},
	"golang.org/x/term":                       {"cmd"},
	"golang.org/x/sync":                       {"engine/sched"},
	"github.com/go-json-experiment/json":      {"engine/cache"},
	"github.com/klauspost/compress":           {"stdlib/trace/read", "stdlib/trace/internal"},
	"github.com/ianlancetaylor/demangle":      {"stdlib/trace/kernel"},
	"github.com/sourcegraph/jsonrpc2":         {"stdlib/editor"},
	"go.yaml.in/yaml/v3":                      {"stdlib/cookbook"},
	"github.com/spf13/cobra":                  {"cmd"},
	"github.com/spf13/pflag":                  {"cmd", "stdlib/simserve", "examples"},
	"github.com/jedib0t/go-pretty/v6":         {"stdlib/report", "cmd"},
	"gonum.org/v1/gonum":                      {"stdlib/stats"},
}

var testOnly = []string{
	"github.com/google/go-cmp", "github.com/rogpeppe/go-internal", "go.uber.org/goleak",
	"github.com/go-json-experiment/json",
}

func room(dir string) string {
	for d := dir; d != "."; d = path.Dir(d) {
		if _, ok := mayImport[d]; ok {
			return d
		}
	}
	return ""
}

func allowed(from, to string, list []string) bool {
	if from == to || to == anywhere {
		return true
	}
	for _, a := range list {
		if a == to || (strings.HasSuffix(a, "/*") && strings.HasPrefix(to, strings.TrimSuffix(a, "*"))) {
			return true
		}
	}
	return false
}

// TestLayers parses every import of the module and fails on an arrow that is
// not in mayImport, or a third-party package outside its room. It reads files
// itself, because a test that runs go list passes from the cache after a
// violation was added.
func TestLayers(t *testing.T) {
	seen := 0
	walkGo(t, func(file string, imports []string) {
		seen++
		dir := path.Dir(file)
		from := room(dir)
		if from == "" {
			if dir != "." {
				t.Errorf("%s: folder is no room of mayImport", file)
			}
			return
		}
		test := strings.HasSuffix(file, "_test.go")
		for _, imp := range imports {
			if to, ok := strings.CutPrefix(imp, module+"/"); ok {
				r := room(to)
				if r == "" || !allowed(from, r, mayImport[from]) && !(test && allowed(from, r, testMayImport[from])) {
					t.Errorf("%s: arrow %s → %s is not drawn in mayImport; if it is right, draw it there and in ARCHITECTURE.md", file, from, to)
				}
				continue
			}
			if !strings.Contains(strings.SplitN(imp, "/", 2)[0], ".") {
				continue // standard library
			}
			checkThirdParty(t, file, from, imp, test)
		}
	})
	if seen < 20 {
		t.Fatalf("only %d files seen: the walk is broken", seen)
	}
}

func checkThirdParty(t *testing.T, file, from, imp string, test bool) {
	t.Helper()
	if test && slices.ContainsFunc(testOnly, func(m string) bool { return under(imp, m) }) {
		return
	}
	for m, rooms := range onlyIn {
		if under(imp, m) {
			if !allowed("", from, rooms) {
				t.Errorf("%s: %s may be imported by %v only", file, imp, rooms)
			}
			return
		}
	}
	t.Errorf("%s: %s stands in no row of onlyIn; a new dependency needs a row and a reason", file, imp)
}

func under(imp, m string) bool { return imp == m || strings.HasPrefix(imp, m+"/") }

// TestPackageComments wants exactly one package comment a folder, because the
// comments are the contracts.
func TestPackageComments(t *testing.T) {
	comments := map[string]int{}
	walkGo(t, func(file string, _ []string) {
		if strings.HasSuffix(file, "_test.go") {
			return
		}
		dir := path.Dir(file)
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.PackageClauseOnly|parser.ParseComments)
		if err != nil {
			t.Error(err)
			return
		}
		comments[dir] += 0
		if f.Doc != nil {
			comments[dir]++
		}
	})
	for dir, n := range comments {
		if n != 1 {
			t.Errorf("%s has %d package comments, want 1", dir, n)
		}
	}
}

// TestNoInit keeps registration by init and exits below main out.
func TestNoInit(t *testing.T) {
	walkGo(t, func(file string, _ []string) {
		if strings.HasSuffix(file, "_test.go") {
			return
		}
		b, err := os.ReadFile(file)
		if err != nil {
			t.Error(err)
			return
		}
		for i, line := range strings.Split(string(b), "\n") {
			if strings.HasPrefix(line, "func init()") {
				t.Errorf("%s:%d: no init functions; list things in a table", file, i+1)
			}
			if strings.Contains(line, "os.Exit(") && path.Base(file) != "main.go" && room(path.Dir(file)) != "executors/internal/puppet" {
				t.Errorf("%s:%d: exit only in main", file, i+1)
			}
		}
	})
}

func walkGo(t *testing.T, visit func(file string, imports []string)) {
	t.Helper()
	err := filepath.WalkDir(".", func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if n := d.Name(); n != "." && (strings.HasPrefix(n, ".") || n == "testdata" || n == "bin" || n == "runs") {
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(p, ".go") {
			return nil
		}
		src, err := os.ReadFile(p)
		if err != nil {
			return err
		}
		f, err := parser.ParseFile(token.NewFileSet(), p, src, parser.ImportsOnly)
		if err != nil {
			return err
		}
		var imports []string
		for _, i := range f.Imports {
			s, err := strconv.Unquote(i.Path.Value)
			if err != nil {
				return err
			}
			imports = append(imports, s)
		}
		visit(filepath.ToSlash(p), imports)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
