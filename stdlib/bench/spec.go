// Package bench is the load generator: it sends frozen prompts to a serving
// endpoint, stamps what comes back, judges every request by a strict rule and
// computes a result row.
//
// It knows the wire forms of serving systems and the metrics of package
// result. It knows no campaign, no engine and no framework by name. Time comes
// from a clock that tests replace; every other input is in the Spec.
//
// A request is a success only if the status is 200, the stream is an event
// stream without an error object, at least one token came, a finish reason and
// the API's last event were seen, and the server's own counts are the asked
// ones. Everything else is one failure class; a cell whose share of successes
// is below the rule has no latency and no throughput.
package bench

import "time"

// SpecVersion is the version of Spec's JSON form.
const SpecVersion = 1

// Spec is one benchmark cell, as the step's client reads it.
type Spec struct {
	Version int    `json:"version"`
	URL     string `json:"url"`  // base, without a final slash
	Path    string `json:"path"` // /v1/completions
	API     API    `json:"api"`
	Model   string `json:"model"` // name to send
	// Models is the path of the model list; when set, Model (or Serves) must
	// be in it before anything is sent, else class wrong_model.
	Models  string            `json:"models,omitempty"`
	Prompts string            `json:"prompts"` // file of the frozen dataset
	Load    Load              `json:"load"`
	Rules   Rules             `json:"rules"`
	Body    map[string]any    `json:"body,omitempty"`    // extra fields of every request
	Headers map[string]string `json:"headers,omitempty"` // values may be env:NAME
	Out     string            `json:"out"`               // folder for row.json and requests.jsonl
}

// API is the wire form of requests and answers.
type API string

// The wire forms.
const (
	Completions API = "completions" // OpenAI, text or token-id prompts, SSE
	Chat        API = "chat"        // OpenAI chat, SSE
	LlamaCpp    API = "llamacpp"    // llama.cpp's own /completion: no [DONE]
)

// Load is when requests are sent.
type Load struct {
	Arrival     string   `json:"arrival"`               // inf | constant | poisson
	Rate        *float64 `json:"rate,omitempty"`        // requests/s
	Concurrency *int     `json:"concurrency,omitempty"` // in flight at most; absent is unlimited
	Warmup      int      `json:"warmup"`                // the dataset's warm-up prompts to send first, never counted
	Seed        int64    `json:"seed"`
}

// Rules judge requests and the cell.
type Rules struct {
	MinSuccess  float64       `json:"min_success"` // share; below it the cell failed
	IgnoreEOS   bool          `json:"ignore_eos"`  // sent, and output length must then be exact
	Temperature float64       `json:"temperature"`
	Connect     time.Duration `json:"connect_ns"` // per request, default 10 s
	First       time.Duration `json:"first_ns"`   // to the first byte, default 10 min
	Stall       time.Duration `json:"stall_ns"`   // between bytes, default 60 s
	Total       time.Duration `json:"total_ns"`   // whole cell, 0 none
	// MaxSendLag is the 99th percentile of real minus scheduled send time above
	// which the cell is client_limited; default 10 ms.
	MaxSendLag time.Duration `json:"max_send_lag_ns"`
}
