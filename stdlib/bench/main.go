package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/sotabuild/sotabuild/executors/runner"
	"github.com/sotabuild/sotabuild/stdlib/result"
)

// Names of the files in Spec.Out.
const (
	RowFile      = "row.json"
	RequestsFile = "requests.jsonl"
	OutcomeFile  = "outcome.json"
)

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
	Input     *int64       `json:"input_tokens,omitempty"`  // as the server counted
	Output    *int64       `json:"output_tokens,omitempty"` // as the server counted
	Cached    *int64       `json:"cached_tokens,omitempty"`
	Class     result.Class `json:"class,omitempty"`
	Reason    string       `json:"reason,omitempty"`
}

func (m measured) requests() []Request {
	out := make([]Request, 0, len(m.samples))
	for _, s := range m.samples {
		marks, u := s.answer.Marks, s.answer.Usage
		r := Request{ID: s.ask.id, Scheduled: seconds(s.scheduled), Sent: s.sent.Seconds(), End: seconds(s.end),
			Events: len(marks), Input: counted(u.Input), Output: counted(u.Output), Cached: counted(u.Cached),
			Class: s.failure.Class, Reason: s.failure.Reason}
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

// Main is the step's client: it measures the cell that the spec file describes
// at the url, which is known only once the server is up, and writes the verdict into its folder. It returns the exit code: 0 when the
// verdict is written, whatever it is, else 1 with the reason on stderr. SIGINT
// and SIGTERM end the run with a verdict of class interrupted.
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
	s, err := ReadSpec(specPath)
	if err != nil {
		return err
	}
	s.URL = url
	if s.Out == "" {
		return errors.New("checking bench spec: out is empty; write the folder for the results")
	}
	rep, err := Run(ctx, s)
	if err != nil {
		return err
	}
	return rep.Write(s.Out)
}

// Write writes the report's files, each by rename, the outcome last: a folder
// with an outcome is complete.
func (r Report) Write(dir string) error {
	var lines bytes.Buffer
	enc := json.NewEncoder(&lines)
	enc.SetEscapeHTML(false)
	for _, q := range r.Requests {
		if err := enc.Encode(q); err != nil {
			return fmt.Errorf("encoding request %d: %w", q.ID, err)
		}
	}
	row, err := json.MarshalIndent(r.Row, "", "  ")
	if err != nil {
		return fmt.Errorf("encoding row: %w", err)
	}
	outcome, err := json.Marshal(runner.StepOutcome{Class: r.Row.Class, Reason: r.Row.Reason})
	if err != nil {
		return fmt.Errorf("encoding outcome: %w", err)
	}
	return errors.Join(
		replace(filepath.Join(dir, RequestsFile), lines.Bytes()),
		replace(filepath.Join(dir, RowFile), append(row, '\n')),
		replace(filepath.Join(dir, OutcomeFile), append(outcome, '\n')))
}

// replace writes a file that is either the old or the new one at any time. The
// engine may run as another user than the step, so all may read it.
func replace(path string, b []byte) error {
	tmp := path + ".tmp"
	if err := os.WriteFile(tmp, b, 0o644); err != nil {
		return fmt.Errorf("writing result: %w", err)
	}
	if err := os.Rename(tmp, path); err != nil {
		return errors.Join(fmt.Errorf("writing result: %w", err), os.Remove(tmp))
	}
	return nil
}

// ReadRow reads a row file strictly.
func ReadRow(path string) (result.Row, error) {
	var r result.Row
	f, err := os.Open(path)
	if err != nil {
		return r, fmt.Errorf("reading row: %w", err)
	}
	defer f.Close()
	d := json.NewDecoder(f)
	d.DisallowUnknownFields()
	if err := d.Decode(&r); err != nil {
		return r, fmt.Errorf("reading row %q: %w", path, err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return r, fmt.Errorf("reading row %q: more than one value", path)
	}
	if r.Version != result.RowVersion {
		return r, fmt.Errorf("reading row %q: version is %d, not %d", path, r.Version, result.RowVersion)
	}
	return r, nil
}
