// Package bench is the load generator: it sends frozen prompts to a serving
// endpoint, stamps what comes back, judges every request by a strict rule and
// computes a result row.
//
// It knows the wire forms of serving systems and the metrics of package
// result. It knows no campaign, no engine and no framework by name. Time is the
// runtime's monotonic clock, which tests make virtual (testing/synctest);
// network, environment and CPU time come from a Host; every other input is in
// the Spec.
//
// A request is a success only if the status is 200, the stream is an event
// stream without an error object, at least one token came, a finish reason and
// the API's last event were seen, and the server's own counts are the asked
// ones. Everything else is one failure class; a cell whose share of successes
// is below the rule has no latency and no throughput.
//
// One goroutine serves one stream and owns its answer; the samples are read
// when all have ended. An error of Run means that there is no verdict (the Spec
// or the dataset is wrong); what the server did wrong is in the Report.
package bench

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/sotabuild/sotabuild/stdlib/bench/wire"
)

// SpecVersion is the version of Spec's JSON form.
const SpecVersion = 1

// Spec is one benchmark cell, as the step's client reads it.
type Spec struct {
	Version int    `json:"version"`
	URL     string `json:"url"`  // base, without a final slash
	Path    string `json:"path"` // /v1/completions
	API     API    `json:"api"`
	Model   string `json:"model"` // name to send
	// Models is the path of the model list; when set, Model must be in it
	// before anything is sent, else class wrong_model, and every answer that
	// names a model must name one of it.
	Models  string         `json:"models,omitempty"`
	Prompts string         `json:"prompts"` // file of the frozen dataset
	Load    Load           `json:"load"`
	Rules   Rules          `json:"rules"`
	Body    map[string]any `json:"body,omitempty"` // extra fields of every request
	// Headers of every request. A value whose last word is env:NAME gets the
	// variable's value there ("Bearer env:API_KEY"); it is kept out of all files.
	Headers map[string]string `json:"headers,omitempty"`
	Out     string            `json:"out"` // folder for row.json, requests.jsonl and outcome.json
}

// API is the wire form of requests and answers.
type API = wire.API

// The wire forms.
const (
	Completions = wire.Completions // OpenAI, text or token-id prompts, SSE
	Chat        = wire.Chat        // OpenAI chat, SSE
	LlamaCpp    = wire.LlamaCpp    // llama.cpp's own /completion: no [DONE]
)

// Load is when requests are sent.
type Load struct {
	Arrival     string   `json:"arrival"`               // inf | constant | poisson
	Rate        *float64 `json:"rate,omitempty"`        // requests/s
	Concurrency *int     `json:"concurrency,omitempty"` // in flight at most; absent is unlimited
	Warmup      int      `json:"warmup"`                // the dataset's warm-up prompts to send first, never counted
	Seed        int64    `json:"seed"`
}

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
}

// ReadSpec reads a Spec file strictly.
func ReadSpec(path string) (Spec, error) {
	var s Spec
	f, err := os.Open(path)
	if err != nil {
		return s, fmt.Errorf("reading bench spec: %w", err)
	}
	defer f.Close()
	d := json.NewDecoder(f)
	d.DisallowUnknownFields()
	d.UseNumber() // numbers of Body reach the wire as they were written
	if err := d.Decode(&s); err != nil {
		return s, fmt.Errorf("reading bench spec %q: %w", path, err)
	}
	return s, nil
}

// check returns all that is wrong with the Spec, and the Spec with defaults.
func (s Spec) check() (Spec, error) {
	var errs []error
	wrong := func(is bool, format string, args ...any) {
		if is {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	wrong(s.Version != SpecVersion, "version is %d; this client reads version %d", s.Version, SpecVersion)
	u, err := url.Parse(s.URL)
	wrong(err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || strings.HasSuffix(s.URL, "/"),
		"url is %q; write http://HOST:PORT without a final slash", s.URL)
	wrong(!strings.HasPrefix(s.Path, "/"), "path is %q; write the endpoint's path, such as /v1/completions", s.Path)
	wrong(s.Models != "" && !strings.HasPrefix(s.Models, "/"), "models is %q; write a path such as /v1/models", s.Models)
	apis := []API{Completions, Chat, LlamaCpp}
	wrong(!slices.Contains(apis, s.API), "api is %q; write one of %q", s.API, apis)
	wrong(s.Model == "" && (s.API != LlamaCpp || s.Models != ""), "model is empty; write the name that the server serves")
	wrong(s.Prompts == "", "prompts is empty; write the dataset's file")
	for _, k := range wire.Reserved {
		_, is := s.Body[k]
		wrong(is, "body has the field %q, which the client sets itself", k)
	}
	wrong(!(s.Rules.MinSuccess > 0 && s.Rules.MinSuccess <= 1),
		"min_success is %v; write a share above 0, at most 1: a run without a success is no result", s.Rules.MinSuccess)
	r := &s.Rules
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
	errs = append(errs, s.Load.check()...)
	return s, errors.Join(errs...)
}
