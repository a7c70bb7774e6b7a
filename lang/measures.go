package lang

import "time"

// ParseDuration reads a span as campaigns write it: a number with a unit, such
// as "30m", "1h30m" or "30d".
func ParseDuration(s string) (time.Duration, error) { return parseDuration(s) }

// ParseBytes reads an amount of memory as campaigns write it, in bytes: "16g",
// "512m", in powers of two.
func ParseBytes(s string) (int64, error) { return parseBytes(s) }
