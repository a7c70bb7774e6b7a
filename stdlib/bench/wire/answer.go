package wire

import (
	"fmt"
	"strings"
	"time"

	"github.com/sotabuild/sotabuild/stdlib/result"
)

// Failure is a class with its reason; the zero value is none.
type Failure struct {
	Class  result.Class
	Reason string
}

// Answer is what came back for one request, as far as the verdict needs it.
// What an event needs stands first: with thousands of answers under way each
// cache line of it comes from far.
type Answer struct {
	Marks  []time.Duration // reads of the events with tokens, in order
	frames framer
	done   bool // the API's last event came
	closed bool // the body ended as HTTP promises
	finish string
	API    API
	Serves []string // models that an event may name; nil: not checked
	Usage  Counts   // the last ones said
	before int64    // SGLang: the count of the event before
	made   []int64  // output tokens that the server had counted at each mark, -1 not said; nil: at none

	lost   Failure // it did not reach us whole: connection, status, stall
	failed Failure // the server's own error
	bad    Failure // the first thing that the API does not promise
}

// NewAnswer returns an answer to read, with room for so many events.
func NewAnswer(api API, serves []string, events int) Answer {
	return Answer{API: api, Serves: serves, Usage: uncounted, Marks: make([]time.Duration, 0, events)}
}

// Feed takes the bytes of one read at time at, and returns how many events
// they completed. After false the stream is lost and reading on is useless.
func (a *Answer) Feed(at time.Duration, b []byte) (events int, ok bool) {
	err := a.frames.feed(b, func(name, data []byte) {
		events++
		a.take(at, name, data)
	})
	if err != nil {
		a.Lose(Fail(result.BadStream, "%v", err))
	}
	return events, err == nil
}

// TokenGaps are the gaps between tokens in seconds: the gap before an event is
// spread over the tokens that it brought. Not ok where that is not known: the
// server counted neither at each event nor as many tokens as events.
func (a *Answer) TokenGaps() (gaps []float64, ok bool) {
	single := a.Usage.Output == int64(len(a.Marks))
	for i := 1; i < len(a.Marks); i++ {
		n := int64(1)
		if !single {
			if a.made == nil || a.made[i] < 0 || a.made[i-1] < 0 {
				return nil, false
			}
			n = a.made[i] - a.made[i-1]
		}
		for range n {
			gaps = append(gaps, (a.Marks[i]-a.Marks[i-1]).Seconds()/float64(n))
		}
	}
	return gaps, true
}

// Whole takes a body that came at once instead of a stream, at time at.
func (a *Answer) Whole(at time.Duration, body []byte) {
	a.take(at, nil, body)
	a.done, a.closed = true, true
}

// End says that the body ended as HTTP promises.
func (a *Answer) End() {
	if a.closed = !a.frames.open(); !a.closed {
		a.Lose(Fail(result.Truncated, "the stream ended inside an event"))
	}
}

// Lose says why the answer did not come whole. The first reason counts.
func (a *Answer) Lose(why Failure) {
	if a.lost.Class == "" {
		a.lost = why
	}
}

// flaw keeps the first flaw: later ones follow from it.
func (a *Answer) flaw(class result.Class, format string, args ...any) {
	if a.bad.Class == "" {
		a.bad = Fail(class, format, args...)
	}
}

// Fail makes a Failure.
func Fail(class result.Class, format string, args ...any) Failure {
	return Failure{class, fmt.Sprintf(format, args...)}
}

// take takes one event.
func (a *Answer) take(at time.Duration, name, data []byte) {
	if len(data) == 0 {
		return // a keep-alive without content
	}
	if string(data) == "[DONE]" && a.API != LlamaCpp {
		if a.done {
			a.flaw(result.BadStream, "[DONE] came twice")
		}
		a.done = true
		return
	}
	e, err := a.API.decode(data)
	switch {
	case e.failed || string(name) == "error":
		if a.failed.Class == "" {
			a.failed = Fail(result.StreamError, "error event: %s", Excerpt(e.detail, data))
		}
		return
	case err != nil:
		a.flaw(result.BadStream, "an event that is no %s answer (%v): %s", a.API, err, Excerpt(data))
		return
	case a.done:
		a.flaw(result.BadStream, "an event after the last one: %s", Excerpt(data))
	case e.choice > 0:
		a.flaw(result.BadStream, "choice %d of a request for one answer", e.choice)
	case e.token && a.finish != "" && a.API != SGLang:
		a.flaw(result.BadStream, "a token after the finish reason %q", a.finish)
	case e.usage.Output >= 0 && e.usage.Output < a.Usage.Output:
		a.flaw(result.CountMismatch, "the count of output tokens fell from %d to %d", a.Usage.Output, e.usage.Output)
	case len(e.model) > 0 && a.Serves != nil && !contains(a.Serves, e.model):
		a.flaw(result.WrongModel, "the answer comes from model %q", e.model)
	}
	a.Usage.add(e.usage)
	if a.API == SGLang && e.token {
		// Its events carry the whole text so far: only a higher count is a token.
		e.token = e.usage.Output != a.before
		a.before = e.usage.Output
	}
	if e.token {
		a.mark(at, e.usage.Output)
	}
	if len(e.finish) > 0 {
		a.finish = string(e.finish)
	}
	a.done = a.done || e.last
}

// mark notes an event with tokens. Most servers count at none of them.
func (a *Answer) mark(at time.Duration, made int64) {
	if a.made == nil && made >= 0 {
		a.made = make([]int64, len(a.Marks), max(len(a.Marks)+1, cap(a.Marks)))
		for i := range a.made {
			a.made[i] = -1
		}
	}
	if a.made != nil {
		a.made = append(a.made, made)
	}
	a.Marks = append(a.Marks, at)
}

// add takes over what a later event says.
func (c *Counts) add(later Counts) {
	if later.Input >= 0 {
		c.Input = later.Input
	}
	if later.Output >= 0 {
		c.Output = later.Output
	}
	if later.Cached >= 0 {
		c.Cached = later.Cached
	}
}

func contains(list []string, b []byte) bool {
	for _, s := range list {
		if s == string(b) {
			return true
		}
	}
	return false
}

// Verdict judges the whole answer to a request of input tokens (0 where only
// the server can count them: text) for output tokens, exactly so many with
// ignoreEOS. The zero Failure is a success. What the server said of itself
// comes first, then whether the answer is whole, then whether it is what was
// asked for.
func (a *Answer) Verdict(input, output int, ignoreEOS bool) Failure {
	n, u := int64(len(a.Marks)), a.Usage
	switch {
	case a.failed.Class != "":
		return a.failed
	case a.finish == "abort":
		return Fail(result.Truncated, "the server aborted the request: finish reason \"abort\" after %d token events", n)
	case a.bad.Class == result.BadStream && a.lost.Class == "":
		return a.bad
	case a.lost.Class != "":
		return a.lost
	case !a.closed:
		return Fail(result.Truncated, "the connection ended inside the answer after %d token events", n)
	case a.finish == "":
		return Fail(result.Truncated, "no finish reason after %d token events", n)
	case !a.done:
		return Fail(result.Truncated, "no last event ([DONE] or stop) after %d token events", n)
	case !a.known():
		return Fail(result.BadStream, "finish reason %q is none of the API's", a.finish)
	case a.bad.Class != "":
		return a.bad
	case n == 0:
		return Fail(result.NoTokens, "the answer has no token")
	case u.Output < 0:
		return Fail(result.CountMismatch, "the server did not count its output tokens (no usage)")
	case u.Output < n:
		return Fail(result.CountMismatch, "usage counts %d output tokens, but %d events carried one", u.Output, n)
	case u.Input < 0:
		return Fail(result.CountMismatch, "the server did not count the prompt's tokens")
	case input > 0 && u.Input != int64(input):
		return Fail(result.PromptMismatch, "the server counted %d prompt tokens, %d were sent", u.Input, input)
	case u.Cached > u.Input:
		return Fail(result.CountMismatch, "usage counts %d cached of %d prompt tokens", u.Cached, u.Input)
	case u.Output > int64(output):
		return Fail(result.LongOutput, "%d output tokens, %d were asked for", u.Output, output)
	case u.Output < int64(output) && (ignoreEOS || a.finish == "length"):
		return Fail(result.ShortOutput, "%d output tokens with finish reason %q, %d were asked for", u.Output, a.finish, output)
	}
	return Failure{}
}

// known says whether the finish reason is one of a complete answer.
func (a *Answer) known() bool {
	switch a.finish {
	case "stop", "length":
		return true
	case "tool_calls", "function_call":
		return a.API == Chat
	}
	return false
}

// Excerpt returns the start of the first text that is not empty, on one line,
// to quote in a reason.
func Excerpt(texts ...[]byte) string {
	for _, b := range texts {
		if s := strings.Join(strings.Fields(string(b[:min(len(b), 4096)])), " "); s != "" {
			return strings.ToValidUTF8(s[:min(len(s), 300)], "")
		}
	}
	return "(nothing)"
}
