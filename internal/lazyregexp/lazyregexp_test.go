package lazyregexp

import (
	"reflect"
	"regexp"
	"testing"
)

// TestLikeRegexp calls every method on a text and compares with package regexp.
func TestLikeRegexp(t *testing.T) {
	const pattern, text = `([a-z]+)=([0-9]+)`, "a=1 bc=23; d=x"
	lazy, ready := New(pattern), regexp.MustCompile(pattern)
	for name, pair := range map[string][2]any{
		"Match":                      {lazy.Match([]byte(text)), ready.Match([]byte(text))},
		"MatchString":                {lazy.MatchString("d=x"), ready.MatchString("d=x")},
		"FindSubmatch":               {lazy.FindSubmatch([]byte(text)), ready.FindSubmatch([]byte(text))},
		"FindStringSubmatch":         {lazy.FindStringSubmatch(text), ready.FindStringSubmatch(text)},
		"FindAllString":              {lazy.FindAllString(text, -1), ready.FindAllString(text, -1)},
		"FindAllStringIndex":         {lazy.FindAllStringIndex(text, 1), ready.FindAllStringIndex(text, 1)},
		"FindAllStringSubmatch":      {lazy.FindAllStringSubmatch(text, -1), ready.FindAllStringSubmatch(text, -1)},
		"FindAllStringSubmatchIndex": {lazy.FindAllStringSubmatchIndex(text, -1), ready.FindAllStringSubmatchIndex(text, -1)},
		"ReplaceAllString":           {lazy.ReplaceAllString(text, "$2=$1"), "1=a 23=bc; d=x"},
		"String":                     {lazy.String(), pattern},
	} {
		if !reflect.DeepEqual(pair[0], pair[1]) {
			t.Errorf("%s: %v, want %v", name, pair[0], pair[1])
		}
	}
}

// TestWrongPatternFailsItsTests: a package with a wrong pattern cannot pass its
// tests, whether they use it or not.
func TestWrongPatternFailsItsTests(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("New took a wrong pattern without a word")
		}
	}()
	New("(")
}

// TestCompiledAtFirstUse is about every other program.
func TestCompiledAtFirstUse(t *testing.T) {
	was := tested
	tested = false
	defer func() { tested = was }()
	r := New("(")
	defer func() {
		if recover() == nil {
			t.Error("the first use took a wrong pattern without a word")
		}
	}()
	r.MatchString("")
}
