package triage

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/sotabuild/sotabuild/stdlib/trace/interval"
	"github.com/sotabuild/sotabuild/stdlib/trace/kernel"
	"github.com/sotabuild/sotabuild/stdlib/trace/launch"
	"github.com/sotabuild/sotabuild/stdlib/trace/profile"
	"github.com/sotabuild/sotabuild/stdlib/trace/read"
)

// Idle is the time inside passes in which the device does nothing. It is not
// claimed where the trace cannot show it; Reason says why.
type Idle struct {
	Claimed bool        `json:"claimed"`
	Reason  string      `json:"reason,omitempty"` // why it is not claimed
	Window  int64       `json:"window_ns"`        // inside passes, from the first layer on
	Time    int64       `json:"idle_ns"`
	Causes  []IdleCause `json:"causes,omitempty"` // largest first
}

// IdleCause is the idle time of one cause.
type IdleCause struct {
	Cause  string `json:"cause"`
	Time   int64  `json:"time_ns"`
	Gaps   int    `json:"gaps"`
	Advice string `json:"advice"`
}

const (
	hostBound   = "host-bound: the next launch began after the device was idle"
	launchBound = "launch-bound: the next kernel was launched in time and started late"
	insideGraph = "inside a graph replay"
	noLaunch    = "unknown: the next kernel's launch is not in the file"
)

var idleAdvice = map[string]string{
	hostBound:   "shorten the host's path: graphs, fewer operators, asynchronous scheduling",
	launchBound: "look for waits on other streams and for launch latency",
	insideGraph: "look for dependencies between the graph's branches",
	noLaunch:    "record a longer window",
}

// idle measures one stage. Windows begin with the first layer: a stray copy
// long before a pass would make any device look idle.
func (w *work) idle(stage launch.Stage) Idle {
	var out Idle
	switch {
	case w.opt.NoIdle != "":
		out.Reason = w.opt.NoIdle
		return out
	case !w.layers.Known():
		out.Reason = "no passes were found, and idle time between them is no one's"
		return out
	case w.p.Trace.Frames.Len() > 0:
		out.Reason = "the trace has Python stacks, which slow the host"
	case w.p.Links.UnderRecorded():
		out.Reason = "kernels of graph launches are under-recorded"
	default:
		out.Claimed = true
	}
	causes := map[string]*IdleCause{}
	for _, p := range w.layers.Passes {
		if p.Stage != stage || p.Partial || len(p.Layers) == 0 {
			continue
		}
		from := p.Layers[0].Times.Start
		out.Window += p.Times.End - from
		for _, gap := range w.gaps(p.Events, from) {
			d := gap.end - gap.start
			out.Time += d
			name := w.cause(gap)
			c := causes[name]
			if c == nil {
				c = &IdleCause{Cause: name, Advice: idleAdvice[name]}
				causes[name] = c
			}
			c.Time += d
			c.Gaps++
		}
	}
	if out.Window == 0 && out.Claimed {
		out.Claimed, out.Reason = false, "no whole pass of this stage"
	}
	for _, c := range causes {
		out.Causes = append(out.Causes, *c)
	}
	slices.SortFunc(out.Causes, func(a, b IdleCause) int {
		return cmp.Or(cmp.Compare(b.Time, a.Time), cmp.Compare(a.Cause, b.Cause))
	})
	return out
}

type gap struct {
	start, end int64
	next       int32 // the event that ends it
	previous   int32 // the event before it, by start
}

// gaps is where no event of the pass runs, after from.
func (w *work) gaps(events []int32, from int64) []gap {
	var out []gap
	until, previous := from, int32(-1)
	for _, e := range events {
		g := w.p.Trace.GPU[e]
		if g.Start > until && previous >= 0 {
			out = append(out, gap{until, g.Start, e, previous})
		}
		if g.End() > until || g.Start >= from {
			until = max(until, g.End())
			previous = e
		}
	}
	return out
}

func (w *work) cause(g gap) string {
	e := w.p.Links.Events[g.next]
	switch {
	case e.Call < 0:
		return noLaunch
	case e.Graph && w.p.Links.Events[g.previous].Call == e.Call:
		return insideGraph
	case w.p.Trace.Calls[e.Call].Start >= g.start:
		return hostBound
	}
	return launchBound
}

// Comm is the communication of a stage on one rank.
type Comm struct {
	Time   int64  `json:"union_ns"`
	Hidden int64  `json:"hidden_by_compute_ns"`
	Reason string `json:"reason,omitempty"` // beside a zero
}

func (w *work) comm(events []int32) Comm {
	type sides struct{ comm, compute []interval.Span }
	devices := map[int32]*sides{}
	streams := map[[2]int32]bool{}
	for _, e := range events {
		g := w.p.Trace.GPU[e]
		if g.Kind != read.Kernel {
			continue
		}
		d := devices[g.Device]
		if d == nil {
			d = &sides{}
			devices[g.Device] = d
		}
		streams[[2]int32{g.Device, g.Stream}] = true
		s := interval.Span{Start: g.Start, End: g.End()}
		if w.p.Classes[e].Family == kernel.Comm {
			d.comm = append(d.comm, s)
		} else {
			d.compute = append(d.compute, s)
		}
	}
	var c Comm
	for _, d := range devices {
		comm := interval.Merge(d.comm)
		c.Time += interval.Total(comm)
		c.Hidden += interval.Intersect(comm, interval.Merge(d.compute))
	}
	switch {
	case c.Time == 0:
		c.Reason = "no communication kernel"
	case c.Hidden == 0 && len(streams) == len(devices):
		c.Reason = "communication and compute share one stream"
	case c.Hidden == 0:
		c.Reason = "no compute kernel runs at the same time"
	}
	return c
}

// Collective is one communication kernel, for comparing ranks.
type Collective struct {
	Key   string `json:"key"` // group, name and number: equal on all ranks
	Start int64  `json:"start_ns"`
	Dur   int64  `json:"dur_ns"`
}

// collectives lists the communication kernels in order. Ranks count the calls
// of one name alike; where the file has NCCL's sequence numbers, those count.
func collectives(p *profile.Profile) []Collective {
	var out []Collective
	seen := map[string]int{}
	for i, g := range p.Trace.GPU {
		if g.Kind != read.Kernel || p.Classes[i].Family != kernel.Comm {
			continue
		}
		name := p.Symbol(int32(i)).Family
		key := ""
		if g.Collective >= 0 && p.Trace.Collectives[g.Collective].Seq >= 0 {
			c := p.Trace.Collectives[g.Collective]
			key = fmt.Sprintf("%s/%s/seq %d", p.Trace.Name(c.Group), name, c.Seq)
		} else {
			key = fmt.Sprintf("%s #%d", name, seen[name])
			seen[name]++
		}
		out = append(out, Collective{Key: key, Start: p.Trace.Meta.Base + g.Start, Dur: g.Dur})
	}
	return out
}

func earlyWarning(n int) string {
	return fmt.Sprintf("%d GPU events start before their launch: the clocks of host and device differ a little.", n)
}
