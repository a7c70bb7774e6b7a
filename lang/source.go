package lang

import (
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

// readDir reads the campaign's files: campaign.hcl, then the others by name.
func readDir(dir string, p *problems) []source {
	entries, err := os.ReadDir(dir)
	if err != nil {
		p.add(cRead, Range{File: dir}, "The campaign's folder cannot be read: %v.", err)
		return nil
	}
	var names []string
	for _, e := range entries {
		n := e.Name()
		switch {
		case n == mainFile, strings.HasPrefix(n, "."):
		case strings.HasSuffix(n, ".hcl.json"):
			p.add(cNotYet, Range{File: n}, "The JSON syntax is not read yet. Write the same blocks in %s, or move the file away.", mainFile)
		case strings.HasSuffix(n, campaignSuffix), strings.HasSuffix(n, variablesSuffix), strings.HasSuffix(n, definitionSuffix):
			names = append(names, n)
		}
	}
	slices.Sort(names)
	if len(names) > maxFiles {
		p.add(cTooLarge, Range{File: dir}, "The folder has %d campaign files; at most %d are read. Put fewer, larger files there.", len(names), maxFiles)
		return nil
	}
	var sources []source
	for _, n := range append([]string{mainFile}, names...) {
		if b, ok := readFile(os.DirFS(dir), n, n, p); ok {
			sources = append(sources, source{n, b})
		}
	}
	return sources
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

// parse turns a source into a body; nil if it is too deep to be walked. With
// syntax errors the body is what could be understood.
func parse(s source, p *problems) *hclsyntax.Body {
	if !shallow(s, p) {
		return nil
	}
	file, diags := hclsyntax.ParseConfig(s.bytes, s.name, hcl.InitialPos)
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
// (32 KiB × 5 kB of stack a level), so only large ones pay.
func shallow(s source, p *problems) bool {
	if len(s.bytes) <= 32<<10 {
		return true
	}
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
