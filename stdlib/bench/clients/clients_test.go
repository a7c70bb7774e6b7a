package main

import (
	"bytes"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestMain lets the test's program be the server and the clients.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && (os.Args[1] == "-serve" || os.Args[1] == "-ours" || os.Args[1] == "-epoll") {
		main()
		return
	}
	os.Exit(m.Run())
}

// TestClientsReadEveryEvent lets every client read a little, and checks what each
// says of itself as far as time has no part in it.
func TestClientsReadEveryEvent(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	at, err := choose("", "", siblings)
	if err != nil {
		t.Fatal(err)
	}
	names := []string{"sotabuild", "epoll"}
	py, err := findPython("/usr/bin/python3", "", []string{"aiohttp", "httpx", "uvloop"})
	if err == nil {
		names = append(names, "aiohttp", "aiohttp+uvloop", "httpx")
	} else {
		t.Logf("without Python: %v", err)
	}
	for _, name := range names {
		r := run{Client: name, load: load{Streams: 5, PerSecond: 100}}
		if err := (setup{seconds: 0.2}).one(&r, self, py, at); err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if r.Events != 100 || r.CPU <= 0 || r.P50 <= 0 || r.P99 < r.P50 || r.Reached <= 0 {
			t.Errorf("%s: %+v; it has to read 5 streams of 20 events", name, r)
		}
	}
}

func TestHighestLoadOnTime(t *testing.T) {
	at := func(client string, perSecond int, cpu, p50, p99, reached float64) run {
		return run{Client: client, load: load{10, perSecond / 10}, verdict: verdict{Events: 1000, CPU: cpu, P50: p50, P99: p99}, Reached: reached}
	}
	tab := table{Processor: "P", Kernel: "K", CPUs: 2, ClientCPUs: "1", ServerCPUs: "0", Seconds: 1, Repeats: 1, LoadBefore: "0.1", LoadAfter: "0.2",
		Versions: map[string]string{"go": "1"}, Clients: []string{"ours", "bare", "slow", "never"},
		Runs: []run{
			at("ours", 1000, .020, .0001, .0002, 1000), at("bare", 1000, .018, .0001, .0002, 1000), at("slow", 1000, .060, .0002, .0004, 1000), at("never", 1000, .1, .002, .020, 1000),
			at("ours", 2000, .010, .0001, .0012, 1999), at("bare", 2000, .011, .0001, .0002, 1999), at("slow", 2000, .030, .0009, .009, 1999),
			at("ours", 4000, .009, .0002, .0003, 3999), at("bare", 4000, .009, .0002, .0003, 3000),
			{Client: "bare", load: load{10, 800}, Failed: "no number"}, {Client: "ours", load: load{10, 800}, Late: "not all read in time"},
		}}
	var out bytes.Buffer
	tab.markdown(&out)
	const want = `P, 2 CPUs, K; client on CPU 1, server on 0; 1 s a load, medians of 1; load average 0.1 before, 0.2 after; go 1

| streams, events/s | ours: µs/event, p50, p99 ms | bare: µs/event, p50, p99 ms | slow: µs/event, p50, p99 ms | never: µs/event, p50, p99 ms |
| --- | --- | --- | --- | --- |
| 10, 1000 | 20.0, 0.100, 0.200 | 18.0, 0.100, 0.200 | 60.0, 0.200, 0.400 | 100.0, 2.000, 20.000 |
| 10, 2000 | 10.0, 0.100, 1.200 | 11.0, 0.100, 0.200 | 30.0, 0.900, 9.000 | – |
| 10, 4000 | 9.0, 0.200, 0.300 | 9.0, 0.200, 0.300 (the server wrote 3000/s) | – | – |
| 10, 8000 | not all read in time | no number | – | – |

–: not measured, since the client was too late below.

| on one core | highest load on time, p99 < 1ms, events/s | p50 < 1ms | µs/event there | ours : it, by p99 | by p50 | by events a CPU-second at equal load, both on time |
| --- | --- | --- | --- | --- | --- | --- |
| ours | 4000 | 4000 | 9.0 | 1.0 | 1.0 | 1.00 to 1.00 |
| bare | ≥ 2000 | ≥ 2000 | 11.0 | ≤ 2.0 | ≤ 2.0 | 0.90 to 0.90 |
| slow | 1000 | ≥ 2000 | 60.0 | 4.0 | ≤ 2.0 | 3.00 to 3.00 |
| never | none | none | – | – | – | – |
`
	if d := cmp.Diff(want, out.String()); d != "" {
		t.Errorf("the table (-want +got):\n%s", d)
	}
}

func TestMiddleIsTheMedianOfEachNumber(t *testing.T) {
	at := func(cpu, p50, p99, reached float64) run {
		return run{verdict: verdict{Events: 10, CPU: cpu, P50: p50, P99: p99}, Reached: reached}
	}
	if got, want := middle([]run{at(3, .1, .9, 70), at(1, .3, .7, 90), at(2, .2, .8, 80)}), at(2, .2, .8, 80); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	if got, want := middle([]run{at(1, .1, .2, 10), at(3, .3, .4, 20)}), at(2, .2, .3, 15); got.CPU != want.CPU || math.Abs(got.P99-want.P99) > 1e-12 {
		t.Errorf("%+v, want %+v", got, want)
	}
	if got := middle([]run{at(1, .1, .2, 10), {Late: "too late"}, at(1, .1, .2, 10)}); got.Late == "" {
		t.Errorf("%+v; one of its repeats has no number", got)
	}
}

func TestTimesSaysWhichSideIsABound(t *testing.T) {
	for _, c := range []struct {
		a, topA, b, topB int
		want             string
	}{
		{60, 80, 20, 40, "3.0"}, {80, 80, 20, 40, "≥ 4.0"}, {60, 80, 40, 40, "≤ 1.5"}, {80, 80, 40, 40, "–"}, {0, 80, 20, 40, "–"}, {60, 80, 0, 40, "–"},
	} {
		if got := times(c.a, c.topA, c.b, c.topB); got != c.want {
			t.Errorf("times(%d of %d, %d of %d) is %q, want %q", c.a, c.topA, c.b, c.topB, got, c.want)
		}
	}
}

func TestCPULists(t *testing.T) {
	for list, want := range map[string]string{"0": "0", "0-3,8": "0,1,2,3,8", "7,2-3\n": "2,3,7"} {
		if got, err := parseCPUs(list); err != nil || listCPUs(got) != want {
			t.Errorf("%q is %s, %v; want %s", list, listCPUs(got), err, want)
		}
	}
	for _, bad := range []string{"", "a", "3-1", "-1", "0-", "1,,2", "99999"} {
		if _, err := parseCPUs(bad); err == nil || !strings.Contains(err.Error(), "0-3,8") {
			t.Errorf("%q: %v; it is no list", bad, err)
		}
	}
	// The client's core has the threads 1 and 3: the server gets neither.
	p, err := choose("3", "", func(int) string { return "1,3\n" })
	if err != nil {
		t.Fatal(err)
	}
	if server := "," + listCPUs(p.server) + ","; listCPUs(p.client) != "3" || strings.Contains(server, ",1,") && server != ",1," || strings.Contains(server, ",3,") {
		t.Errorf("client on %s, server on %s", listCPUs(p.client), listCPUs(p.server))
	}
	if p, err = choose("0", "0", siblings); err != nil || listCPUs(p.server) != "0" {
		t.Errorf("server on %s, %v; it was asked to be on 0", listCPUs(p.server), err)
	}
}

func TestPythonWithoutPackagesIsAnError(t *testing.T) {
	if _, err := findPython("/nowhere/python3", "", nil); err == nil || !strings.Contains(err.Error(), "-interpreter") {
		t.Errorf("an interpreter that is not there: %v", err)
	}
	dir := t.TempDir()
	fake := filepath.Join(dir, "python3")
	// It is asked for its version, then for its packages.
	err := os.WriteFile(fake, []byte("#!/bin/sh\ncase $2 in *version_info*) echo 9.1;; *) echo '{\"python\": \"9.1.2\", \"here\": \"1.0\"}';; esac\n"), 0o700)
	if err != nil {
		t.Fatal(err)
	}
	if p, err := findPython(fake, "", []string{"here"}); err != nil || p.versions["here"] != "1.0" {
		t.Errorf("%v, %v", p.versions, err)
	}
	if _, err := findPython(fake, "", []string{"here", "away"}); err == nil || !strings.Contains(err.Error(), "has no away") || !strings.Contains(err.Error(), "-python") {
		t.Errorf("a package that is not there: %v", err)
	}
	if _, err := findPython(fake, dir, nil); err == nil || !strings.Contains(err.Error(), filepath.Join(dir, "9.1")) {
		t.Errorf("a folder without packages for this Python: %v", err)
	}
	if err := os.Mkdir(filepath.Join(dir, "9.1"), 0o700); err != nil {
		t.Fatal(err)
	}
	if p, err := findPython(fake, dir, nil); err != nil || !slices.Contains(p.env, "PYTHONPATH="+filepath.Join(dir, "9.1")) {
		t.Errorf("%v, %v", p.env, err)
	}
}
