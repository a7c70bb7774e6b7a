package compile

// didYouMean is " (did you mean NAME?)" for the closest of the names, "" when
// none is close: at most a third of the letters differ.
func didYouMean(want string, names []string) string {
	best, at := len(want)/3+1, ""
	for _, name := range names {
		if d := len(name) - len(want); max(d, -d) >= best {
			continue
		}
		if d := distance(want, name); d < best {
			best, at = d, name
		}
	}
	if at == "" {
		return ""
	}
	return " (did you mean " + at + "?)"
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
