// Command clients measures load generators beside each other on the same server
// in one run: this project's client, a bare epoll reader as the floor, and
// Python readers as other tools use them. `make bench-client` runs it.
//
// The server is a process of its own that writes one event to each stream in
// turn on an even schedule and puts the time of the write into the event. Every
// client is a process on one core of its own, where the machine has two, and
// reports its CPU time and how late it read. CPU time an event is what
// neighbours change least; how late it was says whether that time is worth
// anything: who reads late reads many events at once, which is cheap.
package main

import (
	"bufio"
	"bytes"
	_ "embed"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

//go:embed reader.py
var reader string

// load is one row of the table.
type load struct{ streams, perSecond int } // events/s of each stream

var loads = []load{{20, 50}, {100, 50}, {200, 50}, {400, 50}, {800, 50}, {1000, 60}, {1000, 80}, {1000, 100}}

// A client is on time while it reads half of all events within this of their
// writing.
const onTime = time.Millisecond

// steady is the same for 99 of 100 events.
const steady = 10 * time.Millisecond

// verdict is what a client says of itself.
type verdict struct {
	Events int     `json:"events"`
	CPU    float64 `json:"cpu_s"`
	P50    float64 `json:"p50_s"`
	P99    float64 `json:"p99_s"`
}

// clients are the argvs, in display order. Debian's own interpreter is the one
// that sees its packages.
func clients(self string) [][]string {
	return [][]string{{"sotabuild", self, "-ours"}, {"epoll", self, "-epoll"},
		{"aiohttp", "/usr/bin/python3", "-c", reader, "aiohttp"}, {"aiohttp+uvloop", "/usr/bin/python3", "-c", reader, "uvloop"}, {"httpx", "/usr/bin/python3", "-c", reader, "httpx"}}
}

func main() {
	serve := flag.Bool("serve", false, "be the server")
	ours := flag.Bool("ours", false, "be our client")
	raw := flag.Bool("epoll", false, "be the epoll reader")
	seconds := flag.Float64("seconds", 2, "of each load")
	only := flag.String("only", "", "some clients, by comma")
	flag.Parse()
	var err error
	switch {
	case *serve:
		err = serveTicks(flag.Args())
	case *ours:
		err = report(readOurs, flag.Args())
	case *raw:
		err = report(readEpoll, flag.Args())
	default:
		err = compare(os.Stdout, *seconds, *only)
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "clients: %v\n", err)
		os.Exit(1)
	}
}

// compare runs every client under every load.
func compare(w io.Writer, seconds float64, only string) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	fmt.Fprintf(w, "%s, %d CPUs; a client has one\n", processor(), runtime.NumCPU())
	fmt.Fprintf(w, "%-16s %8s %10s %10s %12s %10s %10s\n", "client", "streams", "events/s", "µs/event", "events/core", "p50 ms", "p99 ms")
	half, most, cost := map[string]int{}, map[string]int{}, map[string][]float64{} // by client: the highest loads on time; CPU time by load
	for _, l := range loads {
		for _, c := range clients(self) {
			if only != "" && !slices.Contains(strings.Split(only, ","), c[0]) {
				continue
			}
			v, err := one(self, c[1:], l, seconds)
			if err != nil {
				fmt.Fprintf(w, "%-16s %8d %10d %s\n", c[0], l.streams, l.streams*l.perSecond, strings.ReplaceAll(err.Error(), "\n", "; "))
				continue
			}
			per := v.CPU / float64(v.Events)
			cost[c[0]] = append(cost[c[0]], per)
			if v.P50 < onTime.Seconds() {
				half[c[0]] = max(half[c[0]], l.streams*l.perSecond)
			}
			if v.P99 < steady.Seconds() {
				most[c[0]] = max(most[c[0]], l.streams*l.perSecond)
			}
			fmt.Fprintf(w, "%-16s %8d %10d %10.1f %12.0f %10.3f %10.3f\n", c[0], l.streams, l.streams*l.perSecond, per*1e6, 1/per, v.P50*1e3, v.P99*1e3)
		}
	}
	for _, c := range clients(self) {
		if len(cost[c[0]]) == 0 {
			continue
		}
		fmt.Fprintf(w, "%s reads half of the events within %v up to %d events/s, and 99 %% within %v up to %d events/s, on its core", c[0], onTime, half[c[0]], steady, most[c[0]])
		if ours, theirs := cost["sotabuild"], cost[c[0]]; c[0] != "sotabuild" && len(ours) == len(loads) && len(theirs) == len(loads) {
			fmt.Fprintf(w, "; sotabuild reads, load by load,")
			for i := range loads {
				fmt.Fprintf(w, " %.2f", theirs[i]/ours[i])
			}
			fmt.Fprintf(w, " × its events per CPU-second")
		}
		fmt.Fprintln(w)
	}
	return nil
}

// processor is the machine's, for people.
func processor() string {
	b, err := os.ReadFile("/proc/cpuinfo")
	for line := range strings.Lines(string(b)) {
		if name, value, _ := strings.Cut(line, ":"); err == nil && strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return runtime.GOARCH
}

// start starts a command on the last CPU, or on all others, if there are two.
func start(c *exec.Cmd, last bool) error {
	runtime.LockOSThread() // a child inherits the CPUs of the thread that forks it
	defer runtime.UnlockOSThread()
	var all, part unix.CPUSet
	if err := unix.SchedGetaffinity(0, &all); err != nil {
		return err
	}
	part = all
	for cpu := len(all)*64 - 1; cpu >= 0 && all.Count() > 1; cpu-- {
		if !all.IsSet(cpu) {
			continue
		}
		if part.Clear(cpu); last {
			part.Zero()
			part.Set(cpu)
		}
		break
	}
	if err := unix.SchedSetaffinity(0, &part); err != nil {
		return err
	}
	return errors.Join(c.Start(), unix.SchedSetaffinity(0, &all))
}

// one runs one client against a server of its own.
func one(self string, client []string, l load, seconds float64) (v verdict, err error) {
	rounds := int(seconds * float64(l.perSecond))
	args := []string{strconv.Itoa(l.streams), strconv.Itoa(rounds), strconv.Itoa(l.perSecond)}
	server := exec.Command(self, append([]string{"-serve"}, args...)...)
	server.Stderr = os.Stderr
	out, err := server.StdoutPipe()
	if err != nil {
		return v, err
	}
	if err := start(server, false); err != nil {
		return v, err
	}
	defer func() { err = errors.Join(err, server.Process.Kill()); _ = server.Wait() }()
	addr, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		return v, fmt.Errorf("the server named no address: %w", err)
	}
	cmd := exec.Command(client[0], append(client[1:], strings.TrimSpace(addr), args[0], args[1])...)
	var said, wrong bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &wrong
	if err := start(cmd, true); err != nil {
		return v, err
	}
	// Three times the ideal time and some for starting; later is no number.
	limit := time.AfterFunc(time.Duration(3*seconds*1e9)+20*time.Second, func() { _ = cmd.Process.Kill() })
	defer limit.Stop()
	if err := cmd.Wait(); err != nil {
		lines := strings.Split(strings.TrimSpace(wrong.String()), "\n")
		return v, fmt.Errorf("no number: %w: %s", err, lines[len(lines)-1])
	}
	if err := json.Unmarshal(said.Bytes(), &v); err != nil {
		return v, fmt.Errorf("the client said %q: %w", said.String(), err)
	}
	if want := l.streams * rounds; v.Events != want {
		return v, fmt.Errorf("it read %d of %d events", v.Events, want)
	}
	return v, nil
}

// report runs a client of this program and prints its verdict.
func report(read func(addr string, streams, rounds int) ([]int64, time.Duration, error), args []string) error {
	if len(args) != 3 {
		return errors.New("a client takes ADDRESS STREAMS ROUNDS")
	}
	streams, err := strconv.Atoi(args[1])
	rounds, err2 := strconv.Atoi(args[2])
	if err := errors.Join(err, err2); err != nil {
		return err
	}
	late, used, err := read(args[0], streams, rounds)
	if err != nil {
		return err
	}
	v := verdict{Events: len(late), CPU: used.Seconds()}
	if len(late) > 0 {
		slices.Sort(late)
		v.P50, v.P99 = float64(late[len(late)/2])/1e9, float64(late[len(late)*99/100])/1e9
	}
	return json.NewEncoder(os.Stdout).Encode(v)
}
