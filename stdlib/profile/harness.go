package profile

import (
	"context"
	"errors"
	"fmt"
	"io"
	"regexp"

	"github.com/sotabuild/sotabuild/stdlib/ncu/harness"
	"github.com/sotabuild/sotabuild/stdlib/trace"
)

// Generated is a harness that was written from a trace.
type Generated struct {
	Script   []byte // a PyTorch program; nil with Missing
	Missing  string // what the trace does not say; "" with a Script
	Kernel   string // regular expression on the function's name, for ncu
	Shape    string // tag of operator and shapes
	Recorded trace.Recorded
}

// Generate writes the smallest program that launches a kernel of a trace with
// its recorded shapes, types and layouts (R165). A trace that says too little
// is no error: Missing says what.
func Generate(ctx context.Context, path, mapping, kernel, stage string, log io.Writer) (Generated, error) {
	r, err := trace.FindRecorded(ctx, trace.RecordedOptions{Path: path, Mapping: mapping, Kernel: kernel, Stage: stage, Log: log})
	if err != nil {
		return Generated{}, err
	}
	g := Generated{Recorded: r, Kernel: "^" + regexp.QuoteMeta(r.Function) + "$", Shape: fmt.Sprintf("%s %s %s %s", r.Op, r.Dims, r.Types, r.Strides)}
	if r.Op == "" {
		g.Missing = fmt.Sprintf("%s has no operator around the launches of %s, as in a graph replay", r.Trace, r.Kernel)
		return g, nil
	}
	of := stage
	if of == "" {
		of = "any"
	}
	g.Script, err = harness.Script(
		harness.Op{Name: r.Op, Dims: r.Dims, Strides: r.Strides, Types: r.Types, Concrete: r.Concrete},
		harness.About{Trace: r.Trace, SHA256: r.SHA256, Kernel: r.Kernel, Stage: of, Launches: r.Launches})
	var gap *harness.Gap
	if errors.As(err, &gap) {
		g.Missing = gap.Error()
		return g, nil
	}
	return g, err
}
