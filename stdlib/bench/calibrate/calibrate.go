// Package calibrate measures the load generator itself on this machine: how
// late it sends, how late it reads, and up to which load its stamps are good to
// a millisecond. The ground truth is simserve, running as a process of its own
// with an exact schedule, and its write stamps.
//
// Run blocks for some seconds a step. An error means that there is no
// calibration; a step that could not be measured says so in its row.
package calibrate

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/sotabuild/sotabuild/stdlib/bench"
	"github.com/sotabuild/sotabuild/stdlib/dataset"
	"github.com/sotabuild/sotabuild/stdlib/result"
)

// Step is one load: so many streams, each with an event every Gap.
type Step struct {
	Streams int           `json:"streams"`
	Gap     time.Duration `json:"gap_ns"`
}

// Steps are the loads, from 1,000 to 40,000 events a second.
var Steps = []Step{{20, 20 * time.Millisecond}, {50, 20 * time.Millisecond}, {100, 20 * time.Millisecond},
	{200, 20 * time.Millisecond}, {400, 20 * time.Millisecond}, {800, 20 * time.Millisecond}}

// Point is what one load gave. Errors are seconds.
type Point struct {
	Step
	Offered   float64      `json:"offered_events_per_s"`
	Events    int          `json:"events"`
	ReadP50   float64      `json:"read_error_p50_s"` // read − write: the loopback is in it
	ReadP99   float64      `json:"read_error_p99_s"`
	SendP99   float64      `json:"send_lag_p99_s"`
	ClientCPU float64      `json:"client_cpu_s_per_event"`
	ServerCPU float64      `json:"server_cpu_s_per_event"`
	Class     result.Class `json:"class,omitempty"` // why there is no number
	Reason    string       `json:"reason,omitempty"`
}

// Result is a calibration; it is kept with results.
type Result struct {
	When   time.Time `json:"when"`
	Cores  int       `json:"cores"`
	Points []Point   `json:"points"`
	// Good is the highest load, in events a second, up to which the 99th
	// percentile of the read error stayed below 1 ms; 0 if it never did.
	Good float64 `json:"good_events_per_s"`
	// PerCore is how many events a second one core of this client can take,
	// from its CPU time at the highest load.
	PerCore float64 `json:"events_per_s_per_core"`
	// Stolen is the share of this machine's cores that the client used at Good,
	// which a server on the same host does not have.
	Stolen float64 `json:"cpu_share_at_good"`
}

// Run calibrates with this program's own simserve. temp is the folder for
// temporary files.
func Run(ctx context.Context, each time.Duration, temp string) (Result, error) {
	self, err := os.Executable()
	if err != nil {
		return Result{}, fmt.Errorf("finding this program: %w", err)
	}
	out := Result{When: time.Now().UTC(), Cores: runtime.NumCPU()}
	good := true
	for _, s := range Steps {
		p, err := measure(ctx, self, s, each, temp)
		if err != nil {
			return out, fmt.Errorf("calibrating with %d streams: %w", s.Streams, err)
		}
		out.Points = append(out.Points, p)
		if p.Class != "" {
			break
		}
		out.PerCore = 1 / p.ClientCPU
		if good = good && p.ReadP99 < 1e-3; good {
			out.Good, out.Stolen = p.Offered, p.Offered*p.ClientCPU/float64(out.Cores)
		}
	}
	return out, nil
}

// measure loads one server of its own with one step.
func measure(ctx context.Context, self string, s Step, each time.Duration, temp string) (Point, error) {
	p := Point{Step: s, Offered: float64(s.Streams) / s.Gap.Seconds()}
	dir, err := os.MkdirTemp(temp, "sotabuild-calibrate-")
	if err != nil {
		return p, err
	}
	defer os.RemoveAll(dir)
	stamps := filepath.Join(dir, "stamps.jsonl")
	srv, url, err := start(ctx, self, "--prefill", "20ms", "--step", s.Gap.String(), "--stamps", stamps)
	if err != nil {
		return p, err
	}
	tokens := max(2, int(each/s.Gap))
	file, err := dataset.Generate(dataset.Spec{Kind: "random", InputLen: 4, OutputLen: tokens, Prompts: s.Streams, Warmup: s.Streams, VocabLo: 0, VocabHi: 100})
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "prompts.jsonl"), file, 0o600)
	}
	if err != nil {
		return p, errors.Join(err, stop(srv))
	}
	spec := bench.Spec{Version: bench.SpecVersion, URL: url, Path: "/v1/completions", API: bench.Completions, Model: "sim", Prompts: filepath.Join(dir, "prompts.jsonl"),
		// Streams start evenly over one gap, so that events do not come all at once.
		Load:  bench.Load{Arrival: bench.Constant, Rate: rate(s), Warmup: min(s.Streams, 4)},
		Rules: bench.Rules{MinSuccess: 1, IgnoreEOS: true, MaxSendLag: time.Hour}}
	cpu := used()
	rep, err := bench.Run(ctx, spec)
	cpu = used() - cpu
	if err := errors.Join(err, stop(srv)); err != nil {
		return p, err
	}
	if rep.Requests == nil || rep.Row.Requests.OK == 0 {
		p.Class, p.Reason = rep.Row.Class, rep.Row.Reason
		return p, nil
	}
	wrote, err := readStamps(stamps, spec.Load.Warmup)
	if err != nil {
		return p, err
	}
	if lag := rep.Row.Facts.SendLagP99; lag != nil {
		p.SendP99 = *lag
	}
	p.errors(rep, wrote)
	if p.Events > 0 {
		p.ClientCPU = cpu.Seconds() / float64(p.Events)
		u := srv.ProcessState
		p.ServerCPU = (u.UserTime() + u.SystemTime()).Seconds() / float64(p.Events)
	}
	return p, nil
}

func rate(s Step) *float64 {
	r := float64(s.Streams) / s.Gap.Seconds()
	return &r
}

func used() time.Duration { return bench.ThisHost().CPU() }

// errors compares reads with writes. Requests are matched by the time that they
// arrived, which is the order of sending.
func (p *Point) errors(rep bench.Report, wrote [][]int64) {
	start := rep.Row.Time.Started.UnixNano()
	var off []float64
	for i, reads := range rep.Reads {
		if i >= len(wrote) || len(reads) != len(wrote[i]) {
			continue
		}
		for j, at := range reads {
			off = append(off, float64(start+int64(at)-wrote[i][j])/1e9)
		}
	}
	p.Events = len(off)
	if len(off) == 0 {
		return
	}
	slices.Sort(off)
	p.ReadP50, p.ReadP99 = off[len(off)/2], off[min(len(off)-1, int(math.Ceil(.99*float64(len(off)))))]
}

// start starts a server and returns its address.
func start(ctx context.Context, self string, args ...string) (*exec.Cmd, string, error) {
	cmd := exec.CommandContext(ctx, self, append([]string{"simserve", "--port", "0"}, args...)...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 5 * time.Second
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, "", err
	}
	if err := cmd.Start(); err != nil {
		return nil, "", fmt.Errorf("starting simserve: %w", err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	url, ok := strings.CutPrefix(strings.TrimSpace(line), "listening on ")
	if err != nil || !ok {
		return nil, "", errors.Join(fmt.Errorf("simserve did not name its address: %q: %w", line, err), stop(cmd))
	}
	return cmd, url, nil
}

func stop(cmd *exec.Cmd) error {
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return fmt.Errorf("ending simserve: %w", err)
	}
	return cmd.Wait()
}

// readStamps reads the writes of the measured requests, in the order they
// arrived.
func readStamps(path string, warm int) ([][]int64, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("reading stamps: %w", err)
	}
	defer f.Close()
	type line struct {
		Request int     `json:"request"`
		Writes  []int64 `json:"writes_ns"`
	}
	var all []line
	for d := json.NewDecoder(f); ; {
		var l line
		if err := d.Decode(&l); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil, fmt.Errorf("reading stamps: %w", err)
		}
		if l.Request >= warm {
			all = append(all, l)
		}
	}
	slices.SortFunc(all, func(a, b line) int { return a.Request - b.Request })
	var out [][]int64
	for _, l := range all {
		out = append(out, l.Writes)
	}
	return out, nil
}

// Write writes the result as JSON.
func (r Result) Write(path string) error {
	b, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return fmt.Errorf("encoding calibration: %w", err)
	}
	if err := os.WriteFile(path, append(b, '\n'), 0o644); err != nil {
		return fmt.Errorf("writing calibration: %w", err)
	}
	return nil
}

// Table is the result for people.
func (r Result) Table() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%10s %8s %12s %12s %12s %12s %12s\n", "events/s", "streams", "read p50 ms", "read p99 ms", "send p99 ms", "client µs", "server µs")
	for _, p := range r.Points {
		if p.Class != "" {
			fmt.Fprintf(&b, "%10.0f %8d no number: %s: %s\n", p.Offered, p.Streams, p.Class, p.Reason)
			continue
		}
		fmt.Fprintf(&b, "%10.0f %8d %12.3f %12.3f %12.3f %12.1f %12.1f\n", p.Offered, p.Streams, p.ReadP50*1e3, p.ReadP99*1e3, p.SendP99*1e3, p.ClientCPU*1e6, p.ServerCPU*1e6)
	}
	fmt.Fprintf(&b, "p99 of the read error is below 1 ms up to %.0f events/s; one core takes %.0f events/s; the client uses %.1f %% of this machine there\n",
		r.Good, r.PerCore, r.Stolen*100)
	return b.String()
}
