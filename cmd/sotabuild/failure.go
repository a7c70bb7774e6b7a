package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// explainFailure says node, cause, last log lines.
func (r *run) explainFailure(addr string) {
	w := r.app.err
	end := r.ends[addr]
	cause := end.Class + ": " + end.Reason
	if h := r.store.History(addr); end.Type == "" && len(h) > 0 { // It failed for good in an earlier run.
		o := h[len(h)-1].Outcome
		cause = o.Class + ": " + o.Reason
	}
	fmt.Fprintf(w, "\n%s failed: %s\n", addr, cause)
	if log := tellingLog(end.Log); log != "" {
		fmt.Fprintf(w, "last lines of %s:\n", relative(log))
		for _, l := range lastLines(log, 10) {
			fmt.Fprintf(w, "    %s\n", l)
		}
	}
}

// tellingLog picks the log that says most in a task's folder of logs, or in a
// step's: the server's, else the longest of the others; "" if there is none.
// Records of our own, which are JSON, are none.
func tellingLog(dir string) string {
	best, size := "", int64(0)
	entries, err := os.ReadDir(dir)
	if err != nil {
		return ""
	}
	for _, e := range entries {
		st, err := e.Info()
		if err != nil || st.Size() == 0 || strings.HasPrefix(filepath.Ext(e.Name()), ".json") {
			continue
		}
		if strings.HasPrefix(e.Name(), "server.") {
			return filepath.Join(dir, e.Name())
		}
		if st.Size() > size {
			best, size = filepath.Join(dir, e.Name()), st.Size()
		}
	}
	return best
}

// lastLines reads the end of a file; an unreadable one is said so.
func lastLines(path string, n int) []string {
	f, err := os.Open(path)
	if err != nil {
		return []string{err.Error()}
	}
	defer f.Close()
	const tail = 16 << 10
	if st, err := f.Stat(); err == nil && st.Size() > tail {
		if _, err := f.Seek(-tail, io.SeekEnd); err != nil {
			return []string{err.Error()}
		}
	}
	b, err := io.ReadAll(f)
	if err != nil {
		return []string{err.Error()}
	}
	lines := strings.Split(strings.TrimRight(string(b), "\n"), "\n")
	return lines[max(0, len(lines)-n):]
}

// failing is what shares a reason of having no number: name is a candidate, or
// where candidates have it.
type failing struct{ framework, name, reason string }

// sharing collects what else is said of the same, each once and in order.
type sharing struct {
	order []failing
	names map[failing][]string
}

func (s *sharing) add(f failing, name string) {
	if s.names == nil {
		s.names = map[failing][]string{}
	}
	list, seen := s.names[f]
	if !seen {
		s.order = append(s.order, f)
	}
	if !slices.Contains(list, name) {
		s.names[f] = append(list, name)
	}
}
