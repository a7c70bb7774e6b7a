package bench

import (
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sotabuild/sotabuild/stdlib/result"
)

// number is a value with the count of samples behind it.
type number struct {
	value float64
	n     int
}

// metrics computes the rows of the table result.Definitions that this client
// can observe, in the table's order. A row without a sample is absent, as are
// rows that need GPU counts, power or prices. Without a schedule there is no
// scheduled send to count from.
func (m measured) metrics() []result.Metric {
	single, spread := m.totals(), m.spreads()
	var out []result.Metric
	for _, d := range result.Definitions {
		v, ok := single[d.ID]
		if base, stat, is := strings.Cut(d.ID, ":"); is {
			v, ok = statistic(spread[base], stat)
		}
		if ok {
			out = append(out, result.Metric{ID: d.ID, Value: v.value, Unit: d.Unit, N: v.n})
		}
	}
	return out
}

// totals are the metrics with one value over the whole span.
func (m measured) totals() map[string]number {
	q := m.count()
	first, last := m.window()
	span := (last - first).Seconds()
	if span <= 0 {
		return nil
	}
	busy := time.Duration(0)
	for _, s := range m.samples {
		busy += max(0, min(s.closed, last)-s.sent)
	}
	return map[string]number{
		"request_throughput": {float64(q.OK) / span, q.OK},
		"output_throughput":  {float64(q.Output) / span, q.OK},
		"total_throughput":   {float64(q.Input+q.Output) / span, q.OK},
		"success_rate":       {float64(q.OK) / float64(len(m.samples)), len(m.samples)},
		"concurrency/mean":   {busy.Seconds() / span, len(m.samples)},
	}
}

// spreads are the samples of each distribution, over successes, sorted.
func (m measured) spreads() map[string][]float64 {
	out := map[string][]float64{}
	add := func(id string, d time.Duration) { out[id] = append(out[id], d.Seconds()) }
	for _, s := range m.samples {
		if s.failure.Class != "" {
			continue
		}
		marks := s.answer.Marks
		t1, tN := marks[0], marks[len(marks)-1]
		add("ttft/send", t1-s.sent)
		if s.scheduled >= 0 {
			add("ttft/schedule", t1-s.scheduled)
		}
		add("e2e", tN-s.sent)
		if n := s.answer.Usage.Output; n > 1 {
			out["tpot/excl-first"] = append(out["tpot/excl-first"], (tN-t1).Seconds()/float64(n-1))
		}
		for i := 1; i < len(marks); i++ {
			add("itl/event", marks[i]-marks[i-1])
		}
	}
	for _, v := range out {
		slices.Sort(v)
	}
	return out
}

// statistic computes "mean" or "pNN" of sorted samples; not ok without any.
func statistic(sorted []float64, stat string) (number, bool) {
	if len(sorted) == 0 {
		return number{}, false
	}
	if stat == "mean" {
		sum := 0.0
		for _, v := range sorted {
			sum += v
		}
		return number{sum / float64(len(sorted)), len(sorted)}, true
	}
	p, err := strconv.ParseFloat(strings.TrimPrefix(stat, "p"), 64)
	if err != nil {
		panic("bench: the table of metrics has the unknown statistic " + stat)
	}
	return number{percentile(sorted, p), len(sorted)}, true
}

// percentile is numpy's default: linear between the two samples around
// p/100·(n−1). It needs at least one sample, sorted.
func percentile(sorted []float64, p float64) float64 {
	at := p / 100 * float64(len(sorted)-1)
	low := int(math.Floor(at))
	if low >= len(sorted)-1 {
		return sorted[len(sorted)-1]
	}
	a, b, t := sorted[low], sorted[low+1], at-float64(low)
	if t >= 0.5 { // as numpy does it, so that the last bit agrees
		return b - (b-a)*(1-t)
	}
	return a + (b-a)*t
}
