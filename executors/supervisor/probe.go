package supervisor

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/sotabuild/sotabuild/executors"
	"github.com/sotabuild/sotabuild/executors/proc"
	"github.com/sotabuild/sotabuild/executors/runner"
)

// toolPatience bounds each run of a probe or of nvidia-smi, which hangs on a
// sick GPU.
const toolPatience = 10 * time.Second

// probe starts the probes. The function that it returns ends them, with the
// last samples taken; call it once.
func (t *task) probe(ctx context.Context) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var all sync.WaitGroup
	for _, p := range t.spec.Probes {
		t.sample(p)
		if p.Every == 0 {
			continue
		}
		all.Go(func() {
			tick := time.NewTicker(p.Every)
			defer tick.Stop()
			for {
				select {
				case <-ctx.Done():
					return
				case <-tick.C:
					t.sample(p)
				}
			}
		})
	}
	return func() {
		cancel()
		all.Wait()
		for _, p := range t.spec.Probes {
			if p.Every == 0 && !t.ender.Hurried() {
				t.sample(p)
			}
		}
	}
}

// sample runs a probe once. What goes wrong is a line of the probe's own log.
func (t *task) sample(p runner.Probe) {
	at := time.Now().UTC().Format(time.RFC3339Nano)
	text, err := t.capture(p.Argv, toolPatience)
	if err != nil {
		text = append(text, fmt.Sprintf("probe failed: %v\n", err)...)
	}
	path := filepath.Join(t.dir, "probes", p.Name+".log")
	err = os.MkdirAll(filepath.Dir(path), 0o700)
	var file *os.File
	if err == nil {
		file, err = os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	}
	if err == nil {
		_, err = file.WriteString(at + "\n" + t.hide.Text(string(text)))
		file.Close()
	}
	if err != nil {
		t.say("probe %s: %v", p.Name, err)
	}
}

// capture runs a tool and returns what it printed, at most 1 MiB, also when it
// fails. The environment of a tool is empty but for our mark; its name is
// looked up where the runner itself looks.
func (t *task) capture(argv []string, patience time.Duration) ([]byte, error) {
	path, ok := proc.Tool(argv[0])
	if !ok {
		return nil, fmt.Errorf("there is no %s", argv[0])
	}
	read, write, err := proc.Pipe()
	if err != nil {
		return nil, err
	}
	defer read.Close()
	c, err := t.reaper.Start(proc.Command{
		Argv: append([]string{path}, argv[1:]...), Env: []string{executors.EnvTask + "=" + string(t.spec.Task)},
		Dir: "/", Stdout: write, Stderr: write,
	})
	write.Close()
	if err != nil {
		return nil, err
	}
	late := time.Now().Add(patience)
	read.SetReadDeadline(late)
	text, err := io.ReadAll(io.LimitReader(read, 1<<20))
	if err == nil && len(text) < 1<<20 { // its output ends a moment before itself
		select {
		case <-c.Done:
		case <-time.After(time.Until(late)):
		}
	}
	t.ender.Stop(c, time.Now()) // at its end nothing of it is left
	if err != nil {
		return text, fmt.Errorf("%s did not end within %s", argv[0], patience)
	}
	if code, _ := c.Exit(); code == nil || *code != 0 {
		return text, fmt.Errorf("%s %s", argv[0], c.How())
	}
	return text, nil
}

// host takes a snapshot of what runs (R079). A nvidia-smi that fails is a line
// that says so: it must not look like idle GPUs.
func (t *task) host(patience time.Duration) runner.HostState {
	var state runner.HostState
	if n, err := proc.Count(); err == nil {
		state.Processes = n
	}
	if _, ok := proc.Tool("nvidia-smi"); !ok {
		return state
	}
	// The columns are named one by one: only then is the output kept stable.
	text, err := t.capture([]string{"nvidia-smi",
		"--query-compute-apps=gpu_uuid,pid,process_name,used_gpu_memory", "--format=csv,noheader,nounits"}, patience)
	state.GPUs = []string{}
	for line := range strings.Lines(t.hide.Text(string(text))) {
		if line = strings.TrimSpace(line); line != "" {
			state.GPUs = append(state.GPUs, line)
		}
	}
	if err != nil {
		state.GPUs = append(state.GPUs, "unknown: "+err.Error())
	}
	slices.Sort(state.GPUs)
	return state
}

// drain waits until no process of ours is on a GPU any more: memory takes
// moments to come back after a kill.
func (t *task) drain(until time.Time) (state runner.HostState, left []string) {
	patience := toolPatience
	if t.ender.Hurried() {
		patience, until = time.Second, time.Now()
	}
	for {
		state, left = t.host(patience), nil
		for _, line := range state.GPUs {
			fields := strings.Split(line, ",")
			if len(fields) < 2 {
				continue
			}
			if pid, err := strconv.Atoi(strings.TrimSpace(fields[1])); err == nil && t.pids[pid] {
				left = append(left, "GPU memory: "+line)
			}
		}
		if len(left) == 0 || time.Now().After(until) {
			return state, left
		}
		time.Sleep(100 * time.Millisecond)
	}
}
