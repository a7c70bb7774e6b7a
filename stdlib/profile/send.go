package profile

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/sotabuild/sotabuild/executors"
	"github.com/sotabuild/sotabuild/stdlib/bench/wire"
	"github.com/sotabuild/sotabuild/stdlib/dataset"
	"github.com/sotabuild/sotabuild/stdlib/result"
)

// Send is how requests are sent.
type Send struct {
	URL         string   `json:"-"`
	Path        string   `json:"path"`
	API         wire.API `json:"api"`
	Model       string   `json:"model"`
	Temperature float64  `json:"temperature"`
	Concurrency int      `json:"concurrency"`
}

// direct uses no proxy: the server runs on this host.
var direct = &http.Client{Transport: &http.Transport{DisableCompression: true, MaxIdleConnsPerHost: 1 << 10}}

// each sends prompts one after another and wants every answer whole.
func (s Send) each(ctx context.Context, prompts []dataset.Prompt) error {
	for _, p := range prompts {
		if err := s.ask(ctx, p, func(int) {}); err != nil {
			return err
		}
	}
	return nil
}

// until sends all prompts at once and calls then, once, when every answer has
// steps+1 tokens, or one has so many that others must be waiting for a slot
// (patient), or all are complete; answers that are not are given up after it.
// The first token of an answer is the prompt's step, each further one a step of
// its own. It returns how many of these the longest answer had when then was
// called.
func (s Send) until(ctx context.Context, prompts []dataset.Prompt, steps int, then func() error) (int, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	t := tally{answers: len(prompts), steps: steps, reached: make(chan struct{})}
	errs := make([]error, len(prompts))
	var all sync.WaitGroup
	for i, p := range prompts {
		all.Go(func() {
			err := s.ask(ctx, p, t.heard)
			// An answer that we cancelled has no verdict.
			if ctx.Err() == nil {
				errs[i] = err
			}
		})
	}
	ended := make(chan struct{})
	go func() { all.Wait(); close(ended) }()
	select {
	case <-t.reached:
	case <-ended:
		if err := errors.Join(errs...); err != nil {
			return 0, err
		}
	}
	had := t.longest()
	err := then()
	cancel()
	<-ended
	return had, errors.Join(append(errs, err)...)
}

// patient is how many times its steps the longest answer runs while others
// have not begun: it bounds the trace of a server with fewer slots than answers.
const patient = 3

// tally counts the tokens of answers that run side by side.
type tally struct {
	answers, steps int
	reached        chan struct{} // closed when the steps are done

	mu    sync.Mutex // guards what follows
	done  int        // answers with steps+1 tokens
	most  int        // tokens of the longest
	ended bool       // reached is closed
}

// heard takes an answer's count of tokens, which rises by one.
func (t *tally) heard(tokens int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.most = max(t.most, tokens)
	if tokens == t.steps+1 {
		t.done++
	}
	if (t.done == t.answers || t.most == patient*t.steps+1) && !t.ended {
		t.ended = true
		close(t.reached)
	}
}

// longest is how many steps of its own the longest answer has had.
func (t *tally) longest() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return max(0, t.most-1)
}

// answerLimit bounds one answer.
const answerLimit = 10 * time.Minute

// ask sends one prompt, tells heard after each read how many tokens came so
// far, in order and one by one, and judges the answer.
func (s Send) ask(ctx context.Context, p dataset.Prompt, heard func(tokens int)) error {
	ctx, cancel := context.WithTimeout(ctx, answerLimit)
	defer cancel()
	body, err := s.API.Encode(wire.Ask{Prompt: p, Model: s.Model, Temperature: s.Temperature, IgnoreEOS: true})
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.URL+s.Path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "text/event-stream")
	resp, err := direct.Do(req)
	if err != nil {
		return wrong(result.ConnFailed, "request %d: %v", p.ID, err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		// What cannot be read only illustrates the status.
		head, _ := io.ReadAll(io.LimitReader(resp.Body, 4096))
		return wrong(result.HTTPStatus, "request %d: HTTP %s: %s", p.ID, resp.Status, wire.Excerpt(head))
	}
	answer := wire.NewAnswer(s.API, nil, p.OutputLen+1)
	read(resp.Body, &answer, heard)
	if ctx.Err() == context.DeadlineExceeded {
		return wrong(executors.ClassTimeout, "request %d: no whole answer within %v", p.ID, answerLimit)
	}
	if f := answer.Verdict(len(p.Tokens), p.OutputLen, true); f.Class != "" {
		return wrong(f.Class, "request %d: %s", p.ID, f.Reason)
	}
	return nil
}

// read feeds the answer to its end; what went wrong is in the answer.
func read(body io.Reader, a *wire.Answer, heard func(tokens int)) {
	buf := make([]byte, 16<<10)
	start := time.Now()
	told := 0
	for {
		n, err := body.Read(buf)
		_, ok := a.Feed(time.Since(start), buf[:n])
		for ; told < len(a.Marks); told++ {
			heard(told + 1)
		}
		switch {
		case !ok:
			return
		case errors.Is(err, io.EOF):
			a.End()
			return
		case err != nil:
			a.Lose(wire.Fail(result.Truncated, "the connection ended after %d token events: %v", len(a.Marks), err))
			return
		}
	}
}
