package main

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"time"
)

// load is one row of the table.
type load struct {
	Streams   int `json:"streams"`
	PerSecond int `json:"per_second"` // events/s of each stream
}

func (l load) events() int { return l.Streams * l.PerSecond }

// verdict is what a client says of itself.
type verdict struct {
	Events int     `json:"events"`
	CPU    float64 `json:"cpu_s"`
	P50    float64 `json:"p50_s"` // how late events were read
	P99    float64 `json:"p99_s"`
}

func (v verdict) perEvent() float64 { return v.CPU / float64(v.Events) }

// run is one client under one load.
type run struct {
	Client string `json:"client"`
	load
	verdict
	Reached float64 `json:"reached_per_s"`    // events/s that the server wrote
	Late    string  `json:"late,omitempty"`   // why it was given up
	Failed  string  `json:"failed,omitempty"` // why there is no number
}

// offered says whether the server kept its schedule; else the load is not what
// its row says.
func (r run) offered() bool { return r.Reached >= 0.99*float64(r.events()) }

// onTime is the bound of being on time, as of `bench calibrate`: 99 of 100 events,
// or at least half of them, are read within this of their writing.
const onTime = time.Millisecond

func (r run) measured() bool { return r.Failed == "" && r.Late == "" && r.offered() }
func (r run) half() bool     { return r.measured() && r.P50 < onTime.Seconds() }
func (r run) most() bool     { return r.measured() && r.P99 < onTime.Seconds() }

// table is all that one comparison found.
type table struct {
	Processor  string            `json:"processor"`
	Kernel     string            `json:"kernel"`
	CPUs       int               `json:"cpus"`
	ClientCPUs string            `json:"client_cpus"`
	ServerCPUs string            `json:"server_cpus"`
	Versions   map[string]string `json:"versions"`
	Seconds    float64           `json:"seconds"`
	Repeats    int               `json:"repeats"`
	LoadBefore string            `json:"load_average_before"`
	LoadAfter  string            `json:"load_average_after"`
	Clients    []string          `json:"clients"`
	Runs       []run             `json:"runs"`
	Highest    []highest         `json:"highest"`
}

// highest are the highest loads that a client read on time, in events/s; 0 is
// none. More says that no higher one was measured.
type highest struct {
	Client string `json:"client"`
	Half   int    `json:"p50_within_1ms"`
	Most   int    `json:"p99_within_1ms"`
	Top    int    `json:"highest_load_measured"`
	// CPU seconds an event at the highest load with 99 of 100 on time.
	Cost *float64 `json:"cpu_s_per_event,omitempty"`
}

func (t *table) of(client string) (out []run) {
	for _, r := range t.Runs {
		if r.Client == client {
			out = append(out, r)
		}
	}
	return out
}

// sum finds the highest loads on time.
func (t *table) sum() {
	t.Highest = nil
	for _, c := range t.Clients {
		h := highest{Client: c}
		for _, r := range t.of(c) {
			if r.measured() || r.Late != "" {
				h.Top = max(h.Top, r.events())
			}
			if r.half() {
				h.Half = max(h.Half, r.events())
			}
			if r.most() && r.events() > h.Most {
				cost := r.perEvent()
				h.Most, h.Cost = r.events(), &cost
			}
		}
		t.Highest = append(t.Highest, h)
	}
}

// bySpend compares events a CPU-second load by load, where both clients read
// 99 of 100 events on time: the lowest and highest ratio of the first's to the
// second's. Not ok where there is no such load.
func (t *table) bySpend(a, b string) (low, high float64, ok bool) {
	low = math.Inf(1)
	for _, x := range t.of(a) {
		for _, y := range t.of(b) {
			if x.load == y.load && x.most() && y.most() {
				ratio := y.perEvent() / x.perEvent()
				low, high, ok = min(low, ratio), max(high, ratio), true
			}
		}
	}
	return low, high, ok
}

// markdown writes the table for people.
func (t *table) markdown(w io.Writer) {
	var versions []string
	for name, v := range t.Versions {
		versions = append(versions, name+" "+v)
	}
	slices.Sort(versions)
	fmt.Fprintf(w, "%s, %d CPUs, %s; client on CPU %s, server on %s; %g s a load, medians of %d; load average %s before, %s after; %s\n\n",
		t.Processor, t.CPUs, t.Kernel, t.ClientCPUs, t.ServerCPUs, t.Seconds, t.Repeats, t.LoadBefore, t.LoadAfter, strings.Join(versions, ", "))
	fmt.Fprintf(w, "| streams, events/s | %s |\n|%s\n", strings.Join(t.Clients, ": µs/event, p50, p99 ms | ")+": µs/event, p50, p99 ms", strings.Repeat(" --- |", len(t.Clients)+1))
	var loads []load
	for _, r := range t.Runs {
		if !slices.Contains(loads, r.load) {
			loads = append(loads, r.load)
		}
	}
	for _, l := range loads {
		fmt.Fprintf(w, "| %d, %d |", l.Streams, l.events())
		for _, c := range t.Clients {
			cell := "–"
			for _, r := range t.of(c) {
				if r.load == l {
					cell = r.cell()
				}
			}
			fmt.Fprintf(w, " %s |", cell)
		}
		fmt.Fprintln(w)
	}
	fmt.Fprintln(w, "\n–: not measured, since the client was too late below.")
	t.summary(w)
}

func (r run) cell() string {
	switch {
	case r.Late != "":
		return r.Late
	case r.Failed != "":
		return strings.NewReplacer("\n", "; ", "|", "/").Replace(r.Failed)
	case !r.offered():
		return fmt.Sprintf("%.1f, %.3f, %.3f (the server wrote %.0f/s)", r.perEvent()*1e6, r.P50*1e3, r.P99*1e3, r.Reached)
	}
	return fmt.Sprintf("%.1f, %.3f, %.3f", r.perEvent()*1e6, r.P50*1e3, r.P99*1e3)
}

// summary compares the first client, which is ours, with the others.
func (t *table) summary(w io.Writer) {
	t.sum()
	fmt.Fprintf(w, "\n| on one core | highest load on time, p99 < %v, events/s | p50 < %[1]v | µs/event there | %s : it, by p99 | by p50 | by events a CPU-second at equal load, both on time |\n| --- | --- | --- | --- | --- | --- | --- |\n",
		onTime, t.Clients[0])
	ours := t.Highest[0]
	for _, h := range t.Highest {
		cost, spend := "–", "–"
		if h.Cost != nil {
			cost = fmt.Sprintf("%.1f", *h.Cost*1e6)
		}
		if low, high, ok := t.bySpend(ours.Client, h.Client); ok {
			spend = fmt.Sprintf("%.2f to %.2f", low, high)
		}
		fmt.Fprintf(w, "| %s | %s | %s | %s | %s | %s | %s |\n", h.Client, atLeast(h.Most, h.Top), atLeast(h.Half, h.Top), cost,
			times(ours.Most, ours.Top, h.Most, h.Top), times(ours.Half, ours.Top, h.Half, h.Top), spend)
	}
}

// atLeast says that the highest load that was measured is no limit.
func atLeast(n, top int) string {
	switch {
	case n == 0:
		return "none"
	case n == top:
		return fmt.Sprintf("≥ %d", n)
	}
	return fmt.Sprint(n)
}

// times is how often b is in a. Where no limit was found for a it is at least
// that, for b at most, and for both it is not known.
func times(a, topA, b, topB int) string {
	sign := ""
	switch {
	case a == 0, b == 0, a == topA && b == topB:
		return "–"
	case a == topA:
		sign = "≥ "
	case b == topB:
		sign = "≤ "
	}
	return fmt.Sprintf("%s%.1f", sign, float64(a)/float64(b))
}
