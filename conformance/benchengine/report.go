package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/sotabuild/sotabuild/engine/key"
)

// times are one way of doing something, run several times.
type times struct {
	wall, cpu []time.Duration
	memory    int64 // the most, in bytes
}

func (t times) best() time.Duration { return slices.Min(t.wall) }

func (t times) bestCPU() time.Duration { return slices.Min(t.cpu) }

// process runs a command to its end; want must be in what it prints.
func (t *times) process(want string, name string, args ...string) error {
	cmd := exec.CommandContext(context.Background(), name, args...)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	start := time.Now()
	err := cmd.Run()
	t.wall = append(t.wall, time.Since(start))
	if err != nil || !strings.Contains(out.String(), want) {
		return fmt.Errorf("%s %v: %w\n%s", name, args, err, out.String())
	}
	use := cmd.ProcessState.SysUsage().(*syscall.Rusage)
	t.cpu = append(t.cpu, cmd.ProcessState.UserTime()+cmd.ProcessState.SystemTime())
	t.memory = max(t.memory, use.Maxrss<<10)
	return nil
}

// without is process where a file is not there, if it ever was.
func (t *times) without(file, want, name string, args ...string) error {
	if err := os.Remove(file); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return t.process(want, name, args...)
}

// rounds is how often each is run, one after the other and in turn, so that
// neighbours disturb both alike.
const rounds = 7

// table collects lines and remembers whether a bound was missed.
type table struct {
	w      io.Writer
	missed int
}

func (t *table) line(what, figure, bound string, ok bool) {
	verdict := "yes"
	if !ok {
		verdict = "**no**"
		t.missed++
	}
	fmt.Fprintf(t.w, "| %s | %s | %s | %s |\n", what, figure, bound, verdict)
}

// parts are what can be measured by itself, in the order of the table. A part
// gets a folder of its own and the path of this program.
var parts = []struct {
	name    string
	measure func(t *table, dir, self string) error
}{{"noop", (*table).noops}, {"keys", (*table).keys}, {"files", (*table).files}, {"task", (*table).tasks}, {"campaign", (*table).campaigns}}

// report measures one part, or with "" all.
func report(w io.Writer, only string) error {
	machine(w)
	dir, err := os.MkdirTemp("", "benchengine-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	self, err := os.Executable()
	if err != nil {
		return err
	}
	fmt.Fprintf(w, "\n| what | figure | bound | held |\n| --- | --- | --- | --- |\n")
	t := &table{w: w}
	known := false
	for _, p := range parts {
		if only != "" && only != p.name {
			continue
		}
		known = true
		if err := p.measure(t, filepath.Join(dir, p.name), self); err != nil {
			return err
		}
	}
	switch {
	case !known:
		return fmt.Errorf("no part is called %q", only)
	case t.missed > 0:
		return fmt.Errorf("%d bounds are missed; they are of an idle machine, and by CPU time", t.missed)
	}
	return nil
}

func (t *table) noops(dir, self string) error {
	for _, c := range []struct {
		shape string
		n     int
	}{{flat, 100}, {flat, 10_000}, {grid, 10_000}, {flat, 100_000}, {chain, 100_000}, {fanIn, 100_000}} {
		s := site{dir: filepath.Join(dir, fmt.Sprint(c.shape, c.n)), shape: c.shape, n: c.n}
		if err := t.noop(self, s); err != nil {
			return err
		}
		if err := os.RemoveAll(s.dir); err != nil {
			return err
		}
	}
	return nil
}

// noop measures both tools on one finished graph. Bounds are compared by CPU
// time, which neighbours do not change.
func (t *table) noop(self string, s site) error {
	if err := os.MkdirAll(s.dir, 0o755); err != nil {
		return err
	}
	if err := exec.Command(self, "make", s.dir, s.shape, fmt.Sprint(s.n)).Run(); err != nil {
		return fmt.Errorf("making %s of %d: %w", s.shape, s.n, err)
	}
	var ours, anew, ninja times
	broken := ""
	for range rounds {
		if err := anew.without(s.keeps(), "nothing to run", self, "plan", s.dir, s.shape, fmt.Sprint(s.n)); err != nil {
			return err
		}
		if err := ours.process("nothing to run", self, "plan", s.dir, s.shape, fmt.Sprint(s.n)); err != nil {
			return err
		}
		if broken == "" {
			if err := ninja.process("no work to do", "ninja", "-C", s.dir); err != nil {
				broken = "ninja fails"
			}
		}
	}
	what := fmt.Sprintf("no-op, %s, %d nodes", s.shape, s.n)
	figure := fmt.Sprintf("%s (CPU %s, %d MB), compiled anew %s (CPU %s, %d MB)", ms(ours.best()), ms(ours.bestCPU()), ours.memory>>20,
		ms(anew.best()), ms(anew.bestCPU()), anew.memory>>20)
	if broken == "" {
		figure += fmt.Sprintf("; ninja %s (CPU %s, %d MB): %.2f ×", ms(ninja.best()), ms(ninja.bestCPU()), ninja.memory>>20,
			float64(ours.bestCPU())/float64(ninja.bestCPU()))
	} else {
		figure += "; " + broken
	}
	switch s.n {
	case 100:
		t.line(what, figure, "< 20 ms", ours.best() < 20*time.Millisecond)
	case 10_000:
		t.line(what, figure, "≤ 1.3 × ninja", broken != "" || float64(ours.bestCPU()) <= 1.3*float64(ninja.bestCPU()))
	default:
		t.line(what, figure, "< 1 s, < 300 MB", ours.bestCPU() < time.Second && max(ours.memory, anew.memory) < 300<<20)
	}
	return nil
}

// keys hashes 100,000 manifests of about 300 bytes.
func (t *table) keys(string, string) error {
	manifests := make([]key.Manifest, 100_000)
	bytes := 0
	for i := range manifests {
		var b key.Builder
		b.Int("kind", "bench", 3)
		b.Digest("software", "", key.Sum(fmt.Append(nil, i)))
		b.Digest("in", "prompts", key.Sum(fmt.Append(nil, -i)))
		b.Text("env.gpu", "gpu0", "NVIDIA H200")
		b.Int("flag", "--max-num-seqs", int64(i))
		b.Text("model", "", "Qwen/Qwen3-8B")
		manifests[i] = b.Finish()
		if i == 0 {
			bytes = len(manifests[i].Text())
		}
	}
	var d []time.Duration
	for range rounds {
		start := cpu()
		for i := range manifests {
			if manifests[i].Key().IsZero() {
				panic("a key is zero")
			}
		}
		d = append(d, cpu()-start)
	}
	t.line(fmt.Sprintf("keys of 100,000 manifests of %d bytes", bytes), "CPU "+ms(slices.Min(d)), "≤ 60 ms", slices.Min(d) <= 60*time.Millisecond)
	return nil
}

// files fingerprints a tree of 100,000 unchanged files again.
func (t *table) files(dir, _ string) error {
	root := filepath.Join(dir, "tree")
	for i := range 100_000 {
		p := filepath.Join(root, path("f", i))
		if i%1000 == 0 {
			if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
				return err
			}
		}
		if err := os.WriteFile(p, fmt.Append(nil, i), 0o644); err != nil {
			return err
		}
	}
	time.Sleep(2100 * time.Millisecond) // a younger stat stands for nothing
	remembered := filepath.Join(dir, "remembered")
	var d []time.Duration
	for i := range rounds + 1 {
		start := cpu()
		f, err := key.OpenFiles(remembered)
		if err != nil {
			return err
		}
		if _, err := f.Tree(root); err != nil {
			return err
		}
		if err := f.Close(); err != nil {
			return err
		}
		if i > 0 {
			d = append(d, cpu()-start)
		}
	}
	t.line("100,000 unchanged files", "CPU "+ms(slices.Min(d)), "≤ 250 ms CPU", slices.Min(d) <= 250*time.Millisecond)
	return nil
}

// cpu is the time that this process has used.
func cpu() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func ms(d time.Duration) string { return fmt.Sprintf("%.1f ms", float64(d)/float64(time.Millisecond)) }

// machine says what the figures were taken on.
func machine(w io.Writer) {
	fact := func(name, value string) { fmt.Fprintf(w, "- %s: %s\n", name, strings.TrimSpace(value)) }
	fact("time", time.Now().UTC().Format(time.RFC3339))
	fact("CPU", fmt.Sprintf("%s, %d logical", field("/proc/cpuinfo", "model name"), runtime.NumCPU()))
	fact("memory", field("/proc/meminfo", "MemTotal"))
	fact("kernel", text("/proc/sys/kernel/osrelease"))
	fact("load", text("/proc/loadavg"))
	fact("Go", runtime.Version())
	if b, err := exec.Command("ninja", "--version").Output(); err == nil {
		fact("ninja", string(b))
	}
	fact("command", "make bench; the best of "+fmt.Sprint(rounds)+" runs in turn, each a process from start to exit; PART=NAME measures one part")
}

func field(file, name string) string {
	for line := range strings.Lines(text(file)) {
		if k, v, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(k) == name {
			return strings.TrimSpace(v)
		}
	}
	return "unknown"
}

func text(file string) string {
	b, err := os.ReadFile(file)
	if err != nil {
		return "unknown"
	}
	return string(b)
}
