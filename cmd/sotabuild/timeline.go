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

// timelineOf reads the events of a run, "" being the campaign's newest one.
func timelineOf(s *session, run string) (timeline.Line, error) {
	dir := filepath.Join(s.dir, "events")
	var events []event.Event
	var err error
	if run == "" {
		events, err = newestEvents(dir, s.Name)
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

// newestEvents reads the log of a campaign's newest run; that of the newest of any
// where the store, which may be that of several, knows none of this name.
func newestEvents(dir, campaign string) ([]event.Event, error) {
	list, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	events, found, err := newest(dir, list, func(of string) bool { return of == campaign })
	if err == nil && !found {
		events, found, err = newest(dir, list, func(string) bool { return true })
	}
	if err == nil && !found {
		err = fail(codeError, errors.New("nothing was applied here yet"), "`sotabuild apply` writes what show --timeline reads")
	}
	return events, err
}

// newest reads the log of the newest run of what is wanted by its name. Names of
// files begin with the second of the start; of those that share it the events tell
// which came last.
func newest(dir string, list []fs.DirEntry, wanted func(of string) bool) (events []event.Event, found bool, err error) {
	second := ""
	for _, e := range slices.Backward(list) {
		name, ok := strings.CutSuffix(e.Name(), ".jsonl")
		if !ok {
			continue
		}
		at, _, _ := strings.Cut(name, "-")
		if found && at != second {
			break
		}
		these, err := readEvents(filepath.Join(dir, e.Name()))
		if err != nil {
			return nil, false, err
		}
		of := ""
		if len(these) > 0 {
			of = these[0].Text
		}
		switch {
		case !wanted(of):
		case len(events) == 0 || len(these) > 0 && these[0].Time.After(events[0].Time):
			events, found, second = these, true, at
		}
	}
	return events, found, nil
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
