package probe

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/sotabuild/sotabuild/executors"
	"github.com/sotabuild/sotabuild/executors/runner"
	"github.com/sotabuild/sotabuild/stdlib/result"
)

// clientVersion is the version of ClientSpec's JSON form.
const clientVersion = 1

// ReportFile is the report in the step's folder.
const ReportFile = "probe.json"

// ClientSpec is what the step's program reads. Paths are absolute.
type ClientSpec struct {
	Version int      `json:"version"`
	IDs     []string `json:"ids"`
	Pythons []string `json:"pythons"` // names or paths, the first that exists is used
	Accept  []string `json:"accept,omitempty"`
	Out     string   `json:"out"`
}

// WriteSpec writes the spec to path.
func (s ClientSpec) WriteSpec(path string) error {
	s.Version = clientVersion
	return writeJSON(path, s)
}

// Main is the step's program: it reads this host, judges it and writes the
// report and its verdict into the spec's folder. It returns the exit code: 0
// when the verdict is written, whatever it is, else 1 with the reason on stderr.
func Main(specPath string) int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, specPath); err != nil {
		fmt.Fprintf(os.Stderr, "sotabuild: %v\n", err)
		return 1
	}
	return 0
}

func run(ctx context.Context, specPath string) error {
	b, err := os.ReadFile(specPath)
	if err != nil {
		return fmt.Errorf("reading probe spec: %w", err)
	}
	var s ClientSpec
	if err := json.Unmarshal(b, &s); err != nil || s.Version != clientVersion {
		return fmt.Errorf("reading probe spec %q: version is %d, want %d (%v)", specPath, s.Version, clientVersion, err)
	}
	verdict := runner.StepOutcome{}
	readings, err := Read(ctx, Ask{IDs: s.IDs, Python: Python(s.Pythons), Env: os.Environ(), Dir: s.Out})
	switch {
	case ctx.Err() != nil:
		verdict.Class, verdict.Reason = executors.ClassInterrupted, "the probe was stopped before it was done"
	case err != nil:
		verdict.Class, verdict.Reason = result.HostUnfit, err.Error()
	default:
		report := Judge(readings, s.Accept)
		if err := writeJSON(filepath.Join(s.Out, ReportFile), report); err != nil {
			return err
		}
		if err := report.Err(); err != nil {
			verdict.Class, verdict.Reason = result.HostUnfit, err.Error()
		}
	}
	return writeJSON(filepath.Join(s.Out, runner.OutcomeFile), verdict)
}

// Python is the first interpreter of a list that exists; "" is none.
func Python(candidates []string) string {
	for _, c := range candidates {
		if p, err := exec.LookPath(c); err == nil {
			return p
		}
	}
	return ""
}

// Pythons are where a serving program's own interpreter may be: beside the
// program, then in the path.
func Pythons(program string) []string {
	var out []string
	if strings.Contains(program, "/") {
		out = append(out, filepath.Join(filepath.Dir(program), "python3"))
	}
	return append(out, "python3")
}

// ReadReport reads a report.
func ReadReport(b []byte) (Report, error) {
	var r Report
	if err := json.Unmarshal(b, &r); err != nil {
		return r, fmt.Errorf("reading a probe's report: %w", err)
	}
	if r.Version != ReportVersion {
		return r, fmt.Errorf("reading a probe's report: version is %d; this build reads version %d", r.Version, ReportVersion)
	}
	return r, nil
}

func writeJSON(path string, v any) error {
	b, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	tmp := path + ".tmp"
	if err := os.WriteFile(tmp, append(b, '\n'), 0o600); err != nil {
		return fmt.Errorf("writing %q: %w", path, err)
	}
	if err := os.Rename(tmp, path); err != nil {
		return fmt.Errorf("writing %q: %w", path, err)
	}
	return nil
}
