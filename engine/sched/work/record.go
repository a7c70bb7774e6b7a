package work

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/sotabuild/sotabuild/engine/cache"
	"github.com/sotabuild/sotabuild/engine/compile"
	"github.com/sotabuild/sotabuild/executors"
)

// Done is what became of a job.
type Done struct {
	Job     int // index into its sheet's Jobs
	Outcome cache.Outcome
	Record  *cache.Record // nil: nothing was recorded, as it was interrupted or an input changed
	Retry   bool          // the kind's policy has another attempt for it
	Seconds float64
	Log     string // path; "" for a function
}

func interrupted(reason string) cache.Outcome {
	if reason == "" {
		reason = "stopped before it was done"
	}
	return cache.Outcome{State: cache.Failed, Class: string(executors.ClassInterrupted), Reason: reason}
}

// clerk makes records of results. It is safe for concurrent use.
type clerk struct {
	ctx context.Context
	Place
}

// record checks a result against its kind, stores its outputs and appends its
// record. An error is the store's; a result that breaks its kind's promise is a
// failed one.
func (c clerk) record(b *Sheet, w *Item, res compile.Result, span cache.Span) (Done, error) {
	d := Done{Outcome: res.Outcome, Seconds: span.Seconds}
	if err := c.ctx.Err(); err != nil {
		return d, err // Who left may have closed the store.
	}
	if res.Outcome.Class == string(executors.ClassInterrupted) {
		return d, nil
	}
	if c.Unchanged != nil {
		if err := c.Unchanged(w.job.Spec); err != nil {
			d.Outcome = cache.Outcome{State: cache.Failed, Class: string(executors.ClassChanged), Reason: err.Error()}
			return d, nil
		}
	}
	outputs, defect, err := c.keep(w.kind, res)
	if err != nil {
		return d, fmt.Errorf("storing outputs of %s: %w", w.Node, err)
	}
	warnings := res.Warnings
	switch {
	case defect == "":
	case d.Outcome.State == cache.Failed || d.Outcome.State == cache.Rejected:
		warnings = append(slices.Clone(warnings), defect)
	default:
		d.Outcome = cache.Outcome{State: cache.Failed, Class: string(executors.ClassNoOutput), Reason: defect}
	}
	d.Outcome.Keep, d.Retry = judge(w, d.Outcome)
	d.Record, err = c.Store.Put(c.ctx, cache.Record{
		Version: cache.RecordVersion, Key: w.Key, Node: w.Node, Kind: w.Kind, Manifest: w.Manifest,
		Outcome: d.Outcome, Outputs: outputs, Time: span, Warnings: warnings,
		Origin:   cache.Origin{Host: b.Host, Tool: b.Tool, Task: string(b.Task), Attempt: w.Attempt, Run: b.Run},
		Observed: slices.Concat(b.Observed, res.Observed),
	})
	if err != nil {
		return d, fmt.Errorf("recording %s: %w", w.Node, err)
	}
	return d, nil
}

// judge applies the kind's policy. Only the last attempt's failure is kept: an
// earlier one must not be a hit if the engine dies before the next.
func judge(w *Item, o cache.Outcome) (keep, retry bool) {
	if o.State == cache.OK {
		return false, false
	}
	retries, keep := 0, o.Keep
	if w.kind.Policy != nil {
		retries, keep = w.kind.Policy(o.Class)
	}
	retry = w.Attempt <= retries
	return keep && !retry && o.State == cache.Failed, retry
}

// keep stores a result's outputs, sorted by name. defect says what is wrong
// with them: of an ok result all declared outputs must be there.
func (c clerk) keep(kind *compile.Kind, res compile.Result) (outputs []cache.Output, defect string, err error) {
	var defects []string
	flaw := func(format string, args ...any) { defects = append(defects, fmt.Sprintf(format, args...)) }
	switch res.Outcome.State {
	case cache.OK, cache.Failed, cache.Rejected:
	default:
		flaw("the kind %s returned the unknown state %q", kind.Name, res.Outcome.State)
	}
	for _, v := range res.Outputs {
		have := slices.ContainsFunc(outputs, func(o cache.Output) bool { return o.Name == v.Name })
		if !slices.Contains(kind.Outputs, v.Name) || have {
			flaw("output %q is not declared, or is there twice", v.Name)
			continue
		}
		o, why, err := c.object(v)
		if err != nil {
			return nil, "", err
		}
		if why != "" {
			flaw("output %q %s", v.Name, why)
			continue
		}
		outputs = append(outputs, o)
	}
	for _, name := range kind.Outputs {
		given := slices.ContainsFunc(res.Outputs, func(v compile.Value) bool { return v.Name == name })
		if !given && (res.Outcome.State == cache.OK || kind.KeepsFailures) {
			flaw("output %q is missing", name)
		}
	}
	slices.SortFunc(outputs, func(a, b cache.Output) int { return strings.Compare(a.Name, b.Name) })
	return outputs, strings.Join(defects, "; "), nil
}

// object stores one output. why is what is wrong with it, err what is wrong
// with the store.
func (c clerk) object(v compile.Value) (o cache.Output, why string, err error) {
	var from io.Reader = bytes.NewReader(v.Bytes)
	if v.File != "" {
		info, err := os.Stat(v.File)
		if err != nil || !info.Mode().IsRegular() {
			return o, "is no file", nil
		}
		f, err := os.Open(v.File)
		if err != nil {
			return o, fmt.Sprintf("cannot be read: %v", err), nil
		}
		defer f.Close()
		from = f
	}
	source := &watched{from: from}
	digest, size, err := c.Store.Object(source)
	switch {
	case source.err != nil:
		return o, fmt.Sprintf("cannot be read: %v", source.err), nil
	case err != nil:
		return o, "", err
	case size == 0:
		return o, "is empty", nil
	}
	return cache.Output{Name: v.Name, Digest: digest, Size: size}, "", nil
}

// watched tells a source that cannot be read from a store that cannot be
// written.
type watched struct {
	from io.Reader
	err  error
}

func (w *watched) Read(p []byte) (int, error) {
	n, err := w.from.Read(p)
	if err != nil && err != io.EOF {
		w.err = err
	}
	return n, err
}
