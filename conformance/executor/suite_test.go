package executor

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	slurmjob "github.com/sotabuild/sotabuild/executors/slurm/job"
	"github.com/sotabuild/sotabuild/executors/supervisor"
)

// fixtures are the executors under the suite, in the order of the table's
// columns.
var fixtures = []Fixture{localFixture, dockerFixture, dockerCopied, ociFixture, slurmFixture}

func TestMain(m *testing.M) {
	if len(os.Args) == 3 && os.Args[1] == "slurm-job" {
		os.Exit(slurmjob.Main(os.Args[2]))
	}
	if len(os.Args) == 3 && os.Args[1] == "runner" {
		os.Exit(supervisor.Main(os.Args[2]))
	}
	os.Exit(Main(m, append(fixtures, crunFixture, insideFixture)...))
}

// TestTable keeps the table in the document what the fixtures say. A ✓ is true
// because its case fails where the executor does not pass it.
func TestTable(t *testing.T) {
	const path, begin, end = "../../docs/executors.md", "<!-- suite -->\n", "<!-- end -->\n"
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(text), begin)
	old, after, ok2 := strings.Cut(rest, end)
	if !ok || !ok2 {
		t.Fatalf("%s has no place for the table between %q and %q", path, begin, end)
	}
	want := "\n" + Table(fixtures) + "\n"
	if os.Getenv("SOTABUILD_UPDATE") == "1" {
		if err := os.WriteFile(path, []byte(before+begin+want+end+after), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if old != want {
		t.Errorf("the table in %s is not what the fixtures say; SOTABUILD_UPDATE=1 rewrites it. Want\n%s", path, want)
	}
}

// absent are the executors that CI does without, each with why.
var absent = map[string]string{
	"local": "it is always there",
}

// TestCIRequires: what CI does not require could be skipped there, and nobody
// would see it.
func TestCIRequires(t *testing.T) {
	ci, err := os.ReadFile("../../.ci/run")
	if err != nil {
		t.Fatal(err)
	}
	m := regexp.MustCompile(`SOTABUILD_REQUIRE=(\S+)`).FindSubmatch(ci)
	if m == nil {
		t.Fatal(".ci/run sets no SOTABUILD_REQUIRE")
	}
	for _, f := range fixtures {
		required := slices.Contains(strings.Split(string(m[1]), ","), f.Name)
		if required == (absent[f.Name] != "") {
			t.Errorf("%s: .ci/run requires it (%t), or absent says why not (%q): one of both", f.Name, required, absent[f.Name])
		}
	}
}
