package help

import (
	"slices"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/sotabuild/sotabuild/internal/lazyregexp"
)

// Parse returns the flags of a help text in its order. A text without a list
// of flags gives nil; flags that are only mentioned (in a usage line, in
// another flag's text, in an example) are not flags of the text. The caller must
// not change them: a text is parsed once, since every candidate of a search is
// checked by the same one, and a server's has 150 KB.
func Parse(text string) []Flag { return parsed.of(text) }

func parse(text string) []Flag {
	entries := split(text)
	width := 0
	for _, e := range entries {
		for _, l := range e.body {
			width = max(width, l.col+utf8.RuneCountInString(l.text))
		}
	}
	keyed := strings.Contains(text, "--json-arg.key1 value1")
	var flags []Flag
	for _, e := range entries {
		flags = append(flags, e.flag(width, keyed))
	}
	return flags
}

// memory holds the flags of the texts that were parsed last.
type memory struct {
	mu    sync.Mutex // guards flags
	flags map[string][]Flag
}

// texts is how many texts are kept: a campaign has two for each framework.
const texts = 32

var parsed = memory{flags: map[string][]Flag{}}

func (m *memory) of(text string) []Flag {
	m.mu.Lock()
	defer m.mu.Unlock()
	flags, ok := m.flags[text]
	if !ok {
		if len(m.flags) == texts {
			clear(m.flags)
		}
		flags = parse(text)
		m.flags[text] = flags
	}
	return flags
}

// entry is one item of the list: its spellings and the lines of its text.
type entry struct {
	line  int
	names []name
	body  []line
}

// line is a line of an entry's text and the column where it starts, from 0.
type line struct {
	text string
	col  int
}

// name is one spelling with what stands behind it.
type name struct {
	text string
	meta string
	off  bool // behind the slash of click's "--x / --no-x"
}

// lastIndent is the deepest column in which a list of flags starts: 0 in
// llama.cpp's, 2 in argparse's, 2 or 4 in click's, 2 or 6 in clap's and pflag's.
// The text beside or below a flag starts further right in all of them, and so
// do the lines of a usage block, which therefore need no rule of their own.
const lastIndent = 6

// example is a line of a shell command that goes on in the next line.
var example = lazyregexp.New(`\\(\s+#.*)?$`)

// split finds the entries. An entry's text goes on over empty lines and ends
// at a line that is not indented as text is.
func split(text string) []entry {
	var entries []entry
	var open *entry
	shell := false
	for i, raw := range strings.Split(text, "\n") {
		within := shell
		shell = strings.Contains(raw, `\`) && example.MatchString(strings.TrimRight(raw, " \t\r"))
		if shell || within {
			open = nil
			continue
		}
		raw = expand(strings.TrimRight(raw, " \t\r"))
		words := strings.TrimLeft(raw, " ")
		col := len(raw) - len(words)
		if words == "" {
			continue
		}
		if col > lastIndent {
			if open != nil {
				open.body = append(open.body, line{words, col})
			}
			continue
		}
		open = nil
		head, tail := cut(words)
		names, ok := spellings(head, col)
		if !ok {
			continue
		}
		e := entry{line: i + 1, names: names}
		if tail != "" {
			e.body = []line{{tail, col + utf8.RuneCountInString(words) - utf8.RuneCountInString(tail)}}
		}
		entries = append(entries, e)
		open = &entries[len(entries)-1]
	}
	return entries
}

// expand replaces tabs, with which Go's flag package indents, by spaces.
func expand(s string) string {
	if !strings.Contains(s, "\t") {
		return s
	}
	var b strings.Builder
	for part := range strings.SplitAfterSeq(s, "\t") {
		text, tab := strings.CutSuffix(part, "\t")
		b.WriteString(text)
		if tab {
			b.WriteString(strings.Repeat(" ", 8-b.Len()%8))
		}
	}
	return b.String()
}

// cut splits an entry's first line at the gap of two spaces before its text.
// Spaces after a comma are padding between spellings.
func cut(s string) (head, tail string) {
	for i := 1; i+1 < len(s); i++ {
		if s[i] == ' ' && s[i+1] == ' ' && s[i-1] != ',' && s[i-1] != ' ' {
			return s[:i], strings.TrimLeft(s[i:], " ")
		}
	}
	return s, ""
}

var (
	between = lazyregexp.New(`(, *| / )(--?[A-Za-z0-9])`)
	// spelling is a flag's name and what follows it: nothing, a metavar after a
	// space, or clap's and getopt's forms with an equals sign or "...".
	spelling = lazyregexp.New(`^(--?[A-Za-z0-9][A-Za-z0-9_-]*(?:\.[A-Za-z0-9][A-Za-z0-9_-]*)*)(| [^'].*|\[?=.+|\.\.\.)$`)
)

// spellings reads the head of an entry. An equals sign in column 0 is prose
// about a flag ("--help=ModelConfig, …").
func spellings(head string, col int) ([]name, bool) {
	if !strings.HasPrefix(head, "-") || col%2 != 0 {
		return nil, false
	}
	var names []name
	off, from := false, 0
	add := func(part string) bool {
		m := spelling.FindStringSubmatch(strings.TrimSpace(part))
		if m == nil || col == 0 && strings.HasPrefix(m[2], "=") {
			return false
		}
		meta := strings.TrimSpace(m[2])
		switch {
		case meta == "...":
			meta = ""
		case strings.HasPrefix(meta, "[="):
			meta = "[" + meta[2:]
		}
		names = append(names, name{m[1], strings.TrimPrefix(meta, "="), off})
		return true
	}
	for _, m := range between.FindAllStringSubmatchIndex(head, -1) {
		if !add(head[from:m[0]]) {
			return nil, false
		}
		off = off || head[m[2]:m[3]] == " / "
		from = m[4]
	}
	return names, add(head[from:])
}

// flag turns an entry into a Flag. Width is that of the text's widest line.
func (e entry) flag(width int, keyed bool) Flag {
	f := Flag{Line: e.line}
	var positive []string
	for _, n := range e.names {
		if n.off || e.negates(n.text) {
			f.Negations = append(f.Negations, n.text)
		} else {
			positive = append(positive, n.text)
		}
		if n.meta != "" {
			f.Meta = n.meta
		}
	}
	for _, n := range positive {
		if len(n) > len(f.Name) {
			f.Name = n
		}
	}
	for _, n := range positive {
		if n != f.Name && !slices.Contains(f.Aliases, n) {
			f.Aliases = append(f.Aliases, n)
		}
	}
	text := join(e.body, width)
	f.Default = defaultOf(text)
	f.Choices = choices(f.Meta, text)
	f.Type = typeOf(f)
	f.Removed = removed(text, f)
	f.Keyed = keyed && f.Type == Any
	return f
}

// negates reports whether a spelling switches off what another spelling of the
// entry switches on: --no-x beside --x, and with it the short -nocb or -no-cb
// beside -cb, or -nr beside --repack.
func (e entry) negates(s string) bool {
	beside := func(prefix string) bool {
		return slices.ContainsFunc(e.names, func(n name) bool { return strings.HasPrefix(n.text, prefix) })
	}
	if strings.HasPrefix(s, "--") {
		// A prefix, because --no-mmproj stands beside --mmproj-auto.
		rest := strings.TrimPrefix(strings.TrimPrefix(s, "--no-"), "--no_")
		return rest != s && beside("--"+rest)
	}
	if !beside("--no-") {
		return false
	}
	for _, no := range []string{"-no-", "-no", "-n"} {
		rest, ok := strings.CutPrefix(s, no)
		if ok && rest != "" && (slices.ContainsFunc(e.names, func(n name) bool { return n.text == "-"+rest }) ||
			len(rest) == 1 && beside("--"+rest)) {
			return true
		}
	}
	return false
}

// join undoes the wrapping. A line that ends in a hyphen inside a word was
// broken there. A full line whose last word and the next line's first one fit
// no line together was cut in the middle of a word.
func join(body []line, width int) string {
	var b strings.Builder
	for i, l := range body {
		if i > 0 && !glued(body[i-1], l, width) {
			b.WriteByte(' ')
		}
		b.WriteString(l.text)
	}
	return b.String()
}

func glued(a, b line, width int) bool {
	last := a.text[strings.LastIndexByte(a.text, ' ')+1:]
	first, _, _ := strings.Cut(b.text, " ")
	if n := len(last); n > 1 && last[n-1] == '-' && wordy(last[n-2]) && wordy(first[0]) {
		return true
	}
	full := a.col+utf8.RuneCountInString(a.text) == width
	return full && utf8.RuneCountInString(last)+utf8.RuneCountInString(first) > width-b.col
}

func wordy(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
}
