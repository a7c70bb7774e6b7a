package profile

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/sotabuild/sotabuild/executors"
	"github.com/sotabuild/sotabuild/executors/runner"
	"github.com/sotabuild/sotabuild/stdlib/bench/wire"
	"github.com/sotabuild/sotabuild/stdlib/dataset"
	"github.com/sotabuild/sotabuild/stdlib/result"
)

// clientVersion is the version of ClientSpec's JSON form.
const clientVersion = 2

// ClientSpec is one stage's profile, as the step's client reads it. Paths are
// absolute.
type ClientSpec struct {
	Version int    `json:"version"`
	Stage   Stage  `json:"stage"`
	Role    Role   `json:"role"`
	Host    bool   `json:"host"` // without a device the host's operators are the work
	Start   Call   `json:"start"`
	Stop    Call   `json:"stop"`
	Send    Send   `json:"send"`
	Prompts string `json:"prompts"` // file of the frozen prompts
	Warmup  int    `json:"warmup_steps"`
	Active  int    `json:"active_steps"`
	Traces  string `json:"traces"` // folder where the server writes
	Out     string `json:"out"`    // folder for what the client writes
}

// Summary is what was done.
type Summary struct {
	Stage       Stage    `json:"stage"`
	Role        Role     `json:"role"`
	Imported    bool     `json:"imported,omitempty"` // made apart: nothing is known of the load
	InputLen    int      `json:"input_len,omitempty"`
	OutputLen   int      `json:"output_len,omitempty"`
	Concurrency int      `json:"concurrency,omitempty"`
	Warmup      int      `json:"warmup_steps,omitempty"` // at least so many ran before the profiler
	Active      int      `json:"active_steps,omitempty"` // at least so many ran while it was on
	Host        bool     `json:"host_operators,omitempty"`
	Whole       bool     `json:"whole,omitempty"` // no step of it is named: all of it is the stage
	Trace       string   `json:"trace"`           // the server's name for the file that was kept
	Rank        int      `json:"rank"`            // -1 where neither name nor content says
	SetAside    []string `json:"set_aside,omitempty"`
	Warnings    []string `json:"warnings,omitempty"`
}

func readSummary(path string) (Summary, error) {
	var s Summary
	b, err := os.ReadFile(path)
	if err != nil {
		return s, err
	}
	return s, json.Unmarshal(b, &s)
}

// Main is the step's client: it profiles what the spec file describes at the
// url and writes its verdict and files into the spec's folder. It returns the
// exit code: 0 when the verdict is written, whatever it is, else 1 with the
// reason on stderr.
func Main(specPath, url string) int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, specPath, url); err != nil {
		fmt.Fprintf(os.Stderr, "sotabuild: %v\n", err)
		return 1
	}
	return 0
}

func run(ctx context.Context, specPath, url string) error {
	s, err := readSpec(specPath)
	if err != nil {
		return err
	}
	err = s.profile(ctx, url)
	var v *verdict
	switch {
	case ctx.Err() != nil:
		v = &verdict{executors.ClassInterrupted, "the profile was stopped before it was done"}
	case err != nil && !errors.As(err, &v):
		v = &verdict{executors.ClassClientFailed, err.Error()}
	case v == nil:
		v = &verdict{}
	}
	return writeJSON(filepath.Join(s.Out, runner.OutcomeFile), runner.StepOutcome{Class: v.class, Reason: v.reason})
}

func readSpec(path string) (ClientSpec, error) {
	var s ClientSpec
	f, err := os.Open(path)
	if err != nil {
		return s, fmt.Errorf("reading profile spec: %w", err)
	}
	defer f.Close()
	d := json.NewDecoder(f)
	d.DisallowUnknownFields()
	if err := d.Decode(&s); err != nil {
		return s, fmt.Errorf("reading profile spec %q: %w", path, err)
	}
	if s.Version != clientVersion {
		return s, fmt.Errorf("reading profile spec %q: version is %d; this client reads version %d", path, s.Version, clientVersion)
	}
	return s, nil
}

// verdict is an error that is a result: the server did something wrong.
type verdict struct {
	class  result.Class
	reason string
}

func (v *verdict) Error() string { return string(v.class) + ": " + v.reason }

func wrong(class result.Class, format string, args ...any) error {
	return &verdict{class, fmt.Sprintf(format, args...)}
}

// profile does all of it: warm-up, start, load, stop, trace.
func (s ClientSpec) profile(ctx context.Context, url string) error {
	warm, asks, err := s.asks()
	if err != nil {
		return err
	}
	s.Send.URL = url
	before, err := files(s.Traces)
	if err != nil {
		return err
	}
	sum := Summary{Stage: s.Stage, Role: s.Role, InputLen: len(asks[0].Tokens), OutputLen: asks[0].OutputLen, Concurrency: s.Send.Concurrency}
	if sum.Warmup, err = s.load(ctx, warm, s.Warmup, func() error { return nil }); err != nil {
		return during("warm-up", err)
	}
	if err := post(ctx, url, s.Start); err != nil {
		return during("starting the profiler", err)
	}
	// Stopped at the moment at which the steps are done: what runs on would be
	// recorded too.
	if sum.Active, err = s.load(ctx, asks, s.Active, func() error { return post(ctx, url, s.Stop) }); err != nil {
		return during("the profiled load", err)
	}
	if sum.Active < s.Active {
		sum.Warnings = append(sum.Warnings, fmt.Sprintf("Only %d of %d steps were profiled: an answer has %d tokens.", sum.Active, s.Active, sum.OutputLen))
	}
	found, err := s.await(ctx, before)
	if err != nil {
		return err
	}
	if err := s.keep(ctx, found, &sum); err != nil {
		return err
	}
	return writeJSON(filepath.Join(s.Out, summaryFile), sum)
}

// during says in which part of the profile a verdict was reached.
func during(what string, err error) error {
	var v *verdict
	if errors.As(err, &v) {
		return wrong(v.class, "%s: %s", what, v.reason)
	}
	return fmt.Errorf("%s: %w", what, err)
}

// asks reads the frozen prompts.
func (s ClientSpec) asks() (warm, asks []dataset.Prompt, err error) {
	f, err := os.Open(s.Prompts)
	if err != nil {
		return nil, nil, fmt.Errorf("opening prompts: %w", err)
	}
	defer f.Close()
	all, err := dataset.Read(f)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", s.Prompts, err)
	}
	for _, p := range all {
		if p.Warmup {
			warm = append(warm, p)
		} else {
			asks = append(asks, p)
		}
	}
	if len(warm) == 0 || len(asks) == 0 {
		return nil, nil, fmt.Errorf("%s has %d warm-up and %d other prompts; both are needed", s.Prompts, len(warm), len(asks))
	}
	return warm, asks, nil
}

// load sends a stage's prompts until so many steps have run, calls then, and
// returns how many steps ran at least.
func (s ClientSpec) load(ctx context.Context, prompts []dataset.Prompt, steps int, then func() error) (int, error) {
	if s.Stage == Prefill {
		if err := s.Send.each(ctx, prompts); err != nil {
			return 0, err
		}
		return len(prompts), then()
	}
	return s.Send.until(ctx, prompts, steps, then)
}

// postLimit bounds a call to the profiler. Stop answers only when the ranks
// have written their traces.
const postLimit = 10 * time.Minute

// post makes a call to the profiler.
func post(ctx context.Context, url string, c Call) error {
	ctx, cancel := context.WithTimeout(ctx, postLimit)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url+c.Path, bytes.NewReader([]byte(c.Body)))
	if err != nil {
		return err
	}
	if c.Body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := direct.Do(req)
	if err != nil {
		return wrong(result.ConnFailed, "POST %s: %v", c.Path, err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, 4096))
	if err != nil {
		return wrong(result.ConnFailed, "POST %s: %v", c.Path, err)
	}
	if resp.StatusCode != http.StatusOK {
		return wrong(result.HTTPStatus, "POST %s: HTTP %s: %s", c.Path, resp.Status, wire.Excerpt(body))
	}
	return nil
}

// writeJSON writes a file that is either the old or the new one at any time.
func writeJSON(path string, v any) error {
	b, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	tmp := path + ".tmp"
	if err := os.WriteFile(tmp, append(b, '\n'), 0o644); err != nil {
		return err
	}
	return os.Rename(tmp, path)
}
