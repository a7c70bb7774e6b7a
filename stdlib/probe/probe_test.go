package probe

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sotabuild/sotabuild/executors/runner"
	"github.com/sotabuild/sotabuild/stdlib/result"
)

// recorded are the readings of a sound host with two H200 cards.
func recorded(t *testing.T) Readings {
	t.Helper()
	read := func(name string) []byte {
		b, err := os.ReadFile(filepath.Join("testdata", name))
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	cards, err := parseCards(read("gpu.csv"), queries[0].fields)
	if err != nil {
		t.Fatal(err)
	}
	rows, err := parseCards(read("rows.csv"), queries[1].fields)
	if err != nil {
		t.Fatal(err)
	}
	for i := range cards {
		for k, v := range rows[i] {
			cards[i][k] = v
		}
	}
	load, err := parseLoad(append([]byte("[W] a library's own line\n"), read("load.json")...))
	if err != nil {
		t.Fatal(err)
	}
	return Readings{Cards: cards, Kernel: "[    4.8] NVRM: Persistence mode is deprecated\n", Governor: []string{"performance", "performance"}, Load: load}
}

func verdicts(r Report) map[string]Verdict {
	out := map[string]Verdict{}
	for _, f := range r.Fields {
		if f.GPU == "" || strings.HasSuffix(f.GPU, "1") {
			out[f.Name] = f.Verdict
		}
	}
	return out
}

// Every field that has a range is in it on a sound host, and is there.
func TestSound(t *testing.T) {
	r := Judge(recorded(t), nil)
	if err := r.Err(); err != nil {
		t.Error(err)
	}
	v := verdicts(r)
	for _, name := range Names {
		if v[name] != InRange {
			t.Errorf("%s is %q", name, v[name])
		}
	}
}

// One thing is wrong in each case, and exactly that field is named. Shares are
// by hand: 4,800 GB/s × 0.70 = 3,360; 989.5 TFLOP/s × 0.55 = 544.2; a Gen5 x16
// link carries 16 × 3.938 = 63.0 GB/s, half is 31.5.
func TestOutOfRange(t *testing.T) {
	rate := func(v float64) *float64 { return &v }
	for _, c := range []struct {
		name, says string
		spoil      func(*Readings)
	}{
		{"ecc_uncorrected", "is 3, want 0", func(r *Readings) { r.Cards[0]["ecc.errors.uncorrected.volatile.total"] = "3" }},
		{"remapped_rows", "pending Yes", func(r *Readings) { r.Cards[0]["remapped_rows.pending"] = "Yes" }},
		{"remapped_rows", "failed Yes", func(r *Readings) { r.Cards[0]["remapped_rows.failure"] = "Yes" }},
		{"xid", "is 79, want", func(r *Readings) {
			r.Kernel += "6,1234,99;NVRM: Xid (PCI:0000:00:06): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.\n"
		}},
		{"link_width", "is 8 lanes, want 16", func(r *Readings) { r.Cards[0]["pcie.link.width.current"] = "8" }},
		{"power_limit", "is 71 % of the default of 700 W", func(r *Readings) { r.Cards[0]["power.limit"] = "500.00" }},
		{"throttle", "reasons 0x40", func(r *Readings) { r.Cards[0]["clocks_event_reasons.active"] = "0x0000000000000044" }},
		{"governor", "is performance, powersave", func(r *Readings) { r.Governor[1] = "powersave" }},
		{"copy_to_device", "is 31.0 GB/s", func(r *Readings) { r.Load.GPUs[0].ToDev = rate(31.0e9) }},
		{"copy_from_device", "is 31.0 GB/s", func(r *Readings) { r.Load.GPUs[0].FromDv = rate(31.0e9) }},
		{"copy_on_device", "is 3350.0 GB/s, want at least 70 % of NVIDIA H200's 4800", func(r *Readings) { r.Load.GPUs[0].OnDev = rate(3.35e12) }},
		{"matmul_bf16", "is 543.0 TFLOP/s", func(r *Readings) { r.Load.GPUs[0].MatMul = rate(543e12) }},
		{"all_reduce", "a wrong sum", func(r *Readings) { r.Load.Pair.Wrong = true }},
		{"all_reduce", "failed (ncclSystemError)", func(r *Readings) { *r.Load.Pair = Pair{Ranks: 2, Failed: "ncclSystemError"} }},
	} {
		r := recorded(t)
		c.spoil(&r)
		report := Judge(r, nil)
		err := report.Err()
		if err == nil || len(report.Bad()) != 1 || report.Bad()[0].Name != c.name || !strings.Contains(err.Error(), c.says) || !strings.Contains(err.Error(), `accept = ["`+c.name+`"]`) {
			t.Errorf("%s: %v, want that alone with %q", c.name, err, c.says)
		}
		if accepted := Judge(r, []string{c.name}); accepted.Err() != nil || verdicts(accepted)[c.name] != Accepted {
			t.Errorf("%s accepted: %v, %q", c.name, accepted.Err(), verdicts(accepted)[c.name])
		}
		if !slices.Contains(Names, c.name) {
			t.Errorf("%s cannot be accepted by name", c.name)
		}
	}
}

// Just inside the ranges nothing is said.
func TestEdges(t *testing.T) {
	rate := func(v float64) *float64 { return &v }
	r := recorded(t)
	r.Load.GPUs[0].OnDev, r.Load.GPUs[0].MatMul, r.Load.GPUs[0].ToDev = rate(3.361e12), rate(545e12), rate(31.6e9)
	r.Cards[0]["power.limit"] = "700.01"
	// A software power cap (0x4) and idle (0x1) are how cards run.
	r.Cards[0]["clocks_event_reasons.active"] = "0x0000000000000005"
	// A program's own fault, and another card's.
	r.Kernel += "NVRM: Xid (PCI:0000:00:06): 31, pid=7\nNVRM: Xid (PCI:0000:81:00): 79, pid=7\n"
	report := Judge(r, nil)
	if err := report.Err(); err != nil {
		t.Error(err)
	}
	if v := verdicts(report); v["xid_of_programs"] != Noted {
		t.Errorf("Xid 31 is %q", v["xid_of_programs"])
	}
}

// What was not read is unknown, with the reason: never in range, and nothing
// stops for it.
func TestUnknown(t *testing.T) {
	r := recorded(t)
	r.Cards = []Card{{"index": "0", "uuid": "GPU-00000000-0000-0000-0000-000000000001", "name": "NVIDIA H200"}, r.Cards[1]}
	r.Kernel, r.NoKernel = "", errors.New("permission denied")
	r.Governor, r.NoGov = nil, errors.New("no governor")
	r.Load, r.NoLoad = nil, errors.New("no torch")
	report := Judge(r, nil)
	if err := report.Err(); err != nil {
		t.Error(err)
	}
	v := verdicts(report)
	for _, name := range Names {
		if v[name] != Unknown {
			t.Errorf("%s is %q", name, v[name])
		}
	}
	for _, f := range report.Fields {
		if f.Verdict == Unknown && f.Reason == "" {
			t.Errorf("%s is unknown for no reason", f.Name)
		}
	}
}

// A product without a data sheet has rates and no range.
func TestUnknownProduct(t *testing.T) {
	r := recorded(t)
	r.Cards[0]["name"] = "NVIDIA X9000"
	v := verdicts(Judge(r, nil))
	if v["matmul_bf16"] != Noted || v["copy_on_device"] != Noted || v["copy_to_device"] != InRange {
		t.Errorf("%v", v)
	}
}

// fakeSMI puts a program named nvidia-smi first in the path.
func fakeSMI(t *testing.T, script string) {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "nvidia-smi"), []byte("#!/bin/sh\n"+script), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
}

// A driver that does not know one field refuses the whole query; the others are
// read one by one.
func TestOlderDriver(t *testing.T) {
	fakeSMI(t, `
case "$2" in
*remapped*) echo 'Option "--query-remapped-rows" is not recognized.'; exit 2;;
*clocks_event_reasons*) echo 'Field "clocks_event_reasons.active" is not a valid field to query.'; exit 2;;
*=index,uuid) echo "0, GPU-a"; echo "1, GPU-b";;
*=power.limit) echo "350.00"; echo "300.00";;
*=power.default_limit) echo "350.00"; echo "350.00";;
*) echo "[N/A]"; echo "[Not Supported]";;
esac
`)
	r, err := Read(context.Background(), Ask{IDs: []string{"GPU-b"}})
	if err != nil {
		t.Fatal(err)
	}
	report := Judge(r, nil)
	bad := report.Bad()
	if len(bad) != 1 || bad[0].Name != "power_limit" || bad[0].GPU != "GPU-b" || bad[0].Value != "86" {
		t.Errorf("out of range: %v, want GPU-b at 300 of 350 W", bad)
	}
	if _, err := Read(context.Background(), Ask{IDs: []string{"7"}}); err == nil || !strings.Contains(err.Error(), `no GPU "7"`) {
		t.Errorf("a card that is not there: %v", err)
	}
}

// The program writes its verdict whatever it is, and says why where there is no
// driver.
func TestClient(t *testing.T) {
	for _, c := range []struct{ script, class, says string }{
		{"echo 'NVIDIA-SMI has failed' >&2; exit 9", string(result.HostUnfit), "NVIDIA-SMI has failed"},
		{`case "$2" in *index,uuid,*) cat ` + abs(t, "testdata/gpu.csv") + `;; *) cat ` + abs(t, "testdata/rows.csv") + `;; esac`, "", ""},
	} {
		fakeSMI(t, c.script)
		out := t.TempDir()
		spec := filepath.Join(out, "spec.json")
		err := ClientSpec{IDs: []string{"0", "1"}, Pythons: []string{"no-such-python"}, Accept: []string{"governor"}, Out: out}.WriteSpec(spec)
		if err != nil {
			t.Fatal(err)
		}
		if code := Main(spec); code != 0 {
			t.Errorf("exit code %d", code)
		}
		var v runner.StepOutcome
		b, err := os.ReadFile(filepath.Join(out, runner.OutcomeFile))
		if err != nil || json.Unmarshal(b, &v) != nil || string(v.Class) != c.class || !strings.Contains(v.Reason, c.says) {
			t.Errorf("verdict %s (%v), want %q with %q", b, err, c.class, c.says)
		}
		if c.class != "" {
			continue
		}
		b, err = os.ReadFile(filepath.Join(out, ReportFile))
		if err != nil {
			t.Fatal(err)
		}
		report, err := ReadReport(b)
		if err != nil || len(report.Fields) == 0 || verdicts(report)["matmul_bf16"] != Unknown {
			t.Errorf("report %v (%v)", report, err)
		}
	}
}

func abs(t *testing.T, p string) string {
	a, err := filepath.Abs(p)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// The kernel's log is read to its end without waiting for more.
func TestKernelLog(t *testing.T) {
	path := filepath.Join(t.TempDir(), "kmsg")
	want := strings.Repeat("6,1,2,-;NVRM: Xid (PCI:0000:17:00): 31\n", 2000)
	if err := os.WriteFile(path, []byte(want), 0o600); err != nil {
		t.Fatal(err)
	}
	if got, err := kernelLog(path); err != nil || got != want {
		t.Errorf("%d bytes, %v; want %d", len(got), err, len(want))
	}
	if _, err := kernelLog(path + ".no"); err == nil {
		t.Error("a log that is not there was read")
	}
}
