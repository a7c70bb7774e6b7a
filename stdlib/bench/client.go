package bench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"net/http/httptrace"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sotabuild/sotabuild/executors"
	"github.com/sotabuild/sotabuild/stdlib/bench/wire"
	"github.com/sotabuild/sotabuild/stdlib/result"
)

// client sends requests to one endpoint. It is safe for many goroutines.
type client struct {
	spec      Spec
	header    http.Header
	hide      []string // values that must not be written down
	serves    []string
	transport *http.Transport
	start     time.Time    // of the run; all offsets count from here
	resent    atomic.Int64 // requests that a closed connection made us send twice
}

// newClient makes a client with connections of its own: HTTP/1.1, no proxy, no
// compression. A connection is used again unless the server closes it; one
// that it closed although it had announced to keep it (llama.cpp after each
// stream, all servers after some idle seconds) costs a second try on a new
// one, which is counted and reported.
func newClient(s Spec, h Host) (*client, error) {
	header, hide, err := headers(s.Headers, h)
	if err != nil {
		return nil, err
	}
	var protocols http.Protocols
	protocols.SetHTTP1(true)
	c := &client{spec: s, header: header, hide: hide, transport: &http.Transport{
		DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
			ctx, cancel := context.WithTimeout(ctx, s.Rules.Connect)
			defer cancel()
			return h.Dial(ctx, network, addr)
		},
		TLSHandshakeTimeout: s.Rules.Connect,
		DisableCompression:  true,
		MaxIdleConnsPerHost: 1 << 20,
		IdleConnTimeout:     2 * time.Second, // below the 5 s after which servers close
		Protocols:           &protocols,
		WriteBufferSize:     64 << 10,
		ReadBufferSize:      16 << 10,
	}}
	return c, nil
}

func (c *client) request(ctx context.Context, method, path string, body []byte) (*http.Request, error) {
	sends := 0
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) {
		if sends++; sends == 2 {
			c.resent.Add(1)
		}
	}})
	req, err := http.NewRequestWithContext(ctx, method, c.spec.URL+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header = c.header.Clone()
	// A key without value is not sent; it tells the transport that it may try
	// again when a kept connection turns out to be closed before any answer.
	req.Header["X-Idempotency-Key"] = nil
	return req, nil
}

// ask is one request to send.
type ask struct {
	id     int
	body   []byte
	input  int // tokens sent; 0 where only the server can count (text)
	output int // tokens asked for
}

// sample is one request with its times from the start of the run; -1 is "never".
type sample struct {
	ask       *ask
	due       time.Duration // schedule, or the slot that it waited for; -1 without either
	scheduled time.Duration // -1 without a schedule
	sent      time.Duration
	end       time.Duration // last read that brought bytes
	closed    time.Duration // the client was done with it
	answer    wire.Answer
	failure   wire.Failure
}

// patience ends a request when what it waits for does not happen in time.
func patience(limit time.Duration, what string, cancel context.CancelCauseFunc) *time.Timer {
	return time.AfterFunc(limit, func() { cancel(stalled(fmt.Sprintf("%s within %v", what, limit))) })
}

// stalled is the cause of a request that was given up.
type stalled string

func (s stalled) Error() string { return string(s) }

// do sends one request and reads its answer to the end. The clock starts before
// a connection is sought: who accepts slowly makes its users wait.
func (c *client) do(ctx context.Context, s sample) sample {
	s.answer = wire.NewAnswer(c.spec.API, c.serves, s.ask.output+1)
	s.end = -1
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	req, err := c.request(ctx, http.MethodPost, c.spec.Path, s.ask.body)
	if err != nil {
		s.failure = wire.Fail(executors.ClassClientFailed, "%v", err)
		return s
	}
	req.Header.Set("Accept", "text/event-stream")
	first := patience(c.spec.Rules.First, "no token", cancel)
	defer first.Stop()
	s.sent = time.Since(c.start)
	if resp, err := c.transport.RoundTrip(req); err != nil {
		s.answer.Lose(gone(ctx, result.ConnFailed, "no answer", err))
	} else {
		c.receive(ctx, resp, &s, first, cancel)
	}
	s.closed = time.Since(c.start)
	s.failure = s.answer.Verdict(s.ask.input, s.ask.output, c.spec.Rules.IgnoreEOS)
	s.failure.Reason = c.clean(s.failure.Reason)
	return s
}

func (c *client) receive(ctx context.Context, resp *http.Response, s *sample, first *time.Timer, cancel context.CancelCauseFunc) {
	defer resp.Body.Close()
	kind := resp.Header.Get("Content-Type")
	media, _, err := mime.ParseMediaType(kind)
	switch {
	case resp.StatusCode != http.StatusOK:
		s.answer.Lose(wire.Fail(result.HTTPStatus, "HTTP %s: %s", resp.Status, wire.Excerpt(head(resp.Body))))
	case err != nil || media != "text/event-stream":
		s.answer.Lose(wire.Fail(result.BadStream, "content type %q is no event stream: %s", kind, wire.Excerpt(head(resp.Body))))
	default:
		c.read(ctx, resp.Body, s, first, cancel)
	}
}

var buffers = sync.Pool{New: func() any { return new([16 << 10]byte) }}

// read reads the stream to its end. The stamp is taken right after the read.
// Comments and other bytes without an event do not make patience longer.
func (c *client) read(ctx context.Context, body io.Reader, s *sample, first *time.Timer, cancel context.CancelCauseFunc) {
	buf := buffers.Get().(*[16 << 10]byte)
	defer buffers.Put(buf)
	var later *time.Timer
	for {
		n, err := body.Read(buf[:])
		at := time.Since(c.start)
		events, ok := 0, true
		if n > 0 {
			s.end = at
			events, ok = s.answer.Feed(at, buf[:n])
		}
		switch {
		case !ok:
			return
		case errors.Is(err, io.EOF):
			s.answer.End()
			return
		case err != nil:
			s.answer.Lose(gone(ctx, result.Truncated, fmt.Sprintf("the connection ended after %d token events", len(s.answer.Marks)), err))
			return
		case events == 0 || len(s.answer.Marks) == 0:
		case later == nil:
			first.Stop()
			later = patience(c.spec.Rules.Stall, "no further event", cancel)
			defer later.Stop()
		default:
			later.Reset(c.spec.Rules.Stall)
		}
	}
}

// gone classifies an error of the transport: our own patience, the end of the
// cell, or else what it is called.
func gone(ctx context.Context, class result.Class, what string, err error) wire.Failure {
	if f := ended(ctx); f.Class != "" {
		return f
	}
	return wire.Fail(class, "%s: %v", what, err)
}

// ended says why ctx has ended; the zero failure while it has not.
func ended(ctx context.Context) wire.Failure {
	cause := context.Cause(ctx)
	var s stalled
	switch {
	case cause == nil:
		return wire.Failure{}
	case errors.As(cause, &s):
		return wire.Fail(result.Stalled, "%v", s)
	case errors.Is(cause, errTotal):
		return wire.Fail(executors.ClassTimeout, "%v", errTotal)
	}
	return wire.Fail(executors.ClassInterrupted, "the run was stopped before it was done")
}

// head reads the start of a body that is no stream. What cannot be read is not
// missed: it only illustrates a failure that is already certain.
func head(body io.Reader) []byte {
	b, _ := io.ReadAll(io.LimitReader(body, 4096))
	return b
}

// models reads the model list; the failure is the cell's.
func (c *client) models(ctx context.Context) ([]string, wire.Failure) {
	ctx, cancel := context.WithTimeoutCause(ctx, c.spec.Rules.Connect+c.spec.Rules.Stall, stalled("no model list in time"))
	defer cancel()
	what := "model list " + c.spec.Models
	req, err := c.request(ctx, http.MethodGet, c.spec.Models, nil)
	if err != nil {
		return nil, wire.Fail(executors.ClassClientFailed, "%v", err)
	}
	resp, err := c.transport.RoundTrip(req)
	if err != nil {
		return nil, gone(ctx, result.ConnFailed, what+": no answer", err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, 16<<20))
	if err != nil {
		return nil, gone(ctx, result.ConnFailed, what+": the connection ended", err)
	}
	if resp.StatusCode != http.StatusOK {
		return nil, wire.Fail(result.HTTPStatus, "%s: HTTP %s: %s", what, resp.Status, c.clean(wire.Excerpt(body)))
	}
	ids, err := wire.Models(body)
	if err != nil {
		return nil, wire.Fail(result.WrongModel, "%s: %v: %s", what, err, c.clean(wire.Excerpt(body)))
	}
	if !slices.Contains(ids, c.spec.Model) {
		return nil, wire.Fail(result.WrongModel, "%s has %q, not %q", what, ids, c.spec.Model)
	}
	return ids, wire.Failure{}
}
