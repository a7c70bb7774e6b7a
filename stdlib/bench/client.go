package bench

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sotabuild/sotabuild/executors"
	"github.com/sotabuild/sotabuild/stdlib/bench/http1"
	"github.com/sotabuild/sotabuild/stdlib/bench/wire"
	"github.com/sotabuild/sotabuild/stdlib/result"
)

// client sends requests to one endpoint. It is safe for many goroutines.
type client struct {
	spec      Spec
	header    http.Header
	hide      []string // values that must not be written down
	serves    []string
	streams   *http1.Client // for the requests over HTTP/1.1; nil: transport
	head      []byte        // of each such request, up to the length of its body
	transport *http.Transport
	start     time.Time    // of the run; all offsets count from here
	url       string       // the spec's as net/http knows it
	resent    atomic.Int64 // requests that a closed connection made us send twice
}

// newClient makes a client with connections of its own: no proxy, no
// compression, and the one protocol that the URL's scheme names. A connection
// is used again unless the server closes it; one that it closed although it had
// announced to keep it (llama.cpp after each stream, all servers after some
// idle seconds) costs a second try on a new one, which is counted and reported.
func newClient(s Spec, h Host) (*client, error) {
	header, hide, err := headers(s.Headers, h)
	if err != nil {
		return nil, err
	}
	u, err := url.Parse(s.URL)
	if err != nil {
		return nil, err
	}
	way := ways[u.Scheme]
	c := &client{spec: s, header: header, hide: hide, url: way.scheme + "://" + u.Host + u.Path}
	dial := h.Dial
	if u.Scheme == "unix" {
		c.url = "http://localhost"
		dial = func(ctx context.Context, _, _ string) (net.Conn, error) { return h.Dial(ctx, "unix", u.Path) }
	}
	var protocols http.Protocols
	way.protocol(&protocols)
	c.transport = &http.Transport{
		DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
			ctx, cancel := context.WithTimeout(ctx, s.Rules.Connect)
			defer cancel()
			return dial(ctx, network, addr)
		},
		TLSClientConfig:     &tls.Config{RootCAs: h.Roots, MinVersion: tls.VersionTLS12, VerifyConnection: way.agreed},
		TLSHandshakeTimeout: s.Rules.Connect,
		DisableCompression:  true,
		MaxIdleConnsPerHost: 1 << 20,
		IdleConnTimeout:     2 * time.Second, // below the 5 s after which servers close
		Protocols:           &protocols,
		WriteBufferSize:     64 << 10,
		ReadBufferSize:      16 << 10,
	}
	if !protocols.HTTP1() {
		return c, nil
	}
	if c.head, err = c.requestHead(); err != nil {
		return nil, err
	}
	c.streams = http1.New(c.connect, (runtime.GOMAXPROCS(0)+1)/2, c.transport.IdleConnTimeout)
	return c, nil
}

func (c *client) close() error {
	c.transport.CloseIdleConnections()
	if c.streams == nil {
		return nil
	}
	return c.streams.Close()
}

// requestHead is the head of a POST without the length of its body.
func (c *client) requestHead() ([]byte, error) {
	u, err := url.Parse(c.url + c.spec.Path)
	if err != nil {
		return nil, err
	}
	h := c.header.Clone()
	for _, own := range []string{"Host", "Content-Length", "Transfer-Encoding", "Connection"} {
		h.Del(own)
	}
	if !c.spec.Rules.NoStream {
		h.Set("Accept", eventStream)
	}
	for name, values := range h {
		if strings.ContainsFunc(name, func(r rune) bool { return r <= ' ' || r > '~' || r == ':' }) || strings.ContainsAny(strings.Join(values, ""), "\r\n\x00") {
			return nil, fmt.Errorf("header %q is no name, or has a value of several lines", name)
		}
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, "POST %s HTTP/1.1\r\nHost: %s\r\n", u.RequestURI(), u.Host)
	if err := h.Write(&b); err != nil {
		return nil, err
	}
	b.WriteString("Content-Length: ")
	return b.Bytes(), nil
}

// connect makes a connection for HTTP/1.1 as transport would.
func (c *client) connect(ctx context.Context) (net.Conn, error) {
	u, err := url.Parse(c.url)
	if err != nil {
		return nil, err
	}
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	conn, err := c.transport.DialContext(ctx, "tcp", net.JoinHostPort(u.Hostname(), port))
	if err != nil || u.Scheme != "https" {
		return conn, err
	}
	own := c.transport.TLSClientConfig.Clone()
	own.ServerName, own.NextProtos = u.Hostname(), []string{"http/1.1"}
	ctx, cancel := context.WithTimeout(ctx, c.spec.Rules.Connect)
	defer cancel()
	secure := tls.Client(conn, own)
	if err := secure.HandshakeContext(ctx); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return secure, nil
}

// way is what a URL's scheme means.
type way struct {
	scheme   string // net/http's
	protocol func(*http.Protocols)
	agreed   func(tls.ConnectionState) error // refuses another protocol; nil takes any
}

func overHTTP1(p *http.Protocols) { p.SetHTTP1(true) }

// ways are the schemes of Spec.URL.
var ways = map[string]way{
	"http":  {scheme: "http", protocol: overHTTP1},
	"https": {scheme: "https", protocol: overHTTP1},
	"unix":  {scheme: "http", protocol: overHTTP1},
	"h2":    {scheme: "https", protocol: func(p *http.Protocols) { p.SetHTTP2(true) }, agreed: agreedHTTP2},
	"h2c":   {scheme: "http", protocol: func(p *http.Protocols) { p.SetUnencryptedHTTP2(true) }},
}

// agreedHTTP2 refuses a server that does not choose HTTP/2: net/http would speak
// HTTP/1.1 to it.
func agreedHTTP2(s tls.ConnectionState) error {
	if s.NegotiatedProtocol != "h2" {
		return errors.New("the server does not speak HTTP/2 over TLS; write https:// for HTTP/1.1")
	}
	return nil
}

func (c *client) request(ctx context.Context, method, path string, body []byte) (*http.Request, error) {
	sends := 0
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) {
		if sends++; sends == 2 {
			c.resent.Add(1)
		}
	}})
	req, err := http.NewRequestWithContext(ctx, method, c.url+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header = c.header.Clone()
	// A key without value is not sent; it tells the transport that it may try
	// again when a kept connection turns out to be closed before any answer.
	req.Header["X-Idempotency-Key"] = nil
	return req, nil
}

// patience ends a request when what it waits for does not happen in time.
func patience(limit time.Duration, what string, cancel context.CancelCauseFunc) *time.Timer {
	return time.AfterFunc(limit, func() { cancel(stalled(fmt.Sprintf("%s within %v", what, limit))) })
}

// stalled is the cause of a request that was given up.
type stalled string

func (s stalled) Error() string { return string(s) }

// do sends the request of r's sample and reads its answer to the end, or to that
// of the run, which cuts it off. The clock starts before a connection is sought:
// who accepts slowly makes its users wait.
func (c *client) do(run context.Context, r *reading) {
	ctx, cancel := context.WithCancelCause(run)
	defer cancel(nil)
	r.ctx, r.cancel = ctx, cancel
	s := &r.s
	s.Answer = wire.NewAnswer(c.spec.API, c.serves, s.Ask.Output+1)
	s.End = -1
	r.first = patience(c.spec.Rules.First, "no token", cancel)
	defer r.first.Stop()
	if s.Ask.Cancel > 0 {
		leave := time.AfterFunc(s.Ask.Cancel, func() { cancel(errLeft) })
		defer leave.Stop()
	}
	s.Sent = time.Since(c.start)
	r.close(c.ask(ctx, s.Ask.Body, r))
	s.Closed = time.Since(c.start)
	if s.Cancelled = errors.Is(context.Cause(ctx), errLeft); s.Cancelled {
		return
	}
	s.Failure = s.Answer.Verdict(s.Ask.Input, s.Ask.Output, c.spec.Rules.IgnoreEOS)
	s.CutOff = s.Failure.Class != "" && s.Failure == ended(run)
	s.Failure.Reason = c.clean(s.Failure.Reason)
}

// ask sends one request by whatever carries the URL's scheme, and has its answer
// received.
func (c *client) ask(ctx context.Context, body []byte, r *reading) error {
	if c.streams != nil {
		sent, err := c.streams.Do(ctx, slices.Concat(c.head, []byte(strconv.Itoa(len(body))), []byte("\r\n\r\n"), body), r)
		if sent > 1 {
			c.resent.Add(1)
		}
		return err
	}
	req, err := c.request(ctx, http.MethodPost, c.spec.Path, body)
	if err != nil {
		return err
	}
	if !c.spec.Rules.NoStream {
		req.Header.Set("Accept", eventStream)
	}
	resp, err := c.transport.RoundTrip(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	r.Head(resp)
	return r.drain(resp.Body)
}

var buffers = sync.Pool{New: func() any { return new([16 << 10]byte) }}

const eventStream = "text/event-stream"

// errLeft is the cause of a request that the dataset says to cancel.
var errLeft = errors.New("the client left, as the dataset asks")

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
	var e early
	switch {
	case cause == nil:
		return wire.Failure{}
	case errors.As(cause, &s):
		return wire.Fail(result.Stalled, "%v", s)
	case errors.As(cause, &e):
		return e.Failure
	}
	return wire.Fail(executors.ClassInterrupted, "the run was stopped before it was done")
}

// early is the cause of a cell that ends before all requests are sent.
type early struct{ wire.Failure }

func (e early) Error() string { return e.Reason }

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

// Transport is the connection that a run with this Spec would use: the
// round tripper, the base URL as net/http knows it, and the headers. The caller
// closes its idle connections.
func Transport(s Spec, h Host) (*http.Transport, string, http.Header, error) {
	if err := CheckURL(s.URL); err != nil {
		return nil, "", nil, err
	}
	rules, bad := s.Rules.Check()
	if err := errors.Join(bad...); err != nil {
		return nil, "", nil, err
	}
	s.Rules = rules
	c, err := newClient(s, h)
	if err != nil {
		return nil, "", nil, err
	}
	return c.transport, c.url, c.header, nil
}
