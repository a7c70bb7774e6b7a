package cache

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/sotabuild/sotabuild/engine/cache/index"
	"github.com/sotabuild/sotabuild/engine/cache/wire"
	"github.com/sotabuild/sotabuild/engine/key"
)

// checkRecord refuses what could not be read back as it was, and puts the rest
// into canonical form. Identifiers must be UTF-8; sentences for people may
// quote a log with any bytes in it, and those become U+FFFD.
func checkRecord(r *Record) error {
	for _, s := range [...]string{r.Node, r.Kind, r.Manifest, string(r.Outcome.State), r.Outcome.Class,
		r.Origin.Host, r.Origin.Tool, r.Origin.Task, r.Origin.Run} {
		if !utf8.ValidString(s) {
			return fmt.Errorf("%q is not UTF-8", s)
		}
	}
	switch {
	case r.Key.IsZero():
		return errors.New("it has no key")
	case r.Node == "" || len(r.Node) >= 1<<16 || r.Kind == "" || len(r.Kind) >= 1<<16:
		return fmt.Errorf("node %.80q and kind %.80q must have 1 to 65535 bytes", r.Node, r.Kind)
	case r.Outcome.State != OK && r.Outcome.State != Failed && r.Outcome.State != Rejected:
		return fmt.Errorf("state %q is not one of ok, failed, rejected", r.Outcome.State)
	}
	for _, s := range [...]float64{r.Time.Seconds, r.Time.Setup} {
		if math.IsNaN(s) || math.IsInf(s, 0) {
			return fmt.Errorf("it took %g seconds", s)
		}
	}
	r.Version = RecordVersion
	r.Time.Started = r.Time.Started.UTC()
	r.Outcome.Reason = readable(r.Outcome.Reason)
	r.Warnings = slices.Clone(r.Warnings)
	for i, w := range r.Warnings {
		r.Warnings[i] = readable(w)
	}
	r.Observed = slices.Clone(r.Observed)
	for i, o := range r.Observed {
		r.Observed[i] = Observed{readable(o.Name), readable(o.Value)}
	}
	r.Outputs = slices.Clone(r.Outputs)
	slices.SortFunc(r.Outputs, func(a, b Output) int { return strings.Compare(a.Name, b.Name) })
	for i, o := range r.Outputs {
		switch {
		case o.Name == "" || !utf8.ValidString(o.Name):
			return fmt.Errorf("output name %q is empty or not UTF-8", o.Name)
		case i > 0 && r.Outputs[i-1].Name == o.Name:
			return fmt.Errorf("output %q is there twice", o.Name)
		}
	}
	return nil
}

func readable(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }

// encodeRecord is a record's payload: the head that the index reads, then all
// other fields in the order below.
func encodeRecord(r *Record) []byte {
	b := wire.Buffer(index.AppendHead(nil, r.Serial, r.Key, r.Node, r.Kind))
	b.Uint(uint64(r.Version))
	b.Text(r.Manifest)
	b.Text(string(r.Outcome.State))
	b.Text(r.Outcome.Class)
	b.Text(r.Outcome.Reason)
	b.Bool(r.Outcome.Keep)
	b.Uint(uint64(len(r.Outputs)))
	for _, o := range r.Outputs {
		b.Text(o.Name)
		b.Sum(o.Digest)
		b.Int(o.Size)
	}
	b.Time(r.Time.Started)
	b.Float(r.Time.Seconds)
	b.Float(r.Time.Setup)
	for _, s := range [...]string{r.Origin.Host, r.Origin.Tool, r.Origin.Task, r.Origin.Run} {
		b.Text(s)
	}
	b.Int(int64(r.Origin.Attempt))
	b.Uint(uint64(len(r.Observed)))
	for _, o := range r.Observed {
		b.Text(o.Name)
		b.Text(o.Value)
	}
	b.Uint(uint64(len(r.Warnings)))
	for _, w := range r.Warnings {
		b.Text(w)
	}
	return b
}

func decodeRecord(payload []byte) (*Record, error) {
	h, body, ok := index.ParseHead(payload)
	if !ok {
		return nil, index.ErrHead
	}
	w := wire.NewReader(body)
	one := new(struct { // most records have one output: one piece of memory for both
		Record
		output [1]Output
	})
	r := &one.Record
	*r = Record{Version: int(w.Uint()), Serial: h.Serial, Key: h.Key, Node: string(h.Node), Kind: string(h.Kind)}
	if !Readable(r.Version) {
		return nil, fmt.Errorf("it has version %d, this build knows %d", r.Version, RecordVersion)
	}
	r.Manifest = w.Text()
	r.Outcome = Outcome{State: State(w.Text()), Class: w.Text(), Reason: w.Text(), Keep: w.Bool()}
	if n := w.Count(1 + len(key.Digest{}) + 1); n > 0 {
		if r.Outputs = one.output[:]; n > 1 {
			r.Outputs = make([]Output, n)
		}
		for i := range r.Outputs {
			r.Outputs[i] = Output{Name: w.Text(), Digest: w.Sum(), Size: w.Int()}
		}
	}
	r.Time = Span{Started: w.Time(), Seconds: w.Float()}
	if r.Version == RecordVersion {
		r.Time.Setup = w.Float()
	}
	r.Origin = Origin{Host: w.Text(), Tool: w.Text(), Task: w.Text(), Run: w.Text(), Attempt: int(w.Int())}
	for range w.Count(2) {
		r.Observed = append(r.Observed, Observed{Name: w.Text(), Value: w.Text()})
	}
	for range w.Count(1) {
		r.Warnings = append(r.Warnings, w.Text())
	}
	return r, w.End()
}
