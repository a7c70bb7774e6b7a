// Package imports reads the result files of other load generators. Each number
// gets the id of what the tool really computes, which is not always what it
// calls it: guidellm's "time per output token" contains the time to the first
// one, aiperf's "inter-token latency" is what vLLM calls TPOT. Numbers of
// unlike definitions are never compared.
//
// A run in which every request failed is a failure, whatever zeros the file
// has for it, and a statistic of no sample is absent. Numbers that are counted
// by encoding the answer again keep a definition of their own, since random
// text does not encode back to the tokens it came from.
//
// The package knows files, and no server or campaign. Functions are pure; an
// error says what of the file cannot be read.
package imports

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/sotabuild/sotabuild/stdlib/result"
)

// Run is one run of another tool.
type Run struct {
	Tool        string       `json:"tool"`
	Basis       Basis        `json:"basis"`
	Model       string       `json:"model,omitempty"`
	Requests    Requests     `json:"requests"`
	Concurrency *int         `json:"max_concurrency,omitempty"`
	Rate        *float64     `json:"request_rate,omitempty"` // requests/s; nil is no rate or not said
	Seconds     float64      `json:"seconds"`
	Class       result.Class `json:"class,omitempty"` // why the run is a failure
	Reason      string       `json:"reason,omitempty"`
	Numbers     []Number     `json:"numbers,omitempty"` // in the file's order of definitions; none of a failure
	Warnings    []string     `json:"warnings,omitempty"`
}

// Basis is what our reading of a tool's form was checked against.
type Basis string

// The bases.
const (
	Real       Basis = "by real files"
	Documented Basis = "by documented form"
)

// Requests counts requests; nil is "the file does not say".
type Requests struct {
	OK     int    `json:"ok"`
	Failed *int   `json:"failed,omitempty"`
	Input  *int64 `json:"input_tokens,omitempty"`
	Output *int64 `json:"output_tokens,omitempty"` // as the server counted
}

// Number is one number with its definition, and as it stood in the file.
type Number struct {
	ID    string      `json:"id"` // "tpot/excl-first:p50"
	Value float64     `json:"value"`
	Unit  result.Unit `json:"unit"`
	Key   string      `json:"key"` // where it stood
	Raw   float64     `json:"raw"` // what stood there
}

// Number looks a number up by definition id.
func (r Run) Number(id string) (Number, bool) {
	i := slices.IndexFunc(r.Numbers, func(n Number) bool { return n.ID == id })
	if i < 0 {
		return Number{}, false
	}
	return r.Numbers[i], true
}

// form is one tool's file form.
type form struct {
	tool  string
	basis Basis
	is    func(object) bool
	read  func(object) ([]Run, error)
}

// forms are the known forms; the first that fits is taken.
var forms = []form{
	{"guidellm", Real, func(o object) bool { return o.object("metadata").has("guidellm_version") }, guidellm},
	{"aiperf", Real, func(o object) bool {
		return o.has("aiperf_version") || o.object("time_to_first_token").has("unit") || o.object("request_count").has("unit")
	}, aiperf},
	{"inference-perf", Real, func(o object) bool { return o.has("load_summary") && o.has("successes") }, inferencePerf},
	{"sglang", Real, func(o object) bool { return o.has("total_output_tokens_retokenized") }, sglang},
	{"tensorrt_llm", Documented, func(o object) bool { return o.has("user_throughput") || o.has("request_goodput:") }, tensorRT},
	{"vllm", Real, func(o object) bool { return o.has("endpoint_type") && o.has("completed") }, vllm},
	{"tokenspeed", Documented, func(o object) bool { return o.has("burstiness") && o.has("failed") && o.has("completed") }, tokenSpeed},
}

// Read reads a file: one JSON value, an array of runs, or JSON lines.
func Read(b []byte) ([]Run, error) {
	values, err := parse(b)
	if err != nil {
		return nil, fmt.Errorf("reading result file: %w", err)
	}
	var out []Run
	for i, o := range values {
		runs, err := read(o)
		if err != nil {
			return nil, fmt.Errorf("reading result file: value %d: %w", i+1, err)
		}
		out = append(out, runs...)
	}
	if len(out) == 0 {
		return nil, errors.New("reading result file: it holds no run")
	}
	return out, nil
}

func read(o object) ([]Run, error) {
	i := slices.IndexFunc(forms, func(f form) bool { return f.is(o) })
	if i < 0 {
		var names []string
		for _, f := range forms {
			names = append(names, f.tool)
		}
		return nil, fmt.Errorf("it has the form of none of %s", strings.Join(names, ", "))
	}
	runs, err := forms[i].read(o)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", forms[i].tool, err)
	}
	for j := range runs {
		runs[j].Tool, runs[j].Basis = forms[i].tool, forms[i].basis
		runs[j].settle()
	}
	return runs, nil
}

// settle makes a failure of a run without a success: its zeros are no numbers.
func (r *Run) settle() {
	if r.Requests.OK > 0 {
		if f := r.Requests.Failed; f != nil && *f > 0 {
			r.Warnings = append(r.Warnings, fmt.Sprintf("%d of %d requests failed and are in no number", *f, *f+r.Requests.OK))
		}
		return
	}
	r.Class, r.Numbers = result.NoResult, nil
	why := "no request succeeded"
	if f := r.Requests.Failed; f != nil && *f > 0 {
		why = fmt.Sprintf("all %d requests failed", *f)
	}
	if r.Reason != "" {
		why += ": " + r.Reason
	}
	r.Reason = why
}

// add adds a number, unless it is absent.
func (r *Run) add(id string, unit result.Unit, key string, raw *float64, scale float64) {
	if raw != nil {
		r.Numbers = append(r.Numbers, Number{ID: id, Value: *raw * scale, Unit: unit, Key: key, Raw: *raw})
	}
}
