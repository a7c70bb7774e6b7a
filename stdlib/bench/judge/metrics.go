package judge

import (
	"cmp"
	"fmt"
	"maps"
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
func (m Cell) metrics() []result.Metric {
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

// totals are the metrics with one value over a span: the whole one, and the
// steady part of it.
func (m Cell) totals() map[string]number {
	q := m.count()
	first, last := m.window()
	span := (last - first).Seconds()
	if span <= 0 {
		return nil
	}
	busy := time.Duration(0)
	for _, s := range m.Samples {
		busy += max(0, min(s.Closed, last)-s.Sent)
	}
	out := map[string]number{
		"request_throughput": {float64(q.OK) / span, q.OK},
		"output_throughput":  {float64(q.Output) / span, q.OK},
		"total_throughput":   {float64(q.Input+q.Output) / span, q.OK},
		"success_rate":       {float64(q.OK) / float64(q.OK+q.Failed), q.OK + q.Failed},
		"concurrency/mean":   {busy.Seconds() / span, len(m.Samples)},
	}
	if len(m.Rules.Goodput) > 0 {
		good := 0
		for _, s := range m.Samples {
			if s.good() && s.keeps(m.Rules.Goodput) {
				good++
			}
		}
		out["goodput"] = number{float64(good) / span, q.OK + q.Failed}
	}
	if v, ok := m.steady(); ok {
		out["output_throughput/steady"] = v
	}
	return out
}

// keeps says whether a success kept every limit. One token has no time per
// token and keeps any limit of it; several without a time keep none.
func (s Sample) keeps(limits []Limit) bool {
	own := s.latencies()
	for _, l := range limits {
		v, ok := own[l.ID]
		if ok && v > l.Max || !ok && s.Answer.Usage.Output > 1 {
			return false
		}
	}
	return true
}

// latencies are one success's own numbers, in seconds.
func (s Sample) latencies() map[string]float64 {
	marks := s.Answer.Marks
	t1, tN := marks[0], marks[len(marks)-1]
	out := map[string]float64{"ttft/send": (t1 - s.Sent).Seconds(), "e2e": (tN - s.Sent).Seconds()}
	if s.Scheduled >= 0 {
		out["ttft/schedule"] = (t1 - s.Scheduled).Seconds()
	}
	// Tokens that all came in one read have no time per token: a server or a
	// kernel buffered them, and zero would be the best of all numbers.
	if n := s.Answer.Usage.Output; n > 1 && tN > t1 {
		out["tpot/excl-first"] = (tN - t1).Seconds() / float64(n-1)
		out["user_speed"] = float64(n-1) / (tN - t1).Seconds()
	}
	return out
}

// atOnce counts the successes whose several tokens all came in one read.
func (m Cell) atOnce() int {
	n := 0
	for _, s := range m.Samples {
		if marks := s.Answer.Marks; s.good() && s.Answer.Usage.Output > 1 && marks[0] == marks[len(marks)-1] {
			n++
		}
	}
	return n
}

// steady is the output throughput while the number of requests in flight was
// at least 90 % of its time-weighted mean: the ramps at both ends are left out.
// A request's tokens are spread evenly from its first to its last one. Absent
// when that is less than half of the span, or with failures.
func (m Cell) steady() (number, bool) {
	type step struct {
		at time.Duration
		by int
	}
	var steps []step
	total := time.Duration(0)
	first, last := m.window()
	for _, s := range m.Samples {
		if !s.good() {
			return number{}, false
		}
		end := min(s.Closed, last)
		steps = append(steps, step{s.Sent, 1}, step{end, -1})
		total += max(0, end-s.Sent)
	}
	slices.SortFunc(steps, func(a, b step) int { return cmp.Compare(a.at, b.at) })
	mean, in := total.Seconds()/(last-first).Seconds(), 0
	from, to := time.Duration(-1), time.Duration(-1)
	for _, s := range steps {
		before := float64(in)
		in += s.by
		if float64(in) >= .9*mean && from < 0 {
			from = s.at
		}
		if before >= .9*mean && float64(in) < .9*mean {
			to = s.at
		}
	}
	if from < 0 || to-from < (last-first)/2 {
		return number{}, false
	}
	tokens, n := 0.0, 0
	for _, s := range m.Samples {
		t1, tN := s.Answer.Marks[0], s.Answer.Marks[len(s.Answer.Marks)-1]
		out := float64(s.Answer.Usage.Output)
		switch inside := min(tN, to) - max(t1, from); {
		case tN == t1:
			if t1 >= from && t1 <= to {
				tokens += out
				n++
			}
		case inside > 0:
			tokens += out * inside.Seconds() / (tN - t1).Seconds()
			n++
		}
	}
	return number{tokens / (to - from).Seconds(), n}, tokens > 0
}

// spreads are the samples of each distribution, over successes, sorted. A
// whole answer has an end and nothing before it.
func (m Cell) spreads() map[string][]float64 {
	out := map[string][]float64{}
	known := true
	for _, s := range m.Samples {
		if !s.good() {
			continue
		}
		for id, v := range s.latencies() {
			if !m.Rules.NoStream || id == "e2e" {
				out[id] = append(out[id], v)
			}
		}
		marks := s.Answer.Marks
		for i := 1; i < len(marks); i++ {
			out["itl/event"] = append(out["itl/event"], (marks[i] - marks[i-1]).Seconds())
		}
		gaps, ok := s.Answer.TokenGaps()
		known = known && ok
		out["itl/token"] = append(out["itl/token"], gaps...)
	}
	if !known {
		delete(out, "itl/token")
	}
	for _, v := range out {
		slices.Sort(v)
	}
	return out
}

// Parts are the numbers of each adapter and of each turn of sessions; nil
// where the cell has neither.
func (m Cell) Parts() (out []result.Part) {
	groups := map[[2]string][]Sample{}
	for _, s := range m.Samples {
		if a := s.Ask.Adapter; a != "" {
			groups[[2]string{"adapter", a}] = append(groups[[2]string{"adapter", a}], s)
		}
		if n := s.Ask.Turn.Number; n > 0 {
			k := [2]string{"turn", fmt.Sprintf("%03d", n)}
			groups[k] = append(groups[k], s)
		}
	}
	for _, k := range slices.SortedFunc(maps.Keys(groups), func(a, b [2]string) int { return slices.Compare(a[:], b[:]) }) {
		part := Cell{Rules: m.Rules, Samples: groups[k]}
		q := part.count()
		p := result.Part{By: k[0], Name: strings.TrimLeft(k[1], "0"), OK: q.OK, Failed: q.Failed}
		if q.OK > 0 {
			p.Metrics = part.metrics()
		}
		out = append(out, p)
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
		panic("judge: the table of metrics has the unknown statistic " + stat)
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
