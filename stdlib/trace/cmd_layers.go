package trace

import (
	"bytes"
	"context"
	"fmt"
	"io"

	"github.com/sotabuild/sotabuild/stdlib/trace/layers"
	"github.com/sotabuild/sotabuild/stdlib/trace/pipeline"
	"github.com/sotabuild/sotabuild/stdlib/trace/show"
)

// LayersOptions are the arguments of `trace layers`.
type LayersOptions struct {
	Path   string // one trace
	Config string // the model's config.json; "" for none
	Pass   int    // the pass to show; -1 chooses
	Format Format
	Log    io.Writer // progress; nil for none
}

// Layers writes the nine-part layer report of one trace to w. A trace without
// forward passes is an error (layers.ErrNoPass).
func Layers(ctx context.Context, o LayersOptions, w io.Writer) error {
	c, sum, err := loadConfig(o.Config)
	if err != nil {
		return err
	}
	p, err := linked(ctx, o.Path, o.Log)
	if err != nil {
		return err
	}
	r, err := layers.Build(p, c)
	if err != nil {
		return fmt.Errorf("%s: %w", o.Path, err)
	}
	if o.Pass >= 0 {
		if err := r.Choose(o.Pass); err != nil {
			return fmt.Errorf("%s: %w", o.Path, err)
		}
	}
	report := pipeline.Build(r, sum)
	report.Notes = append(report.Notes, p.Trace.Counts.Warnings...)
	var out bytes.Buffer
	switch o.Format {
	case JSON:
		err = writeJSON(&out, report)
	case CSV:
		for _, t := range show.Pipeline(report) {
			if err = t.CSV(&out, []string{report.Metadata.Input.Path}, []string{"file"}); err != nil {
				break
			}
		}
	default:
		fmt.Fprintf(&out, "# Layer pipeline\n\n")
		for _, t := range show.Pipeline(report) {
			if err = t.Markdown(&out, 2); err != nil {
				break
			}
		}
	}
	if err != nil {
		return err
	}
	_, err = w.Write(out.Bytes())
	return err
}
