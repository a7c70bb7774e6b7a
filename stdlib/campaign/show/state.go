package show

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/sotabuild/sotabuild/engine/cache"
	"github.com/sotabuild/sotabuild/executors/hoststate"
	"github.com/sotabuild/sotabuild/executors/runner"
	"github.com/sotabuild/sotabuild/stdlib/campaign"
	"github.com/sotabuild/sotabuild/stdlib/report"
	"github.com/sotabuild/sotabuild/stdlib/report/markdown"
)

// stateFile holds what ran on the host before and after each server life
// (R079).
const stateFile = "host_state.md"

// Life is one task's host before and after it, with what it had to remove and
// what it could not.
type Life struct {
	Task          string
	Before, After runner.HostState
	Removed, Left []string
	Logs          []string // servers' logs that are not whole, with what is missing
	Missing       string   // why there are no snapshots; "" if there are
}

// Different reports whether the task left the host otherwise than it found it.
// The number of processes is no difference: other people's come and go.
func (l Life) Different() bool {
	return l.Missing != "" || len(l.Removed)+len(l.Left) > 0 || !slices.Equal(l.Before.GPUs, l.After.GPUs)
}

// lives reads the snapshots of the tasks that the cells of the view ran in, each
// once, in the order of their ids.
func (j *joiner) lives(v report.View, tasks string) ([]Life, error) {
	digests := map[string]*cache.Record{}
	for _, rec := range j.r.Kind(campaign.BenchKind.Name) {
		digests[rec.Output("row").String()] = rec
	}
	var ids []string
	for _, s := range v.Scenarios {
		for _, c := range s.Cells {
			if rec := digests[c.Digest.String()]; rec != nil && rec.Origin.Task != "" && !slices.Contains(ids, rec.Origin.Task) {
				ids = append(ids, rec.Origin.Task)
			}
		}
	}
	slices.Sort(ids)
	var out []Life
	for _, id := range ids {
		l := Life{Task: id}
		exit, err := runner.ReadExit(filepath.Join(tasks, id))
		switch {
		case errors.Is(err, fs.ErrNotExist):
			l.Missing = "its folder is no longer there, or its supervisor was killed"
		case err != nil:
			return nil, fmt.Errorf("reading the host's state of task %s: %w", id, err)
		default:
			l.Before, l.After, l.Removed, l.Left = exit.Before, exit.After, exit.Removed, exit.Left
			for _, p := range exit.Processes {
				if p.LogMissing > 0 {
					l.Logs = append(l.Logs, fmt.Sprintf("of the log of %s %d bytes are left out", p.Name, p.LogMissing))
				}
			}
		}
		out = append(out, l)
	}
	return out, nil
}

// stateText is the page of lives.
func stateText(lives []Life) []byte {
	var b strings.Builder
	b.WriteString("# Host before and after each server life\n\n")
	different, all := 0, fmt.Sprintf("%d lives", len(lives))
	if len(lives) == 1 {
		all = "1 life"
	}
	for _, l := range lives {
		if l.Different() {
			different++
		}
	}
	switch {
	case len(lives) == 0:
		b.WriteString("No server was started.\n")
		return []byte(b.String())
	case different == 0:
		fmt.Fprintf(&b, "%s. None left a process, a file of shared memory or memory of a GPU behind.\n\n", all)
	default:
		fmt.Fprintf(&b, "%d of %s left the host otherwise than they found it.\n\n", different, all)
	}
	b.WriteString("| Task | Processes before | after | Difference |\n| --- | ---: | ---: | --- |\n")
	for _, l := range lives {
		fmt.Fprintf(&b, "| %s | %d | %d | %s |\n", markdown.Code(l.Task), l.Before.Processes, l.After.Processes, markdown.Text(l.difference()))
	}
	return []byte(b.String())
}

// HostFolder is where a store keeps what ran on the host before and after its
// applies.
func HostFolder(store string) string { return filepath.Join(store, "host") }

// applyText is the part of the page about the last apply that ran something.
func applyText(r hoststate.Record) []byte {
	var b strings.Builder
	d := hoststate.Compare(r.Run, r.Before, *r.After)
	fmt.Fprintf(&b, "\n## Before and after the last apply\n\nRun %s, %s to %s: %d processes before, %d after.\n\n", markdown.Code(r.Run),
		r.Before.At.Format(time.RFC3339), r.After.At.Format(time.RFC3339), len(r.Before.Processes), len(r.After.Processes))
	if d.Empty() {
		b.WriteString("No process of its tasks is left, and GPUs hold what they held.\n")
	}
	for _, line := range d.Lines() {
		fmt.Fprintf(&b, "- %s\n", markdown.Text(line))
	}
	if len(d.Others) > 0 {
		fmt.Fprintf(&b, "\nProcesses of others that began meanwhile and run: %s.\n", markdown.Text(strings.Join(d.Others, ", ")))
	}
	return []byte(b.String())
}

func (l Life) difference() string {
	if l.Missing != "" {
		return "no snapshots: " + l.Missing
	}
	var parts []string
	for _, p := range []struct {
		word  string
		lines []string
	}{
		{"left behind", l.Left}, {"removed by the supervisor", l.Removed},
		{"on a GPU before and not after", without(l.Before.GPUs, l.After.GPUs)},
		{"on a GPU after and not before", without(l.After.GPUs, l.Before.GPUs)},
	} {
		if len(p.lines) > 0 {
			parts = append(parts, p.word+": "+strings.Join(p.lines, ", "))
		}
	}
	parts = append(parts, l.Logs...)
	if len(parts) == 0 {
		return "none"
	}
	return strings.Join(parts, "; ")
}

// without are the lines of a that b does not have.
func without(a, b []string) []string {
	return slices.DeleteFunc(slices.Clone(a), func(s string) bool { return slices.Contains(b, s) })
}
