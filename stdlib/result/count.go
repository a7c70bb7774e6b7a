package result

import "strconv"

// Count is a number of things in a sentence: "1 request", "2 requests". The thing
// is a word, or several, whose plural ends with s.
func Count(n int, thing string) string {
	if n != 1 {
		thing += "s"
	}
	return strconv.Itoa(n) + " " + thing
}
