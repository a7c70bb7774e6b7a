package imports

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/sotabuild/sotabuild/stdlib/result"
)

// Base is what a number means, apart from the statistic.
type Base struct {
	ID      string
	Better  result.Direction
	Formula string
}

// Bases is the table of the definitions that files of other tools have. Those
// of result.Definitions mean the same here; the others are why tools cannot be
// compared by names.
var Bases = []Base{
	{"request_throughput", result.Higher, "successful requests / span"},
	{"request_throughput/window", result.Higher, "time-weighted rate inside a window that leaves out both ends"},
	{"output_throughput", result.Higher, "the server's count of output tokens / span"},
	{"output_throughput/window", result.Higher, "time-weighted rate inside a window that leaves out both ends"},
	{"output_throughput-retokenized", result.Higher, "tokens of the answers encoded again / span"},
	{"total_throughput", result.Higher, "the server's counts of input and output tokens / span"},
	{"total_throughput/window", result.Higher, "time-weighted rate inside a window that leaves out both ends"},
	{"goodput", result.Higher, "requests within all limits / span"},
	{"spec_accept_length/iteration", result.Higher, "output tokens an iteration, mean over requests"},
	{"ttft/send", result.Lower, "first event with a token − send"},
	{"ttft/send-from-role", result.Lower, "first event, which has a role and no token − send"},
	{"ttft/pool", result.Lower, "first event with a token − the wish to send: a wait for a pooled connection is in it"},
	{"ttft/pool-from-role", result.Lower, "the same to the event with the role"},
	{"ttft/written", result.Lower, "first event with a token − the first byte of the request: connecting is not in it"},
	{"ttft/answer", result.Lower, "first event of the answer, reasoning left out − send; requests of one token left out"},
	{"tpot/excl-first", result.Lower, "(last event − first token) / (N − 1), N as the server counts"},
	{"tpot/excl-first-from-role", result.Lower, "(last event − role event) / (N − 1)"},
	{"tpot/excl-first-retokenized", result.Lower, "the same, N from encoding the answer again"},
	{"tpot/incl-first", result.Lower, "end-to-end / N: the time to the first token is in it"},
	{"tpot/incl-first-retokenized", result.Lower, "the same, N from encoding the answer again"},
	{"itl/chunk", result.Lower, "gaps between all events with choices, pooled"},
	{"itl/chunk-from-role", result.Lower, "the same, with the gap after the role event"},
	{"itl/token-spread", result.Lower, "gaps between events divided by the tokens they brought"},
	{"itl/token-zero", result.Lower, "a gap for each token; later tokens of one event have 0"},
	{"e2e", result.Lower, "last event with content − send"},
	{"e2e/written", result.Lower, "last event with content − the first byte of the request: connecting is not in it"},
	{"e2e/last-byte", result.Lower, "last line, usage and [DONE] included − send"},
}

// Define finds the definition of a number's id, with or without a statistic.
func Define(id string) (Base, bool) {
	base, _, _ := strings.Cut(id, ":")
	i := slices.IndexFunc(Bases, func(b Base) bool { return b.ID == base })
	if i < 0 {
		return Base{}, false
	}
	return Bases[i], true
}

// Compare returns a / b. Numbers of unlike definitions are refused, with both
// formulas.
func Compare(a, b Number) (float64, error) {
	if a.ID != b.ID {
		x, _ := Define(a.ID)
		y, _ := Define(b.ID)
		return 0, fmt.Errorf("comparing %s with %s: they are not the same number: %q against %q", a.ID, b.ID, x.Formula, y.Formula)
	}
	if b.Value == 0 {
		return 0, fmt.Errorf("comparing %s: the second value is 0", a.ID)
	}
	return a.Value / b.Value, nil
}

// Limit is one limit of an SLA on an imported number; seconds for latencies.
type Limit struct {
	ID  string
	Max float64
}

// Place is a run's place. Rank 0 is none, and Reasons say why.
type Place struct {
	Run     int // index into the runs given
	Rank    int // from 1, ties share one
	Reasons []string
}

// Rank orders runs by one number, best first, then the runs without a rank in
// the order given. A run that failed, does not keep a limit, had failed
// requests, does not have the very number, or was of another workload than the
// first one has none: nothing stands in for it.
func Rank(runs []Run, by string, limits []Limit) ([]Place, error) {
	def, ok := Define(by)
	if !ok {
		return nil, fmt.Errorf("ranking by %q: there is no such definition", by)
	}
	out := make([]Place, len(runs))
	for i, r := range runs {
		out[i] = Place{Run: i, Reasons: r.unfit(by, limits)}
		if what := runs[0].unlike(r); what != "" {
			out[i].Reasons = append(out[i].Reasons, "another workload than the first run: "+what)
		}
	}
	value := func(p Place) float64 {
		n, _ := runs[p.Run].Number(by)
		return n.Value * float64(def.Better)
	}
	slices.SortStableFunc(out, func(a, b Place) int {
		switch x, y := a.Reasons == nil, b.Reasons == nil; {
		case x && !y:
			return -1
		case !x && y:
			return 1
		case !x, value(a) == value(b):
			return 0
		case value(a) > value(b):
			return -1
		}
		return 1
	})
	for i := range out {
		switch {
		case out[i].Reasons != nil:
		case i > 0 && value(out[i]) == value(out[i-1]):
			out[i].Rank = out[i-1].Rank
		default:
			out[i].Rank = i + 1
		}
	}
	return out, nil
}

func (r Run) unfit(by string, limits []Limit) (out []string) {
	if r.Class != "" {
		return []string{r.Reason}
	}
	if f := r.Requests.Failed; f != nil && *f > 0 {
		out = append(out, fmt.Sprintf("%d of %d requests failed", *f, *f+r.Requests.OK))
	}
	if _, ok := r.Number(by); !ok {
		out = append(out, fmt.Sprintf("it has no %s", by))
	}
	for _, l := range limits {
		switch n, ok := r.Number(l.ID); {
		case !ok:
			out = append(out, fmt.Sprintf("it has no %s, the limit is %v", l.ID, l.Max))
		case !(n.Value <= l.Max):
			out = append(out, fmt.Sprintf("%s of %.4g is above %.4g", l.ID, n.Value, l.Max))
		}
	}
	return out
}

// unlike says in what two runs' workloads differ, as far as both files say; ""
// if in nothing.
func (r Run) unlike(o Run) string {
	n, m := r.Requests.all(), o.Requests.all()
	switch {
	case r.Model != "" && o.Model != "" && r.Model != o.Model:
		return fmt.Sprintf("model %s against %s", o.Model, r.Model)
	case r.Concurrency != nil && o.Concurrency != nil && *r.Concurrency != *o.Concurrency:
		return fmt.Sprintf("concurrency %d against %d", *o.Concurrency, *r.Concurrency)
	case (r.Rate == nil) != (o.Rate == nil), r.Rate != nil && *r.Rate != *o.Rate:
		return "another request rate"
	case n != m:
		return fmt.Sprintf("%d requests against %d", m, n)
	case n > 0 && !near(r.Requests.Input, o.Requests.Input):
		return "prompts of another length"
	case n > 0 && !near(r.Requests.Output, o.Requests.Output):
		return "answers of another length"
	}
	return ""
}

func (r Requests) all() int {
	if r.Failed != nil {
		return r.OK + *r.Failed
	}
	return r.OK
}

// near allows 5 % between counts of tokens: random text does not encode back to
// the length it was made for.
func near(a, b *int64) bool {
	return a == nil || b == nil || *a == *b || math.Abs(float64(*a-*b)) <= .05*float64(max(*a, *b))
}
