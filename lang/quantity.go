package lang

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// unit is one spelling of a unit, as a multiple of the base unit.
type unit struct {
	name string
	size int64
}

var (
	durationUnits = []unit{
		{"ms", int64(time.Millisecond)}, {"s", int64(time.Second)}, {"m", int64(time.Minute)},
		{"h", int64(time.Hour)}, {"d", 24 * int64(time.Hour)},
	}
	// Docker, Slurm and Kubernetes users all mean powers of two here.
	byteUnits = []unit{{"k", 1 << 10}, {"m", 1 << 20}, {"g", 1 << 30}, {"t", 1 << 40}}
)

// parseDuration reads a number with a unit: "30m", "1.5h", "30d". Several
// parts ("1h30m") are allowed, largest first or not.
func parseDuration(s string) (time.Duration, error) {
	if s == "" {
		return 0, fmt.Errorf("a duration is a number with a unit, such as \"30m\"; the units are ms, s, m, h and d")
	}
	var total int64
	for rest := s; rest != ""; {
		n, after, err := parsePart(rest, durationUnits)
		if err != nil {
			return 0, fmt.Errorf("%q is no duration: write a number with one of the units ms, s, m, h, d, such as \"30m\"", s)
		}
		if total > math.MaxInt64-n {
			return 0, fmt.Errorf("%q is too long", s)
		}
		total, rest = total+n, after
	}
	return time.Duration(total), nil
}

// parseBytes reads an amount of memory: "16g", "512m". Units are powers of two.
func parseBytes(s string) (int64, error) {
	n, rest, err := parsePart(strings.TrimSuffix(strings.TrimSuffix(strings.ToLower(s), "b"), "i"), byteUnits)
	if err != nil || rest != "" {
		return 0, fmt.Errorf("%q is no amount of memory: write a number with one of the units k, m, g, t, such as \"16g\"", s)
	}
	return n, nil
}

func parsePart(s string, units []unit) (int64, string, error) {
	end := 0
	for end < len(s) && (s[end] >= '0' && s[end] <= '9' || s[end] == '.') {
		end++
	}
	number, err := strconv.ParseFloat(s[:end], 64)
	if err != nil {
		return 0, s, err
	}
	for _, u := range units { // "ms" stands before "m"
		rest, ok := strings.CutPrefix(s[end:], u.name)
		if !ok {
			continue
		}
		if v := number * float64(u.size); v < math.MaxInt64 {
			return int64(math.Round(v)), rest, nil
		}
		return 0, s, fmt.Errorf("%q is too large", s)
	}
	return 0, s, fmt.Errorf("%q has no unit", s)
}
