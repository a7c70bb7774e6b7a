package report

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/sotabuild/sotabuild/stdlib/report/markdown"
	"github.com/sotabuild/sotabuild/stdlib/result"
)

const missing = markdown.Missing

// figure is a number on paper: four significant digits, at most three after
// the point.
func figure(f float64) string {
	digits := 3
	for n := math.Abs(f); digits > 0 && n >= 10; n /= 10 {
		digits--
	}
	return strconv.FormatFloat(f, 'f', digits, 64)
}

// optional is a number that may be missing.
func optional(f *float64) string {
	if f == nil {
		return missing
	}
	return figure(*f)
}

// paper is a metric on paper; latencies are milliseconds there.
func (c Cell) paper(id string) string {
	f, ok := c.number(id)
	if !ok {
		return missing
	}
	switch d, _ := result.Define(id); d.Unit {
	case result.Seconds:
		f *= 1e3
	case result.Share: // 0.9999 must not round to 1.
		return strconv.FormatFloat(f, 'g', 6, 64)
	}
	return figure(f)
}

// Exact is a metric in files: nil if missing, latencies in milliseconds,
// rounded so that the change of unit shows no noise.
func (c Cell) Exact(id string) *float64 {
	f, ok := c.number(id)
	if !ok {
		return nil
	}
	if d, _ := result.Define(id); d.Unit == result.Seconds {
		f = Milli(f)
	}
	return &f
}

// Milli is seconds in milliseconds, rounded to twelve digits.
func Milli(seconds float64) float64 {
	f, err := strconv.ParseFloat(strconv.FormatFloat(seconds*1e3, 'g', 12, 64), 64)
	if err != nil {
		return seconds * 1e3 // NaN and infinities print as what they are.
	}
	return f
}

// RowText is a row for a terminal: how it came out, and its numbers.
func RowText(r *result.Row) string {
	var b strings.Builder
	b.WriteString(string(r.Status))
	if r.Class != "" && string(r.Class) != string(r.Status) {
		b.WriteString(", " + string(r.Class))
	}
	if r.Reason != "" {
		b.WriteString(": " + r.Reason)
	}
	if q := requests(r); q != missing {
		fmt.Fprintf(&b, "; %s requests succeeded", q)
	}
	if !r.Time.Started.IsZero() {
		fmt.Fprintf(&b, "; started %s, took %s s", r.Time.Started.UTC().Format("2006-01-02 15:04:05 UTC"), figure(r.Time.Seconds))
	}
	b.WriteByte('\n')
	var rows [][]string
	for _, d := range result.Definitions {
		if f := (Cell{Row: r}).paper(d.ID); f != missing {
			rows = append(rows, []string{heading(d.ID), f, d.ID})
		}
	}
	if rows != nil {
		b.WriteString(align(rows, []bool{false, true, false}))
	}
	return b.String()
}

// percent is a share as a percentage.
func percent(share float64) string { return strconv.FormatFloat(share*100, 'f', 1, 64) + " %" }

// gpus is the number of GPUs that a row ran on.
func (c Cell) gpus() string {
	if n := c.Row.Subject.Hardware.GPUCount; n > 0 {
		return strconv.Itoa(n)
	}
	return missing
}

// Quote writes an argv so that a POSIX shell reads the same argv back (R086).
func Quote(argv []string) string {
	words := make([]string, len(argv))
	for i, a := range argv {
		words[i] = quoteWord(a)
	}
	return strings.Join(words, " ")
}

func quoteWord(s string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-_./:,@%+", r)
	}
	if s != "" && !strings.ContainsFunc(s, func(r rune) bool { return !plain(r) }) {
		return s
	}
	// An equals sign is plain except in the first word, where it would be an
	// assignment; quoting it always is simpler and reads the same.
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// argvDigest names an argv, so that a re-executed command can be compared.
func argvDigest(argv []string) string {
	h := sha256.New()
	for _, a := range argv {
		h.Write([]byte(a))
		h.Write([]byte{0})
	}
	return "sha256:" + hex.EncodeToString(h.Sum(nil))
}
