package hoststate

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/sotabuild/sotabuild/executors/ledger"
)

// Record is one apply's look before and after.
type Record struct {
	Run    string `json:"run"`
	Before State  `json:"before"`
	After  *State `json:"after,omitempty"` // nil: it was killed, or is under way
}

// kept is how many records of ended applies stay.
const kept = 10

// Begin looks at the host and writes that down below dir, before anything is
// started. It is called by who holds the store.
func Begin(ctx context.Context, dir, run string) error {
	before, err := Take(ctx, State{})
	if err != nil {
		return fmt.Errorf("looking at the host before: %w", err)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("writing the host's state: %w", err)
	}
	return ledger.Note(path(dir, run), Record{Run: run, Before: before})
}

// End looks again and completes every record that has no look after, and returns
// those, the oldest first. More than one means that an earlier apply was killed.
func End(ctx context.Context, dir string) ([]Record, error) {
	all, err := read(dir)
	if err != nil {
		return nil, err
	}
	var out []Record
	for _, r := range all {
		if r.After != nil {
			continue
		}
		after, err := Take(ctx, r.Before)
		if err != nil {
			return out, fmt.Errorf("looking at the host after: %w", err)
		}
		r.After = &after
		if err := ledger.Note(path(dir, r.Run), r); err != nil {
			return out, err
		}
		out = append(out, r)
	}
	for _, old := range all[:max(0, len(all)-kept)] {
		if err := os.Remove(path(dir, old.Run)); err != nil {
			return out, fmt.Errorf("removing an old state of the host: %w", err)
		}
	}
	return out, nil
}

// Last returns the newest record that has both looks; ok is false where there is
// none.
func Last(dir string) (r Record, ok bool, err error) {
	all, err := read(dir)
	for _, r := range slices.Backward(all) {
		if r.After != nil {
			return r, true, err
		}
	}
	return Record{}, false, err
}

// read returns all records, the oldest first.
func read(dir string) (out []Record, err error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading the host's states: %w", err)
	}
	for _, e := range entries {
		if run, ok := strings.CutSuffix(e.Name(), ".json"); ok && e.Type().IsRegular() {
			r, err := ledger.Read[Record](path(dir, run))
			if err != nil || r.Run != run {
				continue // cut off by a power cut: it says nothing
			}
			out = append(out, r)
		}
	}
	slices.SortFunc(out, func(a, b Record) int { return a.Before.At.Compare(b.Before.At) })
	return out, nil
}

func path(dir, run string) string { return filepath.Join(dir, run+".json") }
