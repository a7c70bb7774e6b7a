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
	"net/url"
	"os"
	"slices"
	"strings"

	"github.com/sotabuild/sotabuild/stdlib/bench/arrival"
	"github.com/sotabuild/sotabuild/stdlib/bench/judge"
	"github.com/sotabuild/sotabuild/stdlib/bench/wire"
)

// SpecVersion is the version of Spec's JSON form.
const SpecVersion = 1

// Spec is one benchmark cell, as the step's client reads it.
type Spec struct {
	Version int `json:"version"`
	// URL is the base, without a final slash. Its scheme names the protocol:
	// http and https are HTTP/1.1, h2 and h2c HTTP/2, unix:///PATH is HTTP/1.1
	// over a socket.
	URL   string `json:"url"`
	Path  string `json:"path"` // /v1/completions
	API   API    `json:"api"`
	Model string `json:"model"` // name to send
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
	Look    Look              `json:"look,omitzero"`
	// Answers collects greedy answers instead of measuring (package answers).
	Answers bool `json:"answers,omitempty"`
}

// Look is what is looked at beside the requests; package observe does it. The
// zero value looks at nothing.
type Look struct {
	Metrics string `json:"metrics,omitempty"` // path of the server's metrics
	GPU     bool   `json:"gpu,omitempty"`     // sample this machine's GPUs
	// GPUs are the ids or UUIDs to sample; none are all of the machine.
	GPUs []string `json:"gpus,omitempty"`
	// Lenient turns GPUs that cannot be sampled into a warning; else that is an
	// error before anything is sent.
	Lenient  bool    `json:"lenient,omitempty"`
	Busy     bool    `json:"busy,omitempty"`           // measure though others use the server or its GPUs
	Price    float64 `json:"price_per_hour,omitempty"` // dollars, of all GPUs; 0 is not given
	PowerCap bool    `json:"reject_power_cap,omitempty"`
	// Random says that the prompts carry no meaning: a server that speculates
	// on them is not representative.
	Random bool `json:"random_prompts,omitempty"`
}

// API is the wire form of requests and answers.
type API = wire.API

// The wire forms.
const (
	Completions = wire.Completions // OpenAI, text or token-id prompts, SSE
	Chat        = wire.Chat        // OpenAI chat, SSE
	LlamaCpp    = wire.LlamaCpp    // llama.cpp's own /completion: no [DONE]
	SGLang      = wire.SGLang      // SGLang's own /generate
)

// Load is when requests are sent.
type Load = arrival.Load

// Rules judge requests and the cell.
type Rules = judge.Rules

// The arrivals.
const (
	Inf      = arrival.Inf
	Constant = arrival.Constant
	Poisson  = arrival.Poisson
	Gamma    = arrival.Gamma
	Trace    = arrival.Trace
)

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
	if err := CheckURL(s.URL); err != nil {
		errs = append(errs, err)
	}
	wrong(!strings.HasPrefix(s.Path, "/"), "path is %q; write the endpoint's path, such as /v1/completions", s.Path)
	wrong(s.Models != "" && !strings.HasPrefix(s.Models, "/"), "models is %q; write a path such as /v1/models", s.Models)
	apis := []API{Completions, Chat, LlamaCpp, SGLang}
	wrong(!slices.Contains(apis, s.API), "api is %q; write one of %q", s.API, apis)
	native := s.API == LlamaCpp || s.API == SGLang
	wrong(s.Model == "" && (!native || s.Models != ""), "model is empty; write the name that the server serves")
	wrong(s.Prompts == "", "prompts is empty; write the dataset's file")
	for _, k := range wire.Reserved {
		_, is := s.Body[k]
		wrong(is, "body has the field %q, which the client sets itself", k)
	}
	rules, bad := s.Rules.Check()
	s.Rules = rules
	errs = append(append(errs, bad...), s.Load.Check()...)
	return s, errors.Join(errs...)
}

// CheckURL says what is wrong with a Spec's URL.
func CheckURL(s string) error {
	u, err := url.Parse(s)
	if err != nil || ways[u.Scheme].scheme == "" || (u.Host == "") != (u.Scheme == "unix") || strings.HasSuffix(s, "/") {
		return fmt.Errorf("url is %q; write http://HOST:PORT without a final slash (or https, h2, h2c, or unix:///PATH)", s)
	}
	return nil
}
