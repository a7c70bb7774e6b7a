package profile

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sotabuild/sotabuild/engine/cache"
	"github.com/sotabuild/sotabuild/stdlib/ncu"
	"github.com/sotabuild/sotabuild/stdlib/result"
)

// recordedNCU is no ncu: it answers as version 2025.3.1 did on an H200, with
// pages recorded there, of which each side picks its kernel. RECORDED_NCU chooses what it does when it collects.
func recordedNCU(args []string) int {
	if slices.Equal(args, []string{"--version"}) {
		fmt.Println("NVIDIA (R) Nsight Compute Command Line Profiler\nVersion 2025.3.1.0 (build 36398880) (public-release)")
		return 0
	}
	if i := slices.Index(args, "--page"); i >= 0 {
		return printPage(args[slices.Index(args, "--import")+1], args[i+1])
	}
	export := slices.Index(args, "--export")
	if export < 0 || os.Getenv("LC_ALL") != "C" {
		fmt.Printf("==ERROR== unrecognised arguments %q\n", args)
		return 1
	}
	switch os.Getenv("RECORDED_NCU") {
	case "refused":
		fmt.Println("==PROF== Connected to process 1\n==ERROR== ERR_NVGPUCTRPERM - The user does not have permission to access NVIDIA GPU Performance Counters on the target device 0.")
		return 1
	case "nothing":
		fmt.Println("==PROF== Connected to process 1\n==PROF== Disconnected from process 1\n==WARNING== No kernels were profiled.")
		return 0
	}
	err := os.WriteFile(args[export+1]+".ncu-rep", recording{args, os.Getenv("RECORDED_PAGES")}.bytes(), 0o600)
	if err != nil {
		fmt.Println("==ERROR==", err)
		return 1
	}
	return 0
}

// recording is what the recorded ncu writes as a report: how it was called and
// where the pages are.
type recording struct {
	Args  []string
	Pages string
}

const magic = "NVR\x00"

func (r recording) bytes() []byte {
	b, err := json.Marshal(r)
	if err != nil {
		panic(err)
	}
	return append([]byte(magic), b...)
}

func readRecording(b []byte) (r recording, err error) {
	return r, json.Unmarshal(bytes.TrimPrefix(b, []byte(magic)), &r)
}

func printPage(report, name string) int {
	err := func() error {
		b, err := os.ReadFile(report)
		if err != nil {
			return err
		}
		r, err := readRecording(b)
		if err != nil {
			return err
		}
		page, err := os.ReadFile(filepath.Join(r.Pages, "rmsnorm_"+name+".csv"))
		if err != nil {
			return err
		}
		_, err = os.Stdout.Write(page)
		return err
	}()
	if err != nil {
		fmt.Println("==ERROR==", err)
		return 1
	}
	return 0
}

// asked is a comparison by the recorded ncu.
func asked(t *testing.T, mode string) NCUSpec {
	t.Helper()
	pages, err := filepath.Abs("../ncu/testdata/h200")
	if err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(t.TempDir(), "ncu")
	if err := os.Symlink(self(t), program); err != nil {
		t.Fatal(err)
	}
	side := func(version string) Harness {
		return Harness{Argv: []string{"/opt/harness", version}, Kernel: "rmsnorm_" + version, Shape: "one",
			Env: map[string]string{"RECORDED_NCU": mode, "RECORDED_PAGES": pages}}
	}
	return NCUSpec{Baseline: side("v0"), Candidate: side("v1"), Program: program, Self: self(t), Subject: ncu.Subject{Round: 3}}
}

func digestNode(t *testing.T, s NCUSpec) (*cache.Record, ncu.Digest, map[string][]byte) {
	t.Helper()
	decl, err := DeclareNCU("ncu.rmsnorm", "framework.x", nil, s)
	if err != nil {
		t.Fatal(err)
	}
	rec, out := runNode(t, decl)
	var d ncu.Digest
	if err := json.Unmarshal(out["digest_json"], &d); err != nil {
		t.Fatalf("%v: %+v", err, rec.Outcome)
	}
	if !strings.Contains(string(out["folder"]), "digest.md") {
		t.Fatalf("no digest: %+v", rec.Outcome)
	}
	return rec, d, unpack(t, out["folder"])
}

func unpack(t *testing.T, b []byte) map[string][]byte {
	t.Helper()
	files := map[string][]byte{}
	for r := tar.NewReader(bytes.NewReader(b)); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		if files[h.Name], err = io.ReadAll(r); err != nil {
			t.Fatal(err)
		}
	}
}

// TestNCUNode runs the node as a task, with the recorded ncu: one kernel, one
// launch, the full set and its source (R167), and a digest with one next edit
// and the reports and pages beside it (R168–R170).
func TestNCUNode(t *testing.T) {
	rec, d, files := digestNode(t, asked(t, "collect"))
	if rec.Outcome.State != cache.OK || d.Blocker != nil || d.NextEdit == nil || d.Subject.Round != 3 {
		t.Errorf("outcome %+v, blocker %+v, edit %+v", rec.Outcome, d.Blocker, d.NextEdit)
	}
	// The recording's README: v0 reads against the memory's layout.
	if md := string(files["digest.md"]); !strings.Contains(md, "coalesc") || strings.Count(md, "\n## Next edit") != 1 {
		t.Errorf("digest:\n%s", md)
	}
	for _, name := range []string{"digest.md", "digest.json", "reports/baseline.ncu-rep", "reports/baseline.raw.csv", "reports/baseline.details.csv",
		"reports/candidate.ncu-rep", "reports/candidate.raw.csv", "reports/candidate.details.csv"} {
		if len(files[name]) == 0 {
			t.Errorf("no %s in the digest's folder", name)
		}
	}
	r, err := readRecording(files["reports/candidate.ncu-rep"])
	if err != nil {
		t.Fatal(err)
	}
	line := strings.Join(r.Args, " ")
	for _, want := range []string{"--set full", "--import-source yes", "--kernel-name regex:rmsnorm_v1", "--launch-count 1"} {
		if !strings.Contains(line, want) {
			t.Errorf("ncu was called with %s, without %s", line, want)
		}
	}
	if !strings.HasSuffix(line, " -- /opt/harness v1") {
		t.Errorf("ncu was called with %s", line)
	}
}

// TestNCUBlockers: what keeps counters from us is a digest that says so, of a
// node that failed and is run again by the next apply (R177).
func TestNCUBlockers(t *testing.T) {
	missing := asked(t, "collect")
	missing.Program = "/nowhere/ncu"
	for name, c := range map[string]struct {
		spec NCUSpec
		code string
	}{
		"refused": {asked(t, "refused"), "no_permission"},
		"nothing": {asked(t, "nothing"), "no_kernel_matched"},
		"missing": {missing, "ncu_missing"},
	} {
		t.Run(name, func(t *testing.T) {
			rec, d, files := digestNode(t, c.spec)
			if d.Blocker == nil || d.Blocker.Code != c.code || d.Blocker.Side != "baseline" || d.Blocker.Remedy == "" {
				t.Fatalf("blocker %+v, want %s", d.Blocker, c.code)
			}
			if o := rec.Outcome; o.State != cache.Failed || o.Class != string(result.NoCounters) || o.Final() || !strings.Contains(o.Reason, c.code) {
				t.Errorf("outcome %+v", o)
			}
			if len(files["blocker"]) == 0 {
				t.Error("no file blocker in the digest's folder")
			}
		})
	}
}

// TestNCUWithoutHarness: what a trace does not say about the kernel is a
// blocker, and nothing is run.
func TestNCUWithoutHarness(t *testing.T) {
	s := asked(t, "collect")
	s.NoHarness = "rank0.json has no operator around the launches of k, as in a graph replay"
	rec, d, files := digestNode(t, s)
	if d.Blocker == nil || d.Blocker.Code != "no_harness" || d.Blocker.Detail != s.NoHarness || !strings.Contains(d.Blocker.Remedy, "mapping trace") {
		t.Fatalf("blocker %+v", d.Blocker)
	}
	if rec.Outcome.Class != string(result.NoCounters) || len(files["blocker"]) == 0 || len(files) != 3 {
		t.Errorf("outcome %+v, %d files", rec.Outcome, len(files))
	}
}

// TestNCUArgs: a harness that names its range is profiled in it, and clocks are
// left where that is asked for.
func TestNCUArgs(t *testing.T) {
	h := Harness{Argv: []string{"/py", "h.py"}, Kernel: "^k$", Ranged: true}
	const always = "--set full --import-source yes --target-processes all --kernel-name regex:^k$ --launch-count 1 "
	if got := strings.Join(h.NCUArgs("/r", "none"), " "); got != always+"--profile-from-start off --clock-control none --force-overwrite --export /r -- /py h.py" {
		t.Error(got)
	}
	h.Ranged = false
	if got := strings.Join(h.NCUArgs("/r", ""), " "); got != always+"--force-overwrite --export /r -- /py h.py" {
		t.Error(got)
	}
	if _, err := DeclareNCU("ncu.x", "", nil, NCUSpec{NoHarness: "x", Clocks: "fast"}); err == nil || !strings.Contains(err.Error(), "base") {
		t.Errorf("clocks fast: %v", err)
	}
}

// TestNCUSameKernel: a question that is wrong is told with its reason, and is
// no blocker.
func TestNCUSameKernel(t *testing.T) {
	s := asked(t, "collect")
	s.Candidate.Kernel = s.Baseline.Kernel
	decl, err := DeclareNCU("ncu.rmsnorm", "framework.x", nil, s)
	if err != nil {
		t.Fatal(err)
	}
	rec, _ := runNode(t, decl)
	if o := rec.Outcome; o.State != cache.Failed || o.Class != "client_failed" || !strings.Contains(o.Reason, "not compared with itself") {
		t.Errorf("outcome %+v", o)
	}
}

func TestDeclareNCURefusesBadHarnesses(t *testing.T) {
	_, err := DeclareNCU("ncu.x", "", nil, NCUSpec{Baseline: Harness{Argv: []string{"./rel"}, Kernel: "("}})
	if err == nil {
		t.Fatal("no error")
	}
	for _, want := range []string{`baseline is ["./rel"]`, `baseline is "("`, "harness of the candidate", "kernel of the candidate"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("no word of %s in\n%v", want, err)
		}
	}
}
