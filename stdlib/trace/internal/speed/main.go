// Command speed measures the trace reader: megabytes of raw JSON per second of
// CPU time, gunzip included, on the largest recorded trace, and peak memory on
// ten copies of its events in one file. It prints the ratio to the 7 MB per
// CPU-second of the scripts in common use. `make bench-trace` runs it.
package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"

	"github.com/klauspost/compress/gzip"

	"github.com/sotabuild/sotabuild/stdlib/trace/launch"
	"github.com/sotabuild/sotabuild/stdlib/trace/read"
)

const (
	upstream = 7.0 // MB of raw JSON per CPU-second, measured on the same trace
	sample   = "traces/xdit_flux_hipgraph_63MB.json.gz"
	rounds   = 15
	copies   = 10
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "speed:", err)
		os.Exit(1)
	}
}

// run with a path reads that file once and tells its peak memory: memory is
// measured in a process of its own. Without one it is the whole measurement.
func run(args []string) error {
	if len(args) == 1 {
		return peak(args[0])
	}
	dir := os.Getenv("SOTABUILD_DATA")
	if dir == "" {
		dir = filepath.Join("..", "shared", "data")
	}
	path := filepath.Join(dir, filepath.FromSlash(sample))
	packed, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("%w (set SOTABUILD_DATA)", err)
	}
	fmt.Printf("machine: %s, %d CPUs, %s\n", processor(), runtime.NumCPU(), runtime.Version())
	best := 0.0
	for range rounds {
		before := cpu()
		t, err := read.Read(bytes.NewReader(packed), path)
		if err != nil {
			return err
		}
		best = max(best, float64(t.Meta.Raw)/1e6/(cpu()-before).Seconds())
	}
	fmt.Printf("read, gunzip included: %.0f MB of raw JSON per CPU-second (best of %d), %.0f × upstream's %.0f\n", best, rounds, best/upstream, upstream)
	big, err := tenfold(packed)
	if err != nil {
		return err
	}
	defer os.Remove(big)
	self, err := os.Executable()
	if err != nil {
		return err
	}
	c := exec.Command(self, big)
	c.Stdout, c.Stderr = os.Stdout, os.Stderr
	return c.Run()
}

// peak reads and links one trace and prints the most memory this process had.
func peak(path string) error {
	before := cpu()
	t, err := read.File(context.Background(), path, read.Options{})
	if err != nil {
		return err
	}
	reading := cpu() - before
	links := launch.Build(t)
	fmt.Printf("%d copies, %.0f MB: %d events read at %.0f MB per CPU-second, %d GPU events linked in %.2f CPU-s, peak memory %d MiB\n",
		copies, float64(t.Meta.Raw)/1e6, t.Counts.Events, float64(t.Meta.Raw)/1e6/reading.Seconds(), len(links.Events),
		(cpu() - before - reading).Seconds(), peakMemory()>>20)
	return nil
}

// tenfold writes a packed trace with the events of the given one ten times.
func tenfold(packed []byte) (string, error) {
	z, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return "", err
	}
	raw, err := io.ReadAll(z)
	if err != nil {
		return "", err
	}
	const open = `"traceEvents": [`
	begin := bytes.Index(raw, []byte(open)) + len(open)
	end := bytes.LastIndexByte(raw, ']')
	if begin < len(open) || end < begin {
		return "", fmt.Errorf("the sample has no traceEvents")
	}
	f, err := os.CreateTemp("", "tenfold-*.json.gz")
	if err != nil {
		return "", err
	}
	w, err := gzip.NewWriterLevel(f, gzip.BestSpeed)
	if err != nil {
		return "", err
	}
	parts := [][]byte{raw[:begin]}
	for i := range copies {
		if i > 0 {
			parts = append(parts, []byte(","))
		}
		parts = append(parts, raw[begin:end])
	}
	for _, p := range append(parts, raw[end:]) {
		if _, err := w.Write(p); err != nil {
			return "", err
		}
	}
	if err := w.Close(); err != nil {
		return "", err
	}
	return f.Name(), f.Close()
}

func cpu() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err) // cannot fail with these arguments
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// peakMemory is the high-water mark in bytes, 0 where the system does not tell.
// Getrusage would also count the parent, whose memory a child shares until it
// executes.
func peakMemory() int64 {
	b, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0
	}
	for line := range strings.SplitSeq(string(b), "\n") {
		if rest, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			var kib int64
			if _, err := fmt.Sscanf(rest, "%d kB", &kib); err == nil {
				return kib << 10
			}
		}
	}
	return 0
}

func processor() string {
	b, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return runtime.GOARCH
	}
	for line := range strings.SplitSeq(string(b), "\n") {
		if name, ok := strings.CutPrefix(line, "model name"); ok {
			return strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(name), ":"))
		}
	}
	return runtime.GOARCH
}
