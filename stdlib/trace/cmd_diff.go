package trace

import (
	"bytes"
	"context"
	"fmt"
	"io"

	"github.com/sotabuild/sotabuild/stdlib/trace/diff"
	"github.com/sotabuild/sotabuild/stdlib/trace/layers"
	"github.com/sotabuild/sotabuild/stdlib/trace/read"
	"github.com/sotabuild/sotabuild/stdlib/trace/show"
)

// DiffOptions are the arguments of `trace diff A B`.
type DiffOptions struct {
	A, B   string
	Config string // the model's config.json; "" for none
	Format Format
	Cutoff float64   // rows that explain less of the gap are summed into one
	Log    io.Writer // progress; nil for none
}

// DiffResult is what `--format json` prints.
type DiffResult struct {
	A      read.Meta    `json:"a"`
	B      read.Meta    `json:"b"`
	Stages []diff.Stage `json:"stages"`
}

// Diff compares trace B with trace A stage by stage and writes the tables to
// w: every table's rows sum to the gap.
func Diff(ctx context.Context, o DiffOptions, w io.Writer) error {
	c, _, err := loadConfig(o.Config)
	if err != nil {
		return err
	}
	a, err := side(ctx, o.A, c, o.Log)
	if err != nil {
		return err
	}
	b, err := side(ctx, o.B, c, o.Log)
	if err != nil {
		return err
	}
	res := DiffResult{A: a.Profile.Trace.Meta, B: b.Profile.Trace.Meta, Stages: diff.Build(a, b)}
	var out bytes.Buffer
	switch o.Format {
	case JSON:
		err = writeJSON(&out, res)
	case CSV:
		err = diffCSV(&out, res)
	default:
		err = diffMarkdown(&out, res, o.Cutoff)
	}
	if err != nil {
		return err
	}
	_, err = w.Write(out.Bytes())
	return err
}

func side(ctx context.Context, path string, c layers.Config, log io.Writer) (diff.Side, error) {
	p, err := linked(ctx, path, log)
	if err != nil {
		return diff.Side{}, err
	}
	if len(p.Trace.GPU) == 0 {
		return diff.Side{}, fmt.Errorf("%w: %q holds events of the host only", ErrNoGPU, path)
	}
	l, err := layersOf(p, c)
	return diff.Side{Profile: p, Layers: l}, err
}

func diffMarkdown(w io.Writer, res DiffResult, cutoff float64) error {
	fmt.Fprintf(w, "# Trace difference\n\nA: %s (sha256 %s)\nB: %s (sha256 %s)\n", res.A.Path, res.A.SHA256, res.B.Path, res.B.SHA256)
	for _, s := range res.Stages {
		unit := ""
		if s.PerPass {
			unit = " a pass"
		}
		fmt.Fprintf(w, "\n## %s\n\nA: %.3f ms in %d events and %d passes. B: %.3f ms in %d events and %d passes. Gap (B − A): %.3f ms%s.\n\n",
			s.Stage, ms(s.A.Time), s.A.Events, s.A.Passes, ms(s.B.Time), s.B.Events, s.B.Passes, s.Gap/1e6, unit)
		if s.Note != "" {
			fmt.Fprintf(w, "Note: %s.\n\n", s.Note)
		}
		for _, t := range show.Diff(s, cutoff) {
			if err := t.Markdown(w, 3); err != nil {
				return err
			}
		}
	}
	return nil
}

func diffCSV(w io.Writer, res DiffResult) error {
	for _, s := range res.Stages {
		for _, t := range show.Diff(s, 0) {
			if err := t.CSV(w, []string{string(s.Stage)}, []string{"stage"}); err != nil {
				return err
			}
		}
	}
	return nil
}
