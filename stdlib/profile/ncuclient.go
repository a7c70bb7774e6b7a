package profile

import (
	"archive/tar"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/sotabuild/sotabuild/executors"
	"github.com/sotabuild/sotabuild/executors/runner"
	"github.com/sotabuild/sotabuild/stdlib/ncu"
)

// ncuClientVersion is the version of NCUClientSpec's JSON form.
const ncuClientVersion = 2

// NCUClientSpec is one comparison, as the step's client reads it.
type NCUClientSpec struct {
	Version   int         `json:"version"`
	Baseline  Harness     `json:"baseline"`
	Candidate Harness     `json:"candidate"`
	MinBytes  float64     `json:"min_bytes"`
	Subject   ncu.Subject `json:"subject"`
	Refuted   []string    `json:"refuted"`
	Program   string      `json:"program"` // "" is ncu on the PATH
	Clocks    string      `json:"clocks"`
	NoHarness string      `json:"no_harness"`
	Out       string      `json:"out"` // folder for what the client writes
}

// NCUMain collects both sides' counters and writes their digest, as the spec
// file says. It returns 0 when a digest, with a blocker or without, or a
// verdict is written, else 1 with the reason on stderr.
func NCUMain(specPath string) int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := runNCU(ctx, specPath); err != nil {
		fmt.Fprintf(os.Stderr, "sotabuild: %v\n", err)
		return 1
	}
	return 0
}

func runNCU(ctx context.Context, specPath string) error {
	var s NCUClientSpec
	b, err := os.ReadFile(specPath)
	if err != nil {
		return fmt.Errorf("reading ncu spec: %w", err)
	}
	if err := json.Unmarshal(b, &s); err != nil {
		return fmt.Errorf("reading ncu spec %q: %w", specPath, err)
	}
	if s.Version != ncuClientVersion {
		return fmt.Errorf("reading ncu spec %q: version is %d; this client reads version %d", specPath, s.Version, ncuClientVersion)
	}
	d, err := s.digest(ctx)
	if err != nil {
		return writeJSON(filepath.Join(s.Out, runner.OutcomeFile), runner.StepOutcome{Class: executors.ClassClientFailed, Reason: err.Error()})
	}
	dir, err := ncu.Write(filepath.Join(s.Out, digestFolder), firstVersion, d)
	if err != nil {
		return err
	}
	return archive(dir, filepath.Join(s.Out, digestArchive))
}

// digest collects the sides and compares them. The first side that gives no
// counters ends it: a blocker names one.
func (s NCUClientSpec) digest(ctx context.Context) (ncu.Digest, error) {
	o := ncu.Options{Subject: s.Subject, MinBytes: s.MinBytes, Refuted: s.Refuted, Program: s.Program,
		Baseline: s.Baseline.source(), Candidate: s.Candidate.source()}
	if s.NoHarness != "" {
		return ncu.NoHarness(o, "baseline", s.NoHarness), nil
	}
	program, err := exec.LookPath(cmp.Or(s.Program, "ncu"))
	if err != nil {
		return ncu.Missing(o, "baseline", cmp.Or(s.Program, "ncu")), nil
	}
	for _, side := range []struct {
		role    string
		harness Harness
		into    *ncu.Source
	}{{"baseline", s.Baseline, &o.Baseline}, {"candidate", s.Candidate, &o.Candidate}} {
		page, whole, err := side.harness.collect(ctx, program, s.Clocks, s.Out, side.role)
		if err != nil {
			return ncu.Digest{}, fmt.Errorf("collecting the %s: %w", side.role, err)
		}
		side.into.Pages = []string{page}
		if !whole && side.role == "baseline" {
			// Not collected any more; Make stops at the baseline's refusal.
			o.Candidate.Pages = []string{page}
			break
		}
	}
	return ncu.Make(ctx, o)
}

func (h Harness) source() ncu.Source {
	return ncu.Source{Kernel: h.Kernel, Shape: h.Shape, Commit: h.Commit, File: h.File}
}

// NCUArgs is the command line that collects one launch of the kernel with all
// sections and its source, into the report PATH.ncu-rep.
func (h Harness) NCUArgs(path, clocks string) []string {
	args := []string{
		"--set", "full", "--import-source", "yes", "--target-processes", "all",
		"--kernel-name", "regex:" + h.Kernel, "--launch-count", "1",
	}
	if h.Ranged {
		args = append(args, "--profile-from-start", "off")
	}
	if clocks != "" {
		args = append(args, "--clock-control", clocks)
	}
	return append(append(args, "--force-overwrite", "--export", path, "--"), h.Argv...)
}

// collect runs ncu and returns the report, whole; or, where ncu left none,
// the text that it printed instead.
func (h Harness) collect(ctx context.Context, program, clocks, dir, role string) (page string, whole bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, ncuSideDeadline)
	defer cancel()
	said := filepath.Join(dir, role+".said.txt")
	out, err := os.OpenFile(said, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return "", false, err
	}
	base := filepath.Join(dir, role)
	cmd := exec.CommandContext(ctx, program, h.NCUArgs(base, clocks)...)
	cmd.Env = os.Environ() // what the task declares
	for name, v := range h.Env {
		cmd.Env = append(cmd.Env, name+"="+v)
	}
	cmd.Env = append(cmd.Env, "LC_ALL=C", "LANG=C")
	cmd.Dir = dir
	cmd.Stdout, cmd.Stderr = out, out
	cmd.WaitDelay = 5 * time.Second
	err = cmd.Run()
	if cerr := out.Close(); cerr != nil {
		return "", false, cerr
	}
	if ctx.Err() != nil {
		return "", false, fmt.Errorf("running ncu: %w", context.Cause(ctx))
	}
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		return "", false, fmt.Errorf("running ncu: %w", err)
	}
	report := base + ".ncu-rep"
	if st, serr := os.Stat(report); err == nil && serr == nil && st.Size() > 0 {
		return report, true, nil
	}
	return said, false, nil
}

// archive packs a digest's folder, sorted, with nothing of this host in it.
func archive(dir, to string) (err error) {
	f, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if err != nil {
		return fmt.Errorf("packing the digest: %w", err)
	}
	w := tar.NewWriter(f)
	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if err := w.WriteHeader(&tar.Header{Name: filepath.ToSlash(name), Mode: 0o644, Size: int64(len(b))}); err != nil {
			return err
		}
		_, err = w.Write(b)
		return err
	})
	if err = errors.Join(err, w.Close(), f.Close()); err != nil {
		return fmt.Errorf("packing the digest: %w", err)
	}
	return nil
}
