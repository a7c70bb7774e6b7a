package compile

import "strings"

// didYouMean is " (did you mean NAME?)" for the closest of the names, "" when
// none is close.
func didYouMean(want string, names []string) string {
	if i := nearest(want, names); i >= 0 {
		return " (did you mean " + names[i] + "?)"
	}
	return ""
}

// nearest is the first of the closest names, -1 when none is close: at most a
// third of the letters differ.
func nearest(want string, names []string) int {
	best, at := len(want)/3+1, -1
	for i, name := range names {
		if d := len(name) - len(want); max(d, -d) >= best {
			continue
		}
		if d := distance(want, name); d < best {
			best, at = d, i
		}
	}
	return at
}

// head is how an address begins: its kind and the first name after it.
func head(addr string) string {
	kind, rest, ok := strings.Cut(addr, ".")
	if !ok {
		return addr
	}
	if i := strings.IndexAny(rest, ".["); i >= 0 {
		rest = rest[:i]
	}
	return kind + "." + rest
}

// distance counts the bytes to add, drop or replace between two names.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			step := diagonal
			if a[i] != b[j] {
				step++
			}
			diagonal = row[j+1]
			row[j+1] = min(step, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
