package prepare

import (
	"bufio"
	"bytes"
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/sotabuild/sotabuild/engine/cache"
	"github.com/sotabuild/sotabuild/engine/compile"
	"github.com/sotabuild/sotabuild/engine/key"
	"github.com/sotabuild/sotabuild/internal/lazyregexp"
	"github.com/sotabuild/sotabuild/lang"
	"github.com/sotabuild/sotabuild/stdlib/campaign"
	"github.com/sotabuild/sotabuild/stdlib/result"
)

// unknown is the value of a fact that could not be read; it matches only
// itself (DESIGN 4).
const unknown = "unknown"

// class collects the environment class: where a number is valid. Facts that bind
// are part of the key of what is measured; the others are recorded with it.
type class struct {
	binds    []string // facts that the campaign adds to those that always bind
	binding  key.Builder
	recorded []cache.Observed
}

func (c *class) bind(name, label, value string) { c.binding.Text("env."+name, label, value) }

// record is bind where the campaign asks for it.
func (c *class) record(name, label, value string) {
	if slices.Contains(c.binds, name) {
		c.bind(name, label, value)
		return
	}
	if label != "" {
		label = "." + label
	}
	c.recorded = append(c.recorded, cache.Observed{Name: "env." + name + label, Value: value})
}

// environment reads the hardware and the environment class of this host.
func environment(ctx context.Context, c *lang.Campaign, f *campaign.Facts) error {
	var all class
	if c.GPUs != nil {
		all.binds = c.GPUs.Binds
	}
	f.Hardware = result.Hardware{CPU: cpuModel(), Cores: runtime.NumCPU()}
	all.bind("cpu", "", f.Hardware.CPU)
	all.binding.Int("env.cores", "", int64(f.Hardware.Cores))
	all.record("kernel", "", kernelRelease())
	if c.GPUs != nil {
		f.Hardware.GPUModel, f.Hardware.GPUCount, f.Hardware.GPUIDs = c.GPUs.Model, len(c.GPUs.IDs), c.GPUs.IDs
		if err := all.gpus(ctx, c.GPUs, f); err != nil {
			return err
		}
	}
	f.Env = compile.Env{Binding: all.binding.Finish().Facts(), Recorded: all.recorded}
	return nil
}

func cpuModel() string {
	b, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return unknown
	}
	s := bufio.NewScanner(bytes.NewReader(b))
	for s.Scan() {
		if name, v, ok := strings.Cut(s.Text(), ":"); ok && strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(v)
		}
	}
	return unknown
}

func kernelRelease() string {
	b, err := os.ReadFile("/proc/sys/kernel/osrelease")
	if err != nil {
		return unknown
	}
	parts := strings.SplitN(strings.TrimSpace(string(b)), ".", 3)
	if len(parts) < 2 {
		return unknown
	}
	return parts[0] + "." + parts[1]
}

// gpuFields are asked of nvidia-smi, each with the fact it becomes.
var gpuFields = []struct {
	query, fact string
	binding     bool
}{
	{"name", "gpu", true},
	{"memory.total", "gpu_memory_mib", true},
	{"mig.mode.current", "mig", true},
	{"power.limit", "power_cap_w", true},
	{"driver_version", "driver_major", true},
	{"driver_version", "driver", false},
	{"ecc.mode.current", "ecc", false},
	{"clocks.max.sm", "clock_max_sm_mhz", false},
	{"persistence_mode", "persistence", false},
}

// mayBind are the facts that are recorded only, unless a campaign says that they
// bind.
func mayBind() []string {
	names := []string{"kernel", "clock_policy", "topology"}
	for _, g := range gpuFields {
		if !g.binding {
			names = append(names, g.fact)
		}
	}
	slices.Sort(names)
	return names
}

// checkBinds checks the facts that the gpus block binds.
func checkBinds(c *lang.Campaign) (out lang.Diagnostics) {
	if c.GPUs == nil {
		return nil
	}
	for _, name := range c.GPUs.Binds {
		if !slices.Contains(mayBind(), name) {
			out = append(out, lang.Diagnostic{Severity: lang.Error, Code: "unknown_environment_fact", Summary: "Unknown fact of the environment",
				Detail: fmt.Sprintf("gpus: binds has %q, and no fact that is only recorded has that name. Write some of %s.", name, strings.Join(mayBind(), ", ")),
				Range:  c.GPUs.Range})
		}
	}
	return out
}

// gpus asks the driver about the campaign's GPUs. What the driver does not tell
// is unknown.
func (c *class) gpus(ctx context.Context, want *lang.GPUs, f *campaign.Facts) error {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	query := []string{"index", "uuid"}
	for _, g := range gpuFields {
		query = append(query, g.query)
	}
	// The others are words that not every driver knows, and cost no result.
	var about, clocks, links []byte
	var others sync.WaitGroup
	for into, args := range map[*[]byte][]string{
		&about:  {"--version"},
		&clocks: {csvForm, "--query-gpu=index,clocks.applications.graphics,clocks.default_applications.graphics"},
		&links:  {"topo", "-m"},
	} {
		if into != &links || len(want.IDs) > 1 {
			others.Go(func() { *into, _ = smi(ctx, args...) })
		}
	}
	out, err := smi(ctx, csvForm, "--query-gpu="+strings.Join(query, ","))
	others.Wait()
	if err != nil {
		return err
	}
	rows, err := parseGPUs(out, len(query))
	if err != nil {
		return err
	}
	c.binding.Int("env.gpu_count", "", int64(len(want.IDs)))
	c.bind("cuda", "", cudaVersion(about))
	var indices []string
	for i, id := range want.IDs {
		n := slices.IndexFunc(rows, func(r []string) bool { return r[0] == id || r[1] == id })
		if n < 0 {
			return fmt.Errorf("there is no GPU %q here; nvidia-smi lists %d", id, len(rows))
		}
		indices, f.Cards = append(indices, rows[n][0]), append(f.Cards, rows[n][1])
		label := fmt.Sprintf("gpu%d", i)
		for k, g := range gpuFields {
			v := tidyGPU(g.fact, rows[n][k+2])
			switch {
			case g.fact == "gpu" && want.Model != "" && v != want.Model:
				return fmt.Errorf("GPU %s is a %q, and the campaign says %q", id, v, want.Model)
			case g.binding:
				c.bind(g.fact, label, v)
			default:
				c.record(g.fact, label, v)
			}
		}
		c.record("clock_policy", label, clockPolicy(clocks, rows[n][0]))
	}
	c.record("topology", "", topology(links, indices))
	return nil
}

const csvForm = "--format=csv,noheader,nounits"

func smi(ctx context.Context, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, "nvidia-smi", args...)
	var errText bytes.Buffer
	cmd.Stderr = &errText
	out, err := cmd.Output()
	if err != nil {
		if said := strings.TrimSpace(errText.String()); said != "" {
			return nil, fmt.Errorf("nvidia-smi: %w: %s", err, said)
		}
		return nil, fmt.Errorf("nvidia-smi: %w", err)
	}
	return out, nil
}

// gpusElsewhere says what to do where the campaign's GPUs could not be read.
// Slurm's GPUs are in its nodes, and a host that submits jobs often has none.
func gpusElsewhere(c *lang.Campaign, f *campaign.Facts, err error) string {
	if errors.Is(err, exec.ErrNotFound) {
		for _, fw := range campaign.Compared(c) {
			if f.Software[fw.Label].Place.Executor == "slurm" {
				return fmt.Sprintf("Framework %q runs in Slurm's jobs, but model, memory and driver of the GPUs are part of every key, and they are read by nvidia-smi of the host on which sotabuild runs. "+
					"Run sotabuild on a node of the cluster that has the same GPUs and sbatch, with --store and the programs on the shared file system, and outside of a job that holds those GPUs; or leave the gpus block out for a CPU campaign.", fw.Label)
			}
		}
	}
	return "The campaign asks for GPUs; leave the gpus block out for a CPU campaign, or run this on the host that has them."
}

func parseGPUs(out []byte, fields int) ([][]string, error) {
	r := csv.NewReader(bytes.NewReader(out))
	r.TrimLeadingSpace = true
	r.FieldsPerRecord = fields
	rows, err := r.ReadAll()
	if err != nil {
		return nil, fmt.Errorf("reading the answer of nvidia-smi: %w", err)
	}
	return rows, nil
}

// cudaVersion is the highest version of CUDA that the driver serves, by what
// `nvidia-smi --version` prints.
func cudaVersion(about []byte) string {
	for line := range strings.Lines(string(about)) {
		if name, v, ok := strings.Cut(line, ":"); ok && strings.EqualFold(strings.TrimSpace(name), "CUDA version") {
			return tidyGPU("cuda", v)
		}
	}
	return unknown
}

// clockPolicy is whether a GPU has the application clocks that it comes with. That
// clocks are locked (nvidia-smi -lgc) no query tells.
func clockPolicy(clocks []byte, index string) string {
	rows, err := parseGPUs(clocks, 3)
	at := slices.IndexFunc(rows, func(r []string) bool { return r[0] == index })
	if err != nil || at < 0 {
		return unknown
	}
	now, usual := tidyGPU("", rows[at][1]), tidyGPU("", rows[at][2])
	switch {
	case now == unknown || usual == unknown:
		return unknown
	case now == usual:
		return "default"
	}
	return "application clocks of " + now + " MHz, not " + usual
}

var escapes = lazyregexp.New(`\x1b\[[0-9;]*m`)

// topology is how GPUs are connected: the words of all their pairs in the matrix
// that `nvidia-smi topo -m` prints, each once.
func topology(matrix []byte, indices []string) string {
	if len(indices) == 1 {
		return "one GPU"
	}
	var head []string
	rows := map[string][]string{}
	for line := range strings.Lines(escapes.ReplaceAllString(string(matrix), "")) {
		cells := strings.Split(strings.TrimRight(line, "\n"), "\t")
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		switch {
		case head == nil && slices.Contains(cells, "GPU0"):
			head = cells
		case head != nil && strings.HasPrefix(cells[0], "GPU"):
			rows[cells[0]] = cells
		}
	}
	var words []string
	for i, a := range indices {
		for _, b := range indices[i+1:] {
			row, at := rows["GPU"+a], slices.Index(head, "GPU"+b)
			if at < 0 || at >= len(row) || row[at] == "" {
				return unknown
			}
			words = append(words, row[at])
		}
	}
	slices.Sort(words)
	return strings.Join(slices.Compact(words), ", ")
}

// tidyGPU maps the driver's words for "no such thing" to unknown and keeps
// only the major number of the driver where that is the fact.
func tidyGPU(fact, v string) string {
	v = strings.TrimSpace(v)
	if v == "" || v == "N/A" || strings.HasPrefix(v, "[") {
		return unknown
	}
	if fact == "driver_major" {
		v, _, _ = strings.Cut(v, ".")
	}
	return v
}
