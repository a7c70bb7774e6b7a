package prepare

import (
	"strings"
	"testing"

	"github.com/sotabuild/sotabuild/engine/cache"
	"github.com/sotabuild/sotabuild/lang"
)

func TestGPUAnswers(t *testing.T) {
	rows, err := parseGPUs([]byte("0, GPU-aa, NVIDIA H200, 143771, Disabled, 700.00, 580.159.04\n1, GPU-bb, NVIDIA H200, 143771, [N/A], [Not Supported], 580.159.04\n"), 7)
	if err != nil || len(rows) != 2 || rows[1][1] != "GPU-bb" {
		t.Fatalf("%v %v", rows, err)
	}
	for in, want := range map[[2]string]string{
		{"mig", "[N/A]"}:               unknown,
		{"power_cap_w", ""}:            unknown,
		{"driver_major", "580.159.04"}: "580",
		{"driver", "580.159.04"}:       "580.159.04",
		{"gpu", "NVIDIA H200"}:         "NVIDIA H200",
	} {
		if got := tidyGPU(in[0], in[1]); got != want {
			t.Errorf("%v: %q, want %q", in, got, want)
		}
	}
	if _, err := parseGPUs([]byte("No devices were found\n"), 7); err == nil {
		t.Error("text that is no table is no error")
	}
}

// TestCUDAVersion reads what nvidia-smi of driver 580 prints, and one that knows no
// such option.
func TestCUDAVersion(t *testing.T) {
	const about = "NVIDIA-SMI version  : 580.159.04\nNVML version        : 580.159\nDRIVER version      : 580.159.04\nCUDA Version        : 13.0\n"
	for text, want := range map[string]string{about: "13.0", "": unknown, "CUDA Version        : N/A\n": unknown, "Invalid combination of input arguments.\n": unknown} {
		if got := cudaVersion([]byte(text)); got != want {
			t.Errorf("%q: %s, want %s", text, got, want)
		}
	}
}

func TestClockPolicy(t *testing.T) {
	const clocks = "0, 1980, 1980\n1, 1500, 1980\n2, [N/A], [N/A]\n"
	for index, want := range map[string]string{"0": "default", "1": "application clocks of 1500 MHz, not 1980", "2": unknown, "3": unknown} {
		if got := clockPolicy([]byte(clocks), index); got != want {
			t.Errorf("GPU %s: %s, want %s", index, got, want)
		}
	}
	if got := clockPolicy([]byte("Field \"clocks.applications.graphics\" is not a valid field to query.\n"), "0"); got != unknown {
		t.Errorf("a driver without the field: %s", got)
	}
}

// TestTopology reads the matrix of a host with two pairs of GPUs, with the escapes
// and columns that nvidia-smi prints into pipes, too.
func TestTopology(t *testing.T) {
	const matrix = "\t\x1b[4mGPU0\tGPU1\tGPU2\tGPU3\tNIC0\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\x1b[0m\n" +
		"GPU0\t X \tNV18\tSYS\tSYS\tPXB\t0-15\t0\t\tN/A\n" +
		"GPU1\tNV18\t X \tSYS\tSYS\tPXB\t0-15\t0\t\tN/A\n" +
		"GPU2\tSYS\tSYS\t X \tNV18\tSYS\t16-31\t1\t\tN/A\n" +
		"GPU3\tSYS\tSYS\tNV18\t X \tSYS\t16-31\t1\t\tN/A\n" +
		"NIC0\tPXB\tPXB\tSYS\tSYS\t X \t\t\t\t\n\nLegend:\n\n  X    = Self\n"
	for indices, want := range map[string]string{"0 1": "NV18", "1 0": "NV18", "2 3": "NV18", "1 2": "SYS", "0 1 2 3": "NV18, SYS", "3": "one GPU", "0 4": unknown} {
		if got := topology([]byte(matrix), strings.Fields(indices)); got != want {
			t.Errorf("GPUs %s: %s, want %s", indices, got, want)
		}
	}
	if got := topology(nil, []string{"0", "1"}); got != unknown {
		t.Errorf("without a matrix: %s", got)
	}
}

// TestBinds: a fact that the campaign binds is keyed and not recorded, each GPU by
// itself; the usual ones need not be named, and are refused.
func TestBinds(t *testing.T) {
	c := class{binds: []string{"driver"}}
	c.bind("gpu", "gpu0", "NVIDIA H200")
	c.record("driver", "gpu0", "580.1")
	c.record("ecc", "gpu0", "Enabled")
	c.record("kernel", "", "6.8")
	keyed := c.binding.Finish().Text()
	if !strings.Contains(keyed, "580.1") || strings.Contains(keyed, "Enabled") {
		t.Errorf("keyed is\n%s", keyed)
	}
	want := []cache.Observed{{Name: "env.ecc.gpu0", Value: "Enabled"}, {Name: "env.kernel", Value: "6.8"}}
	if len(c.recorded) != 2 || c.recorded[0] != want[0] || c.recorded[1] != want[1] {
		t.Errorf("recorded is %v, want %v", c.recorded, want)
	}
	said := checkBinds(&lang.Campaign{GPUs: &lang.GPUs{Binds: []string{"driver", "gpu", "topolgy", "topology"}}})
	if len(said) != 2 || !strings.Contains(said[0].Detail, `"gpu"`) || !strings.Contains(said[1].Detail, `"topolgy"`) || !strings.Contains(said[1].Detail, "persistence, topology") {
		t.Errorf("said is %v", said)
	}
}
