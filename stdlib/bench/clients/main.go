// Command clients measures load generators beside each other on the same server
// in one run: this project's client, a bare epoll reader as the floor, and
// Python readers as other tools use them. `make bench-client` runs it.
//
// The server is a process of its own that writes one event to each stream in
// turn on an even schedule and puts the time of the write into the event. Every
// client is a process on one core of its own, where the machine has two, and
// reports its CPU time and how late it read. CPU time an event is what
// neighbours change least; how late it was says whether that time is worth
// anything: who reads late reads many events at once, which is cheap. What one
// core carries is therefore the highest load that is read on time.
//
// The binary and a folder of Python packages run on any machine; `make
// bench-client-folder` puts them together.
package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"slices"
	"strconv"
	"time"
)

func main() {
	serve := flag.Bool("serve", false, "be the server")
	ours := flag.Bool("ours", false, "be our client")
	raw := flag.Bool("epoll", false, "be the epoll reader")
	var s setup
	flag.Float64Var(&s.seconds, "seconds", 2, "of each load")
	flag.IntVar(&s.repeats, "repeats", 1, "of each load; medians are shown")
	flag.StringVar(&s.only, "only", "sotabuild,epoll,aiohttp,aiohttp+uvloop,httpx", "these clients, by comma; there is also aiohttp+uvloop+orjson")
	flag.StringVar(&s.interpreter, "interpreter", "/usr/bin/python3", "Python of the Python clients")
	flag.StringVar(&s.packages, "python", "", "folder with the packages of the Python clients, in a folder X.Y for each version of Python; else the interpreter's own")
	flag.StringVar(&s.clientCPUs, "client-cpus", "", "CPUs of the client, as 0-3,8; else the last one")
	flag.StringVar(&s.serverCPUs, "server-cpus", "", "CPUs of the server; else those that share no core with the client, if there are any")
	out := flag.String("json", "", "also write all numbers to this file")
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
		err = compare(s, *out)
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "clients: %v\n", err)
		os.Exit(1)
	}
}

// compare measures, prints the table, and fails where a client had no number.
func compare(s setup, out string) error {
	if s.repeats < 1 || s.seconds <= 0 {
		return fmt.Errorf("%d repeats of %g s; write at least one, and more than no seconds", s.repeats, s.seconds)
	}
	t, err := s.measure(func(r run) {
		fmt.Fprintf(os.Stderr, "%s, %d streams, %d events/s: %s\n", r.Client, r.Streams, r.events(), r.cell())
	})
	if err != nil {
		return err
	}
	t.markdown(os.Stdout)
	if out != "" {
		b, err := json.MarshalIndent(t, "", " ")
		if err == nil {
			err = os.WriteFile(out, append(b, '\n'), 0o644)
		}
		if err != nil {
			return err
		}
	}
	for _, r := range t.Runs {
		if r.Failed != "" {
			err = errors.Join(err, fmt.Errorf("%s at %d events/s: %s", r.Client, r.events(), r.Failed))
		}
	}
	return err
}

// report runs a client of this program and prints its verdict. The CPU time is
// that of the process up to the last byte.
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
