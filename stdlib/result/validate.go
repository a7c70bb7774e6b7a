package result

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
)

// Validate returns every rule that a complete row breaks, joined into one
// error; nil if none. A row that breaks one is a bug of whoever wrote it and
// must not be stored or ranked: a number without a definition, a latency of a
// failed cell, or a zero that stands for "unknown" would be believed later.
func (r *Row) Validate() error {
	var v violations
	v.add(r.Version != RowVersion, "version %d, want %d", r.Version, RowVersion)
	r.Workload.validate(&v)
	r.Requests.validate(&v)
	r.Facts.validate(&v)
	r.validateStatus(&v)
	r.validateMetrics(&v)
	v.add(!slices.IsSortedFunc(r.Subject.Flags, func(a, b Flag) int { return strings.Compare(a.Name, b.Name) }),
		"flags are not sorted by name")
	v.add(!finite(r.Time.Seconds) || r.Time.Seconds < 0, "span of %v s", r.Time.Seconds)
	return errors.Join(v...)
}

// violations collects broken rules.
type violations []error

func (v *violations) add(broken bool, format string, args ...any) {
	if broken {
		*v = append(*v, fmt.Errorf("validating row: "+format, args...))
	}
}

func (r *Row) validateStatus(v *violations) {
	if r.Status == OK {
		v.add(r.Class != "" || r.Reason != "", "ok with class %q and reason %q", r.Class, r.Reason)
		v.add(r.Requests.OK == 0, "ok without a successful request")
		all := r.Requests.OK + r.Requests.Failed + r.Requests.Cancelled
		v.add(all != r.Workload.NumPrompts, "ok with %d requests of %d", all, r.Workload.NumPrompts)
		v.add(r.Time.Seconds == 0 || r.Time.Started.IsZero(), "ok without a measured span")
		_, rate := r.Metric("request_throughput")
		v.add(!rate, "ok without request_throughput")
		return
	}
	c, known := Lookup(r.Class)
	v.add(!known, "class %q is not in the table", r.Class)
	v.add(known && c.Status != r.Status, "class %s has status %s, the row has %q", r.Class, c.Status, r.Status)
	v.add(r.Reason == "", "%s without a reason", r.Status)
}

func (r *Row) validateMetrics(v *violations) {
	last := -1
	for _, m := range r.Metrics {
		at := slices.IndexFunc(Definitions, func(d Definition) bool { return d.ID == m.ID })
		if at < 0 {
			v.add(true, "metric %q has no definition", m.ID)
			continue
		}
		d := Definitions[at]
		v.add(at <= last, "metric %s stands twice or out of order", m.ID)
		last = max(last, at)
		v.add(m.Unit != d.Unit, "metric %s in %q, defined in %q", m.ID, m.Unit, d.Unit)
		v.add(m.N < 1, "metric %s of %d samples", m.ID, m.N)
		v.add(!finite(m.Value) || m.Value < 0, "metric %s is %v", m.ID, m.Value)
		// Several tokens in one event make a true gap of zero; a throughput of
		// zero is a cell without a success, which has no throughput.
		v.add(m.Value == 0 && strings.Contains(m.ID, "throughput"), "metric %s is zero", m.ID)
		v.add(r.Status != OK && d.Unit != Share, "%s row with metric %s", r.Status, m.ID)
	}
	if rate, ok := r.Metric("success_rate"); ok {
		sent := float64(r.Requests.OK + r.Requests.Failed)
		v.add(sent == 0 || math.Abs(rate-float64(r.Requests.OK)/sent) > 1e-9,
			"success_rate %v with %d of %v requests", rate, r.Requests.OK, sent)
	}
}

func (w Workload) validate(v *violations) {
	v.add(w.InputLen < 1 || w.OutputLen < 1 || w.NumPrompts < 1,
		"workload of %d prompts, %d tokens in, %d out", w.NumPrompts, w.InputLen, w.OutputLen)
	v.add(w.Rate != nil && !(finite(*w.Rate) && *w.Rate > 0), "request rate that is no positive number")
	v.add(w.Concurrency != nil && *w.Concurrency < 1, "concurrency below 1")
}

func (q Requests) validate(v *violations) {
	v.add(min(q.OK, q.Failed, q.Cancelled, q.CutOff) < 0 || min(q.Input, q.Output) < 0 || q.Cached != nil && *q.Cached < 0, "negative count")
	v.add(len(q.Examples) > 5, "%d examples of failed requests, at most 5", len(q.Examples))
	sum := 0
	for c, n := range q.Failures {
		_, known := Lookup(c)
		v.add(!known, "failed requests of class %q, which is not in the table", c)
		v.add(n < 1, "class %s with %d failed requests", c, n)
		sum += n
	}
	v.add(sum != q.Failed, "%d failed requests, %d with a class", q.Failed, sum)
}

func (f Facts) validate(v *violations) {
	for _, s := range []struct {
		name  string
		value *float64
		top   float64
	}{
		{"cached_share", f.CacheHitShare, 1}, {"accuracy", f.Accuracy, 1}, {"throttled_share", f.Throttled, 1}, {"power_cap_share", f.PowerCapped, 1},
		{"client_busy", f.ClientBusy, math.MaxFloat64}, {"send_lag_p99_s", f.SendLagP99, math.MaxFloat64}, {"sent_rate", f.SentRate, math.MaxFloat64},
		{"spec_accept_length", f.SpecAccept, math.MaxFloat64}, {"energy_j", f.EnergyJoules, math.MaxFloat64},
		{"price_per_hour", f.PricePerHour, math.MaxFloat64},
	} {
		v.add(s.value != nil && !(*s.value >= 0 && *s.value <= s.top), "fact %s is out of range", s.name)
	}
}

func finite(f float64) bool { return !math.IsNaN(f) && !math.IsInf(f, 0) }
