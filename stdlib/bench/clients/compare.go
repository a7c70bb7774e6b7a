package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"
)

// loads are the rows up to what every client is asked for, and further ones for
// clients that are still on time.
var (
	loads   = []load{{20, 50}, {40, 50}, {100, 50}, {200, 50}, {400, 50}, {600, 50}, {800, 50}, {1000, 60}, {1000, 80}, {1000, 100}}
	further = []load{{1500, 100}, {2000, 100}, {3000, 100}}
)

// connecting is the longest that a client may take until all its streams are
// there.
const connecting = 20 * time.Second

// reading is how much longer than three times the time of a load it may take.
const reading = 3 * time.Second

// setup is what a comparison is asked for.
type setup struct {
	seconds                float64
	repeats                int
	only                   string
	interpreter, packages  string
	clientCPUs, serverCPUs string
}

// clients are the names, in the order of the table, and what Python must have.
func (s setup) clients() (names []string, want []string, err error) {
	known := []string{"sotabuild", "epoll", "aiohttp", "aiohttp+uvloop", "httpx", "aiohttp+uvloop+orjson"}
	names = strings.Split(s.only, ",")
	for _, name := range names {
		if !slices.Contains(known, name) {
			return nil, nil, fmt.Errorf("no client %q; there are %s", name, strings.Join(known, ", "))
		}
		if name != "sotabuild" && name != "epoll" {
			want = append(want, strings.Split(name, "+")...)
		}
	}
	slices.Sort(want)
	return names, slices.Compact(want), nil
}

// measure runs every client under every load and tells each result.
func (s setup) measure(tell func(run)) (t table, err error) {
	names, want, err := s.clients()
	if err != nil {
		return t, err
	}
	at, err := choose(s.clientCPUs, s.serverCPUs, siblings)
	if err != nil {
		return t, err
	}
	self, err := os.Executable()
	if err != nil {
		return t, err
	}
	var py python
	if len(want) > 0 {
		if py, err = findPython(s.interpreter, s.packages, want); err != nil {
			return t, err
		}
	}
	t = table{Processor: processor(), Kernel: kernel(), CPUs: runtime.NumCPU(), ClientCPUs: listCPUs(at.client), ServerCPUs: listCPUs(at.server),
		Versions: py.versions, Seconds: s.seconds, Repeats: s.repeats, LoadBefore: loadAverage(), Clients: names}
	if t.Versions == nil {
		t.Versions = map[string]string{}
	}
	t.Versions["go"] = strings.TrimPrefix(runtime.Version(), "go")
	lost := map[string]bool{}
	for i, l := range slices.Concat(loads, further) {
		for _, name := range names {
			if lost[name] {
				continue
			}
			var repeats []run
			for range s.repeats {
				r := run{Client: name, load: l}
				if err := s.one(&r, self, py, at); err != nil {
					r.Failed = err.Error()
				}
				repeats = append(repeats, r)
			}
			r := middle(repeats)
			// Who reads half of the events later than a quarter of the time that all
			// of them took is asked for nothing higher, and above the common loads
			// who is not on time.
			lost[name] = r.Failed != "" || r.Late != "" || r.P50 > s.seconds/4 || i >= len(loads)-1 && !r.half()
			t.Runs = append(t.Runs, r)
			tell(r)
		}
	}
	t.LoadAfter = loadAverage()
	t.sum()
	return t, nil
}

// middle is the median of the repeats, number by number. One without a number is
// the result of all of them.
func middle(repeats []run) run {
	r := repeats[0]
	for _, other := range repeats {
		if other.Failed != "" || other.Late != "" {
			return other
		}
	}
	median := func(of func(run) float64) float64 {
		var all []float64
		for _, r := range repeats {
			all = append(all, of(r))
		}
		slices.Sort(all)
		return (all[(len(all)-1)/2] + all[len(all)/2]) / 2
	}
	r.CPU, r.Reached = median(func(r run) float64 { return r.CPU }), median(func(r run) float64 { return r.Reached })
	r.P50, r.P99 = median(func(r run) float64 { return r.P50 }), median(func(r run) float64 { return r.P99 })
	return r
}

// one runs one client against a server of its own.
func (s setup) one(r *run, self string, py python, at places) (err error) {
	rounds := max(1, int(s.seconds*float64(r.PerSecond)))
	args := []string{strconv.Itoa(r.Streams), strconv.Itoa(rounds), strconv.Itoa(r.PerSecond)}
	server := exec.Command(self, append([]string{"-serve"}, args...)...)
	server.Stderr = os.Stderr
	out, err := server.StdoutPipe()
	if err != nil {
		return err
	}
	if err := start(server, at.server); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, server.Process.Kill()); _ = server.Wait() }()
	lines := bufio.NewReader(out)
	addr, err := lines.ReadString('\n')
	if err != nil {
		return fmt.Errorf("the server named no address: %w", err)
	}
	addr = strings.TrimSpace(addr)
	var cmd *exec.Cmd
	switch r.Client {
	case "sotabuild":
		cmd = exec.Command(self, "-ours", addr, args[0], args[1])
	case "epoll":
		cmd = exec.Command(self, "-epoll", addr, args[0], args[1])
	default:
		cmd = exec.Command(py.path, "-c", reader, r.Client, addr, args[0], args[1])
		cmd.Env = py.env
	}
	var said, wrong bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &wrong
	if err := start(cmd, at.client); err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	begun := make(chan error, 1)
	go func() { _, err := lines.ReadString('\n'); begun <- err }()
	// Connecting, and then reading three times as long as is ideal: who is not
	// done then is too late for a number.
	var before time.Duration
	over := time.After(connecting)
	for done := false; !done; {
		select {
		case err := <-begun:
			// Imports, start-up and connecting are not held against anybody.
			var unknown error
			if before, unknown = cpuOf(cmd.Process.Pid); err != nil || unknown != nil {
				return errors.Join(err, unknown, cmd.Process.Kill(), <-ended)
			}
			begun, over = nil, time.After(time.Duration(3*s.seconds*1e9)+reading)
		case err = <-ended:
			done = true
		case <-over:
			r.Late = "not all read in time"
			if begun != nil {
				r.Late = fmt.Sprintf("not connected in %v", connecting)
			}
			err := cmd.Process.Kill()
			<-ended
			return err
		}
	}
	if err != nil {
		said := strings.Split(strings.TrimSpace(wrong.String()), "\n")
		return fmt.Errorf("no number: %w: %s", err, said[len(said)-1])
	}
	if err := json.Unmarshal(said.Bytes(), &r.verdict); err != nil {
		return fmt.Errorf("the client said %q: %w", said.String(), err)
	}
	r.CPU -= before.Seconds()
	if want := r.Streams * rounds; r.Events != want {
		return fmt.Errorf("it read %d of %d events", r.Events, want)
	}
	r.Reached, err = fetchReached(addr)
	return err
}

func fetchReached(addr string) (float64, error) {
	resp, err := http.Get("http://" + addr + "/reached")
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		return 0, err
	}
	return strconv.ParseFloat(string(b), 64)
}
