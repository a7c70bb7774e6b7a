// Package probe says whether a GPU host is fit to be measured on, before the
// first server starts and before money is spent: what the driver reports of
// each card, what the kernel's log says of it, how fast it copies and
// multiplies beside its product's data sheet, and whether two cards can talk.
//
// Every field has a range or is only noted; a field out of its range has a
// name by which the campaign can accept it (gpus { accept = […] }). What could
// not be read is unknown with the reason, never in range.
//
// Judging is a pure function of what was read (Readings). Read asks: it starts
// nvidia-smi and a Python that has torch, and changes nothing.
package probe

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/sotabuild/sotabuild/stdlib/trace/bounds"
)

// Verdict is what is said of a field.
type Verdict string

// The verdicts. Noted has no range; Accepted was out of range and the campaign
// takes it.
const (
	InRange    Verdict = "in_range"
	OutOfRange Verdict = "out_of_range"
	Accepted   Verdict = "accepted"
	Unknown    Verdict = "unknown"
	Noted      Verdict = "noted"
)

// Field is one thing that was looked at.
type Field struct {
	Name    string  `json:"name"`
	GPU     string  `json:"gpu,omitempty"` // UUID; "" is the host
	Value   string  `json:"value,omitempty"`
	Unit    string  `json:"unit,omitempty"`
	Want    string  `json:"want,omitempty"` // the range, in words
	Verdict Verdict `json:"verdict"`
	Reason  string  `json:"reason,omitempty"` // why it is unknown
}

// String is the field on one line.
func (f Field) String() string {
	text := f.Name
	if f.GPU != "" {
		text += " of " + f.GPU
	}
	switch {
	case f.Verdict == Unknown:
		return text + " is unknown: " + f.Reason
	case f.Want == "":
		return text + " is " + f.Value + unit(f.Unit)
	}
	return text + " is " + f.Value + unit(f.Unit) + ", want " + f.Want
}

func unit(u string) string {
	if u == "" {
		return ""
	}
	return " " + u
}

// ReportVersion is the version of Report's JSON form.
const ReportVersion = 1

// Report is everything that was looked at, in the order of the table.
type Report struct {
	Version int     `json:"version"`
	Fields  []Field `json:"fields"`
}

// Bad are the fields out of range that nobody accepted.
func (r Report) Bad() []Field {
	return slices.DeleteFunc(slices.Clone(r.Fields), func(f Field) bool { return f.Verdict != OutOfRange })
}

// Err says which fields are out of range, all at once; nil when none is.
func (r Report) Err() error {
	bad := r.Bad()
	if len(bad) == 0 {
		return nil
	}
	lines := make([]string, len(bad))
	var names []string
	for i, f := range bad {
		lines[i] = f.String()
		if !slices.Contains(names, f.Name) {
			names = append(names, f.Name)
		}
	}
	return fmt.Errorf("%s; put it right, or write accept = [%q] into the gpus block to measure nevertheless",
		strings.Join(lines, "; "), strings.Join(names, `", "`))
}

// Names are the fields that have a range, in the order of the report: the words
// of gpus { accept = […] }.
var Names = []string{
	"ecc_uncorrected", "remapped_rows", "xid", "link_width", "power_limit", "throttle",
	"governor", "copy_to_device", "copy_from_device", "copy_on_device", "matmul_bf16", "all_reduce",
}

// Readings is what was read, raw. An error stands where a reading could not be
// had.
type Readings struct {
	Cards    []Card
	Kernel   string // the kernel's log
	NoKernel error
	Governor []string // of each CPU; nil and an error where there is none
	NoGov    error
	Load     *Load
	NoLoad   error
}

// Card is one GPU as nvidia-smi reports it, by the name of the query field;
// what the driver does not report is missing.
type Card map[string]string

// Load is what the torch program measured (load.py); rates are bytes and
// operations a second.
type Load struct {
	Torch string     `json:"torch"`
	CUDA  string     `json:"cuda"`
	GPUs  []CardLoad `json:"gpus"`
	Pair  *Pair      `json:"pair,omitempty"`
}

// CardLoad is one card under load. A rate is nil with its reason in Failed.
type CardLoad struct {
	UUID   string            `json:"uuid"`
	ToDev  *float64          `json:"copy_to_device,omitempty"`
	FromDv *float64          `json:"copy_from_device,omitempty"`
	OnDev  *float64          `json:"copy_on_device,omitempty"` // read and written, both counted
	MatMul *float64          `json:"matmul_bf16,omitempty"`    // operations a second
	Failed map[string]string `json:"failed,omitempty"`
}

// Pair is an all-reduce over the campaign's cards.
type Pair struct {
	Ranks  int      `json:"ranks"`
	Bus    *float64 `json:"bus,omitempty"` // bytes a second, as nccl-tests count the bus
	Wrong  bool     `json:"wrong,omitempty"`
	Failed string   `json:"failed,omitempty"`
}

// The shares of a data sheet's peak under which a card is out of range. A sound
// H200 reaches 0.90 of its memory rate, 0.80 of its bf16 rate and 0.87 of its
// link; a card at half its clocks, or a link with half its lanes, is below.
const (
	minMemory = 0.70
	minMatMul = 0.55
	minLink   = 0.50
	minPower  = 100 // % of the card's default limit
)

// lane is bytes a second and direction of one PCIe lane by generation (PCI-SIG;
// line rate times coding).
var lane = map[int]float64{1: 0.25e9, 2: 0.5e9, 3: 0.985e9, 4: 1.969e9, 5: 3.938e9, 6: 7.563e9}

// Judge makes the report of what was read.
func Judge(r Readings, accept []string) Report {
	j := judge{readings: r, out: Report{Version: ReportVersion}}
	for _, c := range r.Cards {
		j.card(c)
	}
	j.governor()
	for _, c := range r.Cards {
		j.load(c)
	}
	if len(r.Cards) > 1 {
		j.pair()
	}
	for i, f := range j.out.Fields {
		if f.Verdict == OutOfRange && slices.Contains(accept, f.Name) {
			j.out.Fields[i].Verdict = Accepted
		}
	}
	return j.out
}

type judge struct {
	readings Readings
	out      Report
}

func (j *judge) add(f Field, ok bool) {
	f.Verdict = OutOfRange
	if ok {
		f.Verdict = InRange
	}
	j.out.Fields = append(j.out.Fields, f)
}

func (j *judge) note(f Field) {
	f.Verdict = Noted
	j.out.Fields = append(j.out.Fields, f)
}

func (j *judge) unknown(name, gpu, format string, args ...any) {
	j.out.Fields = append(j.out.Fields, Field{Name: name, GPU: gpu, Verdict: Unknown, Reason: fmt.Sprintf(format, args...)})
}

const notReported = "the driver does not report it"

// number reads a value of nvidia-smi, whose units were left out.
func (c Card) number(name string) (float64, bool) {
	v, err := strconv.ParseFloat(c[name], 64)
	return v, err == nil && !math.IsNaN(v) && !math.IsInf(v, 0)
}

// uuid names the card.
func (c Card) uuid() string { return c["uuid"] }

func (j *judge) card(c Card) {
	gpu := c.uuid()
	count := func(name, want string, fields ...string) {
		var sum float64
		for _, f := range fields {
			v, ok := c.number(f)
			if !ok {
				j.unknown(name, gpu, notReported)
				return
			}
			sum += v
		}
		j.add(Field{Name: name, GPU: gpu, Value: number(sum), Want: want}, sum == 0)
	}
	count("ecc_uncorrected", "0 since the driver was loaded", "ecc.errors.uncorrected.volatile.total")
	if v, ok := c.number("ecc.errors.uncorrected.aggregate.total"); ok {
		j.note(Field{Name: "ecc_uncorrected_lifetime", GPU: gpu, Value: number(v)})
	}
	if v, ok := c.number("ecc.errors.corrected.volatile.total"); ok {
		j.note(Field{Name: "ecc_corrected", GPU: gpu, Value: number(v)})
	}
	switch pending, failed := c["remapped_rows.pending"], c["remapped_rows.failure"]; {
	case pending == "" || failed == "":
		j.unknown("remapped_rows", gpu, notReported)
	default:
		bad := !no(pending) || !no(failed)
		value := "none pending, none failed"
		if bad {
			value = "pending " + pending + ", failed " + failed
		}
		j.add(Field{Name: "remapped_rows", GPU: gpu, Value: value, Want: "none pending, none failed"}, !bad)
	}
	j.xid(c)
	width, ok1 := c.number("pcie.link.width.current")
	most, ok2 := c.number("pcie.link.width.max")
	if ok1 && ok2 {
		j.add(Field{Name: "link_width", GPU: gpu, Value: number(width), Unit: "lanes", Want: number(most)}, width >= most)
	} else {
		j.unknown("link_width", gpu, notReported)
	}
	limit, ok1 := c.number("power.limit")
	def, ok2 := c.number("power.default_limit")
	if ok1 && ok2 && def > 0 {
		share := limit / def * 100
		j.add(Field{Name: "power_limit", GPU: gpu, Value: strconv.FormatFloat(share, 'f', 0, 64), Unit: "% of the default of " + number(def) + " W",
			Want: "at least " + strconv.Itoa(minPower) + " %"}, math.Round(share) >= minPower)
	} else {
		j.unknown("power_limit", gpu, notReported)
	}
	j.throttle(c)
	for _, n := range []struct{ name, field, unit string }{
		{"clock_sm_max", "clocks.max.sm", "MHz"}, {"clock_memory_max", "clocks.max.memory", "MHz"}, {"clock_application", "clocks.applications.graphics", "MHz"},
		{"temperature", "temperature.gpu", "°C"}, {"memory_used", "memory.used", "MiB"}, {"persistence", "persistence_mode", ""},
		{"compute_mode", "compute_mode", ""},
	} {
		if v := c[n.field]; v != "" {
			j.note(Field{Name: n.name, GPU: gpu, Value: v, Unit: n.unit})
		}
	}
}

// no reads the two ways in which nvidia-smi writes that there is none.
func no(v string) bool { return strings.EqualFold(v, "no") || v == "0" }

func number(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }

// throttleBits are the reasons of clocks_event_reasons that say that the card
// is slower than it should be: hardware slowdown, software and hardware thermal
// slowdown, power brake (DESIGN 11.8).
const throttleBits = 0x8 | 0x20 | 0x40 | 0x80

func (j *judge) throttle(c Card) {
	v, err := strconv.ParseUint(strings.TrimPrefix(c["clocks_event_reasons.active"], "0x"), 16, 64)
	if err != nil {
		j.unknown("throttle", c.uuid(), notReported)
		return
	}
	value := "none"
	if v&throttleBits != 0 {
		value = fmt.Sprintf("reasons %#x", v&throttleBits)
	}
	j.add(Field{Name: "throttle", GPU: c.uuid(), Value: value, Want: "none"}, v&throttleBits == 0)
}

func (j *judge) governor() {
	r := j.readings
	if r.NoGov != nil {
		j.unknown("governor", "", "%v", r.NoGov)
		return
	}
	kinds := slices.Compact(slices.Sorted(slices.Values(r.Governor)))
	j.add(Field{Name: "governor", Value: strings.Join(kinds, ", "), Want: "performance"}, slices.Equal(kinds, []string{"performance"}))
}

func (j *judge) load(c Card) {
	gpu := c.uuid()
	names := []string{"copy_to_device", "copy_from_device", "copy_on_device", "matmul_bf16"}
	l := j.readings.Load
	if l == nil {
		for _, n := range names {
			j.unknown(n, gpu, "%v", j.readings.NoLoad)
		}
		return
	}
	i := slices.IndexFunc(l.GPUs, func(g CardLoad) bool { return g.UUID == gpu })
	if i < 0 {
		for _, n := range names {
			j.unknown(n, gpu, "torch %s did not see this card", l.Torch)
		}
		return
	}
	product, known := bounds.ProductOf(c["name"])
	link, linkText := linkRate(c)
	sheet := func(peak, share float64, text string) (float64, string) {
		if !known || peak == 0 {
			return 0, ""
		}
		return peak * share, fmt.Sprintf("at least %.0f %% of %s's %s", share*100, product.Name, text)
	}
	g := l.GPUs[i]
	for _, n := range []struct {
		name  string
		rate  *float64
		unit  string
		scale float64
		least func() (float64, string)
	}{
		{names[0], g.ToDev, "GB/s", 1e9, func() (float64, string) { return link * minLink, linkText }},
		{names[1], g.FromDv, "GB/s", 1e9, func() (float64, string) { return link * minLink, linkText }},
		{names[2], g.OnDev, "GB/s", 1e9, func() (float64, string) {
			return sheet(product.Bytes, minMemory, fmt.Sprintf("%.0f GB/s", product.Bytes/1e9))
		}},
		{names[3], g.MatMul, "TFLOP/s", 1e12, func() (float64, string) {
			return sheet(product.FLOPs["bf16"], minMatMul, fmt.Sprintf("%.0f TFLOP/s", product.FLOPs["bf16"]/1e12))
		}},
	} {
		if n.rate == nil {
			j.unknown(n.name, gpu, "%s", cmp.Or(g.Failed[n.name], "torch did not measure it"))
			continue
		}
		f := Field{Name: n.name, GPU: gpu, Value: strconv.FormatFloat(*n.rate/n.scale, 'f', 1, 64), Unit: n.unit}
		least, want := n.least()
		if want == "" {
			j.note(f)
			continue
		}
		f.Want = want
		j.add(f, *n.rate >= least)
	}
}

// linkRate is what the card's PCIe link carries in one direction at its best.
func linkRate(c Card) (float64, string) {
	gen, ok1 := c.number("pcie.link.gen.max")
	width, ok2 := c.number("pcie.link.width.max")
	rate, ok3 := lane[int(gen)]
	if !ok1 || !ok2 || !ok3 {
		return 0, ""
	}
	return rate * width, fmt.Sprintf("at least %.0f %% of PCIe %.0f x%.0f's %.0f GB/s", minLink*100, gen, width, rate*width/1e9)
}

func (j *judge) pair() {
	const name = "all_reduce"
	l := j.readings.Load
	switch {
	case l == nil:
		j.unknown(name, "", "%v", j.readings.NoLoad)
	case l.Pair == nil:
		j.unknown(name, "", "torch did not measure it")
	case l.Pair.Wrong:
		j.add(Field{Name: name, Value: "a wrong sum", Want: "the right sum"}, false)
	case l.Pair.Bus == nil:
		j.add(Field{Name: name, Value: "failed (" + l.Pair.Failed + ")", Want: "the right sum"}, false)
	default:
		j.add(Field{Name: name, Value: strconv.FormatFloat(*l.Pair.Bus/1e9, 'f', 1, 64), Unit: fmt.Sprintf("GB/s of bus over %d cards", l.Pair.Ranks),
			Want: "the right sum"}, true)
	}
}
