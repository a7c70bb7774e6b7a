package bench

import (
	"context"
	"fmt"
	"io"
	"math"
	"mime"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/sotabuild/sotabuild/stdlib/bench/judge"
	"github.com/sotabuild/sotabuild/stdlib/bench/live"
	"github.com/sotabuild/sotabuild/stdlib/bench/wire"
	"github.com/sotabuild/sotabuild/stdlib/result"
)

// reading is one answer on its way, from whichever connection. It is an
// http1.Receiver. What an event needs is one object and stands first in it:
// with thousands of streams each of them is out of the caches when its next
// event comes.
type reading struct {
	c      *client
	flight live.Flight   // for who looks on
	at     time.Duration // of the last read
	last   atomic.Int64  // at of the last event; later looks at it
	later  *time.Timer   // patience for each further event; nil before the first
	kind   kind
	s      judge.Sample

	ctx     context.Context
	cancel  context.CancelCauseFunc
	first   *time.Timer // patience for the first token
	body    []byte      // what is not taken as it comes
	refusal string      // why the answer is none
	class   result.Class
}

// kind is what a body is, as its head says.
type kind uint8

const (
	unknown kind = iota // no head yet
	streamed
	atOnce
	noAnswer
)

// The most of a body that is kept: of a whole answer, and of what is none and
// only illustrates a failure that is already certain.
const (
	mostWhole   = 64 << 20
	mostRefused = 4096
)

// Stamp takes the time right after a read.
func (r *reading) Stamp() { r.at = time.Since(r.c.start) }

// Head decides what the body is.
func (r *reading) Head(resp *http.Response) {
	kind := resp.Header.Get("Content-Type")
	media, _, err := mime.ParseMediaType(kind)
	switch {
	case resp.StatusCode != http.StatusOK:
		r.refuse(result.HTTPStatus, "HTTP "+resp.Status)
	case r.c.spec.Rules.NoStream && err == nil && media == "application/json":
		r.kind = atOnce
	case err != nil || media != "text/event-stream":
		r.refuse(result.BadStream, fmt.Sprintf("content type %q is no event stream", kind))
	default:
		r.kind = streamed
	}
}

func (r *reading) refuse(class result.Class, why string) {
	r.kind, r.class, r.refusal = noAnswer, class, why
}

// Data takes the next bytes of the body.
func (r *reading) Data(b []byte) bool {
	switch r.kind {
	case streamed:
		return r.events(b)
	case atOnce:
		return r.store(b, mostWhole)
	}
	return r.store(b, mostRefused)
}

// store keeps the next bytes of a body that is looked at when it has ended.
func (r *reading) store(b []byte, most int) bool {
	r.body = append(r.body, b[:min(len(b), most-len(r.body))]...)
	return len(r.body) < most
}

// events takes bytes of a stream. Comments and other bytes without an event do
// not make patience longer.
func (r *reading) events(b []byte) bool {
	r.s.End = r.at
	n, ok := r.s.Answer.Feed(r.at, b)
	tokens := len(r.s.Answer.Marks)
	switch {
	case n == 0 || tokens == 0:
	case r.later == nil:
		r.first.Stop()
		r.flight.First(r.at)
		r.flight.Events(tokens)
		r.last.Store(int64(r.at))
		r.later = time.AfterFunc(math.MaxInt64, r.look) // looks when it is set below
		r.later.Reset(r.c.spec.Rules.Stall)
	default:
		r.flight.Events(tokens)
		r.last.Store(int64(r.at))
	}
	return ok
}

// look ends a stream in which nothing has come for some time. An event costs it
// a store: moving the timer on each of 100,000 events a second would cost as
// much as reading them.
func (r *reading) look() {
	limit := r.c.spec.Rules.Stall
	if rest := time.Duration(r.last.Load()) + limit - time.Since(r.c.start); rest > 0 {
		r.later.Reset(rest)
		return
	}
	r.cancel(stalled(fmt.Sprintf("no further event within %v", limit)))
}

// close judges how the body ended: err is nil when it did as HTTP promises, or
// when nobody wanted more of it.
func (r *reading) close(err error) {
	if r.later != nil {
		r.later.Stop()
	}
	a := &r.s.Answer
	switch {
	case r.kind == unknown:
		a.Lose(gone(r.ctx, result.ConnFailed, "no answer", err))
	case r.refusal != "":
		a.Lose(wire.Fail(r.class, "%s: %s", r.refusal, wire.Excerpt(r.body)))
	case r.c.spec.Rules.NoStream && r.body != nil:
		r.s.End = time.Since(r.c.start)
		if err != nil {
			a.Lose(gone(r.ctx, result.Truncated, "the connection ended inside the answer", err))
			return
		}
		a.Whole(r.s.End, r.body)
	case err != nil:
		a.Lose(gone(r.ctx, result.Truncated, fmt.Sprintf("the connection ended after %d token events", len(a.Marks)), err))
	default:
		a.End()
	}
}

// drain reads a body of net/http to its end, or until nobody wants more of it.
func (r *reading) drain(body io.Reader) error {
	buf := buffers.Get().(*[16 << 10]byte)
	defer buffers.Put(buf)
	for {
		n, err := body.Read(buf[:])
		r.Stamp()
		switch {
		case n > 0 && !r.Data(buf[:n]), err == io.EOF:
			return nil
		case err != nil:
			return err
		}
	}
}
