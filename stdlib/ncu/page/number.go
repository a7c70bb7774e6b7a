package page

import (
	"fmt"
	"strconv"
	"strings"
)

// locale says which mark is the decimal one. Numbers are printed in the locale
// of whoever ran ncu and a single "13.485" reads both ways, so the choice is
// made once a file.
type locale struct {
	decimal byte // '.' or ','
	guessed bool // nothing in the file decided it
}

// groupMarks besides the other of '.' and ','.
var groupMarks = strings.NewReplacer(" ", "", "\u00a0", "", "\u202f", "", "'", "", "\u2019", "")

// cell is a value with what decides its locale.
type cell struct {
	text  string
	whole bool // a count that has no decimals: cycles elapsed, registers, threads
}

// localeOf applies, in order: both marks in one value, a repeated mark, a mark
// not followed by exactly three digits, a count that must be whole. It is an
// error when two values of one file contradict each other.
func localeOf(cells []cell, check func(locale) bool) (locale, error) {
	var dot, comma string // first value that says so
	note := func(decimal byte, text string) {
		if decimal == '.' && dot == "" {
			dot = text
		} else if decimal == ',' && comma == "" {
			comma = text
		}
	}
	open, wholeSays := false, byte(0)
	for _, c := range cells {
		d, ok := decimalOf(c.text)
		switch {
		case ok && d != 0:
			note(d, c.text)
		case ok && strings.ContainsAny(c.text, ".,"):
			open = true
			if c.whole {
				wholeSays = other(c.text[strings.IndexAny(c.text, ".,")])
			}
		}
	}
	switch {
	case dot != "" && comma != "":
		return locale{}, fmt.Errorf("reading numbers: %q has a decimal point and %q a decimal comma; export the whole file in one locale (LC_ALL=C)", dot, comma)
	case dot != "":
		return locale{decimal: '.'}, nil
	case comma != "":
		return locale{decimal: ','}, nil
	case wholeSays != 0:
		return locale{decimal: wholeSays}, nil
	case !open:
		return locale{decimal: '.'}, nil
	}
	point, comm := check(locale{decimal: '.'}), check(locale{decimal: ','})
	if point != comm {
		if point {
			return locale{decimal: '.'}, nil
		}
		return locale{decimal: ','}, nil
	}
	return locale{decimal: '.', guessed: true}, nil
}

func other(mark byte) byte {
	if mark == '.' {
		return ','
	}
	return '.'
}

// decimalOf is the decimal mark that a single value proves, 0 when it proves
// none. It is not ok for what is no number.
func decimalOf(text string) (byte, bool) {
	s := groupMarks.Replace(strings.TrimSpace(text))
	s = strings.TrimLeft(s, "+-")
	if e := strings.IndexAny(s, "eE"); e >= 0 {
		s = s[:e]
	}
	if s == "" || strings.Trim(s, "0123456789.,") != "" || strings.Trim(s, ".,") == "" {
		return 0, false
	}
	last := strings.LastIndexAny(s, ".,")
	if last < 0 {
		return 0, true
	}
	mark := s[last]
	decimal := byte(0)
	switch {
	case strings.IndexByte(s, other(mark)) >= 0:
		decimal = mark
	case strings.Count(s, string(mark)) > 1:
		decimal = other(mark)
	case len(s)-last-1 != 3:
		decimal = mark
	case last > 3 || s[0] == '0': // no group is that long, none starts with 0
		decimal = mark
	default:
		return 0, true
	}
	// A version like "580.159.04" has marks and is no number in any locale.
	_, ok := locale{decimal: decimal}.number(text, 0)
	return decimal, ok
}

// number reads text times ten to the power, or is not ok: words, "n/a", "nan",
// wrong grouping.
func (l locale) number(text string, power int) (float64, bool) {
	s := groupMarks.Replace(strings.TrimSpace(text))
	if e := strings.IndexAny(s, "eE"); e >= 0 {
		x, err := strconv.Atoi(s[e+1:])
		if err != nil || x < -1000 || x > 1000 {
			return 0, false
		}
		s, power = s[:e], power+x
	}
	whole, frac, hasFrac := strings.Cut(s, string(l.decimal))
	sign := ""
	if whole != "" && (whole[0] == '-' || whole[0] == '+') {
		sign, whole = whole[:1], whole[1:]
	}
	digits, ok := ungroup(whole, other(l.decimal))
	if !ok || !allDigits(frac) || (digits == "" && frac == "") || (hasFrac && frac == "") {
		return 0, false
	}
	v, err := strconv.ParseFloat(fmt.Sprintf("%s%s.%s0e%d", sign, digits, frac, power), 64)
	return v, err == nil // an error is a value beyond float64's range
}

// ungroup drops group marks. Groups have three digits, or two before the last
// as in Indian locales; the first has at least one.
func ungroup(s string, mark byte) (string, bool) {
	groups := strings.Split(s, string(mark))
	for i, g := range groups {
		if !allDigits(g) {
			return "", false
		}
		if len(groups) == 1 {
			break
		}
		last := i == len(groups)-1
		if n := len(g); n < 1 || n > 3 || (last && n != 3) || (i > 0 && n < 2) {
			return "", false
		}
	}
	return strings.Join(groups, ""), true
}

func allDigits(s string) bool { return strings.Trim(s, "0123456789") == "" }
