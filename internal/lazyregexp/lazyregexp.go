// Package lazyregexp is package regexp for patterns that stand at package
// level: they are compiled when they are first used. Most processes of the
// program – supervisors, clients, a plan – use a few of them and would compile
// all at each start, which cost more than a millisecond.
//
// Within a test's program every pattern is compiled at once, so that a wrong
// one ends the first test of its package. It knows nothing else.
package lazyregexp

import (
	"os"
	"regexp"
	"strings"
	"sync"
)

// Regexp is a pattern that may not be compiled yet. Any goroutine may use it.
type Regexp struct{ compiled func() *regexp.Regexp }

// New returns the pattern. Where regexp.MustCompile would panic the first use
// does.
func New(pattern string) *Regexp {
	r := &Regexp{sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(pattern) })}
	if tested {
		r.compiled()
	}
	return r
}

// tested says whether this process is the program of a package's tests, as
// package regexp's own cousin in Go's tools does.
var tested = len(os.Args) > 0 && strings.HasSuffix(os.Args[0], ".test")

// The methods are those of regexp.Regexp.

// Match reports whether b contains a match.
func (r *Regexp) Match(b []byte) bool { return r.compiled().Match(b) }

// MatchString reports whether s contains a match.
func (r *Regexp) MatchString(s string) bool { return r.compiled().MatchString(s) }

// FindSubmatch returns the leftmost match and its groups.
func (r *Regexp) FindSubmatch(b []byte) [][]byte { return r.compiled().FindSubmatch(b) }

// FindStringSubmatch returns the leftmost match and its groups.
func (r *Regexp) FindStringSubmatch(s string) []string { return r.compiled().FindStringSubmatch(s) }

// FindAllString returns all matches, at most n unless n is negative.
func (r *Regexp) FindAllString(s string, n int) []string { return r.compiled().FindAllString(s, n) }

// FindAllStringIndex is FindAllString by byte positions.
func (r *Regexp) FindAllStringIndex(s string, n int) [][]int {
	return r.compiled().FindAllStringIndex(s, n)
}

// FindAllStringSubmatch is FindAllString with groups.
func (r *Regexp) FindAllStringSubmatch(s string, n int) [][]string {
	return r.compiled().FindAllStringSubmatch(s, n)
}

// FindAllStringSubmatchIndex is FindAllStringSubmatch by byte positions.
func (r *Regexp) FindAllStringSubmatchIndex(s string, n int) [][]int {
	return r.compiled().FindAllStringSubmatchIndex(s, n)
}

// ReplaceAllString replaces all matches; $1 is the first group.
func (r *Regexp) ReplaceAllString(s, to string) string { return r.compiled().ReplaceAllString(s, to) }

// String is the pattern's text.
func (r *Regexp) String() string { return r.compiled().String() }
