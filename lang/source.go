package lang

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
)

// Limits of what is read. A hand-written campaign is a thousand times smaller.
const (
	maxFile  = 1 << 20 // bytes of one file
	maxFiles = 256     // files of one campaign
	maxNest  = 100     // brackets within brackets
)

// source is one file as read; name is relative to the campaign's folder.
type source struct {
	name  string
	bytes []byte
}

// The kinds of files, by suffix. campaign.hcl itself comes first.
const (
	mainFile         = "campaign.hcl"
	campaignSuffix   = ".campaign.hcl"
	variablesSuffix  = ".auto.hclvars"
	definitionSuffix = ".framework.hcl"
)

// sourceNames lists the campaign's files: campaign.hcl, and the others by name.
func sourceNames(dir string, overlay map[string][]byte) (main, names []string, err error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, nil, err
	}
	names = sortedNames(overlay)
	for _, e := range entries {
		names = append(names, e.Name())
	}
	slices.Sort(names)
	names = slices.DeleteFunc(slices.Compact(names), func(n string) bool { return !isSource(n) || n == mainFile || n == mainFile+jsonSuffix })
	main = []string{mainFile}
	if exists(dir, mainFile+jsonSuffix, overlay) {
		main = append(main, mainFile+jsonSuffix)
		if !exists(dir, mainFile, overlay) {
			main = main[1:]
		}
	}
	return main, names, nil
}

// readDir reads the campaign's files.
func readDir(dir string, overlay map[string][]byte, p *problems) []source {
	main, names, err := sourceNames(dir, overlay)
	switch {
	case err != nil:
		p.add(cRead, Range{File: dir}, "The campaign's folder cannot be read: %v.", err)
		return nil
	case len(names) > maxFiles:
		p.add(cTooLarge, Range{File: dir}, "The folder has %d campaign files; at most %d are read. Put fewer, larger files there.", len(names), maxFiles)
		return nil
	}
	var sources []source
	for _, n := range append(main, names...) {
		if b, ok := overlay[n]; ok {
			sources = append(sources, source{n, b})
			continue
		}
		if b, ok := readFile(os.DirFS(dir), n, n, p); ok {
			sources = append(sources, source{n, b})
		}
	}
	return sources
}

// isSource reports whether a file of a campaign's folder is read, by its name.
func isSource(name string) bool {
	n := strings.TrimSuffix(name, jsonSuffix)
	return !strings.HasPrefix(n, ".") && (n == mainFile || strings.HasSuffix(n, campaignSuffix) || strings.HasSuffix(n, variablesSuffix) || strings.HasSuffix(n, definitionSuffix))
}

func exists(dir, name string, overlay map[string][]byte) bool {
	if _, ok := overlay[name]; ok {
		return true
	}
	_, err := os.Lstat(filepath.Join(dir, name))
	return err == nil // what else is wrong with it is told when it is read
}

// readFile reads a file that may not be larger than maxFile; shown is its name
// in diagnostics.
func readFile(from fs.FS, name, shown string, p *problems) ([]byte, bool) {
	info, err := fs.Stat(from, name)
	switch {
	case err != nil && name == mainFile && os.IsNotExist(err):
		p.add(cRead, Range{File: shown}, "There is no campaign.hcl in this folder. Write one, or let the init command propose one.")
		return nil, false
	case err != nil:
		p.add(cRead, Range{File: shown}, "The file cannot be read: %v.", err)
		return nil, false
	case !info.Mode().IsRegular():
		p.add(cRead, Range{File: shown}, "This is not a regular file. Put the text itself there.")
		return nil, false
	case info.Size() > maxFile:
		p.add(cTooLarge, Range{File: shown}, "The file has %d bytes; at most %d are read. Use for_each instead of writing each block out, or split it into *%s files.", info.Size(), maxFile, campaignSuffix)
		return nil, false
	}
	b, err := fs.ReadFile(from, name)
	if err != nil {
		p.add(cRead, Range{File: shown}, "The file cannot be read: %v.", err)
		return nil, false
	}
	return b, true
}

// parse turns a source into a body; nil if it is too deep to be walked, or no
// JSON. With errors of the native syntax the body is what could be understood.
// The JSON syntax needs the path of the top blocks to tell blocks from values.
func parse(s source, root string, p *problems) *hclsyntax.Body {
	if strings.HasSuffix(s.name, jsonSuffix) {
		return parseJSON(s, root, p)
	}
	if !shallow(s, p) {
		return nil
	}
	file, diags := hclsyntax.ParseConfig(s.bytes, s.name, hcl.InitialPos)
	var before Range
	for _, d := range diags {
		c := cSyntax
		if d.Summary == "Attribute redefined" {
			c = cDuplicate
		}
		r := Range{File: s.name, Line: 1, Col: 1, EndLine: 1, EndCol: 1}
		if d.Subject != nil {
			r = rangeOf(*d.Subject)
		}
		if c == cDuplicate {
			p.add(c, r, "This attribute is set twice in one block. Keep one of the lines.")
			continue
		}
		if before.Line == r.Line && before.Col == r.Col {
			continue // what follows from the problem before
		}
		before = r
		if d.Summary == "Argument or block definition required" {
			p.add(c, r, "This is neither an attribute nor the beginning of a block. Write NAME = VALUE, or NAME { with the brace on this line.")
			continue
		}
		p.add(c, r, "%s: %s", d.Summary, d.Detail)
	}
	body, ok := file.Body.(*hclsyntax.Body)
	if !ok {
		return nil
	}
	return body
}

// shallow refuses nesting that would exhaust the stack of the parser, which is
// recursive in brackets, unary operators, conditionals and splats. Lexing costs
// half of parsing, and a small file cannot nest deeply enough to matter
// (32 KiB × 5 kB of stack a level), so only large ones pay, and of those only
// the ones that are not plain.
func shallow(s source, p *problems) bool {
	return len(s.bytes) <= 32<<10 || plainAndShallow(s.bytes) || shallowTokens(s, p)
}

// plainAndShallow reports whether a file certainly is within the bounds of
// shallowTokens. It reads bytes and no tokens, so it says no to every file whose
// brackets it cannot tell from text: heredocs, long comments, templates.
func plainAndShallow(src []byte) bool {
	if bytes.Contains(src, []byte("<<")) || bytes.Contains(src, []byte("/*")) {
		return false
	}
	depth, operators, quoted := 1, 0, false
	for i := 0; i < len(src); i++ {
		c := src[i]
		follows := func(b byte) bool { return i+1 < len(src) && src[i+1] == b }
		switch {
		case quoted && (c == '\n' || (c == '$' || c == '%') && follows('{')):
			return false
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '#' || c == '/' && follows('/'):
			n := bytes.IndexByte(src[i:], '\n')
			if n < 0 {
				return true
			}
			i += n
		case c == '{' || c == '[' || c == '(':
			if depth++; depth > maxNest {
				return false
			}
		case c == '}' || c == ']' || c == ')':
			depth = max(depth-1, 1)
		case c == '=' && follows('='), bytes.IndexByte([]byte("!-+*/%&|?<>"), c) >= 0:
			if operators++; operators > maxDepth {
				return false
			}
		}
	}
	return true
}

func shallowTokens(s source, p *problems) bool {
	tokens, _ := hclsyntax.LexConfig(s.bytes, s.name, hcl.InitialPos)
	before := hclsyntax.TokenNil
	operators := []int{0} // of the expression at hand on each level
	for _, t := range tokens {
		last := len(operators) - 1
		switch nesting(t.Type) {
		case opens:
			operators = append(operators, 0)
		case closes:
			operators = operators[:max(last, 1)]
		case separates:
			operators[last] = 0
		case operates:
			if t.Type == hclsyntax.TokenStar && before == hclsyntax.TokenOBrack && last > 0 {
				last-- // a splat, [*]: the next one stands beside these brackets
			}
			operators[last]++
		}
		before = t.Type
		if len(operators) > maxNest || slices.Max(operators) > maxDepth {
			p.add(cTooLarge, rangeOf(t.Range), "This is nested more than %d levels deep, or has more than %d operators in a row. Name the inner parts in locals.", maxNest, maxDepth)
			return false
		}
	}
	return true
}

type nest int

const (
	neither nest = iota
	opens
	closes
	separates // begins another expression on the same level
	operates  // may make the expression one level deeper
)

func nesting(t hclsyntax.TokenType) nest {
	switch t {
	case hclsyntax.TokenOBrace, hclsyntax.TokenOBrack, hclsyntax.TokenOParen, hclsyntax.TokenTemplateInterp,
		hclsyntax.TokenTemplateControl, hclsyntax.TokenOQuote, hclsyntax.TokenOHeredoc:
		return opens
	case hclsyntax.TokenCBrace, hclsyntax.TokenCBrack, hclsyntax.TokenCParen, hclsyntax.TokenTemplateSeqEnd,
		hclsyntax.TokenCQuote, hclsyntax.TokenCHeredoc:
		return closes
	case hclsyntax.TokenEqual, hclsyntax.TokenComma:
		return separates
	case hclsyntax.TokenBang, hclsyntax.TokenMinus, hclsyntax.TokenPlus, hclsyntax.TokenStar, hclsyntax.TokenSlash, hclsyntax.TokenPercent,
		hclsyntax.TokenAnd, hclsyntax.TokenOr, hclsyntax.TokenQuestion, hclsyntax.TokenEqualOp, hclsyntax.TokenNotEqual,
		hclsyntax.TokenLessThan, hclsyntax.TokenLessThanEq, hclsyntax.TokenGreaterThan, hclsyntax.TokenGreaterThanEq:
		return operates
	}
	return neither
}

// absolute resolves a path of the campaign against its folder.
func absolute(dir, path string) string {
	if filepath.IsAbs(path) {
		return filepath.Clean(path)
	}
	return filepath.Join(dir, path)
}
