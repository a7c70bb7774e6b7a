package page

import "strings"

// scales are the units ncu scales, by lower-case spelling. Byte prefixes are
// decimal: ncu prints 32,768 bytes as 32.77 Kbyte.
var scales = map[string]struct {
	base  string
	power int // of ten
}{
	"s": {"ns", 9}, "sec": {"ns", 9}, "second": {"ns", 9}, "seconds": {"ns", 9},
	"ms": {"ns", 6}, "msecond": {"ns", 6},
	"us": {"ns", 3}, "usecond": {"ns", 3}, "µs": {"ns", 3},
	"ns": {"ns", 0}, "nsecond": {"ns", 0},
	"hz": {"hz", 0}, "khz": {"hz", 3}, "mhz": {"hz", 6}, "ghz": {"hz", 9}, "thz": {"hz", 12},
	"byte": {"byte", 0}, "kbyte": {"byte", 3}, "mbyte": {"byte", 6},
	"gbyte": {"byte", 9}, "tbyte": {"byte", 12}, "pbyte": {"byte", 15},
}

// counts are the units that ncu leaves alone.
var counts = map[string]string{
	"": "", "%": "%", "cycle": "cycle", "inst": "inst", "warp": "warp", "thread": "thread", "block": "block",
	"cluster": "cluster", "register": "register", "request": "request", "sector": "sector", "sectors": "sector",
	"sm": "SM", "tpc": "TPC", "gpc": "GPC", "branches": "branches", "pass": "pass", "sample": "sample", "samples": "sample",
}

// baseUnit says what a unit becomes and by which power of ten its values grow.
// Powers, not factors, so that 548.125184 Mbyte becomes exactly 548125184 byte.
// An unknown unit stays as it is, because a wrong power would be a wrong number.
func baseUnit(unit string) (base string, power int, known bool) {
	unit = strings.TrimSpace(unit)
	num, den, ratio := strings.Cut(unit, "/")
	base, power, known = scaleOf(num)
	if !known {
		return unit, 0, false
	}
	if !ratio {
		return base, power, true
	}
	under, less, ok := scaleOf(den)
	switch {
	case !ok:
		return unit, 0, false
	case under == "ns": // rates are per second
		return base + "/s", power + 9 - less, true
	}
	return base + "/" + under, power - less, true
}

func scaleOf(unit string) (base string, power int, known bool) {
	unit = strings.ToLower(unit)
	if s, ok := scales[unit]; ok {
		return s.base, s.power, true
	}
	base, known = counts[unit]
	return base, 0, known
}
