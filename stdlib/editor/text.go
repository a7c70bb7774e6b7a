package editor

import (
	"net/url"
	"path/filepath"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/sotabuild/sotabuild/lang"
)

// pathOf is the file that an address names; false for other than files.
func pathOf(uri string) (string, bool) {
	u, err := url.Parse(uri)
	if err != nil || u.Scheme != "file" || u.Path == "" {
		return "", false
	}
	return filepath.Clean(filepath.FromSlash(u.Path)), true
}

func uriOf(path string) string {
	return (&url.URL{Scheme: "file", Path: filepath.ToSlash(path)}).String()
}

func split(path string) (dir, name string) { return filepath.Dir(path), filepath.Base(path) }

// line is a line of a text without its end; "" beyond the last one.
func line(text string, n int) string {
	for ; n > 0; n-- {
		_, rest, ok := strings.Cut(text, "\n")
		if !ok {
			return ""
		}
		text = rest
	}
	l, _, _ := strings.Cut(text, "\n")
	return strings.TrimSuffix(l, "\r")
}

// offsetOf is the byte of a position; positions beyond a line's or the text's
// end are that end.
func offsetOf(text string, p position) int {
	offset := 0
	for range p.Line {
		i := strings.IndexByte(text[offset:], '\n')
		if i < 0 {
			return len(text)
		}
		offset += i + 1
	}
	return offset + bytesOf(line(text[offset:], 0), p.Character)
}

// bytesOf is how many bytes of a line the first units of UTF-16 have.
func bytesOf(l string, units int) int {
	n := 0
	for i, r := range l {
		if n >= units {
			return i
		}
		n += max(utf16.RuneLen(r), 1)
	}
	return len(l)
}

// positionOf is the position of a byte.
func positionOf(text string, offset int) position {
	offset = min(max(offset, 0), len(text))
	before := text[:offset]
	n := strings.Count(before, "\n")
	return position{n, units(before[strings.LastIndexByte(before, '\n')+1:])}
}

func units(s string) int {
	n := 0
	for _, r := range s {
		n += max(utf16.RuneLen(r), 1)
	}
	return n
}

// spanOf turns a range of lang, whose columns count what one sees, into the
// protocol's.
func spanOf(text string, r lang.Range) span {
	if r.Line == 0 {
		return span{}
	}
	s := span{place(text, r.Line, r.Col), place(text, r.EndLine, r.EndCol)}
	if r.EndLine == 0 {
		s.End = s.Start
	}
	return s
}

func place(text string, ln, col int) position {
	l, n := line(text, ln-1), 0
	for i, r := range l {
		if unicode.Is(unicode.Mn, r) { // combines with the one before
			continue
		}
		if n++; n == col {
			return position{ln - 1, units(l[:i])}
		}
	}
	return position{ln - 1, units(l)}
}

// wordAt is the name around a byte, with the dots in it up to where the place
// is, and where it begins and ends.
func wordAt(text string, offset int) (word string, from, to int) {
	from, to = offset, offset
	for from > 0 {
		r, n := utf8.DecodeLastRuneInString(text[:from])
		if !isName(r) && r != '.' {
			break
		}
		from -= n
	}
	for to < len(text) {
		r, n := utf8.DecodeRuneInString(text[to:])
		if !isName(r) {
			break
		}
		to += n
	}
	return text[from:to], from, to
}

func isName(r rune) bool { return r == '_' || r == '-' || unicode.IsLetter(r) || unicode.IsDigit(r) }
