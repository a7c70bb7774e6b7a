package conformance

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// fakeDriver answers nvidia-smi's questions as a driver with one H200 does;
// lanes and the driver's version stand in files beside it.
const fakeDriver = `#!/bin/sh
case $1 in --version) echo "CUDA Version        : 13.0"; exit 0;; esac
for a; do case $a in --query-*) q=$a;; esac; done
case $q in --query-compute-apps=*) exit 0;; esac
out=
IFS=,
for f in ${q#*=}; do
	case $f in
	index) v=0;;
	uuid|gpu_uuid) v=GPU-00000000-0000-0000-0000-000000000001;;
	name) v="NVIDIA H200";;
	pci.bus_id) v=00000000:00:06.0;;
	memory.total) v=143771;;
	driver_version) v=$(cat "$(dirname "$0")/driver");;
	clocks.*applications.*) v=1980;;
	mig.mode.current) v=Disabled;;
	power.limit|power.default_limit) v=700.00;;
	pcie.link.width.current) v=$(cat "$(dirname "$0")/lanes");;
	pcie.link.width.max) v=16;;
	pcie.link.gen.max) v=5;;
	*errors*) v=0;;
	remapped_rows.*) v=No;;
	clocks_event_reasons.active) v=0x0000000000000000;;
	*) v="[N/A]";;
	esac
	out="$out${out:+, }$v"
done
echo "$out"
`

// fakeTorch is the interpreter beside the serving program: it prints what the
// load program printed on a real H200.
const fakeTorch = `#!/bin/sh
echo '{"torch": "2.11.0", "cuda": "13.0", "gpus": [{"uuid": "GPU-00000000-0000-0000-0000-000000000001", "copy_to_device": 5.53e10, "copy_from_device": 5.52e10, "copy_on_device": 4.2223e12, "matmul_bf16": 7.718e14}]}'
`

// TestHostIsProbed: a GPU campaign looks at its cards before the first server
// starts. A field out of range stops the apply by its name, an accepted one is
// recorded, and what was seen is recorded with every measurement.
func TestHostIsProbed(t *testing.T) {
	if os.Geteuid() != 0 || exec.Command("unshare", "-m", "true").Run() != nil {
		t.Skip("SKIPPED: a mount namespace for a driver that is not there takes root")
	}
	s := example(t, "quickstart")
	s.edit("campaign.hcl", "scenario \"summarization\" {\n  input_len   = 256\n  output_len  = 32\n  num_prompts = 8\n}\n", "")
	s.edit("campaign.hcl", "input_len   = 64\n  output_len  = 64\n  num_prompts = 16", "input_len   = 16\n  output_len  = 8\n  num_prompts = 4")
	s.edit("campaign.hcl", "sla {", "gpus {\n  model = \"NVIDIA H200\"\n  ids   = [0]\n}\n\nsla {")
	driver := t.TempDir()
	write := func(path, text string, mode os.FileMode) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
	}
	write(filepath.Join(driver, "nvidia-smi"), fakeDriver, 0o755)
	write(filepath.Join(s.dir, "../../bin/python3"), fakeTorch, 0o755)
	version := func(v string) { write(filepath.Join(driver, "driver"), v, 0o644) }
	version("580.159.04")
	lanes := func(n string) { write(filepath.Join(driver, "lanes"), n, 0o644) }
	run := func(code int, args ...string) result {
		t.Helper()
		ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
		defer cancel()
		inner := s.command(ctx, args...)
		cmd := exec.CommandContext(ctx, "unshare", append([]string{"-m", "sh", "-c", `mount --bind "$0" /usr/local/sbin && exec "$@"`, driver}, inner.Args...)...)
		cmd.Env = append(inner.Env, "PATH=/usr/local/sbin:"+os.Getenv("PATH"))
		cmd.WaitDelay = inner.WaitDelay
		var out, errText bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &errText
		_ = cmd.Run() // the exit code says it
		if got := cmd.ProcessState.ExitCode(); got != code {
			t.Fatalf("sotabuild %v: exit code %d, want %d\n%s\n%s", args, got, code, out.String(), errText.String())
		}
		return result{code, out.String(), errText.String(), 0}
	}

	lanes("8")
	if r := run(1, "doctor", "--gpu"); !strings.Contains(r.out, "link_width of GPU-00000000-0000-0000-0000-000000000001 is 8 lanes, want 16") || !strings.Contains(r.out, `accept = ["link_width"]`) {
		t.Errorf("doctor --gpu does not name the link:\n%s", r.out)
	}
	bad := run(5, "apply")
	if !strings.Contains(bad.err, "link_width") || !strings.Contains(bad.err, "8 lanes, want 16") {
		t.Errorf("a link with half its lanes is not named:\n%s", bad.err)
	}
	if logs, err := filepath.Glob(filepath.Join(s.dir, ".sotabuild/tasks/*/logs/server.*")); err != nil || len(logs) > 0 {
		t.Errorf("a server was started on a host out of range: %v (%v)", logs, err)
	}

	s.edit("campaign.hcl", "ids   = [0]", "ids   = [0]\n  accept = [\"link_width\", \"governor\"]")
	run(0, "apply")
	for _, want := range []string{"probe.link_width.gpu0", "8 lanes (accepted)", "probe.matmul_bf16.gpu0", "771.8 TFLOP/s"} {
		if cell := run(0, "explain", `bench.blocked["baseline"].chat.c4`, "--json"); !strings.Contains(cell.out, want) {
			t.Errorf("the record of a cell does not hold %q:\n%s", want, cell.out)
		}
	}
	if again := run(0, "apply"); !strings.Contains(again.out, "Applied: 0 nodes run") {
		t.Errorf("a second apply within a day ran something:\n%s", again.out)
	}

	// Another minor version of the driver is told with each row, and measures
	// nothing again unless it binds (DESIGN 4).
	version("580.200.01")
	if again := run(0, "apply"); !strings.Contains(again.out, "Applied: 0 nodes run") {
		t.Errorf("an update of the driver ran something:\n%s", again.out)
	}
	const told = "measured with driver.gpu0 580.159.04, and this host has 580.200.01 now"
	if rows := run(0, "report", "--format", "json").out; strings.Count(rows, told) != 6 {
		t.Errorf("not each of six rows tells %q:\n%s", told, rows)
	}
	for fact, want := range map[string]string{"env.cuda": "13.0", "env.clock_policy.gpu0": "default", "env.topology": "one GPU"} {
		if cell := run(0, "explain", `bench.blocked["baseline"].chat.c4`, "--json").out; !strings.Contains(cell, fact) || !strings.Contains(cell, want) {
			t.Errorf("the record of a cell does not hold %s %s:\n%s", fact, want, cell)
		}
	}
	s.edit("campaign.hcl", "ids   = [0]", "ids   = [0]\n  binds = [\"driver\"]")
	if p := run(0, "plan"); !strings.Contains(p.out, "driver gpu0 (none) → 580.200.01") {
		t.Errorf("a driver that binds is not what the plan names:\n%s", p.out)
	}
	s.edit("campaign.hcl", `binds = ["driver"]`, `binds = ["drvier"]`)
	if r := run(7, "plan"); !strings.Contains(r.err, `"drvier"`) || !strings.Contains(r.err, "clock_policy, driver, ecc") {
		t.Errorf("a fact that is none is not named:\n%s", r.err)
	}
	s.edit("campaign.hcl", "\n  binds = [\"drvier\"]", "")

	s.edit("campaign.hcl", `"link_width", "governor"`, `"link_widht"`)
	if r := run(7, "plan"); !strings.Contains(r.err, `"link_widht"`) || !strings.Contains(r.err, "link_width") {
		t.Errorf("a field that is none is not named:\n%s", r.err)
	}
}
