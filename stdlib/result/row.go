// Package result holds the result row: what one benchmark cell came to, with
// every number's definition, unit and direction, and the table of failure
// classes. Ranking, gaps, ledgers and reports read rows and nothing else.
//
// Absent is absent: a metric that was not measured is not in Metrics, and a
// pointer field that is nil was not observed. Nothing is ever zero for
// "unknown" (R076). A Row carries no labels (framework, scenario and candidate
// names are joined when it is shown), so a renamed block changes no row.
package result

import "time"

// RowVersion is the version of Row's JSON form.
const RowVersion = 1

// Row is one candidate in one cell, measured in one server life.
type Row struct {
	Version  int      `json:"v"`
	Status   Status   `json:"status"`
	Class    Class    `json:"class,omitempty"`  // why not ok
	Reason   string   `json:"reason,omitempty"` // a sentence, with the last words of the log
	Subject  Subject  `json:"subject"`
	Workload Workload `json:"workload"`
	Requests Requests `json:"requests"`
	Metrics  []Metric `json:"metrics,omitempty"` // in the order of the table Metrics
	Parts    []Part   `json:"parts,omitempty"`   // nil where there are neither adapters nor turns
	Server   Server   `json:"server"`
	Facts    Facts    `json:"facts"`
	Time     Times    `json:"time"`
	Warnings []string `json:"warnings,omitempty"`
}

// Status is the row's state in the seeds' words (R038, R075).
type Status string

// The statuses. Only an OK row has latency or throughput metrics.
const (
	OK      Status = "ok"
	Failed  Status = "failed"
	OOM     Status = "oom"
	Timeout Status = "timeout"
	Skipped Status = "skipped"
)

// Subject is what was measured.
type Subject struct {
	Software string   `json:"software"`          // digest of the program's file tree
	Version  string   `json:"version,omitempty"` // what the program says of itself
	Commit   string   `json:"commit,omitempty"`
	Image    string   `json:"image,omitempty"`    // what it ran in, as the campaign names it
	ImageID  string   `json:"image_id,omitempty"` // its identity: digest of its config and layers
	Executor string   `json:"executor,omitempty"` // the kind that ran it
	Model    string   `json:"model"`              // id as served
	Weights  string   `json:"weights,omitempty"`  // digest or revision
	Flags    []Flag   `json:"flags"`              // sorted by name
	Hardware Hardware `json:"hardware"`
}

// Flag is a server flag as given.
type Flag struct {
	Name  string `json:"name"`
	Value any    `json:"value"`
}

// Hardware is where it was measured; GPU fields are absent on a CPU.
type Hardware struct {
	GPUModel string   `json:"gpu_model,omitempty"`
	GPUCount int      `json:"gpu_count,omitempty"`
	GPUIDs   []string `json:"gpu_ids,omitempty"`
	CPU      string   `json:"cpu,omitempty"`
	Cores    int      `json:"cores,omitempty"`
}

// Workload is the cell.
type Workload struct {
	Kind        string   `json:"kind"`    // random | …
	Dataset     string   `json:"dataset"` // digest of the frozen prompts
	InputLen    int      `json:"input_len"`
	OutputLen   int      `json:"output_len"`
	NumPrompts  int      `json:"num_prompts"`
	Arrival     string   `json:"arrival"`
	Rate        *float64 `json:"request_rate,omitempty"` // requests/s
	Concurrency *int     `json:"max_concurrency,omitempty"`
	Endpoint    string   `json:"endpoint"` // /v1/completions
	Smoke       bool     `json:"smoke,omitempty"`
	Lane        string   `json:"lane,omitempty"` // "" is the main one
	Mix         string   `json:"mix,omitempty"`  // further shapes in words; the lengths are those of the rest
}

// Requests counts requests by outcome; Failures lists classes of failed ones
// in the order of the class table. The sum of all counts is Workload.NumPrompts
// unless the cell ended early.
type Requests struct {
	OK       int           `json:"ok"`
	Failed   int           `json:"failed"`
	Failures map[Class]int `json:"failures,omitempty"`
	Examples []string      `json:"examples,omitempty"` // ≤ 5, "request 17: stream_error: …"
	Input    int64         `json:"input_tokens"`       // as the server counted
	Output   int64         `json:"output_tokens"`      // as the server counted
	Cached   *int64        `json:"cached_tokens,omitempty"`
	// Cancelled requests are the ones that the client left as the dataset asks:
	// neither successes nor failures.
	Cancelled int `json:"cancelled,omitempty"`
	// CutOff requests were in flight when the run ended, by its user or by a rule:
	// neither successes nor failures.
	CutOff  int      `json:"cut_off,omitempty"`
	Lengths *Lengths `json:"lengths,omitempty"` // nil without a success
}

// Sent is how many requests were sent and measured, however they ended; those
// of the warm-up are none of them.
func (q Requests) Sent() int { return q.OK + q.Failed + q.Cancelled + q.CutOff }

// Lengths are percentiles of the successes' token counts, as the server
// counted (R144).
type Lengths struct {
	InputP50  float64 `json:"input_p50"`
	InputP95  float64 `json:"input_p95"`
	OutputP50 float64 `json:"output_p50"`
	OutputP95 float64 `json:"output_p95"`
}

// Metric is one number with its definition.
type Metric struct {
	ID    string  `json:"id"` // definition id, a row of the table Metrics
	Value float64 `json:"value"`
	Unit  Unit    `json:"unit"`
	N     int     `json:"n"` // samples behind it
}

// Server is how the server was started and how its life went.
type Server struct {
	Command   []string           `json:"command"` // exact argv (R086)
	Client    []string           `json:"client"`
	Phases    map[string]float64 `json:"start_phases_s,omitempty"`
	Life      string             `json:"life,omitempty"`            // task id: cells that shared a life
	Validated []string           `json:"validated_flags,omitempty"` // flags found in its own help
}

// Facts are further observations; nil means "not observed".
type Facts struct {
	SpecAccept    *float64 `json:"spec_accept_length,omitempty"` // tokens per step
	CacheHitShare *float64 `json:"cached_share,omitempty"`       // cached / input tokens
	CompileCache  *string  `json:"compile_cache,omitempty"`      // cold | warm | shared
	Accuracy      *float64 `json:"accuracy,omitempty"`           // share in agreement
	GPUFit        *string  `json:"gpu_fitness,omitempty"`
	ClientBusy    *float64 `json:"client_busy,omitempty"` // CPU share of the client's own cores
	SendLagP99    *float64 `json:"send_lag_p99_s,omitempty"`
	SentRate      *float64 `json:"sent_rate,omitempty"` // requests a second that were really sent, where a schedule asked for some
	PricePerHour  *float64 `json:"price_per_hour,omitempty"`
	EnergyJoules  *float64 `json:"energy_j,omitempty"`
	Throttled     *float64 `json:"throttled_share,omitempty"` // of busy GPU samples
	PowerCapped   *float64 `json:"power_cap_share,omitempty"` // of busy GPU samples
}

// Times are when the cell ran; Seconds is the measured span, monotonic, from
// the first send to the last byte.
type Times struct {
	Started time.Time `json:"started,omitzero"` // absent: nothing was measured
	Seconds float64   `json:"seconds"`
}

// Metric looks a metric up by definition id.
func (r *Row) Metric(id string) (float64, bool) {
	for _, m := range r.Metrics {
		if m.ID == id {
			return m.Value, true
		}
	}
	return 0, false
}

// Fail makes the row a failed one of this class: a failed row has no numbers.
// What is not in the class table is a bug of the caller and panics.
func (r *Row) Fail(c Class, reason string) {
	row, ok := Lookup(c)
	if !ok {
		panic("result: no class " + string(c) + " in the table")
	}
	r.Status, r.Class, r.Reason, r.Metrics, r.Parts = row.Status, c, reason, nil, nil
}

// Part is the numbers of one group of a row's requests: an adapter's or a
// turn's.
type Part struct {
	By      string   `json:"by"` // adapter | turn
	Name    string   `json:"name"`
	OK      int      `json:"ok"`
	Failed  int      `json:"failed"`
	Metrics []Metric `json:"metrics,omitempty"` // nil if none is ok
}
