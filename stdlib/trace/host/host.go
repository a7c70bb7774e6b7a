// Package host takes the operators of a server without a device for its work,
// so that a trace of one on CPUs can be read like any other: each operator
// that calls no other one is a unit of work, its thread is the stream, and it
// is its own launch. The time of operators between the ones that they call is
// nobody's work, as the time between kernels is.
//
// It makes a trace from a trace and decides nothing about names or stages.
package host

import (
	"cmp"
	"errors"
	"slices"

	"github.com/sotabuild/sotabuild/stdlib/trace/read"
)

// ErrDevice is the error of a trace that holds work of a device: what its host
// does is then not the work.
var ErrDevice = errors.New("the trace holds work of a device, so its host's operators are not the work")

// ErrNone is the error of a trace without operators.
var ErrNone = errors.New("the trace holds no operators")

// Note says in a report what its times are.
const Note = "The work is the host's operators that call no other one; streams are threads, and idle time says nothing of a device."

// Work is t with its operators as work. t is not changed, and shares its
// records with the result.
func Work(t *read.Trace) (*read.Trace, error) {
	if len(t.GPU) > 0 {
		return nil, ErrDevice
	}
	order := make([]int, len(t.Ops))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int {
		x, y := t.Ops[a], t.Ops[b]
		return cmp.Or(cmp.Compare(x.Track, y.Track), cmp.Compare(x.Start, y.Start), cmp.Compare(y.End, x.End))
	})
	out := *t
	out.Calls = slices.Clone(t.Calls)
	for i, at := range order {
		op := t.Ops[at]
		if i+1 < len(order) {
			if next := t.Ops[order[i+1]]; next.Track == op.Track && next.Start < op.End {
				continue // it calls the next one
			}
		}
		id := int64(i) + 1
		out.GPU = append(out.GPU, read.GPU{Start: op.Start, Dur: op.End - op.Start, Correlation: ids + id,
			Name: op.Name, Track: op.Track, Collective: -1, Stream: int32(op.Track)})
		out.Calls = append(out.Calls, read.Call{Span: op.Span, Correlation: ids + id})
	}
	if len(out.GPU) == 0 {
		return nil, ErrNone
	}
	slices.SortStableFunc(out.GPU, func(a, b read.GPU) int { return cmp.Compare(a.Start, b.Start) })
	out.Counts.Warnings = append(slices.Clip(t.Counts.Warnings), Note)
	return &out, nil
}

// ids is above all correlations that a runtime gives.
const ids = 1 << 40
