package help

import (
	"strconv"
	"strings"

	"github.com/sotabuild/sotabuild/internal/lazyregexp"
)

// types are the words that printers with types use for them; a metavar of
// another form says nothing about the type.
var types = map[string]Type{
	"int": Int, "integer": Int, "integer range": Int, "int32": Int, "int64": Int,
	"uint": Int, "uint16": Int, "uint32": Int, "uint64": Int,
	"float": Float, "float range": Float, "float32": Float, "float64": Float,
	"string": String, "text": String, "path": String, "file": String, "filename": String, "directory": String,
}

// typeOf is what the metavar says. llama.cpp's N is a whole or a decimal
// number; only the printed default tells which, and where that is a word
// ("auto") other words may be values too.
func typeOf(f Flag) Type {
	switch {
	case f.Meta == "":
		return None
	case f.Choices != nil:
		for _, c := range f.Choices {
			if _, err := strconv.Atoi(c); err != nil {
				return String
			}
		}
		return Int
	case f.Meta == "N" && f.Default != nil:
		if _, err := strconv.Atoi(*f.Default); err == nil {
			return Int
		}
		if _, err := strconv.ParseFloat(*f.Default, 64); err == nil {
			return Float
		}
	}
	if t, ok := types[strings.ToLower(f.Meta)]; ok {
		return t
	}
	return Any
}

var (
	listed   = lazyregexp.New(`^\{([^{}]+)\}(?: \[\{[^{}]+\} \.\.\.\])?$`)
	barred   = lazyregexp.New(`^[\[<]?([\w.+-]+(?:\|[\w.+-]+)+)[\]>]?$`)
	possible = lazyregexp.New(`\[possible values: ([^\]]+)\]`)
)

// choices are the values that the help admits: {a,b} of argparse, [a|b] of
// click, <0|1> and bare a|b, or clap's "[possible values: a, b]". A list that
// is open at its end ("{a,b} or name registered in …") is no list.
func choices(meta, text string) []string {
	if m := listed.FindStringSubmatch(meta); m != nil {
		return strings.Split(m[1], ",")
	}
	if m := barred.FindStringSubmatch(meta); m != nil {
		return strings.Split(m[1], "|")
	}
	if m := possible.FindStringSubmatch(text); m != nil && meta != "" {
		return strings.Split(m[1], ", ")
	}
	return nil
}

var (
	enclosed = lazyregexp.New(`[(\[]default(:?) `)
	inside   = lazyregexp.New(`[,;] default: `)
	sentence = lazyregexp.New(`(?:^|[.:] )Defaults to ([0-9][0-9.]*[0-9]|[0-9]|None|True|False|'[^']*')(?:[ .,]|$)`)
	literal  = lazyregexp.New(`^([+-]?[0-9][0-9.]*|enabled|disabled|unset|none|auto|on|off|true|false|'[^']*')(?:[,;] .*| = .*)$`)
)

// defaultOf reads the default out of a flag's text. "(default: X)" and its
// sisters win over prose; of several the last one counts, for that is the one
// that the printer appends. Nil: the text does not say.
func defaultOf(text string) *string {
	if !strings.Contains(text, "efault") { // What follows is slow, and texts are long.
		return nil
	}
	var found *string
	take := func(v string) {
		v = strings.TrimSpace(v)
		if m := literal.FindStringSubmatch(v); m != nil {
			v = m[1] // "0, 0 = loaded from model"
		}
		v = unquote(v)
		found = &v
	}
	// A pattern is looked for only where its words stand: that is what takes long.
	if strings.Contains(text, "Defaults to ") {
		if m := sentence.FindStringSubmatch(text); m != nil {
			take(m[1])
		}
	}
	if !strings.Contains(text, "default") {
		return found
	}
	for _, m := range inside.FindAllStringIndex(text, -1) {
		v := text[m[1]:]
		if end := closing(v); end >= 0 {
			v = v[:end]
		}
		v, _, _ = strings.Cut(v, " (")
		take(v)
	}
	for _, m := range enclosed.FindAllStringSubmatchIndex(text, -1) {
		v := text[m[1]:]
		end := closing(v)
		// Without a colon it may be the default of whatever the sentence speaks
		// of, unless it ends the text, as pflag's does.
		if end >= 0 && (m[2] < m[3] || strings.TrimSuffix(v[end+1:], ".") == "") {
			take(v[:end])
		}
	}
	return found
}

// closing returns the index of the bracket that closes one opened before s;
// brackets in quotes do not count, apostrophes inside words are no quotes.
func closing(s string) int {
	depth := 0
	var quote byte
	for i := 0; i < len(s); i++ {
		c := s[i]
		switch {
		case quote != 0:
			if c == '\\' {
				i++
			} else if c == quote {
				quote = 0
			}
		case (c == '\'' || c == '"') && (i == 0 || strings.IndexByte(" ([{,=:", s[i-1]) >= 0):
			quote = c
		case strings.IndexByte("([{", c) >= 0:
			depth++
		case strings.IndexByte(")]}", c) >= 0:
			if depth == 0 {
				return i
			}
			depth--
		}
	}
	return -1
}

func unquote(s string) string {
	if n := len(s); n >= 2 && (s[0] == '\'' || s[0] == '"') && s[n-1] == s[0] && strings.Count(s, s[:1]) == 2 {
		return s[1 : n-1]
	}
	return s
}

var (
	gone       = lazyregexp.New(`(?i)^(?:the |this )?(?:argument|option|flag) (?:has been|was) removed`)
	deprecated = lazyregexp.New(`^[(\[]?Deprecated\b|\bDEPRECATED\b`)
	selfDeprec = lazyregexp.New(`(--?[\w.-]+) is deprecated`)
)

// Gone reports that the program would refuse the flag although its help still
// lists it. A deprecated flag is not gone.
func (f Flag) Gone() bool { return gone.MatchString(f.Removed) }

// removed is the flag's text if it says of the flag itself that it is gone or
// deprecated. "Replaces the deprecated --x" speaks of another one.
func removed(text string, f Flag) string {
	if !strings.Contains(text, "removed") && !strings.Contains(text, "eprecated") && !strings.Contains(text, "DEPRECATED") {
		return ""
	}
	if gone.MatchString(text) || deprecated.MatchString(text) {
		return text
	}
	if m := selfDeprec.FindStringSubmatch(text); m != nil && m[1] == f.Name {
		return text
	}
	return ""
}
