package profile

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/sotabuild/sotabuild/executors"
	"github.com/sotabuild/sotabuild/stdlib/trace"
	"github.com/sotabuild/sotabuild/stdlib/trace/launch"
	"github.com/sotabuild/sotabuild/stdlib/trace/triage"
)

// A trace is taken as written when its folder did not change for settled. Some
// servers answer before their ranks have packed the files.
const (
	settled    = time.Second
	pollEvery  = 100 * time.Millisecond
	traceLimit = 5 * time.Minute
)

// files are the sizes of the trace files below a folder, by path.
func files(dir string) (map[string]int64, error) {
	out := map[string]int64{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil // renamed or removed while we looked
		}
		if err != nil || !d.Type().IsRegular() || strings.HasPrefix(d.Name(), ".") {
			return err
		}
		if !strings.HasSuffix(path, ".json") && !strings.HasSuffix(path, ".json.gz") {
			return nil
		}
		info, err := d.Info()
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err == nil {
			out[path] = info.Size()
		}
		return err
	})
	return out, err
}

// await waits for new trace files and returns their paths, sorted.
func (s ClientSpec) await(ctx context.Context, before map[string]int64) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, traceLimit)
	defer cancel()
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	var last map[string]int64
	var since time.Time
	for {
		now, err := files(s.Traces)
		if err != nil {
			return nil, err
		}
		maps.DeleteFunc(now, func(path string, size int64) bool { old, ok := before[path]; return ok && old == size })
		switch {
		case !maps.Equal(now, last):
			last, since = now, time.Now()
		case len(now) > 0 && time.Since(since) >= settled:
			return slices.Sorted(maps.Keys(now)), nil
		}
		select {
		case <-ctx.Done():
			return nil, wrong(executors.ClassNoOutput, "the profiler was stopped, but %d trace files appeared and settled within %v", len(now), traceLimit)
		case <-tick.C:
		}
	}
}

// keep chooses one rank's trace, the lowest that holds work of the stage, and
// moves it to the step's folder.
func (s ClientSpec) keep(ctx context.Context, found []string, sum *Summary) error {
	inputs, _, err := trace.Inputs(found)
	if err != nil {
		return err
	}
	path, err := want{s.Stage, s.Host, true}.choose(ctx, inputs, sum)
	if err != nil {
		return err
	}
	if err := os.Rename(path, filepath.Join(s.Out, traceFile)); err != nil {
		return fmt.Errorf("keeping the trace: %w", err)
	}
	return nil
}

// want is what a trace must hold to be kept.
type want struct {
	stage Stage
	host  bool // the host's operators count where there is no device
	known bool // the load was of the stage: a trace that names no step is taken whole
}

// choose finds the trace to keep, of the lowest rank that holds work of the
// stage, and tells the summary of it and of the others. The error is a verdict
// when none does.
func (w want) choose(ctx context.Context, inputs []trace.Input, sum *Summary) (string, error) {
	var chosen string
	var reasons []string
	for _, in := range inputs {
		base := filepath.Base(in.Path)
		if chosen != "" {
			sum.SetAside = append(sum.SetAside, base+": another rank")
			continue
		}
		res, host, err := w.check(ctx, in)
		if ctx.Err() != nil {
			return "", ctx.Err()
		}
		if err != nil {
			reason := fmt.Sprintf("%s: %s", base, strings.ReplaceAll(err.Error(), in.Path, base))
			sum.SetAside, reasons = append(sum.SetAside, reason), append(reasons, reason)
			continue
		}
		chosen, sum.Trace, sum.Rank, sum.Host = in.Path, base, in.Rank, host
		sum.Warnings, sum.Whole = append(sum.Warnings, res.warnings...), res.whole
	}
	if chosen == "" {
		return "", wrong(executors.ClassNoOutput, "no trace of the %s stage: %s", w.stage, strings.Join(reasons, "; "))
	}
	return chosen, nil
}

// found is what a trace holds.
type found struct {
	warnings []string
	whole    bool // no step is named, and all of it is the stage
}

// check reads a trace and checks that it holds work of the stage; host says
// that the work is the host's.
func (w want) check(ctx context.Context, in trace.Input) (f found, host bool, err error) {
	o := trace.TriageOptions{Paths: []string{in.Path}, Cutoff: trace.DefaultCutoff}
	res, err := trace.TriageOf(ctx, o)
	if errors.Is(err, trace.ErrNoGPU) && w.host {
		o.Host, host = true, true
		res, err = trace.TriageOf(ctx, o)
	}
	if err != nil {
		return f, false, err
	}
	f, err = w.holds(res)
	return f, host, err
}

// holds checks that a triage has work of the stage. A trace without any step
// annotation is taken whole, with a warning, where the stage is known.
func (w want) holds(res trace.TriageResult) (f found, err error) {
	var stages []string
	for _, r := range res.Reports {
		f.warnings = append(f.warnings, r.Warnings...)
		f.whole = !slices.ContainsFunc(r.Coverage.Rules, func(s triage.RuleShare) bool { return s.Rule != launch.ByFile.String() })
		for _, st := range r.Stages {
			if string(st.Stage) == string(w.stage) && st.Times.Busy > 0 {
				return f, nil
			}
			stages = append(stages, string(st.Stage))
		}
		if len(r.Coverage.Rules) == 0 && w.known {
			f.warnings = append(f.warnings, fmt.Sprintf("The trace names no step, so all of it is taken as %s; the load was.", w.stage))
			return f, nil
		}
	}
	return f, fmt.Errorf("no GPU time in the %s stage; the trace has %s", w.stage, strings.Join(slices.Compact(stages), ", "))
}
