package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/sotabuild/sotabuild/engine/event"
	"github.com/sotabuild/sotabuild/engine/event/timeline"
)

// timelineOf reads the events of a run, "" being the newest one.
func timelineOf(s *session, run string) (timeline.Line, error) {
	dir := filepath.Join(s.dir, "events")
	if run == "" {
		list, err := os.ReadDir(dir)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return timeline.Line{}, err
		}
		for _, e := range list { // names begin with the time, so the last is the newest
			if name, ok := strings.CutSuffix(e.Name(), ".jsonl"); ok {
				run = name
			}
		}
		if run == "" {
			return timeline.Line{}, fail(codeError, errors.New("nothing was applied here yet"), "`sotabuild apply` writes what show --timeline reads")
		}
	}
	events, err := readEvents(filepath.Join(dir, run+".jsonl"))
	if err != nil {
		return timeline.Line{}, err
	}
	return timeline.Read(events, timeline.Facts{
		Needs: func(node string) []string {
			id, ok := s.Graph.Lookup(node)
			if !ok {
				return nil
			}
			var out []string
			for _, from := range s.Graph.Needs(id) {
				out = append(out, s.Graph.Actions[from].Addr)
			}
			return out
		},
		GPUs: func(node string) []string {
			if id, ok := s.Graph.Lookup(node); ok {
				return s.Graph.Actions[id].Resources.GPUs
			}
			return nil
		},
	}), nil
}

// readEvents reads a run's log. The last line of a killed apply may be torn.
func readEvents(path string) ([]event.Event, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var out []event.Event
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		var e event.Event
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			break
		}
		out = append(out, e)
	}
	return slices.Clip(out), lines.Err()
}

// writeTrace writes a run as a Chrome trace.
func writeTrace(s *session, run, path string) error {
	l, err := timelineOf(s, run)
	if err != nil {
		return err
	}
	b, err := l.Chrome()
	if err != nil {
		return err
	}
	if err := os.WriteFile(path, b, 0o644); err != nil {
		return fmt.Errorf("writing the trace: %w", err)
	}
	return nil
}
