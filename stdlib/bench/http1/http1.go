// Package http1 is a client of HTTP/1.1 for answers that come in many small
// pieces: thousands of streams, a hundred thousand events a second.
//
// It does less than net/http (no redirects, proxies, cookies, compression, no
// HTTP/2) and what it does costs less: connections of the kernel are read by a
// few goroutines that wait for all of them at once and hand the bytes over
// where they were read, with no goroutine to wake, no second read to learn that
// there is nothing, and no copy. Other connections (TLS, pipes) are read by the
// goroutine that asked. It knows no event stream and no clock: who receives
// stamps. The head of an answer is parsed by net/http.
package http1

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"
)

// Receiver takes one answer. Its methods are called one after the other, from
// any goroutine, and not any more after Do has returned.
type Receiver interface {
	// Stamp is called right after bytes were read, before what they hold is
	// told.
	Stamp()
	// Head tells the final status and header. The body follows as Data.
	Head(*http.Response)
	// Data tells the next bytes of the body, which are valid until it returns.
	// False gives the rest of the answer up, and the connection with it.
	Data([]byte) bool
}

// Client sends requests to one server. It is safe for many goroutines. The
// zero Client is not usable.
type Client struct {
	dial    func(context.Context) (net.Conn, error)
	readers int
	patient time.Duration

	mu    sync.Mutex
	idle  []*conn // the last used last
	polls []*poller
	next  int
	over  bool
}

// New returns a client that gets its connections from dial. They are used again
// unless the server closes them, for at most patient after their last answer.
// Up to so many goroutines read those of the kernel. Close it.
func New(dial func(context.Context) (net.Conn, error), readers int, patient time.Duration) *Client {
	return &Client{dial: dial, readers: max(1, readers), patient: patient}
}

// Close closes idle connections and ends reading. No Do may be running.
func (c *Client) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.over = true
	var err error
	for _, k := range c.idle {
		err = errors.Join(err, k.close())
	}
	c.idle = nil
	for _, p := range c.polls {
		err = errors.Join(err, p.close())
	}
	c.polls = nil
	return err
}

// Do sends a request, head and body as they go over the wire, and hands the answer
// to the receiver. It returns when the answer is complete, was given up, or cannot
// be had any more, which is an error; what was received before stands. When ctx
// ends the connection is closed. A request that met a kept connection which the
// server had closed before it answered anything is sent once more on a new one;
// sent is how often it was.
func (c *Client) Do(ctx context.Context, request []byte, to Receiver) (sent int, err error) {
	for {
		k, err := c.take(ctx, sent > 0)
		if err != nil {
			return sent, err
		}
		sent++
		err = k.exchange(ctx, request, to)
		if err == nil && k.msg.reusable() {
			c.keep(k)
			return sent, nil
		}
		_ = k.close() // what was received stands, and what was not is known by now
		if err == nil || !k.used || k.msg.began || sent > 1 || ctx.Err() != nil {
			return sent, err
		}
	}
}

// take returns an idle connection that still seems to live, or a new one.
func (c *Client) take(ctx context.Context, fresh bool) (*conn, error) {
	for !fresh {
		k := c.pop()
		if k == nil {
			break
		}
		if time.Since(k.since) < c.patient && k.alive() {
			k.used = true
			return k, nil
		}
		_ = k.close() // it was of no use any more
	}
	nc, err := c.dial(ctx)
	if err != nil {
		return nil, err
	}
	return c.adopt(nc)
}

func (c *Client) pop() *conn {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.idle) == 0 {
		return nil
	}
	k := c.idle[len(c.idle)-1]
	c.idle = c.idle[:len(c.idle)-1]
	return k
}

func (c *Client) keep(k *conn) {
	k.since = time.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.idle = append(c.idle, k)
}

// adopt takes a connection of the kernel out of Go's poller and gives it to one
// of ours; others stay what they are.
func (c *Client) adopt(nc net.Conn) (*conn, error) {
	fd, ok, err := descriptor(nc)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("taking over a connection: %w", err), nc.Close())
	}
	if !ok {
		return &conn{fd: -1, Conn: nc}, nil
	}
	k := &conn{fd: fd, done: make(chan struct{}, 1)}
	if err := nc.Close(); err != nil {
		return nil, errors.Join(err, k.close())
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.polls) < c.readers {
		p, err := newPoller()
		if err != nil {
			return nil, errors.Join(err, k.close())
		}
		c.polls = append(c.polls, p)
	}
	k.poller = c.polls[c.next%len(c.polls)]
	c.next++
	return k, nil
}
