package http1

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// heard is what a receiver was told.
type heard struct {
	stamps int
	status int
	body   bytes.Buffer
	most   int           // bytes after which the rest is given up; 0: never
	begun  chan struct{} // closed at the head
}

func (h *heard) Stamp() { h.stamps++ }

func (h *heard) Head(r *http.Response) {
	h.status = r.StatusCode
	if h.begun != nil {
		close(h.begun)
	}
}

func (h *heard) Data(b []byte) bool {
	h.body.Write(b)
	return h.most == 0 || h.body.Len() < h.most
}

// read feeds text in pieces of n bytes, 0 is all at once, and then ends it.
func read(text string, n int) (h *heard, m *message, err error) {
	h = &heard{}
	m = &message{to: h}
	for b := []byte(text); len(b) > 0 && err == nil && !m.over(); {
		k := len(b)
		if n > 0 {
			k = min(n, k)
		}
		err = m.feed(b[:k])
		b = b[k:]
	}
	if err == nil && !m.over() {
		err = m.end()
	}
	return h, m, err
}

const chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"

// TestMessages has the forms of RFC 9112 and what is none, in every split.
func TestMessages(t *testing.T) {
	for _, c := range []struct {
		name, text, body string
		status           int
		keep             bool
		err              string // part of it; "" is none
	}{
		{"length", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", "hello", 200, true, ""},
		{"no_body", "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", "", 200, true, ""},
		{"no_content", "HTTP/1.1 204 No Content\r\n\r\n", "", 204, true, ""},
		{"close_is_said", "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nhi", "hi", 200, false, ""},
		{"old_version", "HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nhi", "hi", 200, false, ""},
		{"until_the_end", "HTTP/1.1 200 OK\r\n\r\nall of it", "all of it", 200, false, ""},
		{"chunks", chunked + "5\r\nhello\r\n6;ext=1\r\n world\r\n0\r\n\r\n", "hello world", 200, true, ""},
		{"upper_case", chunked + "A\r\n0123456789\r\n0\r\n\r\n", "0123456789", 200, true, ""},
		{"zeros", chunked + "0005\r\nhello\r\n000\r\n\r\n", "hello", 200, true, ""},
		{"many_zeros", chunked + "0000000005\r\nhello\r\n6\r\n world\r\n0\r\n\r\n", "hello world", 200, true, ""},
		{"space_after_the_size", chunked + "5 \r\nhello\r\n1\r\n!\r\n0\r\n\r\n", "hello!", 200, true, ""},
		{"trailer", chunked + "2\r\nhi\r\n0\r\nDigest: x\r\nMore: y\r\n\r\n", "hi", 200, true, ""},
		{"line_feeds_only", "HTTP/1.1 200 OK\nContent-Length: 2\n\nhi", "hi", 200, true, ""},
		{"early_hints", "HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi", "hi", 200, true, ""},
		{"something_follows", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi!", "hi", 200, false, ""},
		{"cut_in_the_head", "HTTP/1.1 200 OK\r\nContent-", "", 0, false, "unexpected EOF"},
		{"cut_in_the_body", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhell", "hell", 200, false, "unexpected EOF"},
		{"cut_in_a_chunk", chunked + "5\r\nhel", "hel", 200, false, "unexpected EOF"},
		{"cut_between_chunks", chunked + "2\r\nhi\r\n", "hi", 200, false, "unexpected EOF"},
		{"cut_in_the_trailer", chunked + "2\r\nhi\r\n0\r\n", "hi", 200, false, "unexpected EOF"},
		{"nothing", "", "", 0, false, "EOF"},
		{"no_size", chunked + "\r\nhi\r\n", "", 200, false, "without a size"},
		{"bad_size", chunked + "5 5\r\nhello\r\n", "", 200, false, "is no size"},
		{"negative_size", chunked + "-5\r\nhello\r\n", "", 200, false, "is no size"},
		{"huge_size", chunked + "1234567890abcdef\r\nhello\r\n", "", 200, false, "is no size"},
		{"long_chunk", chunked + "2\r\nhi!\r\n0\r\n\r\n", "hi", 200, false, "no line end after a chunk"},
		{"no_line_feed_after_a_chunk", chunked + "2\r\nhi\r\n2\r\nho\r0\r\n\r\n", "hiho", 200, false, "no line end after a chunk"},
		{"no_carriage_return_after_a_chunk", chunked + "2\r\nhi\n\n0\r\n\r\n", "hi", 200, false, "no line end after a chunk"},
		{"no_line_feed_after_a_size", chunked + "2\rhi\r\n0\r\n\r\n", "", 200, false, "does not end with CR and LF"},
		{"lone_line_feed", chunked + "2\nhi\r\n0\r\n\r\n", "", 200, false, "does not end with CR and LF"},
		{"early_carriage_return", chunked + "2\r;x\r\nhi\r\n0\r\n\r\n", "", 200, false, "does not end with CR and LF"},
		{"bad_trailer", chunked + "0\r\nno colon\r\n\r\n", "", 200, false, "malformed trailer"},
		{"endless_size", chunked + strings.Repeat("0", 5000), "", 200, false, "a line of more than 4096"},
		{"endless_head", "HTTP/1.1 200 OK\r\nX: " + strings.Repeat("x", maxHead), "", 0, false, "the head of the answer has more than"},
		{"no_http", "hello\r\n\r\n", "", 0, false, "malformed HTTP"},
		{"upgrade", "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n", "", 0, false, "another protocol"},
		{"both_lengths_differ", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nhi", "", 0, false, "Content-Length"},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, n := range []int{0, 1, 2, 7} {
				if n > 0 && (c.name == "something_follows" || c.name == "endless_head" && n < 7) {
					continue // only one read sees both; it would take long and say nothing else
				}
				h, m, err := read(c.text, n)
				if h.body.String() != c.body || h.status != c.status || c.err == "" && m.reusable() != c.keep {
					t.Errorf("in pieces of %d: body %q, status %d, kept %v", n, h.body.String(), h.status, m.reusable())
				}
				if (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
					t.Errorf("in pieces of %d: error is %v, want %q", n, err, c.err)
				}
			}
		})
	}
}

// FuzzMessage compares with net/http, which reads the same bytes: what both
// take is the same body, in any split.
func FuzzMessage(f *testing.F) {
	f.Add(chunked+"5\r\nhello\r\n0\r\n\r\n", uint8(1))
	f.Add("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", uint8(3))
	f.Add("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.0 200 OK\r\n\r\nhello", uint8(3))
	f.Add(chunked+"1\r\na\r\n0002\r\nbc\r\n00000003\r\ndef\r\n1\r\ng\r0\r\n\r\n", uint8(8))
	f.Add(chunked+"2;x=y\r\nhi\r\n0\r\nA: b\r\n\r\n", uint8(2))
	f.Fuzz(func(t *testing.T, text string, n uint8) {
		whole, m, err := read(text, 0)
		for _, n := range []int{1, 7, int(n) + 1} {
			pieces, _, errPieces := read(text, n)
			if fmt.Sprint(err) != fmt.Sprint(errPieces) || whole.body.String() != pieces.body.String() || whole.status != pieces.status {
				t.Fatalf("at once %d %q %v; in pieces of %d %d %q %v", whole.status, whole.body.String(), err, n, pieces.status, pieces.body.String(), errPieces)
			}
		}
		if err != nil || strings.HasPrefix(text, "HTTP/1.1 1") || strings.HasPrefix(text, "HTTP/1.0 1") {
			return
		}
		resp, err := http.ReadResponse(bufio.NewReader(strings.NewReader(text)), &http.Request{Method: http.MethodPost})
		if err != nil {
			t.Fatalf("net/http does not take it: %v", err)
		}
		body, err := io.ReadAll(resp.Body)
		if err != nil || string(body) != whole.body.String() || resp.StatusCode != whole.status {
			t.Fatalf("net/http: %d %q %v; here: %d %q, kept %v", resp.StatusCode, body, err, whole.status, whole.body.String(), m.reusable())
		}
	})
}

// server answers each request on TCP, a unix socket or pipes by answer, whose
// connection it closes when answer says so.
type server struct {
	dial  func(context.Context) (net.Conn, error)
	conns atomic.Int64
}

func serve(t *testing.T, network string, answer func(c net.Conn, r *http.Request, body []byte) (more bool)) *server {
	t.Helper()
	s := &server{}
	var all sync.WaitGroup
	handle := func(c net.Conn) {
		s.conns.Add(1)
		all.Go(func() {
			defer c.Close()
			in := bufio.NewReader(c)
			for {
				r, err := http.ReadRequest(in)
				if err != nil {
					return
				}
				body, err := io.ReadAll(r.Body)
				if err != nil || !answer(c, r, body) {
					return
				}
			}
		})
	}
	if network == "pipe" {
		s.dial = func(context.Context) (net.Conn, error) {
			a, b := net.Pipe()
			handle(b)
			return a, nil
		}
		t.Cleanup(all.Wait)
		return s
	}
	addr := "127.0.0.1:0"
	if network == "unix" {
		addr = filepath.Join(t.TempDir(), "s")
	}
	l, err := net.Listen(network, addr)
	if err != nil {
		t.Fatal(err)
	}
	all.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			handle(c)
		}
	})
	t.Cleanup(func() { l.Close(); all.Wait() })
	s.dial = func(ctx context.Context) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, l.Addr().String())
	}
	return s
}

var networks = []string{"tcp", "unix", "pipe"}

func post(body string) []byte {
	return fmt.Appendf(nil, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
}

func client(t *testing.T, s *server) *Client {
	t.Helper()
	c := New(s.dial, 2, time.Minute)
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

// TestManyStreamsAtOnce echoes 200 requests of different sizes, 20 at a time,
// in chunks. Bodies of a megabyte do not fit into a socket's buffer.
func TestManyStreamsAtOnce(t *testing.T) {
	for _, network := range networks {
		t.Run(network, func(t *testing.T) {
			s := serve(t, network, func(c net.Conn, _ *http.Request, body []byte) bool {
				if _, err := io.WriteString(c, chunked); err != nil {
					return false
				}
				for len(body) > 0 {
					n := min(len(body), 1000)
					if _, err := fmt.Fprintf(c, "%x\r\n%s\r\n", n, body[:n]); err != nil {
						return false
					}
					body = body[n:]
				}
				_, err := io.WriteString(c, "0\r\n\r\n")
				return err == nil
			})
			c := client(t, s)
			slots := make(chan bool, 20)
			var all sync.WaitGroup
			for i := range 200 {
				slots <- true
				all.Go(func() {
					defer func() { <-slots }()
					body := strings.Repeat(fmt.Sprint(i, " "), 1+i*7)
					if i%50 == 49 {
						body = strings.Repeat("large ", 200_000)
					}
					h := &heard{}
					sent, err := c.Do(t.Context(), post(body), h)
					if err != nil || sent != 1 || h.body.String() != body || h.stamps == 0 {
						t.Errorf("request %d: sent %d times, %d of %d bytes, error %v", i, sent, h.body.Len(), len(body), err)
					}
				})
			}
			all.Wait()
			if n := s.conns.Load(); n > 20 {
				t.Errorf("%d connections for 20 at a time", n)
			}
		})
	}
}

// TestServerThatCloses closes each connection after its answer, without having
// said so: every request arrives once more on a new one, at most.
func TestServerThatCloses(t *testing.T) {
	for _, network := range networks {
		t.Run(network, func(t *testing.T) {
			s := serve(t, network, func(c net.Conn, _ *http.Request, _ []byte) bool {
				_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi")
				return false
			})
			c := client(t, s)
			for i := range 5 {
				h := &heard{}
				sent, err := c.Do(t.Context(), post("x"), h)
				if err != nil || h.body.String() != "hi" || sent > 2 {
					t.Errorf("request %d: sent %d times, body %q, error %v", i, sent, h.body.String(), err)
				}
			}
			if n := s.conns.Load(); n != 5 {
				t.Errorf("%d connections for 5 requests", n)
			}
		})
	}
}

// TestEndOfContext leaves while the server is silent, after the head.
func TestEndOfContext(t *testing.T) {
	for _, network := range networks {
		t.Run(network, func(t *testing.T) {
			gone := make(chan error, 1)
			s := serve(t, network, func(c net.Conn, _ *http.Request, _ []byte) bool {
				_, _ = io.WriteString(c, chunked)
				_, err := c.Read(make([]byte, 1)) // until the client leaves
				gone <- err
				return false
			})
			c := client(t, s)
			ctx, cancel := context.WithCancel(t.Context())
			h := &heard{begun: make(chan struct{})}
			go func() { <-h.begun; cancel() }()
			sent, err := c.Do(ctx, post("x"), h)
			if !errors.Is(err, context.Canceled) || sent != 1 || h.status != 200 {
				t.Errorf("sent %d times, status %d, error %v", sent, h.status, err)
			}
			if err := <-gone; err == nil {
				t.Error("the server read something")
			}
		})
	}
}

// TestGivenUp reads no more than the receiver wants, and closes.
func TestGivenUp(t *testing.T) {
	for _, network := range networks {
		t.Run(network, func(t *testing.T) {
			s := serve(t, network, func(c net.Conn, _ *http.Request, _ []byte) bool {
				_, err := io.WriteString(c, "HTTP/1.1 500 Broken\r\n\r\n")
				for err == nil {
					_, err = c.Write(make([]byte, 1000))
				}
				return false
			})
			c := client(t, s)
			h := &heard{most: 4000}
			if sent, err := c.Do(t.Context(), post("x"), h); err != nil || sent != 1 || h.status != 500 || h.body.Len() < 4000 {
				t.Errorf("sent %d times, status %d, %d bytes, error %v", sent, h.status, h.body.Len(), err)
			}
		})
	}
}

// TestAnswerBeforeTheRequestIsRead refuses a large request by its head.
func TestAnswerBeforeTheRequestIsRead(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		c, err := l.Accept()
		if err != nil {
			return
		}
		defer c.Close()
		if _, err := http.ReadRequest(bufio.NewReader(c)); err != nil {
			return
		}
		_, _ = io.WriteString(c, "HTTP/1.1 413 Too Large\r\nConnection: close\r\nContent-Length: 2\r\n\r\nno")
		_, _ = io.Copy(io.Discard, c) // so that the answer is not lost by a reset
	}()
	c := client(t, &server{dial: func(ctx context.Context) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "tcp", l.Addr().String())
	}})
	h := &heard{}
	if sent, err := c.Do(t.Context(), post(strings.Repeat("x", 8<<20)), h); err != nil || sent != 1 || h.status != 413 || h.body.String() != "no" {
		t.Errorf("sent %d times, status %d, body %q, error %v", sent, h.status, h.body.String(), err)
	}
}

// TestReadingAllocatesNothing feeds events of a stream.
func TestReadingAllocatesNothing(t *testing.T) {
	m := &message{to: &none{}}
	if err := m.feed([]byte(chunked)); err != nil {
		t.Fatal(err)
	}
	event := []byte("3c\r\n" + strings.Repeat("x", 60) + "\r\n")
	if n := testing.AllocsPerRun(1000, func() {
		if err := m.feed(event); err != nil {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Errorf("%v allocations an event", n)
	}
}

type none struct{}

func (*none) Stamp()              {}
func (*none) Head(*http.Response) {}
func (*none) Data([]byte) bool    { return true }
