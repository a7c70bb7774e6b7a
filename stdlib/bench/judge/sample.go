package judge

import (
	"time"

	"github.com/sotabuild/sotabuild/stdlib/bench/wire"
	"github.com/sotabuild/sotabuild/stdlib/dataset"
	"github.com/sotabuild/sotabuild/stdlib/result"
)

// Ask is one request to send.
type Ask struct {
	ID      int
	Body    []byte
	Input   int           // tokens sent; 0 where only the server can count (text)
	Output  int           // tokens asked for
	Cancel  time.Duration // after it the client leaves; 0 never
	Adapter string        // the model asked for, if it is not the cell's
	Turn    dataset.Turn  // of a session; zero outside of one
}

// Sample is one request with its times from the start of the run; -1 is "never".
type Sample struct {
	End       time.Duration // last read that brought bytes
	Answer    wire.Answer
	Ask       *Ask
	Due       time.Duration // schedule, or the slot that it waited for; -1 without either
	Scheduled time.Duration // -1 without a schedule
	Sent      time.Duration
	Closed    time.Duration // the client was done with it
	Cancelled bool          // the client left as planned: neither success nor failure
	CutOff    bool          // the run ended first, as Failure says: neither as well
	Failure   wire.Failure
}

// good says whether the request counts in latencies and throughputs.
func (s Sample) good() bool { return s.Failure.Class == "" && !s.Cancelled }

// Cell is what a cell's verdict and numbers are made of.
type Cell struct {
	Rules   Rules
	Asked   int // requests that should be sent
	Samples []Sample
	Busy    *float64 // CPU share of the client's own cores; nil: not observed
	Resent  int64    // requests that a closed connection made the client send twice
	Ended   wire.Failure
}

// Request is one line of requests.jsonl. Times are seconds from the start of
// the measured part; what never happened is absent.
type Request struct {
	ID        int          `json:"id"` // the prompt's
	Scheduled *float64     `json:"scheduled,omitempty"`
	Sent      float64      `json:"sent"`
	First     *float64     `json:"first,omitempty"` // first event with a token
	Last      *float64     `json:"last,omitempty"`  // last event with a token
	End       *float64     `json:"end,omitempty"`   // last byte
	Events    int          `json:"token_events"`
	Tokens                 // as the server counted
	Class     result.Class `json:"class,omitempty"`
	Reason    string       `json:"reason,omitempty"`
	Group
	Cancelled bool `json:"cancelled,omitempty"`
	CutOff    bool `json:"cut_off,omitempty"` // by the end of the run, whose class it has
}

// Failed reports whether the request counts as a failure.
func (r Request) Failed() bool { return r.Class != "" && !r.CutOff }

// Tokens are one request's counts; nil is "the server did not say".
type Tokens struct {
	Input  *int64 `json:"input_tokens,omitempty"`
	Output *int64 `json:"output_tokens,omitempty"`
	Cached *int64 `json:"cached_tokens,omitempty"`
}

// Group is what a request belongs to inside its cell.
type Group struct {
	Adapter string `json:"adapter,omitempty"`
	Session int    `json:"session,omitempty"` // from 1
	Turn    int    `json:"turn,omitempty"`    // from 1
}

// Requests are the lines of requests.jsonl, in the order of the dataset.
func (m Cell) Requests() []Request {
	out := make([]Request, 0, len(m.Samples))
	for _, s := range m.Samples {
		marks, u := s.Answer.Marks, s.Answer.Usage
		r := Request{ID: s.Ask.ID, Scheduled: seconds(s.Scheduled), Sent: s.Sent.Seconds(), End: seconds(s.End),
			Events: len(marks), Tokens: Tokens{counted(u.Input), counted(u.Output), counted(u.Cached)},
			Class: s.Failure.Class, Reason: s.Failure.Reason, Cancelled: s.Cancelled, CutOff: s.CutOff,
			Group: Group{s.Ask.Adapter, s.Ask.Turn.Session, s.Ask.Turn.Number}}
		if n := len(marks); n > 0 {
			r.First, r.Last = seconds(marks[0]), seconds(marks[n-1])
		}
		out = append(out, r)
	}
	return out
}

func seconds(d time.Duration) *float64 {
	if d < 0 {
		return nil
	}
	v := d.Seconds()
	return &v
}

func counted(n int64) *int64 {
	if n < 0 {
		return nil
	}
	return &n
}
