package bench

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/sotabuild/sotabuild/executors/runner"
	"github.com/sotabuild/sotabuild/stdlib/result"
)

// Names of the files in Spec.Out.
const (
	RowFile      = "row.json"
	RequestsFile = "requests.jsonl"
	OutcomeFile  = "outcome.json"
	PartsFile    = "parts.json" // numbers by adapter and by turn, where there are any
)

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
	var parts error
	if len(r.Parts) > 0 {
		b, err := json.MarshalIndent(r.Parts, "", "  ")
		if err != nil {
			return fmt.Errorf("encoding parts: %w", err)
		}
		parts = replace(filepath.Join(dir, PartsFile), append(b, '\n'))
	}
	return errors.Join(parts,
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
