package report

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/sotabuild/sotabuild/engine/key"
	"github.com/sotabuild/sotabuild/stdlib/report/markdown"
	"github.com/sotabuild/sotabuild/stdlib/result"
)

// Rate is the search for the highest request rate at which the best candidate
// of a framework keeps the SLA.
type Rate struct {
	Framework string      `json:"framework"`
	Scenario  string      `json:"scenario"`
	Candidate string      `json:"candidate,omitempty"` // "" while there is none
	Best      float64     `json:"best"`                // requests/s; 0 if no rate kept it
	Broke     *float64    `json:"broke"`               // the lowest rate that broke it; nil if none did
	Over      bool        `json:"over"`
	Why       string      `json:"why,omitempty"` // why it is over, or not begun
	Rounds    []RateRound `json:"rounds"`
}

// RateRound is one measured rate.
type RateRound struct {
	Address string     `json:"address"`
	Rate    float64    `json:"rate"` // requests/s, as asked
	Kept    bool       `json:"kept"`
	Why     string     `json:"why,omitempty"` // what broke
	Digest  key.Digest `json:"digest"`        // of the row
	Row     result.Row `json:"row"`
}

// rates shows what the rate searches found, each with its rounds.
func (v View) rates(b *strings.Builder) {
	if len(v.Rates) == 0 {
		return
	}
	b.WriteString("## Highest request rates within the SLA\n\n")
	t := markdown.Table{First: 3, Right: 2, Head: []string{"Framework", "Scenario", "Candidate", "Kept up to (req/s)", "Broke at (req/s)", "Rounds", "Why it ended"}}
	rounds := markdown.Table{First: 1, Right: 3, Head: []string{"Round", "Asked (req/s)", heading("ttft/send:p50"), heading("tpot/excl-first:p50"), "SLA", "Row"}}
	for _, r := range v.Rates {
		best, broke := missing, missing
		if r.Best > 0 {
			best = rateNumber(r.Best)
		} else if r.Over {
			best = "none"
		}
		if r.Broke != nil {
			broke = rateNumber(*r.Broke)
		}
		why := r.Why
		if len(r.Rounds) > 0 && !r.Over {
			why = "not over: the next round has no verdict yet"
		}
		t.Rows = append(t.Rows, []string{markdown.Code(r.Framework), markdown.Code(r.Scenario), markdown.Code(r.Candidate), best, broke, strconv.Itoa(len(r.Rounds)), markdown.Text(why)})
		for _, x := range r.Rounds {
			c, sla := Cell{Row: &x.Row}, "kept"
			if !x.Kept {
				sla = "broken: " + x.Why
			}
			rounds.Rows = append(rounds.Rows, []string{markdown.Code(x.Address), rateNumber(x.Rate), c.paper("ttft/send:p50"), c.paper("tpot/excl-first:p50"), markdown.Text(sla), "`" + x.Digest.Short() + "`"})
		}
	}
	t.Write(b)
	if rounds.Rows != nil {
		rounds.Write(b)
	}
	b.WriteString("Each round is a server life of its own with requests of a Poisson process and no bound of concurrency. The highest rate lies between the two columns.\n\n")
}

func rateNumber(v float64) string { return strconv.FormatFloat(v, 'g', 4, 64) }

// RateRows is one line a round of the rate searches, as JSON; nil without any.
// Metrics of rows that are not ok are left out.
func (v View) RateRows() ([]byte, error) {
	var b bytes.Buffer
	for _, r := range v.Rates {
		for _, x := range r.Rounds {
			line, err := json.Marshal(struct {
				Framework string `json:"framework"`
				Scenario  string `json:"scenario"`
				Candidate string `json:"candidate"`
				RateRound
			}{r.Framework, r.Scenario, r.Candidate, x.quiet()})
			if err != nil {
				return nil, fmt.Errorf("writing the row of %s: %w", x.Address, err)
			}
			b.Write(append(line, '\n'))
		}
	}
	return b.Bytes(), nil
}

// quiet is the round without the numbers of a row that is not ok (R076).
func (x RateRound) quiet() RateRound {
	if x.Row.Status != result.OK {
		x.Row.Metrics, x.Row.Parts = nil, nil
	}
	return x
}

// Quiet is the search without the numbers of rows that are not ok.
func (r Rate) Quiet() Rate {
	var rounds []RateRound
	for _, x := range r.Rounds {
		rounds = append(rounds, x.quiet())
	}
	r.Rounds = rounds
	return r
}
