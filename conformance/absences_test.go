package conformance

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// absences are the test files that may skip something, each with what is
// missing then and why CI does without it. A part whose reason is "" is there
// in CI: .ci/run requires it, and a test that misses it fails (DESIGN 11.12).
var absences = map[string]struct{ part, reason string }{
	"conformance/llamacpp_test.go":           {"llamacpp", ""},
	"conformance/probe_test.go":              {"a mount namespace", "it takes root; what is judged of recorded readings is always tested in stdlib/probe"},
	"conformance/results_test.go":            {"a quiet machine", "its throughputs are compared for docs/executors.md, by make compare-executors; counts and answers are always compared"},
	"executors/docker/docker_test.go":        {"docker", ""},
	"executors/docker/daemon/real_test.go":   {"docker", ""},
	"executors/docker/images/images_test.go": {"docker", ""},
	"conformance/mount_test.go":              {"a file system of one's own", "it takes root, and containers often forbid it; writing to a full device is always tested by the scripts of cmd"},
	"cmd/sotabuild/language_test.go":         {"the program patch", "CI installs it"},
	"engine/key/files_test.go":               {"a file of 4 GiB", "hashing it takes longer than everything else; SOTABUILD_SLOW=1 does it"},
	"engine/key/manifest_test.go":            {"", "a fuzz test passes over inputs that are no case of it"},
	"executors/image/daemon_test.go":         {"docker", ""},
	"executors/image/fresh_test.go":          {"two users", "to be both takes root, as CI is; of one user's leftovers it is always tested"},
	"executors/image/registry_test.go":       {"registry", ""},
	"executors/oci/crun_test.go":             {"crun", "crun 1.8 refuses hosts whose control groups are hybrid (cgroups in hybrid mode not supported); where it works it is tested"},
	"executors/slurm/slurm_test.go":          {"slurm", ""},
	"executors/oci/oci_test.go":              {"runc", ""},
	"executors/proc/proc_test.go":            {"/dev/shm and control groups", "a container may have neither, and then neither can leak"},
	"stdlib/bench/loopback_test.go":          {"a quiet machine", "a timing within 0.2 ms is no assertion for a crowded one; the same schedules are exact in virtual time, and SOTABUILD_TIMING=1 asks for it"},
	"stdlib/cookbook/cookbook_test.go":       {"the recorded cookbooks", "they are others' files; small ones of our own are always imported"},
	"stdlib/frameworks/frameworks_test.go":   {"the recorded help texts of all versions", "they are too large for the repository; those in stdlib/help/testdata are always checked"},
	"stdlib/ncu/harness/harness_test.go":     {"python3", "CI installs it"},
	"stdlib/report/report_test.go":           {"a POSIX shell", "every CI machine has one; the row is for others"},
}

// TestSkipsAreKnown: no test skips for a reason that is not in the table, and
// .ci/run requires each part that must be there. Skips under -short need no
// row: CI does not give it.
func TestSkipsAreKnown(t *testing.T) {
	skip := regexp.MustCompile(`\.[S]kip(f|Now)?\(`) // not found in this very line
	short := regexp.MustCompile(`testing\.Short\(\)[^{]*\{\s*t\.[S]kip`)
	found := map[string]bool{}
	err := filepath.WalkDir("..", func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(p, "_test.go") {
			return err
		}
		b, err := os.ReadFile(p)
		rel := strings.TrimPrefix(filepath.ToSlash(p), "../")
		if skip.Match(short.ReplaceAll(b, nil)) {
			found[rel] = true
			if _, ok := absences[rel]; !ok {
				t.Errorf("%s skips something: add a row to absences that says what is missing and why CI does without it", rel)
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	ci, err := os.ReadFile("../.ci/run")
	if err != nil {
		t.Fatal(err)
	}
	m := regexp.MustCompile(`SOTABUILD_REQUIRE=(\S+)`).FindSubmatch(ci)
	if m == nil {
		t.Fatal(".ci/run sets no SOTABUILD_REQUIRE")
	}
	for file, a := range absences {
		if !found[file] {
			t.Errorf("%s skips nothing any more: remove its row of absences", file)
		}
		if a.reason == "" && !slices.Contains(strings.Split(string(m[1]), ","), a.part) {
			t.Errorf(".ci/run does not require %q", a.part)
		}
	}
}
