package diagnosis

import "strings"

// Roofline is where the kernel stands under the two roofs of the GPU, at the
// clocks of the measurement. A field is 0 when Missing names what it needs.
type Roofline struct {
	Pipe      string   `json:"pipe,omitempty"`          // fp32, fp64, fp16 or a tensor type: the work it was judged by
	FLOP      float64  `json:"flop,omitempty"`          // operations of that pipe
	Bytes     float64  `json:"dram_bytes,omitempty"`    // read and written
	Intensity float64  `json:"flop_per_byte,omitempty"` // FLOP / Bytes
	Ridge     float64  `json:"ridge,omitempty"`         // flop/byte where the roofs meet
	PeakFLOP  float64  `json:"peak_flop_s,omitempty"`   // per second
	PeakBytes float64  `json:"peak_byte_s,omitempty"`   // per second
	Achieved  float64  `json:"achieved_flop_s,omitempty"`
	RoofPct   float64  `json:"of_roof_pct,omitempty"` // achieved / min(peak, intensity × bandwidth)
	Side      string   `json:"side,omitempty"`        // "left of the ridge" or "right of the ridge"
	Missing   []string `json:"missing,omitempty"`
}

func roofline(v *view) Roofline {
	r := Roofline{}
	ns, timed := v.number(duration)
	r.Bytes = dramBytes(v, ns)
	r.PeakBytes = dramPeak(v)
	work(v, &r)
	if !timed || ns <= 0 {
		r.Missing = append(r.Missing, "duration")
	}
	if r.Bytes == 0 {
		r.Missing = append(r.Missing, "DRAM bytes")
	}
	if r.PeakBytes == 0 {
		r.Missing = append(r.Missing, "peak DRAM bandwidth")
	}
	_, counted := v.number("smsp__sass_thread_inst_executed_op_ffma_pred_on.sum.per_cycle_elapsed")
	switch {
	case r.FLOP == 0 && counted:
		r.Missing = append(r.Missing, "floating-point operations (it executes none, so DRAM throughput alone places it)")
	case r.FLOP == 0:
		r.Missing = append(r.Missing, "floating-point operations (section SpeedOfLight_RooflineChart)")
	case r.PeakFLOP == 0:
		r.Missing = append(r.Missing, "peak of the "+r.Pipe+" pipe")
	}
	if r.FLOP > 0 && r.Bytes > 0 {
		r.Intensity = r.FLOP / r.Bytes
	}
	if r.FLOP > 0 && ns > 0 {
		r.Achieved = r.FLOP / ns * 1e9
	}
	if len(r.Missing) > 0 {
		return r
	}
	r.Ridge = r.PeakFLOP / r.PeakBytes
	r.Side = "right of the ridge"
	if r.Intensity < r.Ridge {
		r.Side = "left of the ridge"
	}
	r.RoofPct = 100 * r.Achieved / min(r.PeakFLOP, r.Intensity*r.PeakBytes)
	return r
}

func dramBytes(v *view, ns float64) float64 {
	if b, ok := v.number("dram__bytes.sum"); ok {
		return b
	}
	read, a := v.number("dram__bytes_read.sum", "dram__bytes_op_read.sum")
	write, b := v.number("dram__bytes_write.sum", "dram__bytes_op_write.sum")
	if a && b {
		return read + write
	}
	rate, _ := v.number("dram__bytes.sum.per_second")
	return rate * ns / 1e9
}

// dramPeak is bytes per second at the measured memory clock. Without the peak
// itself it follows from the achieved rate and its share of the peak.
func dramPeak(v *view) float64 {
	perCycle, a := v.number("dram__bytes.sum.peak_sustained")
	hz, b := v.number("dram__cycles_elapsed.avg.per_second")
	if a && b {
		return perCycle * hz
	}
	rate, _ := v.number("dram__bytes.sum.per_second")
	// Below a few percent the rounding of the share would dominate.
	if pct, ok := v.number(dramPct, dramPctOld); ok && pct > 5 {
		return rate / pct * 100
	}
	return 0
}

// vector pipes: operations per thread instruction, two of a fused one.
var vector = []struct{ pipe, add, mul, fma string }{
	{"fp32", "fadd", "fmul", "ffma"},
	{"fp64", "dadd", "dmul", "dfma"},
	{"fp16", "hadd", "hmul", "hfma"},
}

// work chooses the pipe that did the most operations.
func work(v *view, r *Roofline) {
	cycles, _ := v.number("smsp__cycles_elapsed.avg")
	hz, _ := v.number("sm__cycles_elapsed.avg.per_second", "gpc__cycles_elapsed.avg.per_second")
	for _, p := range vector {
		rate := func(op string) float64 {
			x, _ := v.number("smsp__sass_thread_inst_executed_op_" + op + "_pred_on.sum.per_cycle_elapsed")
			return x
		}
		flop := (rate(p.add) + rate(p.mul) + 2*rate(p.fma)) * cycles
		if flop > r.FLOP {
			peak, _ := v.number("sm__sass_thread_inst_executed_op_" + p.fma + "_pred_on.sum.peak_sustained")
			r.Pipe, r.FLOP, r.PeakFLOP = p.pipe, flop, 2*peak*hz
		}
	}
	for _, name := range v.Metrics.Names() {
		kind, ok := strings.CutPrefix(name, "sm__ops_path_tensor_src_")
		kind, sum := strings.CutSuffix(kind, ".sum")
		if x, isNumber := v.number(name); ok && sum && isNumber && x > r.FLOP {
			peak, _ := v.number(name + ".peak_sustained_elapsed.per_second")
			r.Pipe, r.FLOP, r.PeakFLOP = "tensor "+kind, x, peak
		}
	}
}
