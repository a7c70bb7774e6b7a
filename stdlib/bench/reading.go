package bench

import (
	"context"
	"fmt"
	"io"
	"mime"
	"net/http"
	"time"

	"github.com/sotabuild/sotabuild/stdlib/bench/judge"
	"github.com/sotabuild/sotabuild/stdlib/bench/live"
	"github.com/sotabuild/sotabuild/stdlib/bench/wire"
	"github.com/sotabuild/sotabuild/stdlib/result"
)

// reading is one answer on its way, from whichever connection. It is an
// http1.Receiver.
type reading struct {
	c      *client
	ctx    context.Context
	cancel context.CancelCauseFunc
	s      *judge.Sample
	at     time.Duration // of the last read
	first  *time.Timer   // patience for the first token
	later  *silence      // and for each further one; nil before the first
	flight *live.Flight  // for who looks on

	take    func([]byte) bool // by what the head says; nil before it
	body    []byte            // what is not taken as it comes
	refusal string            // why the answer is none
	class   result.Class
}

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
		r.take = r.whole
	case err != nil || media != "text/event-stream":
		r.refuse(result.BadStream, fmt.Sprintf("content type %q is no event stream", kind))
	default:
		r.take = r.events
	}
}

func (r *reading) refuse(class result.Class, why string) {
	r.class, r.refusal = class, why
	r.take = func(b []byte) bool {
		r.body = append(r.body, b[:min(len(b), mostRefused-len(r.body))]...)
		return len(r.body) < mostRefused
	}
}

// Data takes the next bytes of the body.
func (r *reading) Data(b []byte) bool { return r.take(b) }

// whole keeps an answer that comes at once.
func (r *reading) whole(b []byte) bool {
	r.body = append(r.body, b[:min(len(b), mostWhole-len(r.body))]...)
	return len(r.body) < mostWhole
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
		r.later = listen(r.c.start, r.at, r.c.spec.Rules.Stall, r.cancel)
	default:
		r.flight.Events(tokens)
		r.later.last.Store(int64(r.at))
	}
	return ok
}

// close judges how the body ended: err is nil when it did as HTTP promises, or
// when nobody wanted more of it.
func (r *reading) close(err error) {
	if r.later != nil {
		r.later.timer.Stop()
	}
	a := &r.s.Answer
	switch {
	case r.take == nil:
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
