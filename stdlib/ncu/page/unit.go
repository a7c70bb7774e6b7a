package page

import "strings"

// scales are the units ncu scales, by lower-case spelling. Byte prefixes are
// decimal: ncu prints 32,768 bytes as 32.77 Kbyte.
var scales = map[string]struct {
	base   string
	factor float64
}{
	"s": {"ns", 1e9}, "sec": {"ns", 1e9}, "second": {"ns", 1e9}, "seconds": {"ns", 1e9},
	"ms": {"ns", 1e6}, "msecond": {"ns", 1e6},
	"us": {"ns", 1e3}, "usecond": {"ns", 1e3}, "µs": {"ns", 1e3},
	"ns": {"ns", 1}, "nsecond": {"ns", 1},
	"hz": {"hz", 1}, "khz": {"hz", 1e3}, "mhz": {"hz", 1e6}, "ghz": {"hz", 1e9}, "thz": {"hz", 1e12},
	"byte": {"byte", 1}, "kbyte": {"byte", 1e3}, "mbyte": {"byte", 1e6},
	"gbyte": {"byte", 1e9}, "tbyte": {"byte", 1e12}, "pbyte": {"byte", 1e15},
}

// counts are the units that ncu leaves alone.
var counts = map[string]string{
	"": "", "%": "%", "cycle": "cycle", "inst": "inst", "warp": "warp", "thread": "thread", "block": "block",
	"cluster": "cluster", "register": "register", "request": "request", "sector": "sector", "sectors": "sector",
	"sm": "SM", "tpc": "TPC", "gpc": "GPC", "branches": "branches", "pass": "pass", "sample": "sample", "samples": "sample",
}

// baseUnit says what a unit becomes and by which factor its values grow. An
// unknown unit stays as it is, because a wrong factor would be a wrong number.
func baseUnit(unit string) (base string, factor float64, known bool) {
	unit = strings.TrimSpace(unit)
	num, den, ratio := strings.Cut(unit, "/")
	base, factor, known = scaleOf(num)
	if !ratio || !known {
		return orSelf(base, unit, known), factor, known
	}
	dbase, dfactor, ok := scaleOf(den)
	if !ok || strings.Contains(den, "/") {
		return unit, 1, false
	}
	if dbase == "ns" { // rates are per second
		return base + "/s", factor * 1e9 / dfactor, true
	}
	return base + "/" + dbase, factor / dfactor, true
}

func scaleOf(unit string) (base string, factor float64, known bool) {
	unit = strings.ToLower(unit)
	if s, ok := scales[unit]; ok {
		return s.base, s.factor, true
	}
	base, ok := counts[unit]
	return base, 1, ok
}

func orSelf(base, unit string, known bool) string {
	if known {
		return base
	}
	return unit
}
