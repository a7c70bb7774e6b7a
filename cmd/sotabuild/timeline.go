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

	"github.com/sotabuild/sotabuild/engine/compile"
	"github.com/sotabuild/sotabuild/engine/event"
	"github.com/sotabuild/sotabuild/engine/event/timeline"
)

// timelineOf reads the events of a run, "" being the newest one.
func timelineOf(s *session, run string) (timeline.Line, error) {
	dir := filepath.Join(s.dir, "events")
	var events []event.Event
	var err error
	if run == "" {
		events, err = newestEvents(dir)
	} else {
		events, err = readEvents(filepath.Join(dir, run+".jsonl"))
	}
	if err != nil {
		return timeline.Line{}, err
	}
	graphs, err := s.graphs()
	if err != nil {
		return timeline.Line{}, err
	}
	return timeline.Read(events, func(node string) (timeline.Node, bool) {
		for _, g := range graphs {
			id, ok := g.Lookup(node)
			if !ok {
				continue
			}
			a := &g.Actions[id]
			out := timeline.Node{GPUs: a.Resources.GPUs, Quiet: a.Resources.Quiet}
			for _, from := range a.Data {
				out.Needs = append(out.Needs, g.Actions[from].Addr)
			}
			for _, from := range a.Orders {
				out.After = append(out.After, g.Actions[from].Addr)
			}
			return out, true
		}
		return timeline.Node{}, false
	}), nil
}

// newestEvents reads the log of the newest run. Names begin with the second of
// the start; of those that share it the events tell which came last.
func newestEvents(dir string) ([]event.Event, error) {
	list, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	var newest []event.Event
	second := ""
	for _, e := range slices.Backward(list) {
		name, ok := strings.CutSuffix(e.Name(), ".jsonl")
		if !ok {
			continue
		}
		at, _, _ := strings.Cut(name, "-")
		if second != "" && at != second {
			break
		}
		second = at
		events, err := readEvents(filepath.Join(dir, e.Name()))
		if err != nil {
			return nil, err
		}
		if len(newest) == 0 || len(events) > 0 && events[0].Time.After(newest[0].Time) {
			newest = events
		}
	}
	if second == "" {
		return nil, fail(codeError, errors.New("nothing was applied here yet"), "`sotabuild apply` writes what show --timeline reads")
	}
	return newest, nil
}

// graphs are the campaign's and those of the rounds beside it that are known.
func (s *session) graphs() ([]*compile.Graph, error) {
	views, err := s.loops(nil)
	if err != nil {
		return nil, err
	}
	out := []*compile.Graph{s.Graph}
	for _, v := range slices.Concat(views...) {
		for _, r := range v.view.Rounds {
			out = append(out, r.Graph)
		}
	}
	return out, nil
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

// traceable refuses a file that no trace could be written to, before anything that
// it would be about has run; "" is none.
func traceable(path string) error {
	if path == "" {
		return nil
	}
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		return fail(codeUsage, fmt.Errorf("--trace %s: it is a folder; write a file's name", path))
	}
	if info, err := os.Stat(filepath.Dir(path)); err != nil || !info.IsDir() {
		return fail(codeUsage, fmt.Errorf("--trace %s: there is no folder %s", path, filepath.Dir(path)))
	}
	return nil
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
