package profile

import (
	"bytes"
	"context"
	"encoding/json"
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

// keep chooses one rank's trace, the lowest that holds work of the stage,
// writes its tables and moves it to the step's folder.
func (s ClientSpec) keep(ctx context.Context, found []string, sum *Summary) error {
	inputs, _, err := trace.Inputs(found)
	if err != nil {
		return err
	}
	var reasons []string
	for _, in := range inputs {
		if sum.Trace != "" {
			sum.SetAside = append(sum.SetAside, fmt.Sprintf("%s: another rank", filepath.Base(in.Path)))
			continue
		}
		err := s.tables(ctx, in.Path, sum)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			reason := fmt.Sprintf("%s: %v", filepath.Base(in.Path), err)
			sum.SetAside, reasons = append(sum.SetAside, reason), append(reasons, reason)
			continue
		}
		sum.Trace, sum.Rank = filepath.Base(in.Path), in.Rank
		if err := os.Rename(in.Path, filepath.Join(s.Out, traceFile)); err != nil {
			return fmt.Errorf("keeping the trace: %w", err)
		}
	}
	if sum.Trace == "" {
		return wrong(executors.ClassNoOutput, "no trace of the %s stage: %s", s.Stage, strings.Join(reasons, "; "))
	}
	return nil
}

// tables writes the triage tables of a trace that holds the stage. A trace
// without any step annotation is taken whole, with a warning.
func (s ClientSpec) tables(ctx context.Context, path string, sum *Summary) error {
	text := map[string][]byte{}
	for _, t := range tableFiles {
		format, err := trace.ParseFormat(t.format)
		if err != nil {
			return err
		}
		var out bytes.Buffer
		if err := trace.Triage(ctx, trace.TriageOptions{Paths: []string{path}, Format: format, Cutoff: trace.DefaultCutoff}, &out); err != nil {
			return err
		}
		text[t.file] = out.Bytes()
	}
	var res trace.TriageResult
	if err := json.Unmarshal(text["tables.json"], &res); err != nil {
		return fmt.Errorf("reading the tables back: %w", err)
	}
	warnings, err := s.holds(res)
	if err != nil {
		return err
	}
	sum.Warnings = append(sum.Warnings, warnings...)
	for name, b := range text {
		if err := os.WriteFile(filepath.Join(s.Out, name), b, 0o644); err != nil {
			return fmt.Errorf("writing tables: %w", err)
		}
	}
	return nil
}

// holds checks that a triage has GPU time in the stage.
func (s ClientSpec) holds(res trace.TriageResult) (warnings []string, err error) {
	var stages []string
	for _, r := range res.Reports {
		warnings = append(warnings, r.Warnings...)
		for _, st := range r.Stages {
			if string(st.Stage) == string(s.Stage) && st.Times.Busy > 0 {
				return warnings, nil
			}
			stages = append(stages, string(st.Stage))
		}
		if len(r.Coverage.Rules) == 0 {
			return append(warnings, fmt.Sprintf("The trace names no step, so all of it is taken as %s; the load was.", s.Stage)), nil
		}
	}
	return nil, fmt.Errorf("no GPU time in the %s stage; the trace has %s", s.Stage, strings.Join(slices.Compact(stages), ", "))
}
