// Package winners judges result rows against an SLA, selects the best row of
// one framework in one scenario, and ranks frameworks against each other. All
// of it is pure functions over rows.
//
// The package knows no names: rows are referred to by the digest of their
// bytes, so a renamed framework, scenario or candidate changes no result, and
// the order of the input changes nothing either. Whether a row passes is
// computed here from its numbers and never taken from the row. A metric that is
// missing is missing: it satisfies no limit and ranks behind every value.
//
// Rows are compared within a cell only: the same frozen prompts, lengths,
// arrival and concurrency, that is an equal result.Workload. Across the cells
// of a scenario only the best passing row is named, with its cell.
package winners

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/sotabuild/sotabuild/engine/key"
	"github.com/sotabuild/sotabuild/stdlib/result"
)

// Version is the version of the JSON forms of Selection and Ranking.
const Version = 1

// SLA are the limits that a row must keep; nil is no limit. Latencies are
// seconds.
type SLA struct {
	MaxP50TTFT *float64 `key:"max_p50_ttft_s" json:"max_p50_ttft_s,omitempty"`
	MaxP50TPOT *float64 `key:"max_p50_tpot_s" json:"max_p50_tpot_s,omitempty"`
	MaxP50E2E  *float64 `key:"max_p50_e2e_s" json:"max_p50_e2e_s,omitempty"`
	MinSuccess float64  `key:"min_success_rate" json:"min_success_rate"` // share of all requests of the cell
	// CachedShare is by how much the cached shares of compared rows may differ;
	// nil compares without looking at them.
	CachedShare *float64 `key:"cached_share" json:"cached_share,omitempty"`
}

// Input is a row and the digest of its bytes.
type Input struct {
	Digest key.Digest
	Row    result.Row
}

// Verdict is the outcome of judging a row. Reasons has a sentence for each
// limit that was not kept; nil if all were.
type Verdict struct {
	Passed  bool     `json:"passed"`
	Reasons []string `json:"reasons,omitempty"`
}

// Judge holds a row against the SLA. A row that is not ok does not pass, and
// its own words are the reason. Requests that were never sent count as not
// successful; those that the client left as planned count as neither.
func Judge(row *result.Row, sla SLA) Verdict {
	if row.Status != result.OK {
		return Verdict{Reasons: []string{words(row)}}
	}
	var v Verdict
	all := max(row.Workload.NumPrompts-row.Requests.Cancelled, row.Requests.OK+row.Requests.Failed)
	if share := float64(row.Requests.OK) / float64(max(all, 1)); share < sla.MinSuccess {
		v.Reasons = append(v.Reasons, fmt.Sprintf("success rate %s (%d of %d) is below %s",
			short(share), row.Requests.OK, all, short(sla.MinSuccess)))
	}
	for _, l := range []struct {
		id  string
		max *float64
	}{{"ttft/send:p50", sla.MaxP50TTFT}, {"tpot/excl-first:p50", sla.MaxP50TPOT}, {"e2e:p50", sla.MaxP50E2E}} {
		if l.max == nil {
			continue
		}
		d, _ := result.Define(l.id)
		switch got, ok := row.Metric(l.id); {
		case !ok:
			v.Reasons = append(v.Reasons, fmt.Sprintf("%s is missing, the limit is %s ms", d.Title, short(*l.max*1e3)))
		case !(got <= *l.max):
			v.Reasons = append(v.Reasons, fmt.Sprintf("%s of %s ms is above %s ms", d.Title, short(got*1e3), short(*l.max*1e3)))
		}
	}
	v.Passed = v.Reasons == nil
	return v
}

// words are a row's own: status, class, reason; "rejected" tells a run that
// was no acceptable sample from a failed one.
func words(row *result.Row) string {
	status := string(row.Status)
	if c, ok := result.Lookup(row.Class); ok && c.Reject {
		status = "rejected"
	}
	parts := []string{status}
	if row.Class != "" && string(row.Class) != status {
		parts = append(parts, string(row.Class))
	}
	if row.Reason != "" {
		parts = append(parts, row.Reason)
	}
	return strings.Join(parts, ": ")
}

func short(f float64) string { return strconv.FormatFloat(f, 'g', 7, 64) }

// Score is what ranking reads of a row; nil is missing.
type Score struct {
	RequestThroughput *float64 `json:"request_throughput,omitempty"` // 1/s
	OutputThroughput  *float64 `json:"output_throughput,omitempty"`  // token/s
	TTFT              *float64 `json:"p50_ttft_s,omitempty"`
	TPOT              *float64 `json:"p50_tpot_s,omitempty"`
	GPUs              *int     `json:"gpu_count,omitempty"`    // nil on a CPU
	Cached            *float64 `json:"cached_share,omitempty"` // nil: not exposed
}

func score(row *result.Row) Score {
	get := func(id string) *float64 {
		v, ok := row.Metric(id)
		if !ok || math.IsNaN(v) || math.IsInf(v, 0) {
			return nil
		}
		return &v
	}
	s := Score{
		RequestThroughput: get("request_throughput"), OutputThroughput: get("output_throughput"),
		TTFT: get("ttft/send:p50"), TPOT: get("tpot/excl-first:p50"),
	}
	if c := row.Facts.CacheHitShare; c != nil && row.Status == result.OK {
		s.Cached = c
	}
	if n := row.Subject.Hardware.GPUCount; n > 0 {
		s.GPUs = &n
	}
	return s
}

// Judged is a row with its verdict and score.
type Judged struct {
	Row    key.Digest    `json:"row"`
	Status result.Status `json:"status"`
	Class  result.Class  `json:"class,omitempty"`
	Verdict
	Score Score `json:"score"`
}

// ok reports whether the row has numbers, passing or not.
func (j Judged) ok() bool { return j.Status == result.OK }

// ranked reports whether the row can win: it passes and has the metric that
// ranking and gap begin with.
func (j Judged) ranked() bool { return j.Passed && j.Score.RequestThroughput != nil }

// compare is the seeds' ranking, best first: status ok, SLA passed, request
// throughput, output throughput, low TTFT p50, low TPOT p50, few GPUs. Unlike
// the reference it puts no number in the place of a missing one (there a
// missing median is replaced by the mean, and a literal zero latency wins).
func compare(a, b Judged) int {
	return cmp.Or(
		truth(a.ok(), b.ok()),
		truth(a.ranked(), b.ranked()),
		number(a.Score.RequestThroughput, b.Score.RequestThroughput, result.Higher),
		number(a.Score.OutputThroughput, b.Score.OutputThroughput, result.Higher),
		number(a.Score.TTFT, b.Score.TTFT, result.Lower),
		number(a.Score.TPOT, b.Score.TPOT, result.Lower),
		number(a.Score.GPUs, b.Score.GPUs, result.Lower),
	)
}

// ordered is compare with ties in the order of digests.
func ordered(a, b Judged) int {
	return cmp.Or(compare(a, b), slices.Compare(a.Row[:], b.Row[:]))
}

func truth(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return -1
	}
	return 1
}

func number[T int | float64](a, b *T, better result.Direction) int {
	if a == nil || b == nil {
		return truth(a != nil, b != nil)
	}
	return -int(better) * cmp.Compare(*a, *b)
}

// cellKey is the identity of a cell.
func cellKey(w result.Workload) string {
	b, err := json.Marshal(w)
	if err != nil {
		panic(fmt.Sprintf("winners: workload that is no JSON: %v", err))
	}
	return string(b)
}

// cellOrder is by concurrency with unlimited last, then by rate, then cells whose
// prompts nobody made last, which are of skipped rows, then by all the rest.
func cellOrder(a, b result.Workload) int {
	return cmp.Or(number(a.Concurrency, b.Concurrency, result.Lower), number(a.Rate, b.Rate, result.Lower),
		truth(a.Dataset != "", b.Dataset != ""), strings.Compare(cellKey(a), cellKey(b)))
}
