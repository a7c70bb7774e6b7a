package conformance

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sotabuild/sotabuild/stdlib/ncu"
)

// recordedNCU is a program named ncu that is none: it answers as version
// 2025.3.1 did on an H200, with the pages of two kernels recorded there.
func recordedNCU(t *testing.T) string {
	t.Helper()
	pages, err := filepath.Abs("../stdlib/ncu/testdata/h200")
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "ncu")
	text := `#!/bin/sh
report= page= import=
for a; do
	case $last in
	--export) report=$a ;;
	--page) page=$a ;;
	--import) import=$a ;;
	esac
	[ "$a" != --version ] || { echo "Version 2025.3.1.0 (build 36398880) (public-release)"; exit 0; }
	last=$a
done
[ -z "$import" ] || exec cat "` + pages + `/rmsnorm_$page.csv"
[ ! -e "` + path + `.refuses" ] || { echo "==ERROR== ERR_NVGPUCTRPERM - The user does not have permission"; exit 1; }
printf 'NVR\000%s\n' "$*" >"$report.ncu-rep"
`
	if err := os.WriteFile(path, []byte(text), 0o700); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestNCURun: the hand command runs the node as a task with a harness, and
// keeps each digest as a version of its own (R167–R170).
func TestNCURun(t *testing.T) {
	s := &site{t, t.TempDir()}
	tool := recordedNCU(t)
	s.write("harness.sh", "exit 0\n")
	args := []string{"ncu", "run", "--kernel", "rmsnorm_v0", "--candidate-kernel", "rmsnorm_v1", "--baseline", "sh",
		"--harness", filepath.Join(s.dir, "harness.sh"), "--ncu", tool, "--out", filepath.Join(s.dir, "digests")}
	r := s.must(0, args...)
	if !strings.Contains(r.out, filepath.Join("digests", "v001")) {
		t.Errorf("no word of the digest:\n%s", r.out)
	}
	dir := filepath.Join(s.dir, "digests", "v001")
	d, err := ncu.Read(dir)
	if err != nil || d.Blocker != nil || d.Version != "v001" || d.Delta.Verdict != "faster" {
		t.Fatalf("%v, %+v", err, d)
	}
	for _, f := range []string{"baseline.ncu-rep", "baseline.raw.csv", "candidate.details.csv"} {
		if st, err := os.Stat(filepath.Join(dir, "reports", f)); err != nil || st.Size() == 0 {
			t.Errorf("%s: %v", f, err)
		}
	}
	b, err := os.ReadFile(filepath.Join(dir, "reports", "candidate.ncu-rep"))
	if err != nil || !strings.Contains(string(b), "--kernel-name regex:rmsnorm_v1 --launch-count 1") || !strings.Contains(string(b), "harness.sh") {
		t.Errorf("%v: ncu was called with %s", err, b)
	}
	if err := os.WriteFile(tool+".refuses", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	r = s.must(5, args...)
	if d, err = ncu.Read(filepath.Join(s.dir, "digests", "v002")); err != nil || d.Blocker == nil || d.Blocker.Code != "no_permission" || !strings.Contains(r.err, "no_permission") {
		t.Errorf("%v, %+v\n%s", err, d.Blocker, r.err)
	}
	s.must(7, append(args, "--candidate-kernel", "")...)
}

// TestNCUHarness: from a trace, a program; or what the trace does not say.
func TestNCUHarness(t *testing.T) {
	s := &site{t, t.TempDir()}
	const kernel = `{"ph":"X","cat":"cuda_runtime","name":"cudaLaunchKernel","pid":1,"tid":1,"ts":5,"dur":2,"args":{"correlation":1}},
{"ph":"X","cat":"kernel","name":"void gemm_kernel<4>(float*)","pid":0,"tid":7,"ts":10,"dur":70,"args":{"stream":7,"correlation":1}}]}`
	s.write("shapes.json", `{"traceEvents":[{"ph":"X","cat":"cpu_op","name":"aten::mm","pid":1,"tid":1,"ts":4,"dur":5,
"args":{"External id":1,"Input Dims":[[8,4],[4,6]],"Input type":["float","float"],"Input Strides":[[4,1],[1,4]],"Concrete Inputs":["",""]}},`+kernel)
	s.write("none.json", `{"traceEvents":[`+kernel)
	at := func(name string) string { return filepath.Join(s.dir, name) }
	r := s.must(0, "ncu", "harness", "--trace", at("shapes.json"), "--kernel", "gemm")
	if !strings.Contains(r.out, "tensor((4, 6,), (1, 4,), torch.float32)") {
		t.Errorf("the program is\n%s", r.out)
	}
	if r = s.must(5, "ncu", "harness", "--trace", at("none.json"), "--kernel", "gemm"); !strings.Contains(r.err, "no operator around the launches") {
		t.Errorf("without an operator:\n%s", r.err)
	}
	s.must(0, "ncu", "harness", "--trace", at("none.json"), "--mapping", at("shapes.json"), "--kernel", "gemm")
	if r = s.must(7, "ncu", "harness", "--trace", at("none.json"), "--kernel", "attention"); !strings.Contains(r.err, "the largest are gemm_kernel<4>") {
		t.Errorf("no such kernel:\n%s", r.err)
	}
	// The run writes the program beside the digests, or a digest that says why
	// there is none.
	r = s.must(5, "ncu", "run", "--trace", at("none.json"), "--kernel", "gemm", "--out", at("digests"))
	if d, err := ncu.Read(at("digests/v001")); err != nil || d.Blocker == nil || d.Blocker.Code != "no_harness" {
		t.Errorf("%v, %+v\n%s", err, d.Blocker, r.err)
	}
	r = s.must(7, "ncu", "run", "--trace", at("shapes.json"), "--kernel", "gemm", "--out", at("digests"))
	if found, err := filepath.Glob(at("digests/harness/gemm_kernel.*.py")); err != nil || len(found) != 1 || !strings.Contains(r.err, "both sides are the same") {
		t.Errorf("%v, %v\n%s", found, err, r.err)
	}
}
