// Package gpu reads what nvidia-smi sampled while a cell ran: power, clocks,
// memory and the reasons that held the clocks down. From it come energy and
// whether the hardware throttled; a throttled cell has no number.
//
// It knows the CSV form of nvidia-smi and starts no program but the one that
// Command names. Functions are pure; an error says which line is wrong.
package gpu

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Command is what samples these GPUs, by id or UUID, twice a second until it is
// ended; no ids are all GPUs.
func Command(ids ...string) []string {
	argv := []string{"nvidia-smi", "--query-gpu=timestamp,index,power.draw,clocks.current.sm,clocks.current.memory,temperature.gpu,utilization.gpu,memory.used,clocks_event_reasons.active",
		"--format=csv", "--loop-ms=500"}
	if len(ids) > 0 {
		argv = append(argv, "--id="+strings.Join(ids, ","))
	}
	return argv
}

// Sample is one line: one GPU at one time. Nil was "[N/A]".
type Sample struct {
	At          time.Time // by the host's clock, in its zone
	GPU         int       // 0 where the file has no index
	Watts       *float64
	SMClock     *float64 // MHz
	Temperature *float64 // °C
	Busy        *float64 // share of time with a kernel
	MemoryMiB   *float64
	Reasons     *uint64 // bits of clocks_event_reasons.active
}

// The reasons that are taken for throttling: hardware slowdown, software and
// hardware thermal slowdown, power brake. A software power cap (0x4) is how
// many cards always run and is reported by itself.
const (
	Throttle = 0x8 | 0x20 | 0x40 | 0x80
	PowerCap = 0x4
)

// Read reads the CSV with its header line; columns may stand in any order.
func Read(r io.Reader) ([]Sample, error) {
	in := csv.NewReader(r)
	in.TrimLeadingSpace = true
	in.ReuseRecord = true
	head, err := in.Read()
	if err != nil {
		return nil, fmt.Errorf("reading GPU samples: header: %w", err)
	}
	column := map[string]int{}
	for i, h := range head {
		name, _, _ := strings.Cut(h, " [")
		column[name] = i
	}
	if _, ok := column["timestamp"]; !ok {
		return nil, fmt.Errorf("reading GPU samples: no column timestamp in %q", head)
	}
	var out []Sample
	for line := 2; ; line++ {
		fields, err := in.Read()
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		if err != nil {
			return nil, fmt.Errorf("reading GPU samples: %w", err)
		}
		s, err := sample(fields, column)
		if err != nil {
			return nil, fmt.Errorf("reading GPU samples: line %d: %w", line, err)
		}
		out = append(out, s)
	}
}

func sample(fields []string, column map[string]int) (s Sample, err error) {
	get := func(name string) string {
		if i, ok := column[name]; ok && i < len(fields) {
			return fields[i]
		}
		return "[N/A]"
	}
	if s.At, err = time.ParseInLocation("2006/01/02 15:04:05.000", get("timestamp"), time.Local); err != nil {
		return s, err
	}
	if t := get("index"); t != "[N/A]" {
		if s.GPU, err = strconv.Atoi(t); err != nil {
			return s, fmt.Errorf("index %q", t)
		}
	}
	for _, c := range []struct {
		name  string
		unit  string
		scale float64
		to    **float64
	}{
		{"power.draw", " W", 1, &s.Watts}, {"clocks.current.sm", " MHz", 1, &s.SMClock}, {"temperature.gpu", "", 1, &s.Temperature},
		{"utilization.gpu", " %", .01, &s.Busy}, {"memory.used", " MiB", 1, &s.MemoryMiB},
	} {
		t := get(c.name)
		if strings.HasPrefix(t, "[") { // [N/A], [Not Supported]
			continue
		}
		v, err := strconv.ParseFloat(strings.TrimSuffix(t, c.unit), 64)
		if err != nil || v < 0 {
			return s, fmt.Errorf("%s is %q", c.name, t)
		}
		v *= c.scale
		*c.to = &v
	}
	if t := get("clocks_event_reasons.active"); !strings.HasPrefix(t, "[") {
		v, err := strconv.ParseUint(strings.TrimPrefix(t, "0x"), 16, 64)
		if err != nil {
			return s, fmt.Errorf("clocks_event_reasons.active is %q", t)
		}
		s.Reasons = &v
	}
	return s, nil
}

// Summary is what the samples between two times say. Nil is "not observed".
type Summary struct {
	GPUs      int      `json:"gpus"`
	Samples   int      `json:"samples"`
	Joules    *float64 `json:"energy_j,omitempty"`        // of all GPUs, over the covered time
	Coverage  float64  `json:"energy_coverage"`           // covered share of the time
	Watts     *float64 `json:"mean_power_w,omitempty"`    // of all GPUs together
	Throttled *float64 `json:"throttled_share,omitempty"` // of busy samples
	Capped    *float64 `json:"power_cap_share,omitempty"` // of busy samples
	SMClock   *float64 `json:"mean_sm_mhz,omitempty"`     // of busy samples
	MemoryMiB *float64 `json:"peak_memory_mib,omitempty"` // of the fullest GPU
}

// maxGap is the time between two samples above which the power between them is
// not known.
const maxGap = 2 * time.Second

// BusyFrom is the utilisation from which a sample is a busy one.
const BusyFrom = 0.1

// Summarize judges the samples in [from, to].
func Summarize(samples []Sample, from, to time.Time) Summary {
	by := map[int][]Sample{}
	var all []Sample
	for _, s := range samples {
		if !s.At.Before(from) && !s.At.After(to) {
			by[s.GPU] = append(by[s.GPU], s)
			all = append(all, s)
		}
	}
	out := Summary{GPUs: len(by), Samples: len(all)}
	covered := 0.0
	joules := 0.0
	for _, own := range by {
		slices.SortStableFunc(own, func(a, b Sample) int { return a.At.Compare(b.At) })
		for i := 1; i < len(own); i++ {
			a, b := own[i-1], own[i]
			if d := b.At.Sub(a.At); a.Watts != nil && b.Watts != nil && d <= maxGap {
				joules += (*a.Watts + *b.Watts) / 2 * d.Seconds()
				covered += d.Seconds()
			}
		}
	}
	if covered > 0 && to.After(from) {
		watts := joules / covered * float64(len(by))
		out.Joules, out.Watts = &joules, &watts
		out.Coverage = covered / float64(len(by)) / to.Sub(from).Seconds()
	}
	out.Throttled = share(all, func(s Sample) (bool, bool) { return s.Reasons != nil, s.Reasons != nil && *s.Reasons&Throttle != 0 })
	out.Capped = share(all, func(s Sample) (bool, bool) { return s.Reasons != nil, s.Reasons != nil && *s.Reasons&PowerCap != 0 })
	n, clock := 0, 0.0
	for _, s := range all {
		if s.MemoryMiB != nil && (out.MemoryMiB == nil || *s.MemoryMiB > *out.MemoryMiB) {
			out.MemoryMiB = s.MemoryMiB
		}
		if busy(s) && s.SMClock != nil {
			n++
			clock += *s.SMClock
		}
	}
	if n > 0 {
		clock /= float64(n)
		out.SMClock = &clock
	}
	return out
}

func busy(s Sample) bool { return s.Busy != nil && *s.Busy >= BusyFrom }

// share is the part of the busy samples that know it and are it; nil without
// one.
func share(all []Sample, is func(Sample) (known, yes bool)) *float64 {
	n, hit := 0, 0
	for _, s := range all {
		known, yes := is(s)
		if busy(s) && known {
			n++
			if yes {
				hit++
			}
		}
	}
	if n == 0 {
		return nil
	}
	v := float64(hit) / float64(n)
	return &v
}

// PerToken is the energy of one output token: the mean power over the whole
// span, so that a part without samples is taken to be like the others. Not ok
// where less than 90 % of the span is covered.
func (s Summary) PerToken(span time.Duration, tokens int64) (float64, bool) {
	if s.Watts == nil || s.Coverage < .9 || tokens < 1 {
		return 0, false
	}
	return *s.Watts * span.Seconds() / float64(tokens), true
}
