package solo

import (
	"context"
	"fmt"

	"github.com/sotabuild/sotabuild/stdlib/bench"
	"github.com/sotabuild/sotabuild/stdlib/result"
	"github.com/sotabuild/sotabuild/stdlib/stats"
)

// Duel is a comparison with the values it was judged by.
type Duel struct {
	Metric string           `json:"metric"`
	A      []float64        `json:"a"`
	B      []float64        `json:"b"`
	Result stats.Comparison `json:"comparison"`
}

// Compare runs A and B in turns (ABBA) until the verdict is there or the rule's
// last look is reached. Prompts of one repeat are the same for both, but for
// their nonce. A run without a number ends it with an error: nothing stands in
// for it. step is told after each run.
func Compare(ctx context.Context, host bench.Host, a, b Options, metric string, rule stats.Rule, step func(who int, r result.Row)) (Duel, error) {
	d := Duel{Metric: metric}
	def, ok := result.Define(metric)
	if !ok || def.Better == result.Neither {
		return d, fmt.Errorf("comparing by %q: there is no such metric with a better direction", metric)
	}
	plan, err := stats.NewPlan(rule)
	if err != nil {
		return d, err
	}
	looks := rule.Looks
	for i, who := range stats.Order(looks[len(looks)-1]) {
		o, to := a, &d.A
		if who == 1 {
			o, to = b, &d.B
		}
		o.Out = ""
		o.Set.Ids.Seed += int64(i / 2)
		o.Load.Seed += int64(i / 2)
		out, err := Run(ctx, host, o)
		if err != nil {
			return d, err
		}
		step(who, out.Row)
		v, ok := out.Row.Metric(metric)
		if !ok {
			return d, fmt.Errorf("run %d of %s has no %s: %s %s", len(*to)+1, o.URL, metric, out.Row.Class, out.Row.Reason)
		}
		*to = append(*to, v)
		if len(d.A) != len(d.B) {
			continue
		}
		if d.Result, err = plan.Judge(d.A, d.B, def.Better == result.Higher); err != nil {
			return d, err
		}
		if d.Result.Verdict != stats.Open {
			return d, nil
		}
	}
	return d, nil
}

// CompareRows judges runs that were made before, given in the order they were
// made. All of them must be of the same workload.
func CompareRows(a, b []result.Row, metric string, rule stats.Rule) (Duel, error) {
	d := Duel{Metric: metric}
	def, ok := result.Define(metric)
	if !ok || def.Better == result.Neither {
		return d, fmt.Errorf("comparing by %q: there is no such metric with a better direction", metric)
	}
	plan, err := stats.NewPlan(rule)
	if err != nil {
		return d, err
	}
	for i, side := range [][]result.Row{a, b} {
		for _, r := range side {
			v, ok := r.Metric(metric)
			if !ok {
				return d, fmt.Errorf("a run has no %s: %s %s", metric, r.Class, r.Reason)
			}
			if why := unlike(a[0].Workload, r.Workload); why != "" {
				return d, fmt.Errorf("the runs are of different workloads: %s", why)
			}
			to := &d.A
			if i == 1 {
				to = &d.B
			}
			*to = append(*to, v)
		}
	}
	d.Result, err = plan.Judge(d.A, d.B, def.Better == result.Higher)
	return d, err
}

// unlike says in what two workloads differ; "" if in nothing that counts. The
// prompts themselves differ by their nonce.
func unlike(a, b result.Workload) string {
	a.Dataset, b.Dataset = "", ""
	for _, f := range []struct {
		name string
		a, b any
	}{
		{"kind", a.Kind, b.Kind}, {"input length", a.InputLen, b.InputLen}, {"output length", a.OutputLen, b.OutputLen},
		{"number of prompts", a.NumPrompts, b.NumPrompts}, {"arrival", a.Arrival, b.Arrival}, {"endpoint", a.Endpoint, b.Endpoint},
		{"rate", deref(a.Rate), deref(b.Rate)}, {"concurrency", deref(a.Concurrency), deref(b.Concurrency)},
	} {
		if f.a != f.b {
			return fmt.Sprintf("%s %v against %v", f.name, f.a, f.b)
		}
	}
	return ""
}

func deref[T any](p *T) any {
	if p == nil {
		return "none"
	}
	return *p
}
