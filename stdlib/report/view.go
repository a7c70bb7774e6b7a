// Package report turns a campaign's results into what people read: the report,
// summary, winning commands and manifest in Markdown, and a table for the
// terminal. Its sub-packages write the forms for programs (export) and the run
// directory (rundir).
//
// The package knows no engine and starts nothing. Its input is a View: rows
// with the names that they do not carry themselves. Every output is a function
// of the View, so an unchanged campaign gives unchanged bytes; the age of a
// cached row is shown on the terminal only.
//
// What is not known is written as such: "–" on paper, null or an empty cell in
// files, never zero. A row that is not ok shows no number, whatever it holds
// (R076). Every number on paper has its unit in its heading and its definition
// at the end of the document.
package report

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/sotabuild/sotabuild/engine/key"
	"github.com/sotabuild/sotabuild/stdlib/result"
	"github.com/sotabuild/sotabuild/stdlib/winners"
)

// View is a campaign with its results, all names joined.
type View struct {
	Campaign  string      `json:"campaign"`
	Tool      string      `json:"tool"`            // sotabuild's version
	Smoke     bool        `json:"smoke,omitempty"` // a flow check: nothing in it is a result (R070)
	Model     Model       `json:"model"`
	Hardware  Hardware    `json:"hardware"`
	Workload  Workload    `json:"workload"`
	Lanes     []Workload  `json:"lanes,omitempty"` // beside it
	SLA       winners.SLA `json:"sla"`
	Sides     []Side      `json:"sides"`     // the target first, then as declared
	Scenarios []Scenario  `json:"scenarios"` // as declared
	Rates     []Rate      `json:"rate_search,omitempty"`
	Notes     []string    `json:"notes,omitempty"`
	Doubts    []string    `json:"-"` // the notes that stand below the terminal's table too
}

// Model is the served model (R019). An empty string was not declared.
type Model struct {
	ID              string `json:"id"`
	Path            string `json:"path,omitempty"`
	Revision        string `json:"revision,omitempty"`
	Tokenizer       string `json:"tokenizer,omitempty"`
	Precision       string `json:"precision,omitempty"`
	Quantization    string `json:"quantization,omitempty"`
	TrustRemoteCode bool   `json:"trust_remote_code"`
	MaxContext      int    `json:"max_context,omitempty"` // tokens
}

// Hardware is what the campaign declares; what was found stands in each row.
type Hardware struct {
	GPUModel  string   `json:"gpu_model,omitempty"` // "" in a CPU campaign
	GPUIDs    []string `json:"gpu_ids,omitempty"`
	MultiNode bool     `json:"multi_node,omitempty"`
}

// Workload is the same for every framework.
type Workload struct {
	Endpoint    string   `json:"endpoint"` // completions | chat
	Dataset     string   `json:"dataset"`  // random | …
	Temperature float64  `json:"temperature"`
	Arrival     string   `json:"arrival"`
	Rate        *float64 `json:"request_rate,omitempty"` // requests/s
	Warmup      int      `json:"warmup"`                 // requests
	Seed        int64    `json:"seed"`
	Lane        string   `json:"lane,omitempty"`
}

// State says how a framework takes part (R038); the words are never exchanged.
type State string

// The states.
const (
	Selected    State = "selected"
	Excluded    State = "excluded"    // by the user
	Unsupported State = "unsupported" // by the framework
	Unavailable State = "unavailable" // an environment gap
)

// Side is one framework of the campaign.
type Side struct {
	Name       string `json:"name"`       // its label
	Definition string `json:"definition"` // what it is served by
	Target     bool   `json:"target,omitempty"`
	State      State  `json:"state"`
	Reason     string `json:"reason,omitempty"` // why it is not selected
	Version    string `json:"version,omitempty"`
	Commit     string `json:"commit,omitempty"`
	Software   string `json:"software,omitempty"` // digest of the program's files
	Image      string `json:"image,omitempty"`
	Helps      []Help `json:"helps,omitempty"`
	Dropped    int    `json:"dropped,omitempty"` // candidates that the search bound cut off
}

// Help is a help snapshot (R056). Path is relative to the run directory.
type Help struct {
	Name   string     `json:"name"` // server | bench
	Path   string     `json:"path"`
	Digest key.Digest `json:"digest"`
}

// Scenario is one request shape with its rows.
type Scenario struct {
	Name       string          `json:"name"`
	InputLen   int             `json:"input_len"`  // tokens
	OutputLen  int             `json:"output_len"` // tokens
	NumPrompts int             `json:"num_prompts"`
	Mix        string          `json:"mix,omitempty"`   // further shapes in words; the lengths are those of the rest
	Lane       string          `json:"lane,omitempty"`  // "" is the main one
	Cells      []Cell          `json:"cells"`           // by framework, candidate, concurrency, as declared
	Open       []Open          `json:"open,omitempty"`  // the others, in the same order; while there are any nobody wins
	Ahead      []key.Digest    `json:"ahead,omitempty"` // the best rows so far, where cells are open
	Ranking    winners.Ranking `json:"ranking"`
	Fairness   []Fairness      `json:"fairness,omitempty"` // nil where there is nothing to compare
	Repeats    *Repeats        `json:"repeats,omitempty"`  // nil where the campaign asks for none
}

// lengths are the scenario's tokens in words.
func (s Scenario) lengths() string {
	text := fmt.Sprintf("%d tokens in, %d out", s.InputLen, s.OutputLen)
	if s.Mix != "" {
		text += " (mixed with " + s.Mix + ")"
	}
	return text
}

// Title is its name with its lengths.
func (s Scenario) Title() string { return s.Name + ": " + s.lengths() }

// Cell is one row with its names.
type Cell struct {
	Framework string      `json:"framework"`
	Candidate string      `json:"candidate"`
	Digest    key.Digest  `json:"digest"` // of the row
	Row       *result.Row `json:"row"`
	// Cached is the age of a row that was not measured by this apply; nil if it
	// was. It changes from one look to the next and is in no file.
	Cached *time.Duration `json:"-"`
	// Repeats is how many of them Row shows the medians of (Scenario.Decided); nil
	// is one run, as in every cell of a View.
	Repeats   *int      `json:"-"`
	Artifacts Artifacts `json:"artifacts"`
}

// Artifacts are files of a cell, relative to the run directory; "" if there is
// none.
type Artifacts struct {
	ServerLog string `json:"server_log,omitempty"`
	RawResult string `json:"raw_result,omitempty"`
	Help      string `json:"server_help,omitempty"`
	BenchHelp string `json:"benchmark_help,omitempty"`
}

// number is a metric of an ok row in its own unit.
func (c Cell) number(id string) (float64, bool) {
	if c.Row.Status != result.OK {
		return 0, false
	}
	return c.Row.Metric(id)
}

// AcceptLength is an ok row's tokens per step of speculation; nil if it is not
// known.
func (c Cell) AcceptLength() *float64 {
	if c.Row.Status != result.OK {
		return nil
	}
	return c.Row.Facts.SpecAccept
}

// CacheHit is an ok row's cached share of the input tokens; nil if it is not
// known.
func (c Cell) CacheHit() *float64 {
	if c.Row.Status != result.OK {
		return nil
	}
	return c.Row.Facts.CacheHitShare
}

// IsSmoke reports whether a row is of a flow check (R070).
func (v View) IsSmoke(c Cell) bool { return v.Smoke || c.Row.Workload.Smoke }

// status is the row's word, marked if it is of a flow check; a rejected run is
// told from a failed one.
func (v View) status(c Cell) string {
	s := string(c.Row.Status)
	if class, ok := result.Lookup(c.Row.Class); ok && class.Reject {
		s = "rejected"
	}
	if v.IsSmoke(c) {
		s += " (flow check)"
	}
	return s
}

// lanes are the names of the scenarios' lanes, each once; "" is the main one.
func (v View) lanes() []string {
	var out []string
	for _, s := range v.Scenarios {
		if !slices.Contains(out, s.Lane) {
			out = append(out, s.Lane)
		}
	}
	return out
}

func (v View) target() string {
	for _, s := range v.Sides {
		if s.Target {
			return s.Name
		}
	}
	return ""
}

// with returns the cells of a row: several if frameworks share a measurement.
func (s Scenario) with(d key.Digest) []Cell {
	var out []Cell
	for _, c := range s.Cells {
		if c.Digest == d {
			out = append(out, c)
		}
	}
	return out
}

// of selects among the rows of one framework.
func (s Scenario) of(framework string, sla winners.SLA) winners.Selection {
	var rows []winners.Input
	for _, c := range s.Cells {
		if c.Framework == framework {
			rows = append(rows, winners.Input{Digest: c.Digest, Row: *c.Row})
		}
	}
	return winners.Select(rows, sla)
}

// Rank is the row's place in its cell; 0 is none.
func (s Scenario) Rank(d key.Digest) int {
	for _, c := range s.Ranking.Cells {
		for _, p := range c.Places {
			if p.Row == d {
				return p.Rank
			}
		}
	}
	return 0
}

// Ordered returns the cells by concurrency and within that best first, where
// repeats have settled ranks those with a rank first.
func (s Scenario) Ordered(sla winners.SLA) []Cell {
	var rows []winners.Input
	for _, c := range s.Cells {
		rows = append(rows, winners.Input{Digest: c.Digest, Row: *c.Row})
	}
	var out []Cell
	for _, cell := range winners.Select(rows, sla).Cells {
		if slices.ContainsFunc(cell.Rows, func(j winners.Judged) bool { return s.side(j.Row) != nil }) {
			slices.SortStableFunc(cell.Rows, func(a, b winners.Judged) int { return s.byRank(a.Row, b.Row) })
		}
		for _, j := range cell.Rows {
			out = append(out, s.with(j.Row)...)
		}
	}
	return out
}

// Concurrency names a cell of a scenario.
func Concurrency(w result.Workload) string {
	s := "unlimited"
	if w.Concurrency != nil {
		s = strconv.Itoa(*w.Concurrency)
	}
	if w.Rate != nil {
		s += " at " + strconv.FormatFloat(*w.Rate, 'g', -1, 64) + "/s"
	}
	return s
}

// selected are the sides that are run, the target first.
func (v View) selected() []Side {
	return slices.DeleteFunc(slices.Clone(v.Sides), func(s Side) bool { return s.State != Selected })
}
