// Package judge turns the samples of one benchmark cell into its verdict and
// numbers: which requests count, what each metric is, and whether the cell may
// have numbers at all. It opens no connection and reads no clock.
//
// A Cell is a value; its methods are pure. Failed requests are in no latency
// and no throughput, and a metric without a sample is absent.
package judge

import (
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/sotabuild/sotabuild/stdlib/result"
)

// Rules judge requests and the cell. Zero durations mean the default.
type Rules struct {
	MinSuccess  float64       `json:"min_success"` // share in (0, 1]; below it the cell failed
	IgnoreEOS   bool          `json:"ignore_eos"`  // sent, and output length must then be exact
	Temperature float64       `json:"temperature"`
	Connect     time.Duration `json:"connect_ns"` // per connection, default 10 s
	// First bounds the time to the first token, default 10 min. Headers and
	// keep-alive comments do not end it: some servers send them at once.
	First time.Duration `json:"first_ns"`
	Stall time.Duration `json:"stall_ns"` // between events after it, default 60 s
	Total time.Duration `json:"total_ns"` // whole cell, 0 none
	// MaxSendLag is the 99th percentile of real minus due send time above
	// which the cell is client_limited; default 10 ms. A request is due at its
	// scheduled time, or when a slot of the concurrency cap became free, if
	// that is later. Without schedule and cap nothing is due, and only the
	// client's CPU share is judged.
	MaxSendLag time.Duration `json:"max_send_lag_ns"`
	// Goodput are limits that a request must keep to count as good.
	Goodput []Limit `json:"goodput,omitempty"`
	// NoStream asks for whole answers: then there is no time to a first token.
	NoStream bool `json:"no_stream,omitempty"`
	Stop     Stop `json:"stop,omitzero"`
}

// Stop are the rules by which a cell ends before all requests are sent. The
// zero value is none.
type Stop struct {
	// MaxFailing is the share of failures among the last 50 requests that
	// ends the cell; 0 never does.
	MaxFailing float64 `json:"max_failing,omitempty"`
	// Saturation ends a scheduled cell as saturated when requests in flight and
	// time to the first token both go on rising.
	Saturation bool `json:"saturation,omitempty"`
}

// Limit is a limit on one request's own number.
type Limit struct {
	ID  string  `json:"id"` // ttft/send, tpot/excl-first or e2e
	Max float64 `json:"max_s"`
}

// Check returns all that is wrong with the Rules, and the Rules with defaults.
func (r Rules) Check() (Rules, []error) {
	var errs []error
	wrong := func(is bool, format string, args ...any) {
		if is {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	wrong(!(r.MinSuccess > 0 && r.MinSuccess <= 1),
		"min_success is %v; write a share above 0, at most 1: a run without a success is no result", r.MinSuccess)
	wrong(math.IsNaN(r.Temperature) || math.IsInf(r.Temperature, 0), "temperature is %v", r.Temperature)
	for _, d := range []struct {
		name     string
		value    *time.Duration
		standard time.Duration
	}{
		{"connect_ns", &r.Connect, 10 * time.Second},
		{"first_ns", &r.First, 10 * time.Minute},
		{"stall_ns", &r.Stall, time.Minute},
		{"total_ns", &r.Total, 0},
		{"max_send_lag_ns", &r.MaxSendLag, 10 * time.Millisecond},
	} {
		wrong(*d.value < 0, "%s is %v; a duration is not negative", d.name, *d.value)
		if *d.value == 0 {
			*d.value = d.standard
		}
	}
	for _, l := range r.Goodput {
		wrong(l.ID != "ttft/send" && l.ID != "tpot/excl-first" && l.ID != "e2e", "goodput limits %q; write ttft/send, tpot/excl-first or e2e", l.ID)
		wrong(!(l.Max > 0), "the goodput limit of %s is %v; write seconds above 0", l.ID, l.Max)
		wrong(r.NoStream && l.ID != "e2e", "the goodput limit of %s needs streaming", l.ID)
	}
	wrong(!(r.Stop.MaxFailing >= 0 && r.Stop.MaxFailing <= 1), "max_failing is %v; write a share of 1", r.Stop.MaxFailing)
	return r, errs
}

// Needs is how many samples a percentile needs to be one: that many that one
// of them lies beyond it. Other statistics need one.
func Needs(id string) int {
	_, stat, _ := strings.Cut(id, ":")
	var p float64
	if _, err := fmt.Sscanf(stat, "p%g", &p); err != nil || !(p > 0 && p < 100) {
		return 1
	}
	return int(math.Ceil(100/(100-p) - 1e-9))
}

// Few names the metrics of a row with fewer samples than they need.
func Few(metrics []result.Metric) (out []string) {
	for _, m := range metrics {
		if n := Needs(m.ID); m.N < n {
			out = append(out, fmt.Sprintf("%s has %d samples and needs %d", m.ID, m.N, n))
		}
	}
	return out
}
