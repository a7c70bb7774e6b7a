// Package hoststate says what ran on this host before and after an apply, and
// how the two differ (R079): processes of our tasks that are still there, other
// processes that began meanwhile, what GPUs hold.
//
// The state before is written down before anything starts. An apply that was
// killed leaves it without a state after; the next one compares it too, so that
// nothing of a killed apply goes unnoticed. Looking changes nothing: no process
// is touched.
//
// A process of a container or job on another host is not seen.
package hoststate

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"

	"github.com/sotabuild/sotabuild/executors"
	"github.com/sotabuild/sotabuild/executors/proc"
)

// State is what runs at one moment.
type State struct {
	At        time.Time `json:"at"`
	Boot      string    `json:"boot"`
	Processes []Process `json:"processes"` // ascending by pid, without ourselves
	// GPUs are their compute processes as nvidia-smi says it, a line each,
	// sorted; nil where there is no nvidia-smi.
	GPUs []string `json:"gpus,omitempty"`
}

// Process is one process.
type Process struct {
	proc.ID
	Name string `json:"name"` // the kernel's, at most 15 bytes: no argument is written down
	// Task is the task of ours that it belongs to, by its environment. Only
	// processes that began after the first look are asked.
	Task string `json:"task,omitempty"`
}

// toolPatience bounds nvidia-smi, which hangs on a sick GPU.
const toolPatience = 10 * time.Second

// Take looks at the host. since is an earlier state, whose processes need no
// second look; the zero State is none, and then nobody's environment is read.
func Take(ctx context.Context, since State) (State, error) {
	boot, err := proc.BootID()
	if err != nil {
		return State{}, err
	}
	all, err := proc.List()
	if err != nil {
		return State{}, err
	}
	s := State{At: time.Now().UTC(), Boot: boot}
	known := since.known()
	for _, p := range all {
		if p.Pid == os.Getpid() || p.Parent == 2 || p.Pid == 2 { // kernel threads
			continue
		}
		x := Process{ID: p.ID}
		if name, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", p.Pid)); err == nil {
			x.Name = strings.TrimSpace(string(name))
		}
		if !since.At.IsZero() && !(since.Boot == boot && known[p.ID]) {
			x.Task = taskOf(p.Pid)
		}
		s.Processes = append(s.Processes, x)
	}
	s.GPUs = gpus(ctx)
	return s, nil
}

// Tasks are the processes on this host that belong to tasks, of whichever store,
// as far as this user may see it.
func Tasks() ([]Process, error) {
	all, err := proc.List()
	if err != nil {
		return nil, err
	}
	var out []Process
	for _, p := range all {
		if task := taskOf(p.Pid); task != "" && p.Pid != os.Getpid() {
			x := Process{ID: p.ID, Task: task}
			if name, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", p.Pid)); err == nil {
				x.Name = strings.TrimSpace(string(name))
			}
			out = append(out, x)
		}
	}
	return out, nil
}

func (s State) known() map[proc.ID]bool {
	known := map[proc.ID]bool{}
	for _, p := range s.Processes {
		known[p.ID] = true
	}
	return known
}

// taskOf reads the mark that every process of a task on this host has.
func taskOf(pid int) string {
	env, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
	if err != nil {
		return "" // it has ended, or is another user's
	}
	for v := range strings.SplitSeq(string(env), "\x00") {
		if task, ok := strings.CutPrefix(v, executors.EnvTask+"="); ok && executors.TaskID(task).Valid() {
			return task
		}
	}
	return ""
}

// gpus asks nvidia-smi. One that fails is a line that says so: it must not look
// like idle GPUs.
func gpus(ctx context.Context) []string {
	path, ok := proc.Tool("nvidia-smi")
	if !ok {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, toolPatience)
	defer cancel()
	cmd := exec.CommandContext(ctx, path, "--query-compute-apps=gpu_uuid,pid,process_name,used_gpu_memory", "--format=csv,noheader,nounits")
	cmd.WaitDelay = time.Second
	text, err := cmd.Output()
	out := []string{}
	for line := range strings.Lines(string(text)) {
		if line = strings.TrimSpace(line); line != "" {
			out = append(out, line)
		}
	}
	if err != nil {
		out = append(out, "unknown: nvidia-smi: "+err.Error())
	}
	slices.Sort(out)
	return out
}

// Difference is how a host is otherwise than before.
type Difference struct {
	Ours         []string // processes of the run's tasks that began meanwhile and run, "PID NAME of task ID"
	Others       []string // the names of other processes that did, with their number
	GPUs, Missed []string // lines of GPUs that are new, and that are gone
}

// Empty says that nothing of ours is left and the GPUs are as they were. Other
// people's processes come and go: they are no difference of ours.
func (d Difference) Empty() bool { return len(d.Ours)+len(d.GPUs)+len(d.Missed) == 0 }

// Lines are the difference for people; none if it is Empty.
func (d Difference) Lines() (out []string) {
	for _, part := range []struct {
		word string
		list []string
	}{{"still runs", d.Ours}, {"on a GPU now and not before", d.GPUs}, {"on a GPU before and not now", d.Missed}} {
		for _, line := range part.list {
			out = append(out, part.word+": "+line)
		}
	}
	return out
}

// Compare says how after differs from before, for the run whose id the ids of its
// tasks begin with. Other runs, of other stores, may be at work beside it.
func Compare(run string, before, after State) Difference {
	var d Difference
	known := before.known()
	others := map[string]int{}
	for _, p := range after.Processes {
		switch {
		case before.Boot == after.Boot && known[p.ID]:
		case strings.HasPrefix(p.Task, run+"-"):
			d.Ours = append(d.Ours, fmt.Sprintf("%d %s of task %s", p.Pid, p.Name, p.Task))
		default:
			others[p.Name]++
		}
	}
	for _, name := range slices.SortedFunc(maps.Keys(others), cmp.Compare) {
		d.Others = append(d.Others, fmt.Sprintf("%d %s", others[name], name))
	}
	d.GPUs, d.Missed = without(after.GPUs, before.GPUs), without(before.GPUs, after.GPUs)
	return d
}

// onGPU is a line of gpus without the memory, which changes while a process runs.
func onGPU(line string) string {
	if parts := strings.Split(line, ", "); len(parts) > 3 {
		return strings.Join(parts[:len(parts)-1], ", ")
	}
	return line
}

// without are the lines of a whose process is not on that GPU in b.
func without(a, b []string) (out []string) {
	for _, s := range a {
		if !slices.ContainsFunc(b, func(x string) bool { return onGPU(x) == onGPU(s) }) {
			out = append(out, s)
		}
	}
	return out
}
