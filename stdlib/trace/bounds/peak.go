package bounds

import (
	"fmt"
	"slices"
	"strings"
	"unicode"
)

// Product is what a device can do at best by its maker's data sheet: dense
// operations a second by data type, bytes a second of device memory. A type
// without a row is not known, as are those of a Product that is not listed.
type Product struct {
	Name   string
	Match  string // words of the device's name in a trace
	FLOPs  map[string]float64
	Bytes  float64
	Source string // the data sheet that the figures are taken from
}

const (
	tera = 1e12
	giga = 1e9
)

// products by the makers' data sheets, dense tensor rates without sparsity;
// the first match counts, so longer names stand before shorter ones. A GH200 or
// an MI300A is none of these, and a slice of a GPU (MIG) has no data sheet.
var products = []Product{
	{"NVIDIA GB200", "GB200", rates(2500, 2500, 5000, 80), 8000 * giga, "GB200 NVL72 data sheet, a GPU's half"},
	{"NVIDIA B200", "B200", rates(2250, 2250, 4500, 80), 8000 * giga, "HGX B200 data sheet"},
	{"NVIDIA H200", "H200", rates(989.5, 989.5, 1979, 67), 4800 * giga, "H200 data sheet, SXM"},
	{"NVIDIA H100 NVL", "H100 NVL", rates(835.5, 835.5, 1671, 60), 3900 * giga, "H100 data sheet, NVL"},
	{"NVIDIA H100 PCIe", "H100 PCIe", rates(756.5, 756.5, 1513, 51), 2000 * giga, "H100 data sheet, PCIe"},
	{"NVIDIA H100 SXM", "H100", rates(989.5, 989.5, 1979, 67), 3350 * giga, "H100 data sheet, SXM"},
	{"NVIDIA A100 80GB PCIe", "A100 80GB PCIe", rates(312, 312, 0, 19.5), 1935 * giga, "A100 80GB data sheet, PCIe"},
	{"NVIDIA A100 80GB", "A100 80GB", rates(312, 312, 0, 19.5), 2039 * giga, "A100 80GB data sheet, SXM"},
	{"NVIDIA A100 40GB", "A100", rates(312, 312, 0, 19.5), 1555 * giga, "A100 data sheet, 40 GB"},
	{"NVIDIA L40S", "L40S", rates(362, 362, 733, 91.6), 864 * giga, "L40S data sheet"},
	{"NVIDIA L4", "L4", rates(121, 121, 242, 30.3), 300 * giga, "L4 data sheet"},
	{"NVIDIA V100", "V100", rates(0, 125, 0, 15.7), 900 * giga, "V100 data sheet, SXM2"},
	{"NVIDIA T4", "T4", rates(0, 65, 0, 8.1), 320 * giga, "T4 data sheet"},
	{"AMD MI355X", "MI355X", rates(2516.6, 2516.6, 5033.2, 157.3), 8000 * giga, "Instinct MI355X data sheet"},
	{"AMD MI325X", "MI325X", rates(1307.4, 1307.4, 2614.9, 163.4), 6000 * giga, "Instinct MI325X data sheet"},
	{"AMD MI300X", "MI300X", rates(1307.4, 1307.4, 2614.9, 163.4), 5300 * giga, "Instinct MI300X data sheet"},
	{"AMD MI250X", "MI250X", rates(383, 383, 0, 47.9), 3277 * giga, "Instinct MI250X data sheet"},
}

func rates(bf16, fp16, fp8, fp32 float64) map[string]float64 {
	m := map[string]float64{}
	for name, v := range map[string]float64{"bf16": bf16, "fp16": fp16, "fp8": fp8, "int8": fp8, "fp32": fp32} {
		if v > 0 {
			m[name] = v * tera
		}
	}
	return m
}

// ProductOf finds the product by the device name of a trace.
func ProductOf(device string) (Product, bool) {
	words := strings.FieldsFunc(strings.ToUpper(device), func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) })
	if slices.Contains(words, "MIG") {
		return Product{}, false
	}
	for _, p := range products {
		missing := func(w string) bool { return !slices.Contains(words, strings.ToUpper(w)) }
		if !slices.ContainsFunc(strings.Fields(p.Match), missing) {
			return p, true
		}
	}
	return Product{}, false
}

// Limit is what stops a kernel from being faster.
type Limit string

// The limits. A kernel below 40 % of both peaks waits for something else.
const (
	ByCompute Limit = "compute"
	ByMemory  Limit = "memory"
	Neither   Limit = "neither (latency, occupancy or launch)"
)

// Bound is what some launches of one kernel reached. Shares are of the
// product's peak, 1 is the peak, 0 is "peak not known".
type Bound struct {
	Work       Work
	Seconds    float64
	FLOPRate   float64 // a second
	ByteRate   float64 // a second, of bytes that had to move
	OfCompute  float64
	OfMemory   float64
	Limit      Limit
	Known      float64 // share of the kernel's time whose shapes are known
	Product    string
	NoPeak     string // data type whose peak on the product is not known; "" when it is
	WhyUnknown string // why the rest is unknown
}

// Judge compares work done in some time with what the product can do.
func Judge(w Work, seconds float64, device string) Bound {
	b := Bound{Work: w, Seconds: seconds}
	if seconds <= 0 {
		return b
	}
	b.FLOPRate, b.ByteRate = w.FLOPs/seconds, w.Bytes/seconds
	p, ok := ProductOf(device)
	if !ok {
		b.WhyUnknown = "the peak of " + orUnnamed(device) + " is not known"
		return b
	}
	b.Product = p.Name
	b.OfMemory = b.ByteRate / p.Bytes
	if peak := p.FLOPs[w.DType]; peak > 0 {
		b.OfCompute = b.FLOPRate / peak
	} else {
		b.NoPeak = w.DType
	}
	switch {
	case b.NoPeak != "" && b.OfMemory < 0.4:
		// Compute may be the limit: nobody can say.
	case b.OfCompute < 0.4 && b.OfMemory < 0.4:
		b.Limit = Neither
	case b.OfCompute >= b.OfMemory:
		b.Limit = ByCompute
	default:
		b.Limit = ByMemory
	}
	return b
}

func orUnnamed(device string) string {
	if device == "" {
		return "an unnamed device"
	}
	return device
}

// String is the bound in one cell of a table.
func (b Bound) String() string {
	if b.Seconds == 0 || b.Work.Bytes == 0 {
		return "unknown: " + b.WhyUnknown
	}
	most := ""
	if b.Work.Upper {
		most = "≤ "
	}
	s := fmt.Sprintf("%s%.1f TFLOP/s, %.0f GB/s", most, b.FLOPRate/tera, b.ByteRate/giga)
	if b.Product == "" {
		return s + " (" + b.WhyUnknown + ")"
	}
	if b.NoPeak != "" {
		s += fmt.Sprintf("; %.0f %% of %s memory, its peak in %s is not known", 100*b.OfMemory, b.Product, b.NoPeak)
		if b.Limit == "" {
			return s
		}
		return s + ": " + string(b.Limit)
	}
	return s + fmt.Sprintf("; %s%.0f %% of %s compute, %.0f %% of memory: %s", most, 100*b.OfCompute, b.Product, 100*b.OfMemory, b.Limit)
}
